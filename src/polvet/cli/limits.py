"""Limits as people give them: the options that raise them, the sentences that name them, and a net for what forgets them.

Engines look at their budget and stop in good order, with what they have found. The net is for the rest, a library call or a
phase that nobody thought of: a while after the time limit an alarm ends the command wherever it is. Ctrl-C already may end it
anywhere, so nothing new has to hold: what was written is whole, and what resumes does so.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from types import FrameType

from polvet.budget import Budget, Progress
from polvet.errors import Limit, LimitReached
from polvet.interrupts import are_held
from polvet.system import ringing

OPTIONS: dict[Limit, str] = {
    "time": "--time-limit",
    "memory": "--memory-limit",
    "states": "--max-states",
    "radius": "--radius",
    "steps": "--budget",
}
LATE = 0.04
"""Part of the time limit after which the net catches; with GRACE less than a tenth and two seconds."""
GRACE = 1.2
"""Seconds for stopping in good order: writing what was found, saying it."""
AGAIN = 0.4
"""Seconds until the net tries again: a library may swallow the first try."""


def limit_sentence(limit: LimitReached) -> str:
    """Return the sentence for people: which limit, and the option that raises it.

    >>> limit_sentence(LimitReached("time limit of 3 s reached", "time"))
    'time limit of 3 s reached (raise it with --time-limit)'
    """
    return raised(limit.limit, limit.kind)


def raised(reason: str, kind: Limit | None) -> str:
    """Return the reason with the option that raises the limit it speaks of, if it speaks of one."""
    return reason if kind is None else f"{reason} (raise it with {OPTIONS[kind]})"


class Net:
    """An alarm a while after the time limit of the command that runs."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.seconds: float | None = None
        self.caught = False
        self._spread = ExitStack()

    def begin(self, age: float = 0.0) -> None:
        """Note that a command begins, as yet without a limit; who waits for it began to wait `age` seconds ago."""
        self.begun, self.seconds, self.caught = time.monotonic() - age, None, False

    def span(self, seconds: float | None) -> float | None:
        """Spread the net under the command; a callback of `--time-limit`."""
        if seconds is not None and threading.current_thread() is threading.main_thread():
            self.seconds = seconds
            late = self.begun + seconds * (1 + LATE) + GRACE - time.monotonic()
            self._spread.enter_context(ringing(self._catch, max(late, AGAIN), AGAIN))
        return seconds

    def fold(self) -> None:
        """Take the net away."""
        self._spread.close()

    def limit(self) -> LimitReached:
        """Return the limit that the net caught."""
        return Budget(self.seconds).reached("time")

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if not are_held():
            self.caught = True
            raise self.limit()


net = Net()


def budget_of(
    time_limit: float | None,
    memory_limit: int | None = None,
    states: int | None = None,
    progress: Progress | None = None,
) -> Budget:
    """Return the budget of the command that runs; its time began when the command did."""
    return Budget(time_limit, memory_limit, states, progress, begun=net.begun)
