"""What every verification method must obey, tried on a task and a policy: the law for methods of one's own.

The task is also asked with other meanings: the policy's raw choice, ends of runs as failures, bounds that disable operators. A
method that does not know them says so by what it needs (`verify/method.py`). Explicit search tells the truth, and its own answers are
only used where the checker accepts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from polvet.budget import Budget
from polvet.check.checker import Rejected, Subjects, check
from polvet.choices import BrokenLaw
from polvet.errors import InputError, Where
from polvet.model.network import OutOfBounds
from polvet.model.task import NO_OPTIONS, NOTHING_ELSE, Avoid, TaskOptions
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.sources import load_task
from polvet.verdict import Verdict
from polvet.verify.certificates import certificate_of
from polvet.verify.explicit import EXPLICIT
from polvet.verify.method import Method
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import SafetyResult, Unknown

SECONDS = 10.0
"""For each question to the method."""


def check_method(
    method: Method, task: str | Path, policy: str | Path, *, options: TaskOptions = NO_OPTIONS, seed: int = 0
) -> tuple[BrokenLaw, ...]:
    """Return the laws that the method breaks on this task and policy, given by their files; empty: none was seen broken.

    Its verdict is explicit search's, or unknown; evidence is accepted by the checker; the same question gets the same answer; no
    time means unknown, or the same verdict; unknown has a reason; and it answers under its own name.
    """
    return tuple(
        law for meaning in _meanings(options) for law in _broken(method, Path(task), Path(policy), meaning, seed)
    )


def _meanings(options: TaskOptions) -> Iterator[TaskOptions]:
    yield options
    yield replace(options, mode="raw")
    yield replace(options, avoid=Avoid(stuck=True, deadlock=True))
    yield replace(options, out_of_bounds=OutOfBounds.DISABLE)


def _broken(method: Method, task: Path, policy: Path, options: TaskOptions, seed: int) -> Iterator[BrokenLaw]:
    bound = compile_policy(load_fitted(load_task(task, options), policy))
    subjects = Subjects(task, policy, replace(options, avoid=NOTHING_ELSE))  # a certificate's own claim says what else
    given = [*options.arguments(), *(["--avoid", ",".join(options.avoid.names)] if options.avoid.names else [])]
    meaning = f" with {' '.join(given)}" if given else ""
    try:
        result = verify(bound, method=method, budget=Budget(SECONDS), seed=seed)
    except InputError as refusal:
        if any(need.refusal(bound) for need in method.needs):
            return  # declared: an option asks for what it cannot do
        yield BrokenLaw(f"it refuses what it does not say it needs{meaning}: {refusal}")
        return
    if result.method != method.name:
        yield BrokenLaw(f"it answers under the name '{result.method}'{meaning}")
    if isinstance(result, Unknown) and not result.reason:
        yield BrokenLaw(f"unknown without a reason{meaning}")
    rejected = _rejection(bound, result, subjects)
    if rejected is not None:
        yield BrokenLaw(f"the checker rejects its evidence{meaning}: {rejected}")
    truth = verify(bound, method=EXPLICIT, budget=Budget(SECONDS), seed=seed)
    known = truth.verdict is not Verdict.UNKNOWN and _rejection(bound, truth, subjects) is None
    if known and result.verdict not in (truth.verdict, Verdict.UNKNOWN):
        yield BrokenLaw(f"it says {result.verdict.value}{meaning}, but the policy is {truth.verdict.value}")
    again = verify(bound, method=method, budget=Budget(SECONDS), seed=seed)
    if Verdict.UNKNOWN not in (result.verdict, again.verdict) and _evidence(bound, again) != _evidence(bound, result):
        yield BrokenLaw(f"the same question gets another answer the second time{meaning}")
    late = verify(bound, method=method, budget=Budget(0.0), seed=seed)
    if late.verdict not in (result.verdict, Verdict.UNKNOWN):
        yield BrokenLaw(f"without time it says {late.verdict.value}{meaning}, with time {result.verdict.value}")


def _evidence(bound: Bound, result: SafetyResult) -> tuple[Verdict, object]:
    return result.verdict, certificate_of(bound, result)


def _rejection(bound: Bound, result: SafetyResult, subjects: Subjects) -> str | None:
    """Return why the checker rejects the evidence, if there is some and it does."""
    certificate = certificate_of(bound, result)
    if certificate is None:
        return None
    judged = check(certificate, subjects, Where("certificate"))
    return judged.reason if isinstance(judged, Rejected) else None
