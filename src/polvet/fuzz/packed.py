"""Runs of a policy as the kernel keeps them: packed states in one array, unfolded one by one when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from polvet.kernel.compiled import Words
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Run


@dataclass(frozen=True, slots=True, eq=False)
class PackedRuns(Sequence[Run]):
    """Runs in one block: run k has the states [begin[k], begin[k + 1]), and one label less."""

    bound: Bound
    states: Words
    begin: NDArray[np.uint64]
    labels: NDArray[np.int32]  # run k's begin at begin[k] - k; -1: silent
    ends: NDArray[np.uint8]

    @classmethod
    def none(cls, bound: Bound) -> PackedRuns:
        """Return no run."""
        return cls.of(bound, ())

    @classmethod
    def of(cls, bound: Bound, runs: Iterable[Run]) -> PackedRuns:
        """Return the runs packed."""
        number = {label: k for k, label in enumerate(bound.task.network.labels)}
        states: list[State] = []
        labels: list[int] = []
        begin, ends = [0], []
        for run in runs:
            states += run.states
            labels += [-1 if label is None else number[label] for label in run.actions]
            begin.append(len(states))
            ends.append(run.end)
        return cls(
            bound,
            bound.compiled.pack(states),
            np.array(begin, dtype=np.uint64),
            np.array(labels, dtype=np.int32),
            np.array(ends, dtype=np.uint8),
        )

    @classmethod
    def joined(cls, bound: Bound, parts: Sequence[PackedRuns]) -> PackedRuns:
        """Return the runs of all parts, in order."""
        if not parts:
            return cls.none(bound)
        begin = [np.zeros(1, dtype=np.uint64)]
        total = np.uint64(0)
        for part in parts:
            begin.append(part.begin[1:] + total)
            total += part.begin[-1]
        return cls(
            bound,
            np.concatenate([part.states for part in parts]),
            np.concatenate(begin),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.ends for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.begin) - 1

    def __iter__(self) -> Iterator[Run]:
        return (self.run(k) for k in range(len(self)))

    @overload
    def __getitem__(self, item: int) -> Run: ...
    @overload
    def __getitem__(self, item: slice) -> tuple[Run, ...]: ...
    def __getitem__(self, item: int | slice) -> Run | tuple[Run, ...]:
        if isinstance(item, slice):
            return tuple(self.run(k) for k in range(*item.indices(len(self))))
        if not -len(self) <= item < len(self):
            raise IndexError(item)
        return self.run(item % len(self))

    def run(self, k: int) -> Run:
        """Return run number k."""
        first, after = int(self.begin[k]), int(self.begin[k + 1])
        labels = self.labels[first - k : after - k - 1]
        states = tuple(self.bound.compiled.unpack(self.states[first:after]))
        return Run(states, tuple(self.bound.label(number) for number in labels.tolist()), End(int(self.ends[k])))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return how many steps each run has."""
        begin = self.begin.astype(np.int64)
        return begin[1:] - begin[:-1] - 1
