"""A policy that can be proved safe, out of one in which no fault is found: weak spots are repaired until there are none.

A proof over a few variables (`verify/projection.py`) fails at *weak spots*: states, perhaps never reached, in which the policy
would step out of what is won whatever the other variables hold. They are given to the repair beside the faults, round after
round. What comes out is taken only if the proof goes through and the goal is reached as often as before; else the policy stays as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polvet.evidence.fault_files import Fault
from polvet.kernel.compiled import Limits
from polvet.model.semantics import State
from polvet.policy.binding import Bound, fit
from polvet.repair.repair import Repaired
from polvet.verify.projection import find_weak_spots

ROUNDS = 40
MOST_WEAK = 20_000
Repair = Callable[[Bound, Sequence[Fault]], Repaired]


@dataclass(frozen=True, slots=True)
class Strengthened:
    """The last repair (None: none was needed or possible), what was repaired, and why it ended."""

    repaired: Repaired | None
    weak: tuple[Fault, ...]
    rounds: int
    reason: str | None  # None: no weak spot is left


def strengthen(
    bound: Bound, faults: Sequence[Fault], repair: Repair, limits: Callable[[], Limits], seed: int
) -> Strengthened:
    """Return a repaired policy without weak spots, or why there is none; `limits` are asked for before every step."""
    weak: dict[State, Fault] = {}
    repaired: Repaired | None = None
    current = bound
    for number in range(ROUNDS):
        found = find_weak_spots(current.fitted, limits=limits(), seed=seed)
        if not found.spots:
            return Strengthened(repaired, tuple(weak.values()), number, found.reason)
        before = len(weak)
        for spot in found.spots:
            if spot.staying:
                weak[spot.state] = Fault(spot.state, spot.action, spot.staying, ())
        if len(weak) == before:
            return Strengthened(None, tuple(weak.values()), number, "a silent operator leaves the cells that are won")
        if len(weak) > MOST_WEAK:
            return Strengthened(None, tuple(weak.values()), number, f"more than {MOST_WEAK:,} weak spots")
        # What is asked of a state for the proof's sake is more than what its fault asks.
        others = [fault for fault in faults if fault.state not in weak]
        repaired = repair(current, [*others, *weak.values()])
        if repaired.left:
            return Strengthened(None, tuple(weak.values()), number, "a repair left some of them")
        current = fit(bound.fitted.task, repaired.policy).bind(bound.compiled)
    return Strengthened(None, tuple(weak.values()), ROUNDS, f"weak spots are left after {ROUNDS} rounds")
