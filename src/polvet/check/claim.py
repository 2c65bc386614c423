"""What a certificate is about, as data: a script compares it with what it meant to have proved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.check.checker import is_by_execution
from polvet.check.subjects import Subjects
from polvet.errors import Where
from polvet.files import Json
from polvet.model.infix import dump_expression
from polvet.model.options import ADVERSARIAL, FAIR
from polvet.model.task import Task
from polvet.sources import load_task, options_from_json

ABOUT_PLANS = (
    "lex-rank",
    "lasso",
    "goal-reaching",
    "goal-missed",
    "solves",
    "general",
    "general-refuted",
    "recurrent-set",
    "its-run",
)
"""Kinds that speak about a finite-memory policy: there is no task with conditions."""


def claim_of(certificate: Mapping[str, Any], subjects: Subjects) -> Json:
    """Return what an accepted certificate speaks about: digests, options, and the conditions they make of the task."""
    about: Json = {
        "kind": certificate["kind"],
        "task_sha256": certificate.get("task_sha256"),
        "policy_sha256": certificate.get("policy_sha256"),
    }
    if is_by_execution(subjects):
        about["by_execution"] = True
    if certificate["kind"] in ABOUT_PLANS or subjects.task is None:
        return about
    options = options_from_json(certificate.get("options", {}), Where("options"))
    about |= {
        "options": options.to_json(),
        **meaning_of(load_task(subjects.task, subjects.read_with(options))),
    }
    if certificate.get("kept") is not None:
        about["kept"] = certificate["kept"]
    if certificate["kind"] == "repair":
        about["mode"] = certificate["reading"]
    if certificate["kind"] in ("risk-bound", "risk-exceeds"):
        about["bound"] = certificate["bound"]
    if certificate["kind"] == "safe-region":
        about["region"] = certificate["region"]
        about["avoid"] = certificate["proof"].get("avoids", [])
        return about
    about["avoid"] = certificate.get("avoids", [])
    if (environment := environment_of(certificate)) is not None:
        about["environment"] = environment
    return about


def environment_of(certificate: Mapping[str, Any]) -> str | None:
    """Return what is supposed of operators that may move beside each other, where the claim depends on it."""
    match certificate["kind"]:
        case "strong-cyclic" | "no-strong-cyclic":
            return FAIR
        case "sure-end":
            return ADVERSARIAL if "delay" in certificate.get("avoids", []) else FAIR
        case "risk-bound" | "risk-exceeds" | "permissive" | "action-risk":
            return ADVERSARIAL
        case "livelock":
            return ADVERSARIAL if certificate.get("environment") == ADVERSARIAL else None
    return None


def meaning_of(task: Task) -> Json:
    """Return what whoever speaks about the task speaks about: the file's digest, and the meaning in full."""
    constants = task.network.constants.items()
    return {
        "task_sha256": task.sha256,
        "constants": {name: value if isinstance(value, int) else str(value) for name, value in constants},
        "start": None if task.start is None else dump_expression(task.start),
        "fail": dump_expression(task.fail),
        "goal": dump_expression(task.goal),
        "out_of_bounds": task.network.out_of_bounds.value,
        "mode": task.reading.mode,
        "avoid": list(task.avoid.names),
    }
