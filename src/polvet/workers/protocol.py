"""Workers: one way to have a function applied to chunks of work, here or elsewhere; `Crew` gives them what all chunks need.

Repeatable   a chunk names its own seed or run numbers, results come in the order of the chunks: neither the number of workers
             nor which of them dies changes what comes out
Lost work    a chunk whose worker dies is done again by another; only a chunk that kills several workers is given up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from polvet.budget import UNLIMITED, Budget
from polvet.workers.parcel import Parcel

Shared = TypeVar("Shared")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Workers(Protocol):
    """Whoever can apply a function of a module to chunks, all of which need the same shared thing."""

    def map(
        self,
        function: Callable[[Shared, Chunk], Result],
        shared: Shared,
        chunks: Iterable[Chunk],
        *,
        budget: Budget = UNLIMITED,
    ) -> Iterator[Result]:
        """Yield function(shared, chunk) for each chunk, in order; raise LimitReached when the budget is used up."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """The process itself does one chunk after the other."""

    def map(
        self,
        function: Callable[[Shared, Chunk], Result],
        shared: Shared,
        chunks: Iterable[Chunk],
        *,
        budget: Budget = UNLIMITED,
    ) -> Iterator[Result]:
        """Yield function(shared, chunk) for each chunk, in order; raise LimitReached when the budget is used up."""
        for chunk in chunks:
            budget.check()
            yield function(shared, chunk)


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers that have one task and one policy at hand."""

    workers: Workers
    parcel: Parcel

    def map(
        self, function: Callable[[Parcel, Chunk], Result], chunks: Iterable[Chunk], *, budget: Budget = UNLIMITED
    ) -> Iterator[Result]:
        """Yield function(parcel, chunk) for each chunk, in order; raise LimitReached when the budget is used up."""
        return self.workers.map(function, self.parcel, chunks, budget=budget)
