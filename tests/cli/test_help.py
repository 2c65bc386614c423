"""What people meet first: `polvet` alone, and the help of every command."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from polvet.cli.app import COMMANDS, WELCOME, run
from tests.report.stories import SHIPPED


def test_polvet_alone_shows_the_four_things_people_do_first(capsys):
    assert run([]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() == WELCOME.strip()
    told = re.findall(r"polvet (\w+) ", shown)
    assert {"domains", "debug", "report", "evaluate", "permit", "terminates", "certify"} <= set(told)
    assert set(told) - {"vets"} <= {*COMMANDS, "COMMAND"} | {"alone"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_an_example_of_that_command(command, capsys):
    assert run([command, "--help"]) == 0
    shown = " ".join(re.sub(r"[│╭╰╮╯─]", " ", capsys.readouterr().out).split())
    found = re.search(r"Example: `(polvet [^`]*)`", shown)
    assert found is not None
    program, name, *rest = shlex.split(found[1])
    assert (program, name) == ("polvet", command)
    known = set(re.findall(r"(?<!\S)(-{1,2}[a-z][a-z-]*)", shown.replace(found[1], "")))
    assert {word for word in rest if word.startswith("-")} <= known


def test_an_unknown_command_is_wrong_input(capsys):
    assert run(["nonsense"]) == 30
    assert "polvet --help" in capsys.readouterr().err


VERIFY = ["verify", str(SHIPPED / "one-way-line-8-5.toml")]
ENDS = {
    "safe": [*VERIFY, str(SHIPPED / "one-way-line-8-5-good.json")],
    "unsafe": [*VERIFY, str(SHIPPED / "one-way-line-8-5-faulty.json")],
    "wrong": [*VERIFY, "absent.json"],
    "list": ["domains"],
    "version": ["--version"],
}


@pytest.mark.parametrize("command", ENDS)
def test_a_reader_who_goes_away_hears_no_verdict_and_no_traceback(command):
    """As in `polvet domains | head -1`: the code of a command that nobody read to its end is never that of a verdict."""
    asked = [sys.executable, "-m", "polvet", *ENDS[command]]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gone:
        assert gone.stdout is not None
        assert gone.stderr is not None
        gone.stdout.close()
        said = gone.stderr.read().decode()
        assert gone.wait(timeout=60) == (30 if command == "wrong" else 141)
    assert "Traceback" not in said
    assert said.count("\n") == (1 if command == "wrong" else 0)


@pytest.mark.skipif(sys.platform == "win32", reason="closes file descriptors with a shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("command", ["unsafe", "wrong"])
def test_what_is_said_to_a_closed_stream_is_left_out_and_the_code_is_the_same(command, closed):
    words = shlex.join([sys.executable, "-m", "polvet", *ENDS[command]])
    whole = subprocess.run(words, shell=True, capture_output=True, check=False)
    part = subprocess.run(f"{words} {closed}", shell=True, capture_output=True, check=False)
    assert part.returncode == whole.returncode
    assert part.stderr == (b"" if "2>" in closed else whole.stderr)
    if not closed.startswith(">"):  # a verdict tells its seconds
        assert part.stdout.split(b"\n")[0] == whole.stdout.split(b"\n")[0]


@pytest.mark.parametrize("file", ["README.md", "docs/index.md", "docs/gate.md", "docs/report.md", "docs/faq.md"])
def test_pages_name_commands_that_exist(file):
    text = (Path(__file__).resolve().parents[2] / file).read_text()
    told = re.findall(r"(?:\$ |`)polvet ([a-z]+)", text)
    assert told
    assert set(told) <= set(COMMANDS)
