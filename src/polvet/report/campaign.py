"""A campaign's folder read for people: settings, steps, faults and runs; states stay as the files name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polvet.campaign.about import About, read_about
from polvet.campaign.outcome import OutcomeRecord, read_outcome
from polvet.campaign.record import Figures, Record
from polvet.campaign.rows import Row, fold
from polvet.campaign.store import records_in_journal
from polvet.errors import InputError, Where
from polvet.files import beside, parse_json, read_json, read_text
from polvet.records.journal import read_journal
from polvet.records.shape import record_from_json
from polvet.records.state_files import MAX_BYTES
from polvet.worlds.formats import is_address


@dataclass(frozen=True, slots=True)
class ShownFault:
    """A fault as its file holds it, and the iteration that found it."""

    iteration: int
    state: Mapping[str, Any]
    action: str
    safe_actions: tuple[str, ...]
    unsafe_outcomes: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ShownRun:
    """An unsafe run as its file holds it, and the iteration that found it (None: there is no campaign)."""

    iteration: int | None
    states: tuple[Mapping[str, Any], ...]
    actions: tuple[str | None, ...]
    end: str


@dataclass(frozen=True, slots=True)
class Campaign:
    """What a folder tells; `outcome` is None while the campaign has not ended."""

    folder: Path
    settings: Mapping[str, Any]
    about: About
    outcome: OutcomeRecord | None
    rows: tuple[Row, ...]
    faults: tuple[ShownFault, ...]
    runs: tuple[ShownRun, ...]
    policies: tuple[Path, ...]  # the given one, and what each repair and each fence made of it
    allow_code: bool  # whether Python functions that the task names may run

    def task_file(self, given: Path | None) -> Path | None:
        """Return the given file, else the one that the folder names, where it is there: a folder can name no code."""
        named = Path(self.about.task) if self.about.task is not None else None
        if given is not None or named is None or is_address(named) or not named.is_file():
            return given
        return named


def read_campaign(folder: str | Path, *, allow_code: bool = False) -> Campaign:
    """Return what is in the folder, or raise an InputError that says what is missing."""
    place = Path(folder)
    if not (place / "journal").is_file():
        raise InputError(
            "is no folder of a campaign.", Where(str(folder)), "Make one: polvet debug TASK POLICY -o DIR."
        )
    settings, records = records_in_journal(read_journal(place / "journal"), place)
    faults = [
        fault
        for record in records
        for path in _paths(record, "faults", place)
        for fault in read_faults(path, record.iteration)
    ]
    runs = [
        run for record in records for path in _paths(record, "runs", place) for run in read_runs(path, record.iteration)
    ]
    policies = tuple(path for record in records for path in _paths(record, "policy", place))
    rows = fold(records)
    about, outcome = read_about(place), read_outcome(place)
    return Campaign(place, settings, about, outcome, rows, tuple(faults), tuple(runs), policies, allow_code)


def _paths(record: Record[Figures], role: str, folder: Path) -> list[Path]:
    """The file of the step in that role, if it has one; one outside the folder, which a hostile journal might name, is refused."""
    file = record.files.get(role)
    if file is None:
        return []
    journal = folder / "journal"
    return [beside(journal, file.name, Where(str(journal)))]


@dataclass(frozen=True, slots=True)
class _FaultFile:
    faults: tuple[Mapping[str, Any], ...]


def read_faults(path: Path, iteration: int) -> list[ShownFault]:
    """Return the faults in a `faults/1` file."""
    where = Where(str(path))
    faults = record_from_json(_FaultFile, read_json(path, max_bytes=MAX_BYTES), where).faults
    return [
        record_from_json(ShownFault, {**one, "iteration": iteration}, where.at("faults").at(k))
        for k, one in enumerate(faults)
    ]


def read_runs(path: Path, iteration: int | None) -> list[ShownRun]:
    """Return the runs in a file of JSON lines."""
    lines = read_text(path, max_bytes=MAX_BYTES).splitlines()
    places = [Where(str(path), line=number) for number in range(1, len(lines) + 1)]
    return [read_run(parse_json(line, where), iteration, where) for line, where in zip(lines, places, strict=True)]


def read_run(document: Any, iteration: int | None, where: Where) -> ShownRun:
    """Return the run in an object with `states`, `actions` and `end`."""
    if not isinstance(document, dict):
        raise InputError("is no run.", where, "Restore it, or write it anew.")
    run = record_from_json(ShownRun, {**document, "iteration": iteration}, where)
    if not run.states or len(run.actions) != len(run.states) - 1:
        raise InputError("is no run: it needs one state more than actions.", where, "Restore it, or write it anew.")
    return run
