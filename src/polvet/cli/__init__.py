"""The command line: one file per command; the only room that prints."""

from polvet.cli.app import main

__all__ = ["main"]
