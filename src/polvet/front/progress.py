"""How far long work has got, as people in Python see it: a line on stderr, or calls of a function of theirs.

Kernels tell two counts (done, known); rounds and phases tell counts by name. Whoever listens gets both as (done, known).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from polvet.errors import InputError, Where

EVERY = 0.1
"""Seconds between two lines."""


class Listener:
    """Takes what kernels and rounds tell, and calls a function with (done, known)."""

    def __init__(self, function: Callable[[int, int], Any]) -> None:
        self.function = function

    def __call__(self, done: int, known: int) -> None:
        """Take the counts of a kernel."""
        self.function(done, known)

    def tell(self, what: str | None = None, **counts: Any) -> None:
        """Take a phase and its counts by name: `of` is what is known, the first other whole number what is done."""
        known = counts.pop("of", None)
        whole = (one for one in counts.values() if isinstance(one, int) and not isinstance(one, bool))
        done = next(whole, None)
        if done is not None:
            self(done, done if known is None else known)

    def end(self) -> None:
        """Take that the work is done."""


class Line(Listener):
    """Writes a line on stderr and over it again; a terminal's next line is free when the work is done."""

    def __init__(self) -> None:
        super().__init__(self._write)
        self._last, self._what, self._width = 0.0, "", 0

    def tell(self, what: str | None = None, **counts: Any) -> None:
        """Take a phase and its counts by name."""
        self._what = self._what if what is None else f"{what}: "
        super().tell(what, **counts)

    def end(self) -> None:
        """End the line, if there is one."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0

    def _write(self, done: int, known: int) -> None:
        if time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()
        text = f"{self._what}{done:,}" + (f" of {known:,}" if known > done else "")
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)


def listener_of(progress: Any) -> Listener | None:
    """Return who is told: nobody, a line on stderr (True), or a function of (done, known)."""
    if progress is False or progress is None:
        return None
    if progress is True:
        return Line()
    if not callable(progress):
        raise InputError(f"{progress!r} cannot be told anything.", Where("progress"), "Give True or a function.")
    return Listener(progress)
