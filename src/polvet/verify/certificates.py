"""The evidence of a verification as a file holds it: what `polvet certify` reads."""

from __future__ import annotations

from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.policy.compiled import Bound
from polvet.policy.runs import End
from polvet.records.run_files import run_to_json
from polvet.verify.split_tree import with_tree
from polvet.verify.verdicts import Safe, SafetyResult, Unsafe

A_WHILE = 10.0
"""Seconds that the search for a split tree may take besides those that finding the proof took."""


def certificate_of(bound: Bound, result: SafetyResult, budget: Budget = UNLIMITED) -> dict[str, Any] | None:
    """Return the certificate of safety, or the run; None where there is none.

    Where the split tree of an invariant is not found in time, the certificate has none; `polvet certify` then looks for it.
    """
    given = conditions_of(bound)
    match result:
        case Safe(certificate) if certificate["kind"] == "invariant":
            try:
                within = budget.at_most(A_WHILE + float(result.figures.get("seconds", 0.0)))
                return {**with_tree(certificate, bound.fitted, within), **given}
            except LimitReached:
                return {**certificate, **given}
        case Safe(certificate):
            return {**certificate, **given}
        case Unsafe(run, closed=closed) if run.end is not End.LOOP or closed is not None:
            return {
                "kind": "run", "format": "certificate/1", "task_sha256": bound.task.sha256,
                "policy_sha256": bound.fitted.sha256, **given, **(closed or {}), **run_to_json(bound.task, run),
            }  # fmt: skip
        case _:
            return None


def conditions_of(bound: Bound) -> dict[str, Any]:
    """Return what certificates say of the conditions under which they hold."""
    given: dict[str, Any] = {"options": options} if (options := bound.task.options.to_json()) else {}
    if bound.fitted.by_execution:
        given["by_execution"] = True
    return given
