"""`polvet report DIR -o report.html`: one self-contained HTML file about a campaign, a certificate or a shield."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.options import Json
from polvet.files import write_whole


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A folder of polvet debug; or runs (.jsonl), faults, a certificate, a shield."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")] = Path("report.html"),
    task: Annotated[Path | None, typer.Option("--task", help="The task or plan, where it is not where it was.")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy a certificate speaks about.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Let the independent checker judge the campaign's certificate first.")
    ] = False,
    json: Json = False,
) -> int:
    """Write a report for people. Example: `polvet report line-debug -o report.html`."""
    from polvet.report import make_report

    spent = stopwatch()
    page = make_report(source, task=task, policy=policy, checked=check)
    write_whole(output, page)
    figures = {"bytes": len(page.encode())}
    lines = [f"report      {output} ({figures['bytes'] / 1e6:.2f} MB; open it in any browser, it loads nothing)"]
    more = {"report": str(output)}
    return Answer("written", ExitCode.DONE, spent(), figures, lines, more=more).show(as_json=json)
