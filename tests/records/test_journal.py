"""The journal keeps every finished record: torn ends are cut off, damage in the middle is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from polvet.errors import InputError
from polvet.records.journal import Journal, read_journal

WRITER = """
import sys
from polvet.records.journal import Journal
with Journal(sys.argv[1]) as journal:
    for k in range(len(journal.records), 1_000_000):
        journal.append({"k": k, "text": "x" * (k % 50)})
        print(k, flush=True)
"""


def test_every_cut_keeps_the_whole_records_before_it(tmp_path):
    file = tmp_path / "journal"
    written = [{"a": 1}, [1, 2, 3], "ü\n", None, 3.5]
    with Journal(file) as journal:
        for record in written:
            journal.append(record)
    data = file.read_bytes()
    ends = [k + 1 for k, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        file.write_bytes(data[:cut])
        whole = written[: sum(end <= cut for end in ends)]
        assert read_journal(file) == whole
        with Journal(file) as journal:
            assert journal.records == whole
            journal.append("more")
        assert read_journal(file) == [*whole, "more"]


def test_a_changed_byte_before_the_last_line_is_refused(tmp_path):
    file = tmp_path / "journal"
    with Journal(file) as journal:
        journal.append({"a": 1})
        journal.append({"a": 2})
    data = bytearray(file.read_bytes())
    data[12] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        Journal(file)


def test_two_writers_at_once_are_refused(tmp_path):
    with Journal(tmp_path / "journal"), pytest.raises(InputError, match="another process"):
        Journal(tmp_path / "journal")


def test_a_killed_writer_loses_nothing_it_had_finished(tmp_path):
    file = tmp_path / "journal"
    last = -1
    for lines in (5, 50, 500):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(lines):
                last = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
        found = read_journal(file)
        assert [record["k"] for record in found] == list(range(len(found)))
        assert len(found) > last
