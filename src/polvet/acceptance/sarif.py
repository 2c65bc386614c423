"""The findings of a gate as SARIF 2.1.0, for code scanning: one result per fault, one per check that did not pass, and how runs end."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from polvet import __version__
from polvet.acceptance.findings import fault_text, state_text
from polvet.acceptance.judge import GateResult, Passing
from polvet.files import Json
from polvet.model.task import Task

MAX_RESULTS = 1_000
FINGERPRINT = "polvetFinding/v1"
RULES = {
    "fault": "A safe state where the policy's action may lead to a state that no policy can keep safe",
    "faults": "More faults than allowed",
    "unsafe": "Too many start states are unsafe under the policy",
    "goal": "The policy reaches the goal too seldom",
    "loss": "The policy reaches the goal less often than the one it replaces",
    "risk": "Runs fail more often than allowed, or it was not said how often they may",
    "proof": "The policy is not proved safe",
    "runs": "How the policy's runs end and how many states they reach",
}


def dump_sarif(judged: GateResult, task: Task, policy: str | Path) -> str:
    """Return the SARIF text; all findings are placed in the policy's file.

    Code-scanning services demand a line and recognise a finding by its fingerprint: what it is about, not its figures.
    """
    uri = Path(policy).as_posix()
    where = [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}]
    results: list[Json] = []

    def add(rule: str, level: str, text: str, identity: str) -> None:
        results.append(
            {
                "ruleId": rule,
                "level": level,
                "message": {"text": text},
                "locations": where,
                "partialFingerprints": {
                    FINGERPRINT: sha256(f"{rule}\n{identity}".encode("utf-8", "replace")).hexdigest()
                },
            }
        )

    for check in judged.checks:
        if check.passing is not Passing.PASSED:
            add(check.name, "error" if check.passing is Passing.FAILED else "warning", check.says, check.name)
    if judged.runs is not None:
        add("runs", "note" if judged.runs.useless is None else "warning", judged.runs.text(), "runs")
    for fault in judged.faults[:MAX_RESULTS]:
        add("fault", "error", fault_text(task, fault), f"{state_text(task, fault)}\n{fault.action}")
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    driver = {"name": "polvet", "version": __version__, "rules": rules}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
