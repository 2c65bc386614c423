"""What a gate says of faults, proved and checked: that there is none, or that those that are listed are faults."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from polvet.budget import Budget
from polvet.check.arena import Arena
from polvet.check.followed import Followed
from polvet.confirm.confirmation import SMALL_STATES, About, about_policy, confirm, refuse, seconds_for
from polvet.confirm.outcome import NO_KIND, Confirmation, NotChecked
from polvet.debug.faults import FaultAnalysis
from polvet.errors import LimitReached
from polvet.policy.compiled import Bound
from polvet.records.fault_files import Fault, fault_to_json
from polvet.safety.certificates import prove
from polvet.safety.confirmed import confirm_batches
from polvet.safety.decide import Decider
from polvet.verdict import Verdict
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unsafe

TOO_LONG = "proving and checking takes longer than finding did"


def confirm_analysis(
    bound: Bound, file: Path | None, analysis: FaultAnalysis, *, seconds: float, budget: Budget, threads: int
) -> Confirmation | None:
    """Return whether what is said of the policy's faults was checked, in as much time as it took and a little more."""
    about = about_policy(bound.task, file, bound.fitted.sha256)
    if isinstance(about, NotChecked):
        return about
    within = budget.at_most(seconds_for(seconds, small=analysis.states <= SMALL_STATES))
    if analysis.faults:
        return _confirm_faults(bound, about, analysis, seconds, within)
    if analysis.unsafe_starts:
        return NO_KIND
    return _confirm_no_fault(bound, about, seconds, within, threads)


def _confirm_no_fault(bound: Bound, about: About, seconds: float, within: Budget, threads: int) -> Confirmation | None:
    """A certificate that no run fails says that there is no fault."""
    result = verify(bound, method="explicit", budget=within, threads=threads)
    certificate = certificate_of(bound, result, within)
    if isinstance(result, Unsafe):
        return refuse(certificate or {}, "a run of the policy fails, yet it has no fault", about, None)
    if not isinstance(result, Safe):
        return NotChecked(TOO_LONG)
    return confirm("safe policy", certificate, about, found=seconds, budget=within)


def _confirm_faults(
    bound: Bound, about: About, analysis: FaultAnalysis, seconds: float, within: Budget
) -> Confirmation | None:
    """In each fault the policy may choose so and an unsafe outcome follow; certificates say what is safe and what is not."""
    task, faults = bound.task, analysis.faults
    try:
        wrong = _first_not_chosen(bound, faults, within)
    except LimitReached:
        return NotChecked(TOO_LONG)
    if wrong is not None:
        evidence = {"kind": "fault", **fault_to_json(task, wrong)}
        return refuse(evidence, "the policy does not choose so there, or it does not lead there", about, None)
    decider = Decider(task)
    claims = [
        (verdict.value, states, partial(prove, decider, verdict=verdict, budget=within))
        for verdict, states in (
            (Verdict.SAFE, [fault.state for fault in faults]),
            (Verdict.UNSAFE, [fault.unsafe_outcomes[0] for fault in faults]),
        )
    ]
    return confirm_batches(task, claims, found=seconds, budget=within)


def _first_not_chosen(bound: Bound, faults: tuple[Fault, ...], within: Budget) -> Fault | None:
    task = bound.task
    arena = Arena.of(task, budget=within)
    steps = Followed(arena, bound.fitted).steps([fault.state for fault in faults])
    for fault, step in zip(faults, steps, strict=True):
        mine = [move for move in step.moves if move.label in (None, fault.action)]
        reached = {outcome.state for move in mine for outcome in move.outcomes}
        if all(move.label != fault.action for move in mine) or fault.unsafe_outcomes[0] not in reached:
            return fault
    return None
