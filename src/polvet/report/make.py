"""From what a user names to one HTML file: a campaign's folder, runs, faults, a certificate, or a shield."""

from __future__ import annotations

from pathlib import Path

from polvet.errors import InputError, Where
from polvet.files import read_json
from polvet.report.page import Page, dump_page

TERMINATION = ("lex-rank", "lasso", "goal-reaching", "goal-missed", "solves")
GENERAL = ("general", "general-refuted")
VERIFICATION = ("run", "invariant", "reachable-set", "grid", "safe-region")


def make_report(
    path: str | Path,
    *,
    task: Path | None = None,
    policy: Path | None = None,
    checked: bool = False,
    allow_code: bool = False,
) -> str:
    """Return the report as HTML text; `task` (or the finite-memory policy) adds what the files alone do not tell.

    With `checked` the independent checker judges a campaign's certificate; that may take long. `allow_code` lets Python functions run
    that the task's file names.
    """
    return dump_page(_page(Path(path), task, policy, checked, allow_code))


def _page(path: Path, task: Path | None, policy: Path | None, checked: bool, allow_code: bool) -> Page:
    if path.is_dir():
        from polvet.report.debugging import campaign_page

        return campaign_page(path, task, checked=checked, allow_code=allow_code)
    if path.suffix == ".jsonl":
        from polvet.report.findings import runs_page

        return runs_page(path, task)
    document = read_json(path)
    if isinstance(document, dict):
        if document.get("format") == "faults/1":
            from polvet.report.findings import faults_page

            return faults_page(path, document, task)
        if document.get("format") == "shield/1":
            from polvet.report.shields import shield_page

            return shield_page(path, document)
        if document.get("kind") in TERMINATION:
            from polvet.report.termination import termination_page

            return termination_page(path, document, task, policy)
        if document.get("kind") in GENERAL:
            from polvet.report.general import general_page

            return general_page(path, document, task)
        if document.get("kind") in VERIFICATION:
            from polvet.report.verification import verification_page

            return verification_page(path, document, task, policy, allow_code=allow_code)
    plans = "terminates, synthesize or generalizes"
    hint = f"Give a folder of polvet debug, runs (.jsonl) or faults, a certificate of verify, {plans}, or a shield."
    raise InputError("there is no report of such a file.", Where(str(path)), hint)
