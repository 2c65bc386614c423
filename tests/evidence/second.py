"""A second opinion: a certificate of the first format as evidence about a flat text, judged by the checkers that read nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.errors import Where
from polvet.evidence.convert import KINDS as KINDS
from polvet.evidence.convert import CannotConvert, evidence_of
from polvet.evidence.judge import Rejected as Refused
from polvet.evidence.judge import Unreadable, judge
from polvet.model.options import Avoid
from polvet.policy.functions import named_function
from polvet.sources import load_task, options_from_json


def second_opinion(certificate: Mapping[str, Any], subjects: Subjects, first: Accepted) -> CheckResult:
    """Return the first answer, or why the checkers of flat texts do not see what it says; where they have none, the first."""
    if subjects.task is None or subjects.function is not None or certificate.get("by_execution"):
        return first
    options = replace(options_from_json(certificate.get("options", {}), Where("options")), domain=subjects.domain)
    task = load_task(subjects.task, options)
    if "reading" in certificate:
        task = replace(task, reading=replace(task.reading, mode=certificate["reading"]))
    task = replace(task, avoid=Avoid(**dict.fromkeys(certificate.get("avoids", ()), True)))
    fitted = None
    if subjects.policy is not None and certificate.get("policy_sha256") is not None:
        from polvet.policy.binding import load_fitted

        if named_function(subjects.policy) is not None:
            return first
        fitted = load_fitted(task, subjects.policy)
    try:
        flat, evidence = evidence_of(certificate, task, fitted)
        judge(flat, evidence, subjects.budget.check)
    except CannotConvert:
        return first
    except (Refused, Unreadable) as why:
        return Rejected(f"the second checker: {why}")
    return first
