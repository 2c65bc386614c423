"""Completion in the shell: the script that asks polvet for words, shown or put where the shell reads it."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from polvet.errors import InputError, Where
from polvet.files import write_whole

HOMES = {
    "bash": (".local/share/polvet/complete.bash", ".bashrc"),
    "zsh": (".local/share/polvet/complete.zsh", ".zshrc"),
    "fish": (".config/fish/completions/polvet.fish", None),
}
"""Per shell: where its script goes, and the file that has to read it; fish reads its own folder."""


def script(command: click.Command) -> tuple[str, str]:
    """Return the name of the user's shell and the script for it."""
    shell = Path(os.environ.get("SHELL", "")).name
    complete = get_completion_class(shell)
    if complete is None:
        what = f"the shell '{shell}' is not known." if shell else "SHELL does not say which shell this is."
        raise InputError(what, Where("completion"), f"Set SHELL to one of {', '.join(HOMES)}.")
    return shell, complete(command, {}, "polvet", "_POLVET_COMPLETE").source()


def install(command: click.Command) -> str:
    """Write the script for the user's shell, let the shell read it from its next start on, and return where it is."""
    shell, text = script(command)
    place, reader = HOMES[shell]
    file = Path.home() / place
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    if reader is not None:
        settings, line = Path.home() / reader, f'. "{file}"'
        known = settings.read_text(encoding="utf-8") if settings.exists() else ""
        if line not in known.splitlines():
            with settings.open("a", encoding="utf-8") as more:
                more.write(f"{'' if known.endswith(chr(10)) or not known else chr(10)}{line}\n")
    return f"{shell} completes polvet from its next start on: {file}"
