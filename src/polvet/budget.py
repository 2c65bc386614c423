"""What a command may use, seconds, megabytes and states, and the one clock that everybody reads.

A budget is made once, where a command begins, and handed to every phase: reading, drawing starts, searching, certifying,
writing. A phase asks `left()` before it calls a solver, `check()` in its loops, and gives `share(0.3)` to what may not use
everything. Shares end with the budget they were cut from, and their messages name the limit that was given, not the share.

Memory is counted from where the budget began: what the interpreter and its libraries hold before is nobody's search. Where no limit
is given, commands that know one take most of the machine (`in_machine`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass, field, replace
from math import inf
from typing import TypeVar

from polvet.errors import Limit, LimitReached
from polvet.system import physical_bytes, resident_bytes

T = TypeVar("T")
Clock = Callable[[], float]
"""Seconds since some moment; never goes back."""
Progress = Callable[[int, int], None]
"""Called with what is done and what is known."""
NO_LIMIT_OF_STATES = 2**32
NO_LIMIT_OF_BYTES = 2**63
PART_OF_MACHINE = 0.7
"""Of the machine's memory, what a command may use where no limit is given: beyond it the system ends the process without a word."""
LOOK_EVERY = 0.05
"""Seconds between two looks at the process's memory: a look costs microseconds, `check` stands in inner loops."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long (seconds), how large (megabytes), how many (states); None is no limit.

    >>> now = [0.0]
    >>> budget = Budget(10, clock=lambda: now[0])
    >>> part = budget.share(0.3)
    >>> now[0] = 4.0
    >>> budget.left(), part.left()
    (6.0, 0.0)
    >>> part.check()
    Traceback (most recent call last):
    polvet.errors.LimitReached: its share of the time limit of 10 s is used up
    """

    seconds: float | None = None
    megabytes: int | None = None
    states: int | None = None
    on_progress: Progress | None = None  # whom a kernel tells how much it has done
    clock: Clock = field(default=time.monotonic, repr=False, compare=False)
    begun: InitVar[float | None] = None  # by the clock; now, where nothing is said
    end: float = field(init=False, repr=False)  # of the limit that was given, by the clock
    until: float = field(init=False, repr=False)  # when this budget ends: a share ends before the limit that was given
    before: float = field(init=False, repr=False)  # megabytes that the process held when the budget began

    def __post_init__(self, begun: float | None) -> None:
        end = inf if self.seconds is None else (self.clock() if begun is None else begun) + self.seconds
        self._set(end=end, until=end, before=0.0 if self.megabytes is None else resident_bytes() / 2**20)

    def _set(self, **values: float) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def left(self) -> float:
        """Return the seconds that are left: never negative, infinite without a limit."""
        return inf if self.until == inf else max(0.0, self.until - self.clock())

    def left_or_none(self) -> float | None:
        """Return the seconds that are left, or None without a limit, as solvers want it."""
        return None if self.until == inf else self.left()

    def milliseconds(self, most: float) -> int:
        """Return how long one question to Z3 may take: `most` seconds, and never longer than what is left."""
        return max(1, int(1000 * min(most, self.left())))

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self.until != inf and self.clock() >= self.until

    def share(self, part: float) -> Budget:
        """Return a budget that ends when this part of the time left is used up; memory and states are the same."""
        return self if self.until == inf else self.at_most(part * self.left())

    def at_most(
        self, seconds: float | None = None, *, megabytes: int | None = None, states: int | None = None
    ) -> Budget:
        """Return a budget with tighter limits; a limit that is tight already stays."""
        cut = replace(
            self,
            seconds=seconds if self.seconds is None else self.seconds,
            megabytes=self.megabytes if megabytes is None else min(megabytes, self.megabytes or megabytes),
            states=self.states if states is None else min(states, self.most_states),
        )
        until = inf if seconds is None else self.clock() + seconds
        cut._set(end=until if self.seconds is None else self.end, until=min(until, self.until))
        if self.megabytes is not None:
            cut._set(before=self.before)
        return cut

    def in_machine(self) -> Budget:
        """Return the same budget, with most of the machine's memory as its limit where none is given."""
        return self if self.megabytes is not None else self.at_most(megabytes=machine_megabytes())

    def told(self, progress: Progress | None) -> Budget:
        """Return the same budget with somebody who is told how much a kernel has done."""
        cut = replace(self, on_progress=progress)
        cut._set(end=self.end, until=self.until, before=self.before)
        return cut

    def check(self, states: int = 0) -> None:
        """Raise LimitReached if time or memory is used up, or if there are more states than allowed."""
        if self.until != inf and self.clock() >= self.until:
            raise self.reached("time")
        if self.states is not None and states > self.states:
            raise self.reached("states")
        if self.megabytes is not None and _last_look() - self.before > self.megabytes:
            raise self.reached("memory")

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and look at the limits before each."""
        for item in items:
            self.check()
            yield item

    def reached(self, limit: Limit) -> LimitReached:
        """Return the error that says which limit was reached, with the value that was given."""
        match limit:
            case "time" if self.until < self.end and self.clock() < self.end:
                return LimitReached(f"its share of the time limit of {self.seconds or 0:g} s is used up", limit)
            case "time":
                return LimitReached(f"time limit of {self.seconds or 0:g} s reached", limit)
            case "memory" if self.megabytes is None:
                return LimitReached("all memory is used up", limit)
            case "memory":
                return LimitReached(f"memory limit of {self.megabytes} MB reached", limit)
            case _:
                return LimitReached(f"limit of {self.states or NO_LIMIT_OF_STATES - 2} states reached", "states")

    @property
    def most_bytes(self) -> int:
        """Return the limit on memory as the kernel takes it."""
        return NO_LIMIT_OF_BYTES if self.megabytes is None else self.megabytes * 2**20

    @property
    def most_states(self) -> int:
        """Return the limit on states as the kernel takes it."""
        return NO_LIMIT_OF_STATES if self.states is None else self.states


UNLIMITED = Budget()
"""No limit at all; the same for everybody, because a budget without a limit has no beginning."""


def machine_megabytes() -> int:
    """Return how many megabytes a command may use where no limit is given: most of the machine's."""
    return int(physical_bytes() * PART_OF_MACHINE) // 2**20


Stopwatch = Callable[[], float]
"""Says how many seconds have passed."""


def stopwatch(clock: Clock = time.monotonic) -> Stopwatch:
    """Return a function that says how many seconds have passed since this call.

    >>> now = [1.0]
    >>> spent = stopwatch(lambda: now[0])
    >>> now[0] = 3.5
    >>> spent()
    2.5
    """
    begun = clock()
    return lambda: clock() - begun


_look: list[float] = [-inf, 0.0]  # when the memory was last looked at, and what was seen


def _last_look() -> float:
    now = time.monotonic()
    if now - _look[0] > LOOK_EVERY:
        _look[:] = [now, resident_bytes() / 2**20]
    return _look[1]
