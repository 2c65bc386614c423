"""The task as linear data, within a time limit: reading a condition with many cases can take minutes.

An alarm stops the reading, which is plain Python and leaves nothing behind. It rings by the clock on the wall; where the budget counts by
another one (CPU seconds), it is set again until that one says that time is over, too. In a callback of the garbage collector the exception
would be lost, and a library may swallow it or make another error of it (`interrupts.py`), so the alarm comes again until it finds its
place. Outside the main thread there is no alarm, and the limit is then only looked at afterwards.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.policy.compiled import Bound
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask, linear_task
from polvet.system import ringing

AGAIN, SWALLOWED = 0.01, 1.0
"""Seconds until the alarm comes again: where it could not be raised, and where it was."""


@contextmanager
def stopped_after(budget: Budget, grace: float = 0.0) -> Iterator[None]:
    """Raise LimitReached in the block once the time is over, and a grace; an alarm that was set before is kept waiting.

    >>> with stopped_after(Budget(60.0)):
    ...     1 + 1
    2
    """
    if budget.seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    over = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal over
        if (early := budget.until + grace - budget.clock()) > 0:
            pace(max(early, AGAIN))
        elif not _collects_garbage(frame):
            over = True
            pace(SWALLOWED)
            raise budget.reached("time")

    with ringing(stop, max(budget.left() + grace, 1e-3), AGAIN) as pace:
        try:
            yield
        except (
            Exception,
            KeyboardInterrupt,
        ) as error:  # the second: what a kernel that polls signals makes of the alarm
            if over and not isinstance(error, LimitReached):
                raise budget.reached("time") from error
            raise


def _collects_garbage(frame: FrameType | None) -> bool:
    """Whether the code runs in a callback of the garbage collector."""
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False


def linearized(bound: Bound, budget: Budget = UNLIMITED) -> LinearTask | str:
    """Return the task as linear data, or why there is none; what every method asks of it is made here, once."""
    try:
        with stopped_after(budget):
            task = linear_task(bound.task)
            conserved_rows(task)
            return task
    except NotLinear as refusal:
        return f"not linear: {refusal.why}"
    except LimitReached as limit:
        return f"{limit} while the model was read as linear data"
