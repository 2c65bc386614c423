"""The certificate of a repair: each fixed fault with the scores before and after; `check/repair.py` checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polvet.files import Json
from polvet.policy.binding import Fitted, load_fitted
from polvet.records.fault_files import Fault, fault_to_json
from polvet.repair.repair import Repaired


def repair_certificate(fitted: Fitted, repair: Repaired, file: Path) -> Json:
    """Return the certificate of the repair that was saved in the file."""
    saved = load_fitted(fitted.task, file)
    old = fitted.policy.outputs
    return {
        "kind": "repair",
        "task_sha256": fitted.task.sha256,
        "options": fitted.task.options.to_json(),
        "old_policy_sha256": fitted.sha256,
        "policy_sha256": saved.sha256,
        "mode": repair.mode,
        "reading": fitted.task.reading.mode,
        "left": len(repair.left),
        "faults": [
            {
                **_named(fitted, fault),
                "before": dict(zip(old, map(float, _scores(fitted, fault)), strict=True)),
                "after": dict(zip(saved.policy.outputs, map(float, _scores(saved, fault)), strict=True)),
            }
            for fault in repair.fixed
        ],
    }


def _named(fitted: Fitted, fault: Fault) -> Json:
    document = fault_to_json(fitted.task, fault)
    return {key: document[key] for key in ("state", "action", "safe_actions", "kind") if key in document}


def _scores(fitted: Fitted, fault: Fault) -> Any:
    return fitted.policy.scores(fitted.row(fault.state))[0]
