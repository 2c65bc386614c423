"""`polvet certify`: the independent checker; it dispatches on the certificate's kind and imports no engine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from polvet.cli.answer import Answer, ExitCode
from polvet.cli.options import Json
from polvet.evidence.check import Accepted, Subjects, check_file


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("certify")(certify)


def certify(
    certificate: Annotated[Path, typer.Argument(help="The certificate, a JSON file.")],
    task: Annotated[Path | None, typer.Option("--task", help="The task, model or finite-memory policy.")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy it speaks about.")] = None,
    json: Json = False,
) -> int:
    """Check a certificate without trusting whoever made it: accepted (0) or rejected (10).

    Example: `polvet certify safe.json --task line.toml --policy policy.json`.
    """
    start = time.perf_counter()
    result = check_file(certificate, Subjects(task, policy))
    seconds = time.perf_counter() - start
    if isinstance(result, Accepted):
        return Answer("accepted", ExitCode.DONE, seconds, lines=[f"  proved: {result.claim}"],
                      certificate=str(certificate), more={"claim": result.claim}).show(as_json=json)  # fmt: skip
    return Answer("rejected", ExitCode.FOUND, seconds, reason=result.reason,
                  certificate=str(certificate)).show(as_json=json)  # fmt: skip
