"""A campaign's folder: files written whole, and a journal of the steps that are done.

A step is done when its record stands in the journal; its files were written before, and the record holds their SHA-256.
A step that a kill interrupted left no record: it is done again from the same inputs and gives the same files.

    DIR/journal                 one record per step (`records/journal.py`)
    DIR/figures.jsonl           the same figures as plain JSON lines, for reading and plotting
    DIR/policies/0.json ...     the policy of each iteration, in its own format; a folder each where it has several files
    DIR/runs/0.jsonl ...        unsafe runs, one for each fault found
    DIR/faults/0.json ...       the new faults of each iteration; DIR/faults.json: all of them
    DIR/certificates/...        repairs, verdicts
    DIR/about.json              the task, model and policy it is about; DIR/outcome.json: how it ended
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from polvet.campaign.record import F, Figures, Record, Step, StoredFile
from polvet.errors import InputError, Where
from polvet.files import sha256, write_whole
from polvet.records.journal import Journal

FORMAT = "campaign/1"


class Store:
    """The steps done so far in a folder; opening it again with other settings is an error."""

    def __init__(self, folder: str | Path, identity: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not (self.folder / "journal").exists() and any(self.folder.iterdir()):
            hint = "Choose a new folder, or one of an earlier campaign."
            raise InputError("has files in it, but no journal of a campaign.", Where(str(folder)), hint)
        self._journal = Journal(self.folder / "journal")
        try:
            self._steps = self._read(dict(identity))
        except InputError:
            self._journal.close()
            raise
        self.resumed = len(self._steps)

    def find(self, iteration: int, step: Step[F]) -> Record[F] | None:
        """Return the record of a step that is done, else None."""
        return cast(Record[F] | None, self._steps.get((iteration, step.name)))

    def write(self, name: str, data: str | bytes) -> str:
        """Write a file of the current step and return its name in the folder."""
        write_whole(self.folder / name, data)
        return name

    def finish(self, iteration: int, step: Step[F], figures: F, seconds: float, files: Mapping[str, str]) -> Record[F]:
        """Note that the step is done, with its figures and its files {role: name in the folder}."""
        known = {role: StoredFile(name, sha256(self.folder / name)) for role, name in files.items()}
        record = Record(iteration, step, figures, seconds, known)
        self._journal.append(record.to_json())
        self._steps[iteration, step.name] = record
        self._write_figures()
        return record

    def path(self, record: Record[Figures], role: str) -> Path:
        """Return where a step's file is."""
        return self.folder / record.files[role].name

    @property
    def records(self) -> list[Record[Figures]]:
        """Return the steps done, in their order."""
        return list(self._steps.values())

    def close(self) -> None:
        """Let go of the folder."""
        self._journal.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, identity: Mapping[str, Any]) -> dict[tuple[int, str], Record[Figures]]:
        if not self._journal.records:
            self._journal.append({"format": FORMAT, "settings": identity})
            return {}
        settings, records = records_in_journal(self._journal.records, self.folder)
        _refuse_other(settings, json.loads(json.dumps(identity)), self.folder)
        for record in records:
            for file in record.files.values():
                self._refuse_changed(file)
        return {(record.iteration, record.step.name): record for record in records}

    def _refuse_changed(self, file: StoredFile) -> None:
        path = self.folder / file.name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
            hint = "Restore it, or start in a new folder."
            raise InputError("is not as the campaign wrote it.", Where(str(path)), hint)

    def _write_figures(self) -> None:
        lines = [json.dumps(record.line(), ensure_ascii=False) + "\n" for record in self._steps.values()]
        write_whole(self.folder / "figures.jsonl", "".join(lines))


def records_in_journal(lines: Sequence[Any], folder: Path) -> tuple[Mapping[str, Any], list[Record[Figures]]]:
    """Return the settings in the head of a campaign's journal, and the records after it."""
    where = Where(str(folder / "journal"))
    head = lines[0] if lines else None
    if not isinstance(head, dict) or head.get("format") != FORMAT or not isinstance(head.get("settings"), dict):
        raise InputError("is no journal of a campaign.", where, "Give a folder of polvet debug.")
    return head["settings"], [Record.from_json(one, where.at(k)) for k, one in enumerate(lines[1:], start=1)]


def _setting_text(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not given"


def _refuse_other(before: Mapping[str, Any], identity: Mapping[str, Any], folder: Path) -> None:
    changed = [name for name in {**identity, **before} if before.get(name) != identity.get(name)]
    if changed:
        shown = "; ".join(
            f"{name} was {_setting_text(before, name)}, is {_setting_text(identity, name)}" for name in changed[:4]
        )
        hint = "Give the same options and files to resume it, or choose a new folder."
        raise InputError(f"holds a campaign with other settings: {shown}.", Where(str(folder)), hint)
