"""`polvet report DIR -o report.html`: one self-contained HTML file about a campaign, a certificate or a shield."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from polvet.cli.options import AllowCode, Plainly
from polvet.cli.parameters import Argument, Option


def report(
    source: Annotated[
        Path,
        Argument(metavar="DIR", help="A folder of polvet debug; or runs (.jsonl), faults, a certificate, a shield."),
    ],
    answering: Plainly,
    output: Annotated[Path, Option("-o", "--output", help="The HTML file to write.")] = Path("report.html"),
    task: Annotated[Path | None, Option("--task", help="The task or plan, where it is not where it was.")] = None,
    policy: Annotated[Path | None, Option("--policy", help="The policy a certificate speaks about.")] = None,
    check: Annotated[
        bool, Option("--check", help="Let the independent checker judge the campaign's certificate first.")
    ] = False,
    allow_code: AllowCode = False,
) -> int:
    """Write a report for people. Example: `polvet report line-debug -o report.html`."""
    from polvet.front.writing import write_report

    page = write_report(source, output, task=task, policy=policy, check=check, allow_code=allow_code)
    size = page.figures["bytes"] / 1e6
    return answering.say(page, [f"report      {output} ({size:.2f} MB; open it in any browser, it loads nothing)"])
