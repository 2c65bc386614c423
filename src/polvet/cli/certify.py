"""`polvet certify`: the independent checker; it dispatches on the certificate's kind and imports no engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polvet.budget import stopwatch
from polvet.check.checker import Accepted, Subjects, check
from polvet.check.claim import claim_of
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, MemoryLimit, Mode, TimeLimit
from polvet.cli.tasks import Constants, Domain, Fail, Goal, OutOfBounds, Start, task_options
from polvet.errors import InputError, LimitReached, Where
from polvet.files import read_json
from polvet.model.task import NO_OPTIONS


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("certify")(certify)


def certify(
    certificate: Annotated[Path, typer.Argument(help="The certificate, a JSON file.")],
    task: Annotated[Path | None, typer.Option("--task", help="The task, model or finite-memory policy.")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy it speaks about.")] = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    mode: Mode = None,
    avoid: Annotated[
        str, typer.Option("--avoid", help="What is unsafe besides fail: stuck, deadlock, or both with a comma.")
    ] = "",
    allow_options: Annotated[
        bool, typer.Option("--allow-options", help="Accept conditions that the certificate puts in the task's place.")
    ] = False,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    json: Json = False,
) -> int:
    """Check a certificate without trusting whoever made it: accepted (0) or rejected (10).

    It must be about the task's own conditions, or about those given here.

    Example: `polvet certify safe.json --task line.toml --policy policy.json`.
    """
    spent = stopwatch()
    asked = task_options(constants, start, fail, goal, out_of_bounds, mode, avoid)
    if allow_options and asked != NO_OPTIONS:
        raise InputError(
            "conditions are asked for, and any are allowed.", Where("--allow-options"), "Give one or the other."
        )
    budget = budget_of(time_limit, memory_limit)
    subjects = Subjects(task, policy, None if allow_options else asked, budget, domain)
    document = read_json(certificate)
    try:
        if isinstance(document, dict) and document.get("kind") == "invariant" and "tree" not in document:
            from polvet.verify.split_tree import (
                completed,  # polvet 0.1 wrote none; what is found is checked like any other
            )

            document = completed(document, subjects)
        result = check(document, subjects, Where(str(certificate)))
    except LimitReached as limit:
        return Answer("unknown", ExitCode.UNKNOWN, spent(), reason=said(limit), certificate=str(certificate)).show(
            as_json=json
        )
    seconds = spent()
    if isinstance(result, Accepted):
        more = {"claim": result.claim, "about": claim_of(document, subjects)} if json else {}
        return Answer("accepted", ExitCode.DONE, seconds, lines=[f"  proved: {result.claim}"],
                      certificate=str(certificate), more=more).show(as_json=json)  # fmt: skip
    return Answer("rejected", ExitCode.FOUND, seconds, reason=result.reason,
                  certificate=str(certificate)).show(as_json=json)  # fmt: skip
