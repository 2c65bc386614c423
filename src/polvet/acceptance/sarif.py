"""The findings of a gate as SARIF 2.1.0, for code scanning: one result per fault, one per check that did not pass, and how runs end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polvet import __version__
from polvet.acceptance.judge import Judged, Passing
from polvet.evidence.states import state_to_json
from polvet.model.task import Task

MAX_RESULTS = 1_000
RULES = {
    "fault": "A safe state where the policy's action may lead to a state that no policy can keep safe",
    "faults": "More faults than allowed",
    "unsafe": "Too many start states are unsafe under the policy",
    "goal": "The policy reaches the goal too seldom",
    "proof": "The policy is not proved safe",
    "runs": "How the policy's runs end and how many states they reach",
}


def dump_sarif(judged: Judged, task: Task, policy: str | Path) -> str:
    """Return the SARIF text; all findings are placed in the policy's file."""
    uri = Path(policy).as_posix()
    where = [{"physicalLocation": {"artifactLocation": {"uri": uri}}}]
    results: list[dict[str, Any]] = []
    for check in judged.checks:
        if check.passing is not Passing.PASSED:
            level = "error" if check.passing is Passing.FAILED else "warning"
            results.append({"ruleId": check.name, "level": level, "message": {"text": check.says}, "locations": where})
    if judged.runs is not None:
        level = "note" if judged.runs.useless is None else "warning"
        message = {"text": judged.runs.text()}
        results.append({"ruleId": "runs", "level": level, "message": message, "locations": where})
    for fault in judged.faults[:MAX_RESULTS]:
        state = ", ".join(f"{name}={json.dumps(value)}" for name, value in state_to_json(task, fault.state).items())
        text = f"In the state {state} the policy chooses {fault.action}; safe would be {', '.join(fault.safe_actions)}."
        results.append({"ruleId": "fault", "level": "error", "message": {"text": text}, "locations": where})
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    driver = {"name": "polvet", "version": __version__, "rules": rules}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }  # fmt: skip
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
