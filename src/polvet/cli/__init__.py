"""The command line: one file per command; the only room that prints."""

import io
import os
import sys
import time

from polvet import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with the documented exit code."""
    if sys.argv[1:] == ["--version"]:  # scripts ask this often: the answer waits for no import
        print(f"polvet {__version__}")
        sys.exit()
    for stream in (sys.stdout, sys.stderr):  # Windows would print to files in an encoding that lacks most signs
        if isinstance(stream, io.TextIOWrapper):
            chosen = "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if chosen else "utf-8", errors="backslashreplace")
    from polvet.cli.app import run

    code = run(age=time.process_time())
    try:
        sys.stdout.flush()
    except OSError:  # nobody reads any more, or the disk is full: Python must not try again when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
