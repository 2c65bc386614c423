"""Text that came out of a file, made fit to be printed: what steers a terminal is shown, not obeyed."""

from __future__ import annotations

import sys
import unicodedata
from contextlib import nullcontext, suppress
from typing import IO

STEERING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control characters, ends of lines, halves of pairs, invisible characters, and those that turn the direction of writing."""


def printable(text: str) -> str:
    r"""Return the text on one line, with every character that steers a terminal (but the tab) as its number.

    >>> print(printable("x\x1b[2Jy"))
    x\x1b[2Jy
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_json(text: str) -> str:
    r"""Return the JSON document with the same characters as JSON's own escapes, which stand for the same text.

    >>> print(printable_json('"\x9b2J"'))
    "\u009b2J"
    """
    return text if text.isprintable() else "".join(one if _shown(one) == one else _units(one) for one in text)


def say(text: str, stream: IO[str] | None = None) -> None:
    """Print one line; the exit code does not depend on whether stderr takes it."""
    with suppress(OSError) if stream is sys.stderr else nullcontext():
        print(printable(text), file=stream or sys.stdout)


def _shown(letter: str) -> str:
    if letter == "\t" or unicodedata.category(letter) not in STEERING:
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def _units(letter: str) -> str:
    pairs = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[k]:02x}{pairs[k + 1]:02x}" for k in range(0, len(pairs), 2))
