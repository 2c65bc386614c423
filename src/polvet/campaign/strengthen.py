"""A policy that can be proved safe, out of one that may hide faults: a fence keeps it from leaving what is won.

A proof over the few variables that decide `fail` (`verify/projection.py`) goes through for policies that take no exit
(`safety/exits.py`), and over cells of real values one by `verify/grid.py` (`safety/real_exits.py`). A policy that was repaired,
or in which few or no new faults are found, may still take one where a fault is yet to be found, or in states that none of its runs
reaches. The fence (`repair/fence.py`) forbids exits and changes nothing else. It
is taken only if the proof goes through and the goal is reached as often as before; else the policy stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from polvet.budget import Budget
from polvet.policy.binding import fit
from polvet.policy.compiled import Bound, compile_policy
from polvet.records.fault_files import Fault
from polvet.repair.fence import fence
from polvet.repair.repair import Repaired
from polvet.safety.exits import Exits
from polvet.safety.real_exits import RealExits
from polvet.verify.grid import GRID
from polvet.verify.method import Request
from polvet.verify.projection import PROJECTION
from polvet.verify.verdicts import Unknown


def strengthen(
    bound: Bound, exits: Exits | RealExits, faults: Sequence[Fault], budget: Budget, seed: int
) -> Repaired | str:
    """Return the policy with a fence with which the proof goes through, or why there is none."""
    repair = fence(bound.fitted, exits, faults, bound.compiled)
    if isinstance(repair, str):
        return repair
    over_reals = isinstance(exits, RealExits)
    if (
        repair.left and not over_reals
    ):  # over real values, faults beyond the won cells stay, where no run of the proof leads
        return "with a fence, some faults are not fixed"
    method = GRID if over_reals else PROJECTION
    result = method(compile_policy(fit(bound.fitted.task, repair.policy)), Request(budget, seed))
    budget.check()  # raises where time is over: then the proof was cut short, and is tried again on resuming
    return result.reason if isinstance(result, Unknown) else repair
