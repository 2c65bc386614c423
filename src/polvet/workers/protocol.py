"""Workers: one way to have a function applied to chunks of work, here or elsewhere; `Crew` gives them what all chunks need.

Repeatable   a chunk names its own seed or run numbers, results come in the order of the chunks: neither the number of workers
             nor which of them dies changes what comes out
Lost work    a chunk whose worker dies is done again by another; only a chunk that kills several workers is given up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, TypeVar

from polvet.errors import LimitReached
from polvet.workers.parcel import Parcel

Shared = TypeVar("Shared")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Workers(Protocol):
    """Whoever can apply a function of a module to chunks, all of which need the same shared thing."""

    def map(
        self, function: Callable[[Shared, Chunk], Result], shared: Shared, chunks: Iterable[Chunk], *,
        seconds: float | None = None,
    ) -> Iterator[Result]:  # fmt: skip
        """Yield function(shared, chunk) for each chunk, in order; raise LimitReached when the seconds are over."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """The process itself does one chunk after the other."""

    def map(
        self, function: Callable[[Shared, Chunk], Result], shared: Shared, chunks: Iterable[Chunk], *,
        seconds: float | None = None,
    ) -> Iterator[Result]:  # fmt: skip
        """Yield function(shared, chunk) for each chunk, in order; raise LimitReached when the seconds are over."""
        begun = monotonic()
        for chunk in chunks:
            if seconds is not None and monotonic() - begun > seconds:
                raise time_is_up(seconds)
            yield function(shared, chunk)


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers that have one task and one policy at hand."""

    workers: Workers
    parcel: Parcel

    def map(
        self, function: Callable[[Parcel, Chunk], Result], chunks: Iterable[Chunk], *, seconds: float | None = None
    ) -> Iterator[Result]:
        """Yield function(parcel, chunk) for each chunk, in order; raise LimitReached when the seconds are over."""
        return self.workers.map(function, self.parcel, chunks, seconds=seconds)


def time_is_up(seconds: float) -> LimitReached:
    """Return the limit on time that was reached."""
    return LimitReached(f"time limit of {seconds:g} s reached", "--time-limit")
