"""The keywords of long work, the same for every verb and the same as the command line's options, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from polvet.budget import Budget, Stopwatch, stopwatch
from polvet.errors import InputError, Where, suggest
from polvet.front.arguments import count
from polvet.front.progress import listener_of

if TYPE_CHECKING:
    from polvet.model.task import Task
    from polvet.workers.protocol import Crew, Workers

RAY = "ray:"
MANY = 1 << 16
"""More threads than any machine has: work that is not counted beforehand."""


class Timed(TypedDict, total=False):
    """How long work may take, and who is told how far it is: True (a line on stderr) or a function of (done, known)."""

    time_limit: float | None
    progress: bool | Callable[[int, int], Any]
    within: Budget  # one that has begun, in the place of the limits: the command line's began with the command


class Limits(Timed, total=False):
    """How long it may take, how many megabytes it may use (None: most of the machine), how many states it may store; None is no limit."""

    memory_limit: int | None
    max_states: int | None


class Threaded(Limits, total=False):
    """Limits, and a number of threads ('all', or None, for every core)."""

    workers: int | str | None


class Chance(Limits, total=False):
    """Limits, and the seed of all chance."""

    seed: int


class Crowd(Chance, total=False):
    """Limits, a seed, and who works: a number of threads, 'all' (or None), or a Ray cluster ('ray:auto', 'ray:ADDRESS')."""

    workers: int | str | None


class TimedChance(Timed, total=False):
    """How long, and the seed of all chance."""

    seed: int


class TimedCrowd(TimedChance, total=False):
    """How long, the seed of all chance, and who works."""

    workers: int | str | None


class Account(TypedDict):
    """What every result says of its work."""

    seconds: float
    seed: int | None


@dataclass(frozen=True, slots=True)
class Work:
    """One call's budget, seed and workers, since when it runs, and who is told of its phases."""

    budget: Budget
    spent: Stopwatch
    seed: int | None = None
    workers: int | str | None = None

    @classmethod
    def begin(
        cls, options: Mapping[str, Any], keywords: type, *, max_states: int | None = None, seed: int | None = 0
    ) -> Work:
        """Return the work with the given keywords, which must be among those of the class; `max_states` where none is given."""
        known: frozenset[str] = keywords.__optional_keys__  # type: ignore[attr-defined]
        for name in options:
            if name not in known:
                raise InputError(
                    f"there is no keyword '{name}'.", Where(name), suggest(name, sorted(known - {"within"}))
                )
        budget: Budget | None = options.get("within")
        if budget is None:
            limits = {
                name: options[name]
                for name in ("time_limit", "memory_limit", "max_states", "progress")
                if name in options
            }
            budget = budget_of(**limits)
        if "memory_limit" in known:
            budget = budget.in_machine()
        if budget.states is None and max_states is not None:
            budget = budget.at_most(states=max_states)
        chance = options.get("seed", seed) if "seed" in known else None
        if chance is not None:
            chance = count(chance, "seed", least=0)
        return cls(budget, stopwatch(), chance, options.get("workers"))

    def account(self) -> Account:
        """Return what every result says of the work: its seconds and its seed."""
        ended = getattr(self.budget.on_progress, "end", None)
        if ended is not None:
            ended()
        return {"seconds": self.spent(), "seed": self.seed}

    def tell(self, what: str | None = None, **counts: Any) -> None:
        """Say which phase begins, with counts by name, if somebody listens to phases."""
        listener = getattr(self.budget.on_progress, "tell", None)
        if listener is not None:
            listener(what, **counts)

    @property
    def chance(self) -> int:
        """The seed."""
        return self.seed or 0

    @property
    def is_cluster(self) -> bool:
        """Whether a Ray cluster works."""
        return is_cluster(self.workers)

    def threads(self, most: int = MANY) -> int:
        """Return the number of threads here: every core, but no more than `most`, where nothing else is said."""
        return threads_of(self.workers, most)

    def threads_here(self) -> int:
        """Return the number of threads here: every core where a cluster does the rest."""
        return threads_of("all" if self.is_cluster else self.workers)

    @contextmanager
    def crew(self, task: Task, policy: Path | None = None) -> Iterator[Crew | None]:
        """Connect to the Ray cluster, and pack what its processes need; None where none works."""
        if not self.is_cluster:
            yield None
            return
        from polvet.workers.parcel import pack
        from polvet.workers.protocol import Crew

        parcel = pack(task, policy=policy)
        with self.cluster() as cluster:
            assert cluster is not None
            yield Crew(cluster, parcel)

    @contextmanager
    def cluster(self) -> Iterator[Workers | None]:
        """Connect to the Ray cluster; None where none works."""
        if not self.is_cluster:
            yield None
            return
        from polvet.workers.ray_cluster import open_cluster

        with open_cluster(str(self.workers).removeprefix(RAY)) as cluster:
            yield cluster


def budget_of(
    time_limit: float | None = None,
    memory_limit: int | None = None,
    max_states: int | None = None,
    progress: bool | Callable[[int, int], Any] = False,
) -> Budget:
    """Return the budget, which begins now."""
    for name, value in (("time_limit", time_limit), ("memory_limit", memory_limit), ("max_states", max_states)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise InputError(f"{value!r} is no limit.", Where(name), "Give a number above 0, or None.")
    return Budget(time_limit, memory_limit, max_states, listener_of(progress))


def is_cluster(workers: int | str | None) -> bool:
    """Return whether a Ray cluster is asked for."""
    return isinstance(workers, str) and workers.startswith(RAY)


def threads_of(workers: int | str | None, most: int = MANY) -> int:
    """Return the number of threads: a number, or None and 'all' for every core, but no more than there are tasks."""
    if workers is None or workers == "all":
        return max(1, min(os.cpu_count() or 1, most))
    if is_cluster(workers):
        hint = "Give a number of threads, or 'all'; see docs/scale.md."
        raise InputError("this runs on one machine.", Where("workers"), hint)
    number = int(workers) if isinstance(workers, str) and workers.isdigit() else workers
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"{workers!r} is no number of threads.", Where("workers"), "Give 1 or more, or 'all'.")
    return number
