"""Ctrl-C that nothing swallows: an interrupt is noted when it comes, and heard at the latest when somebody looks.

Python raises KeyboardInterrupt wherever it happens to be, also within code that a C library called. NumPy, comparing the rows
of `np.unique(axis=0)`, then reports a TypeError instead, or nothing at all: a command would end as a bug, or go on for hours.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Whether Ctrl-C came since the block began."""

    def __init__(self) -> None:
        self.came = False
        self._held = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C came, also if somebody swallowed it."""
        if self.came:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let Ctrl-C wait until the block is done. A mask would not do: another thread of the process may take the signal."""
        self._held = True
        _holding.append(self)
        try:
            yield
        finally:
            self._held = False
            _holding.remove(self)
        self.check()

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.came = True
        if not self._held:
            raise KeyboardInterrupt


_holding: list[Interrupts] = []


def are_held() -> bool:
    """Return whether somebody lets interrupts wait just now."""
    return bool(_holding)


@contextmanager
def noting() -> Iterator[Interrupts]:
    """Note Ctrl-C within the block; an error that comes after one counts as the interrupt.

    Off the main thread, and where Ctrl-C is ignored or somebody else handles it, nothing is noted and nothing changes.
    """
    noted = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler or isinstance(getattr(before, "__self__", None), Interrupts)
    if not ours or threading.current_thread() is not threading.main_thread():
        yield noted
        return
    signal.signal(signal.SIGINT, noted.note)
    try:
        yield noted
    except Exception as error:
        if noted.came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
