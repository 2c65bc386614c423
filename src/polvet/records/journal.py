"""An append-only journal of JSON records, one to a line, each with a checksum: what long work writes as it goes.

A line is `CRC32 RECORD`. A record counts once its line is whole and its checksum right; a torn last line, left by a
kill, is cut off when the journal is opened again. Damage before the last line is an error, never skipped.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

from polvet.errors import InputError, Where
from polvet.system import lock


class Journal:
    """The records of one file; `records` holds those found when it was opened, `append` adds and syncs one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer: a line that a full disk refuses must not come back with the next one.
            self._stream = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise InputError(
                f"cannot be written ({error.strerror}).", Where(str(path)), "Choose another folder."
            ) from None
        if not lock(self._stream):
            self._stream.close()
            hint = "Wait for it, or choose another folder."
            raise InputError("another process is writing it.", Where(str(path)), hint)
        try:
            self.records: list[Any] = self._recover()
        except InputError:
            self._stream.close()
            raise

    def append(self, record: Any) -> None:
        """Add the record; it is on the disk when this returns. A full disk keeps all records before it."""
        end = self._stream.seek(0, os.SEEK_END)
        left = memoryview(line_of(record))
        try:
            while left:
                left = left[self._stream.write(left) :]
            os.fsync(self._stream.fileno())
        except OSError as error:
            with suppress(OSError):
                self._stream.truncate(end)
            raise self._full(error) from None

    def close(self) -> None:
        """Sync and let go of the file."""
        if not self._stream.closed:
            try:
                os.fsync(self._stream.fileno())
            except OSError as error:
                raise self._full(error) from None
            finally:
                self._stream.close()

    def _full(self, error: OSError) -> InputError:
        return InputError(
            f"cannot be written ({error.strerror}); what stood in it before is kept.",
            Where(str(self.path)),
            "Make room on the disk and run the same command again.",
        )

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recover(self) -> list[Any]:
        self._stream.seek(0)
        data = self._stream.read()
        records, good = records_in(data, self.path)
        if good < len(data):
            self._stream.truncate(good)
        self._stream.seek(0, os.SEEK_END)
        return records


def line_of(record: Any) -> bytes:
    """Return the record as a line of a journal."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(text), text)


def records_in(data: bytes, path: Path) -> tuple[list[Any], int]:
    """Return the whole records and how many bytes they take; only the last line may be torn."""
    records: list[Any] = []
    good = 0
    while good < len(data):
        end = data.find(b"\n", good)
        line = data[good : end if end >= 0 else len(data)]
        text = line[9:]
        if end < 0 or line[:9] != b"%08x " % crc32(text):
            if end >= 0 and end + 1 < len(data):
                where = Where(str(path), line=len(records) + 1)
                raise InputError("is damaged (its checksum is wrong).", where, "Restore it, or start in a new folder.")
            break
        records.append(json.loads(text))
        good = end + 1
    return records, good


def read_journal(path: str | Path) -> list[Any]:
    """Return the records of a journal without opening it for writing; a torn last line is left out."""
    try:
        return records_in(Path(path).read_bytes(), Path(path))[0]
    except FileNotFoundError:
        raise InputError("no such file.", Where(str(path)), "Check the path.") from None
