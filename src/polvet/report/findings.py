"""The page of what `polvet faults` or `polvet fuzz` wrote: a list of faults, or unsafe runs to be replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polvet.files import Json
from polvet.report.campaign import read_faults, read_runs
from polvet.report.fault_list import fault_part
from polvet.report.markup import card, plural
from polvet.report.page import Page
from polvet.report.pictures import Pictures
from polvet.report.replay import replay_part
from polvet.sources import load_task


def faults_page(path: Path, document: Json, task: Path | None) -> Page:
    """Return the page of a `faults/1` file; with the task of a built-in world its states are drawn."""
    faults = tuple(read_faults(path, 0))
    pictures = _pictures(task)
    drawings: list[Any] = []
    part = fault_part(faults, None, pictures, drawings)
    every = document.get("exhaustive") is True
    how = "Every state the policy reaches was judged." if every else "There may be others: not all states were judged."
    sort = "bad" if faults else "good" if every else "open"
    level = "Exhaustive search" if every else "Sampled"
    head = card(sort, level, plural(len(faults), "fault"), f"<p>{how}</p>")
    return Page(f"Faults: {path.name}", head, (part,), {"drawings": drawings, "lines": pictures.lines})


def runs_page(path: Path, task: Path | None) -> Page:
    """Return the page of a file of runs."""
    runs = read_runs(path, None)
    pictures = _pictures(task)
    part, data = replay_part(runs, [], pictures)
    failing = sum(run.end == "fail" for run in runs)
    body = f"<p>{plural(len(runs), 'run')} in the file.</p>"
    head = card("bad" if failing else "open", "Found", plural(failing, "unsafe run"), body)
    return Page(f"Runs: {path.name}", head, () if part is None else (part,), {**data, "lines": pictures.lines})


def _pictures(task: Path | None) -> Pictures:
    return Pictures({} if task is None else dict(load_task(task).network.model.metadata))
