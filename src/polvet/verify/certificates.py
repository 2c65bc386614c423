"""The evidence of a verification as a file holds it: what `polvet certify` reads."""

from __future__ import annotations

from typing import Any

from polvet.policy.compiled import Bound
from polvet.records.run_files import run_to_json
from polvet.verify.verdicts import Safe, SafetyResult, Unsafe


def certificate_of(bound: Bound, found: SafetyResult) -> dict[str, Any] | None:
    """Return the certificate of safety, or the run; None where there is none."""
    given = {"options": options} if (options := bound.task.options.to_json()) else {}
    match found:
        case Safe(certificate):
            return {**certificate, **given}
        case Unsafe(run):
            return {
                "kind": "run", "format": "certificate/1", "task_sha256": bound.task.sha256,
                "policy_sha256": bound.fitted.sha256, **given, **run_to_json(bound.task, run),
            }  # fmt: skip
        case _:
            return None
