"""The checks of a gate as JUnit XML, which every CI server shows: failed is a failure, unknown an error."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from polvet.acceptance.findings import fault_text
from polvet.acceptance.judge import GateResult, Passing
from polvet.model.task import Task

MOST_FAULTS = 20
UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold at all."""


def dump_junit(judged: GateResult, task: Task, policy: str, seconds: float) -> str:
    """Return the XML text."""
    count = {one: sum(check.passing is one for check in judged.checks) for one in Passing}
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": "polvet",
            "tests": str(len(judged.checks)),
            "failures": str(count[Passing.FAILED]),
            "errors": str(count[Passing.UNKNOWN]),
            "time": f"{seconds:.3f}",
        },
    )
    for check in judged.checks:
        case = ElementTree.SubElement(suite, "testcase", {"classname": _clean(policy), "name": check.name})
        if check.passing is Passing.FAILED:
            ElementTree.SubElement(case, "failure", {"message": _clean(check.says)}).text = _details(
                judged, task, check.name
            )
        elif check.passing is Passing.UNKNOWN:
            ElementTree.SubElement(case, "error", {"message": _clean(check.says), "type": "unknown"})
        else:
            ElementTree.SubElement(case, "system-out").text = _clean(check.says)
    if judged.runs is not None:
        ElementTree.SubElement(suite, "system-out").text = _clean(f"runs: {judged.runs.text()}")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _details(judged: GateResult, task: Task, name: str) -> str:
    if name != "faults":
        return ""
    shown = [fault_text(task, fault) for fault in judged.faults[:MOST_FAULTS]]
    if len(judged.faults) > MOST_FAULTS:
        shown.append(f"... and {len(judged.faults) - MOST_FAULTS:,} more")
    return _clean("\n".join(shown))


def _clean(text: str) -> str:
    return UNSPEAKABLE.sub("?", text)
