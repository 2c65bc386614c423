"""A campaign's folder read for people: settings, steps, faults and runs; states stay as the files name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import parse_json, read_json, read_text
from polvet.records.journal import read_journal
from polvet.records.state_files import MAX_BYTES

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FoundFault:
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
    about: Mapping[str, Any]
    outcome: Mapping[str, Any] | None
    rows: tuple[Mapping[str, Any], ...]  # per iteration, the figures of all its steps
    faults: tuple[FoundFault, ...]
    runs: tuple[ShownRun, ...]
    files: Mapping[str, str]  # role and iteration, as in "policy 1", to the file's name


def read_campaign(folder: str | Path) -> Campaign:
    """Return what is in the folder, or raise an InputError that says what is missing."""
    place = Path(folder)
    if not (place / "journal").is_file():
        raise InputError(
            "is no folder of a campaign.", Where(str(folder)), "Make one: polvet debug TASK POLICY -o DIR."
        )
    head, *records = read_journal(place / "journal") or [{}]
    if not isinstance(head, dict) or head.get("format") != "campaign/1":
        raise InputError(
            "is no journal of a campaign.", Where(str(place / "journal")), "Give a folder of polvet debug."
        )
    rows: dict[int, dict[str, Any]] = {}
    files: dict[str, str] = {}
    faults: list[FoundFault] = []
    runs: list[ShownRun] = []
    for record in records:
        iteration = record["iteration"]
        row = rows.setdefault(iteration, {"iteration": iteration, "seconds": 0.0})
        figures = dict(record["figures"])
        row["seconds"] = round(row["seconds"] + figures.pop("seconds", 0.0), 3)
        if record["step"] in ("prove", "verify"):
            row["verification"] = figures
            if "new_faults" in figures:  # beside those of the search before it
                row["new_faults"] = row.get("new_faults", 0) + figures["new_faults"]
                row["faults_so_far"] = figures["faults_so_far"]
        elif record["step"] == "strengthen":
            if "policy" in record["files"]:
                row["fence"] = figures
        else:
            row |= figures
        for role, file in record["files"].items():
            files[f"{role} {record['step']} {iteration}"] = file["name"]
            path = _inside(place, file["name"])
            if role == "faults":
                faults += read_faults(path, iteration)
            elif role == "runs":
                runs += read_runs(path, iteration)
    return Campaign(
        place, head["settings"], _optional(place / "about.json"), _optional(place / "outcome.json") or None,
        tuple(row for _, row in sorted(rows.items())), tuple(faults), tuple(runs), files,
    )  # fmt: skip


def has_goal(campaign: Campaign) -> bool:
    """Return whether the task wants anything reached; unless the folder says that it does not, it does."""
    return campaign.about.get("goal") != "false"


def _inside(folder: Path, name: str) -> Path:
    """Return the file; one outside the folder, which a hostile journal might name, is refused."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"names '{name}', which is not in the folder.", Where(str(folder / "journal")), "Restore it.")
    return path


def _optional(path: Path) -> dict[str, Any]:
    found = read_json(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def read_faults(path: Path, iteration: int) -> list[FoundFault]:
    """Return the faults in a `faults/1` file."""
    document = read_json(path, max_bytes=MAX_BYTES)
    try:
        return [
            FoundFault(
                iteration, dict(one["state"]), str(one["action"]), tuple(map(str, one["safe_actions"])),
                tuple(map(dict, one["unsafe_outcomes"])),
            )
            for one in document["faults"]
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise InputError("is no list of faults.", Where(str(path)), "Restore it, or debug in a new folder.") from None


def read_runs(path: Path, iteration: int) -> list[ShownRun]:
    """Return the runs in a file of JSON lines."""
    found = []
    for number, line in enumerate(read_text(path, max_bytes=MAX_BYTES).splitlines(), start=1):
        where = Where(str(path), line=number)
        one = parse_json(line, where)
        try:
            run = ShownRun(iteration, tuple(map(dict, one["states"])), tuple(one["actions"]), str(one["end"]))
        except (KeyError, TypeError, ValueError):
            raise InputError("is no run.", where, "Restore it, or debug in a new folder.") from None
        if not run.states or len(run.actions) != len(run.states) - 1:
            raise InputError("is no run.", where, "Restore it, or debug in a new folder.")
        found.append(run)
    return found
