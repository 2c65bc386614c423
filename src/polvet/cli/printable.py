"""Text that came out of a file, made fit to be printed: what steers a terminal is shown, not obeyed."""

from __future__ import annotations

import logging
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
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


class Heard(logging.Handler):
    """What is logged as a warning while a command runs: said on stderr at once, and kept for its JSON document."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Say a message, once."""
        if (message := record.getMessage()) not in self.messages:
            self.messages.append(message)
            say(f"polvet: warning: {message}", sys.stderr)


heard = Heard()


@contextmanager
def hearing() -> Iterator[None]:
    """Keep the warnings of polvet, and of nobody else, in the block."""
    heard.messages.clear()
    log = logging.getLogger("polvet")
    log.addHandler(heard)
    try:
        yield
    finally:
        log.removeHandler(heard)


def _shown(letter: str) -> str:
    if letter == "\t" or unicodedata.category(letter) not in STEERING:
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def _units(letter: str) -> str:
    pairs = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[k]:02x}{pairs[k + 1]:02x}" for k in range(0, len(pairs), 2))
