"""The task as linear data, within a time limit: reading a condition with many cases can take minutes.

SIGALRM stops the reading, which is plain Python and leaves nothing behind. In a callback of the garbage collector the exception
would be lost, and a library may swallow it or make another error of it (`interrupts.py`), so the alarm comes again until it finds its
place. Outside the main thread there is no such signal, and the limit is then only looked at afterwards.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from polvet.policy.binding import Bound
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask, linear_task

AGAIN, SWALLOWED = 0.01, 1.0
"""Seconds until the alarm comes again: where it could not be raised, and where it was."""


class TimeIsUp(Exception):
    """The time limit came first."""


@contextmanager
def stopped_after(seconds: float | None) -> Iterator[None]:
    """Raise TimeIsUp in the block once the seconds are over; an alarm that was set before is kept waiting.

    >>> with stopped_after(60.0):
    ...     1 + 1
    2
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    over = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal over
        if not _collects_garbage(frame):
            over = True
            signal.setitimer(signal.ITIMER_REAL, SWALLOWED, SWALLOWED)
            raise TimeIsUp

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, stop)
    waiting, _ = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), AGAIN)
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:  # the second is what a kernel that polls signals makes of the alarm
        if over and not isinstance(error, TimeIsUp):
            raise TimeIsUp from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if waiting:
            signal.setitimer(signal.ITIMER_REAL, max(waiting - (time.monotonic() - begun), 1e-3))


def _collects_garbage(frame: FrameType | None) -> bool:
    """Whether the code runs in a callback of the garbage collector."""
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False


def linearized(bound: Bound, seconds: float | None) -> LinearTask | str:
    """Return the task as linear data, or why there is none."""
    try:
        with stopped_after(seconds):
            return linear_task(bound.task)
    except NotLinear as refusal:
        return f"not linear: {refusal.why}"
    except TimeIsUp:
        return f"time limit of {seconds:g} s reached while the model was read as linear data"
