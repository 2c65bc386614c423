"""`polvet decide --bound B`: which states have a policy that fails with probability at most B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polvet.budget import Budget, Stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import said
from polvet.errors import Where

if TYPE_CHECKING:
    from polvet.model.semantics import State
    from polvet.model.task import Task

CODES = {"safe": ExitCode.DONE, "unsafe": ExitCode.FOUND, "unknown": ExitCode.UNKNOWN}


def decide_within(task: Task, asked: list[State], text: str, budget: Budget, spent: Stopwatch, json: bool) -> int:
    """Answer for each state whether some policy fails with probability at most the bound."""
    from polvet.confirm.outcome import NO_KIND
    from polvet.model.semantics import Semantics
    from polvet.records.state_json import state_to_json
    from polvet.safety import bound as bounded
    from polvet.shield.world import parse_bound

    bound = parse_bound(text, Where("--bound"))
    show = Semantics(task.network).show
    rows: list[dict[str, Any]] = []
    lines = []
    for state in asked:
        answer = bounded.decide_within(task, state, bound, budget=budget)
        safe = {"safe": True, "unsafe": False, "unknown": None}[answer.verdict.value]
        rows.append(
            {
                "state": state_to_json(task, state), "safe": safe, "expanded": answer.states, "lower": answer.lower,
                "upper": answer.upper, **({"reason": said(answer.limit)} if answer.limit else {}),
            }
        )  # fmt: skip
        lines.append(f"  {answer.verdict.value:8} {show(state)}  P(fail) in [{answer.lower:.9g}, {answer.upper:.9g}]")
    verdicts = {True: "safe", False: "unsafe", None: "unknown"}
    found = {verdicts[row["safe"]] for row in rows}
    verdict = next(name for name in ("unsafe", "unknown", "safe") if name in found)
    reason = next((str(row["reason"]) for row in rows if "reason" in row), None)
    figures = {"states": rows, "bound": str(bound)}
    checked = None if verdict == "unknown" else NO_KIND
    return Answer(
        verdict, CODES[verdict], spent(), figures, [f"bound        {bound}", *lines], reason, checked=checked
    ).show(as_json=json)  # fmt: skip
