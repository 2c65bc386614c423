"""Mending goal faults, never at the cost of safety: a repair that would make a new safety fault mends that as well, or is not made.

After each repair all safety faults of the repaired policy are found. Those that the policy did not have before are added to what
is to be mended, and the policy as it was given is repaired anew. Each round adds a state, so that it ends; it is given up after ROUNDS,
and then by the method that changes least elsewhere. Where even that makes new faults, the policy stays as it is.
Limits   where not all states of the repaired policy can be searched, the repair is made and `searched` is False
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polvet.budget import UNLIMITED, Budget
from polvet.debug.faults import all_faults
from polvet.errors import InputError, LimitReached
from polvet.files import Figures
from polvet.model.semantics import State
from polvet.policy.binding import fit
from polvet.policy.compiled import Bound, bind_policy
from polvet.policy.networks import Network
from polvet.policy.protocol import Policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.records.fault_files import Fault
from polvet.repair.library import Agreement, repair_checked
from polvet.repair.repair import Left, Options, Repaired
from polvet.safety.decide import Decider

ROUNDS = 8
MOST_LOCAL: dict[type[Policy], str] = {TreeEnsemble: "penalty", Network: "units", UnitGraph: "units"}
"""The method that changes the choice in the faulty states only."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What became of safety: whether it was searched, and how many safety faults were mended that a repair would have made."""

    searched: bool
    prevented: int
    refused: bool = False

    @property
    def figures(self) -> Figures:
        """Return the same for people and files."""
        return {"safety_searched": self.searched, "safety_faults_prevented": self.prevented, "refused": self.refused}


def repair_guarded(
    bound: Bound, faults: Sequence[Fault], options: Options, *, budget: Budget = UNLIMITED
) -> tuple[Repaired, Agreement, Guard]:
    """Return the policy repaired at the faults without a safety fault that it did not have."""
    decider = Decider(bound.task)
    had = _safety_faults(bound, decider, budget)
    wanted = {fault.state: fault for fault in faults}
    methods = [options.method] * ROUNDS
    if (local := MOST_LOCAL.get(type(bound.fitted.policy))) is not None:
        methods += [local] * ROUNDS
    for method in methods:
        repair, agreement = repair_checked(
            bound.fitted, list(wanted.values()), replace(options, method=method), budget=budget, compiled=bound.compiled
        )
        after = bind_policy(fit(bound.fitted.task, repair.policy), bound.compiled)  # a repair may read more variables
        now = None if had is None else _safety_faults(after, decider, budget)
        if had is None or now is None:
            return repair, agreement, Guard(False, len(wanted) - len(faults))
        created = [fault for state, fault in now.items() if state not in had or had[state].action != fault.action]
        if not created:
            return repair, agreement, Guard(True, len(wanted) - len(faults))
        wanted |= {fault.state: fault for fault in created if fault.state not in wanted}
    why = "mending it would make a new safety fault"
    kept = replace(
        repair, policy=bound.fitted.policy, fixed=(), left=tuple(Left(one, why) for one in faults), objective=0.0
    )
    return kept, replace(agreement, confirmed=0), Guard(True, 0, refused=True)


def _safety_faults(bound: Bound, decider: Decider, budget: Budget) -> dict[State, Fault] | None:
    """All safety faults by their states; None where they cannot all be found."""
    try:
        analysis = all_faults(bound, decider, budget=budget)
    except (LimitReached, InputError):
        return None
    return {fault.state: fault for fault in analysis.faults} if analysis.limit is None and not analysis.open else None
