"""What people meet first: `polvet` alone, and the help of every command."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from polvet.cli.app import COMMANDS, WELCOME, run


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


def test_a_reader_who_goes_away_is_no_failure():
    """As in `polvet domains | head -1`."""
    asked = [sys.executable, "-m", "polvet", "domains"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gone:
        assert gone.stdout is not None
        gone.stdout.close()
        assert gone.wait(timeout=60) == 0


@pytest.mark.parametrize("file", ["README.md", "docs/index.md", "docs/gate.md", "docs/report.md", "docs/faq.md"])
def test_pages_name_commands_that_exist(file):
    text = (Path(__file__).resolve().parents[2] / file).read_text()
    told = re.findall(r"(?:\$ |`)polvet ([a-z]+)", text)
    assert told
    assert set(told) <= set(COMMANDS)
