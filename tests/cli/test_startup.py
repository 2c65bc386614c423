"""What a command waits for before it answers: nothing heavy is imported that it does not use."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from polvet import __version__
from polvet.cli.app import COMMANDS

HEAVY = ("numpy", "z3", "highspy", "polvet._core")
MODEL = Path(__file__).resolve().parents[2] / "src/polvet/domains/policies/flappy-bird-20-10-3.jani"


def imported_by(*arguments: str) -> set[str]:
    """Every module that `polvet ARGUMENTS` has imported when it leaves."""
    program = (
        "import sys, atexit; from polvet.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv[1:] = {list(arguments)!r}; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def completions(words: str) -> list[str]:
    """What the shell offers at the end of that line."""
    environment = {
        "_POLVET_COMPLETE": "bash_complete", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }  # fmt: skip
    polvet = Path(sys.executable).with_name("polvet")
    done = subprocess.run([polvet], capture_output=True, text=True, check=True, env=os.environ | environment)
    return [line.partition(",")[2] for line in done.stdout.split()]


def test_the_version_waits_for_no_import():
    asked = [sys.executable, "-m", "polvet", "--version"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == f"polvet {__version__}\n"
    assert not {"click", "rich", *HEAVY} & imported_by("--version")


@pytest.mark.parametrize("arguments", [("--help",), ("info", str(MODEL)), *((name, "--help") for name in COMMANDS)])
def test_nothing_heavy_is_imported_before_it_is_needed(arguments):
    assert not set(HEAVY) & imported_by(*arguments)


def test_the_help_page_imports_no_command():
    assert not {f"polvet.cli.{name}" for name in COMMANDS} & imported_by("--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_page_says_what_the_command_says_first(name):
    own = inspect.getdoc(getattr(import_module(f"polvet.cli.{name}"), name))
    assert own is not None
    assert " ".join(own.split("\n\n")[0].split()) == COMMANDS[name]


def test_the_shell_completes_commands_and_the_options_of_a_command():
    assert {"verify"} == set(completions("polvet veri"))
    assert "--property" in completions("polvet check --prop")
    assert set(completions("polvet ")) >= set(COMMANDS)


def test_completion_can_be_installed(tmp_path):
    """Into a home of its own: the script is written there, and names polvet."""
    polvet = Path(sys.executable).with_name("polvet")
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    asked = ["bash", "-c", f'"{polvet}" --install-completion; true']
    subprocess.run(asked, capture_output=True, text=True, check=True, env=environment)
    written = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    assert any(re.search(r"_POLVET_COMPLETE", text) for text in written)


@pytest.mark.parametrize(("encoding", "shown"), [("cp1252", b"stra\xdfe\\u2264"), (None, "straße≤".encode())])
def test_names_are_printed_whatever_the_encoding(tmp_path, encoding, shown):
    document = json.loads(MODEL.read_text(encoding="utf-8")) | {"name": "straße≤"}
    (tmp_path / "model.jani").write_text(json.dumps(document), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    environment |= (
        {"PYTHONIOENCODING": encoding}
        if encoding
        else {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    )
    asked = [sys.executable, "-m", "polvet", "info", "model.jani"]
    done = subprocess.run(asked, capture_output=True, check=True, env=environment, cwd=tmp_path)
    assert shown in done.stdout
