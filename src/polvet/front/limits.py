"""The keywords of long work, as the command line has them: `time_limit`, `memory_limit`, `workers`, `progress`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from polvet.budget import Budget
from polvet.errors import InputError, Where


def budget_of(
    time_limit: float | None = None,
    memory_limit: int | None = None,
    max_states: int | None = None,
    progress: bool | Callable[[int, int], Any] = False,
) -> Budget:
    """Return the budget, which begins now; `progress` is True (a line on stderr) or a function of (done, known)."""
    for name, value in (("time_limit", time_limit), ("memory_limit", memory_limit), ("max_states", max_states)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise InputError(f"{value!r} is no limit.", Where(name), "Give a number above 0, or None.")
    return Budget(time_limit, memory_limit, max_states, _listener(progress))


def threads_of(workers: int | str | None) -> int:
    """Return the number of threads: a number, or None and "all" for every core."""
    if workers is None or workers == "all":
        return os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"{workers!r} is no number of threads.", Where("workers"), "Give 1 or more, or 'all'.")
    return workers


def _listener(progress: bool | Callable[[int, int], Any]) -> Any:
    if progress is False or progress is None:
        return None
    if progress is True:
        return _tell
    if not callable(progress):
        raise InputError(f"{progress!r} cannot be told anything.", Where("progress"), "Give True or a function.")
    return progress


def _tell(done: int, known: int) -> None:
    sys.stderr.write(f"\r{done:,} of {known:,} ")
    sys.stderr.flush()
