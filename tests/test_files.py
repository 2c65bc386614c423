"""Whole files: written or not written; links are followed, and what is no regular file is written through."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from polvet.cli.app import run
from polvet.errors import InputError
from polvet.files import write_whole
from polvet.policy.load import load_policy
from tests.report.stories import LINE, SHIPPED

FAULTY = SHIPPED / "one-way-line-8-5-faulty.json"
FULL = Path("/dev/full")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")


def received(pipe, work):
    """What somebody who reads the pipe gets while the work is done."""
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    work()
    reader.join(timeout=10)
    return b"".join(got)


def test_a_link_is_followed_also_to_a_file_that_is_not_there_yet(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, chain = tmp_path / "there/target", tmp_path / "link", tmp_path / "chain"
    link.symlink_to("there/target")
    chain.symlink_to("link")
    for path, text in ((link, "first"), (chain, "second")):
        write_whole(path, text)
        assert link.is_symlink()
        assert chain.is_symlink()
        assert target.read_text() == text
        assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "there", target, link, chain])


def test_a_link_to_itself_is_an_error(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(loop, "x")
    assert loop.is_symlink()


def test_a_regular_file_is_replaced_at_once(tmp_path):
    """Who has the old file open keeps all of it: it was not written over."""
    file = tmp_path / "file"
    file.write_text("the old content")
    with file.open() as before:
        write_whole(file, "new")
        assert before.read() == "the old content"
    assert file.read_text() == "new"


@needs_pipes
def test_a_pipe_is_written_through(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert received(pipe, lambda: write_whole(pipe, "through")) == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


COMMANDS = {
    "verify": ["verify", LINE, SHIPPED / "one-way-line-8-5-good.json"],
    "decide": ["decide", LINE, "--all-starts"],
    "fuzz": ["fuzz", LINE, FAULTY, "--runs", "64"],
    "train": ["train", LINE, "--kind", "trees"],
}


@needs_pipes
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_pipe_gets_is_what_a_file_would_hold(tmp_path, command):
    words = list(map(str, COMMANDS[command]))
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    codes = [run([*words, "-o", str(file)])]
    got = received(pipe, lambda: codes.append(run([*words, "-o", str(pipe)])))
    assert codes[0] == codes[1] < 20
    if command == "decide":  # it also holds how long each state took
        sides = [[json.loads(line) for line in data.splitlines()] for data in (got, file.read_bytes())]
        assert [one.get("state") for one in sides[0]] == [one.get("state") for one in sides[1]]
    else:
        assert got == file.read_bytes()
    assert not (tmp_path / "pipe.journal").exists()


@needs_pipes
def test_a_repaired_policy_goes_through_a_pipe(tmp_path):
    faults, pipe, file = (tmp_path / name for name in ("faults.json", "pipe", "repaired.json"))
    assert run(["faults", str(LINE), str(FAULTY), "-o", str(faults)]) == 10
    os.mkfifo(pipe)
    words = ["repair", str(LINE), str(FAULTY), "--faults", str(faults), "-o", str(pipe)]
    file.write_bytes(received(pipe, lambda: run(words)))
    load_policy(file, None, None)


@needs_full
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_device_is_one_message_and_stays_a_device(tmp_path, capsys, command):
    link = tmp_path / "full"  # a link, so that an error of ours cannot harm the machine
    link.symlink_to(FULL)
    assert run([*map(str, COMMANDS[command]), "-o", str(link)]) == 30
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "No space left on device" in said
    assert link.is_symlink()
    assert stat.S_ISCHR(FULL.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="the system has no /dev/stdout")
@pytest.mark.parametrize("to_file", [True, False])
def test_a_certificate_on_stdout_stands_before_the_verdict(tmp_path, to_file):
    words = [sys.executable, "-m", "polvet", *map(str, COMMANDS["verify"]), "-o", "/dev/stdout"]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(words, stdout=out if to_file else subprocess.PIPE, check=False)
    text = (tmp_path / "out").read_text() if to_file else done.stdout.decode()
    document, end = json.JSONDecoder().raw_decode(text)
    assert document["kind"] == "reachable-set"
    assert text[end:].lstrip().startswith("safe\n")
    assert done.returncode == 0
