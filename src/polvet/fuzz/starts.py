"""Start states for fuzzing: drawn uniformly, or searched for by changing and crossing those that came near `fail`.

Source   evolutionary test generation (McMinn, Search-based software test data generation: a survey, 2004): tournament
         selection, uniform crossover over the variables that differ between starts, small steps and pairs of opposite
         steps as mutation (these keep sums); what is no start state is thrown away and replaced by a fresh draw
Cost     a start costs one look at the start condition per child; runs decide how good it is
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polvet.kernel.compiled import Compiled, Words
from polvet.kernel.starts import Starts
from polvet.model.network import Kind
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task

TOURNAMENT = 4
FRESH = 0.25
"""The share of every generation that is drawn anew: no start state is ever out of reach."""


def start_test(task: Task) -> Callable[[State], bool]:
    """Return the function that tells whether a state is a start state of the task."""
    semantics = Semantics(task.network)
    if task.start is not None:
        holds = semantics.compile(task.start)
        return lambda state: bool(holds(state))
    holds = semantics.compile(task.network.initial_condition)
    fixed = [(k, v.initial) for k, v in enumerate(task.network.variables) if v.initial is not None]
    return lambda state: all(state[k] == value for k, value in fixed) and bool(holds(state))


@dataclass(slots=True, eq=False)
class Population:
    """Start states with the least distance to `fail` their runs came to; `breed` makes the next generation of them."""

    task: Task
    compiled: Compiled
    starts: Starts
    rng: random.Random
    size: int = 512
    rows: NDArray[np.int64] = field(init=False)
    fitness: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        width = len(self.task.network.variables)
        self.rows = np.zeros((0, width), dtype=np.int64)
        self.fitness = np.zeros(0, dtype=np.float64)
        self._is_start = start_test(self.task)
        self._kinds = [variable.kind for variable in self.task.network.variables]

    _is_start: Callable[[State], bool] = field(init=False)
    _kinds: list[Kind] = field(init=False)

    def draw(self, count: int) -> Words:
        """Return start states drawn uniformly and independently, packed."""
        return self.compiled.pack(self.starts.sample(count, self.rng))

    def breed(self, count: int) -> Words:
        """Return the next generation, packed: children of the best so far, and some fresh draws."""
        if len(self.rows) < TOURNAMENT:
            return self.draw(count)
        free = np.flatnonzero((self.rows != self.rows[0]).any(axis=0))
        children: list[State] = []
        for _ in range(round(count * (1 - FRESH))):
            child = self._child(free)
            if child is not None:
                children.append(child)
        fresh = self.starts.sample(count - len(children), self.rng)
        return self.compiled.pack([*children, *fresh])

    def learn(self, starts: Words, nearest: NDArray[np.float64]) -> None:
        """Keep the fittest of what was known and these; equal states once."""
        rows = np.concatenate([self.rows, self.compiled.machine.unpack(np.ascontiguousarray(starts))])
        fitness = np.concatenate([self.fitness, nearest])
        order = np.argsort(fitness, kind="stable")
        _, first = np.unique(rows[order], axis=0, return_index=True)
        kept = order[np.sort(first)[: self.size]]
        self.rows, self.fitness = rows[kept], fitness[kept]

    def _parent(self) -> NDArray[np.int64]:
        picks = [self.rng.randrange(len(self.rows)) for _ in range(TOURNAMENT)]
        best: NDArray[np.int64] = self.rows[min(picks, key=lambda k: (self.fitness[k], k))]
        return best

    def _child(self, free: NDArray[np.int64]) -> State | None:
        row = self._parent().copy()
        if len(free) == 0:
            return None
        if self.rng.random() < 0.5:
            other = self._parent()
            for place in free.tolist():
                if self.rng.random() < 0.5:
                    row[place] = other[place]
        else:
            self._mutate(row, free)
        state = self._state(row)
        return state if state is not None and self._is_start(state) else None

    def _mutate(self, row: NDArray[np.int64], free: NDArray[np.int64]) -> None:
        place = self.rng.choice(free.tolist())
        kind = self._kinds[place]
        if kind is Kind.BOOL:
            row[place] = 1 - row[place]
        elif kind is Kind.REAL:
            reals = self.rows[:, place].view(np.float64)
            spread = float(reals.max() - reals.min()) or 1.0
            value = float(row[place : place + 1].view(np.float64)[0]) + self.rng.gauss(0.0, 0.05) * spread
            row[place : place + 1] = np.array([value + 0.0]).view(np.int64)
        else:
            step = self.rng.choice((-1, 1)) * (1 + min(8, int(self.rng.expovariate(1.0))))
            row[place] += step
            partners = [p for p in free.tolist() if p != place and self._kinds[p] is Kind.INT]
            if partners and self.rng.random() < 0.5:
                row[self.rng.choice(partners)] -= step

    def _state(self, row: NDArray[np.int64]) -> State | None:
        values: list[int | float | bool] = []
        for k, (bits, variable) in enumerate(zip(row.tolist(), self.task.network.variables, strict=True)):
            value: int | float | bool = bits
            if variable.kind is Kind.REAL:
                value = float(row[k : k + 1].view(np.float64)[0])
            elif variable.kind is Kind.BOOL:
                value = bool(bits)
            low = variable.lower is not None and value < variable.lower
            if low or (variable.upper is not None and value > variable.upper):
                return None
            values.append(value)
        return tuple(values)
