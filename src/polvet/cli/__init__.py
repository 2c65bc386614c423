"""The command line: one file per command; the only room that prints."""

import sys

from polvet import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with the documented exit code."""
    if sys.argv[1:] == ["--version"]:  # scripts ask this often: the answer waits for no import
        print(f"polvet {__version__}")
        sys.exit()
    from polvet.cli.app import run

    sys.exit(run())
