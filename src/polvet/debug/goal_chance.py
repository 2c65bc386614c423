"""How likely a run of the policy reaches the goal within so many steps: proved bounds, where its Markov chain is small.

In a step one operator is drawn uniformly among the enabled ones of the chosen label and the silent ones, as in simulation
(`policy/runs.py`): what is bounded here is what simulated runs estimate.
Cost     one sweep over the chain per step, fewer where nothing changes any more
Limits   CHAIN_STATES states and CHAIN_WORK outcomes times steps; the reference order of evaluation only, as simulated runs
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.kernel.compiled import Words, describe_limit
from polvet.mdp.query import Reach
from polvet.mdp.solve import solve
from polvet.mdp.sparse import Float64s, SparseMdp
from polvet.policy.compiled import FAIL, GOAL, Bound

CHAIN_STATES = 200_000
CHAIN_WORK = 500_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Chances:
    """Bounds on a probability, or on an expected number of steps, for each of some start states."""

    lowers: Float64s
    uppers: Float64s

    @property
    def mean(self) -> tuple[float, float]:
        """Return bounds on the mean over the start states."""
        return float(self.lowers.mean()), float(self.uppers.mean())


def goal_chances(bound: Bound, starts: Words, *, max_steps: int, budget: Budget = UNLIMITED) -> Chances | None:
    """Return bounds for each packed start; None where the chain is too large, or too fine for doubles. A time limit raises LimitReached.

    >>> from fractions import Fraction
    >>> from polvet.model.build import ModelBuilder
    >>> from polvet.policy.binding import fit
    >>> from polvet.policy.callables import CallablePolicy
    >>> from polvet.policy.compiled import compile_policy
    >>> m = ModelBuilder("coin"); x = m.int("x", 0, 1, initial=0)
    >>> m.edge("toss", guard=x == 0, to=[(Fraction(1, 2), {x: 1}), (Fraction(1, 2), {})])
    >>> fitted = fit(m.task(fail=x < 0, goal=x == 1), CallablePolicy(("x",), ("toss",), lambda state: "toss"))
    >>> toss = compile_policy(fitted)
    >>> low, high = goal_chances(toss, toss.compiled.initial(), max_steps=3).mean; low <= 7 / 8 <= high
    True
    """
    few = budget.at_most(states=CHAIN_STATES)
    space = bound.compiled.explore(starts, build=True, stop_at=[FAIL, GOAL], budget=few, policy=bound.core)
    limit = describe_limit(space, few)
    if limit is not None:
        if limit.kind == "time":
            raise limit
        return None
    if space.transitions * max_steps > CHAIN_WORK:
        return None
    chain = _chain(space)
    if chain.is_too_fine:
        return None
    places, goal = places_of(space, starts), (space.mask(GOAL).astype(bool)) & ~space.mask(FAIL).astype(bool)
    value = solve(chain, Reach(goal, step_bound=max_steps), budget=few)
    few.check()  # a solver that was cut short leaves values that depend on the clock
    # SOUND: sharing a probability among operators rounds once more, by a relative 2^-53 per step: no run of so many steps
    # becomes likelier or less likely by more than this.
    rounding = max_steps * 2.0**-51
    lowers, uppers = value.lowers[places] * (1 - rounding), value.uppers[places] * (1 + rounding)
    return Chances(np.clip(lowers, 0.0, 1.0), np.clip(uppers, 0.0, 1.0))


def places_of(space: _core.Space, starts: Words) -> NDArray[np.int64]:
    """Return the number of each packed start in the space that was explored from them."""
    if len(space.initial) == len(starts):  # no start twice: they stand in the order in which they were given
        return space.initial.astype(np.int64)
    return np.array([space.find(start) for start in starts], dtype=np.int64)


def _chain(space: _core.Space) -> SparseMdp:
    """Return the policy's Markov chain: the operators that may move in a state are equally likely and make one choice."""
    choice_start, branch_start, target, probability, _, _ = space.take_matrix()
    count = np.diff(choice_start).astype(np.int64)
    first = branch_start[choice_start]  # per state, its first outcome
    shared = np.repeat(np.maximum(count, 1), np.diff(first).astype(np.int64))
    moving = count > 0
    return SparseMdp(
        choice_start=np.concatenate([[0], np.cumsum(moving)]).astype(np.uint64),
        branch_start=np.concatenate([first[:-1][moving], first[-1:]]).astype(np.uint64),
        target=target,
        probability=probability / shared,
        initial=space.initial,
    )
