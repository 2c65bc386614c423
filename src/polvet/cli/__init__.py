"""The command line: one file per command; the only room that prints."""

import io
import os
import sys
import time
from typing import NoReturn

from polvet import __version__

__all__ = ["UNREAD", "main"]
UNREAD = 141
"""The exit code where nobody reads the answer to its end: what shells report of a command that SIGPIPE ended."""


def main() -> None:
    """Run the command line and leave with the documented exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: what is said there is said to nobody, and no file takes its number
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
    if sys.argv[1:] == ["--version"]:  # scripts ask this often: the answer waits for no import
        try:
            print(f"polvet {__version__}")
        except OSError:
            _leave(UNREAD)
        _leave(0)
    for stream in (sys.stdout, sys.stderr):  # Windows would print to files in an encoding that lacks most signs
        if isinstance(stream, io.TextIOWrapper):
            chosen = "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if chosen else "utf-8", errors="backslashreplace")
    from polvet.cli.app import run

    _leave(run(age=time.process_time()))


def _leave(code: int) -> NoReturn:
    """End with the code; what nobody reads, or a full disk refuses, Python must not try to write again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or UNREAD
    sys.exit(code)
