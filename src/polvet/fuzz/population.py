"""Start states for fuzzing: drawn uniformly, or searched for by changing and crossing those that came near `fail`.

Source   evolutionary test generation (McMinn, Search-based software test data generation: a survey, 2004): tournament
         selection, uniform crossover over the variables that differ between starts, small steps and pairs of opposite
         steps as mutation (these keep sums); what is no start state is thrown away and replaced by a fresh draw
Cost     a start costs one look at the start condition per child; runs decide how good it is
"""

from __future__ import annotations

import random
from math import inf

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.kernel.compiled import Compiled, Words
from polvet.kernel.starts import Starts
from polvet.model.network import Kind

TOURNAMENT = 4
FRESH = 0.25
"""The share of every generation that is drawn anew: no start state is ever out of reach."""

SIZE = 512


class Population:
    """Start states with the least distance to `fail` their runs came to; `breed` makes the next generation of them."""

    def __init__(self, compiled: Compiled, condition: int, starts: Starts, rng: random.Random) -> None:
        self.compiled, self.condition, self.starts, self.rng = compiled, condition, starts, rng
        variables = compiled.network.variables
        self.rows: NDArray[np.int64] = np.zeros((0, len(variables)), dtype=np.int64)  # reals as the bits of a double
        self.fitness: NDArray[np.float64] = np.zeros(0, dtype=np.float64)  # ascending: the first row is the fittest
        self._reals = np.array([v.kind is Kind.REAL for v in variables])
        self._booleans = np.array([v.kind is Kind.BOOL for v in variables])
        lower = [0 if v.kind is Kind.BOOL else -inf if v.lower is None else float(v.lower) for v in variables]
        upper = [1 if v.kind is Kind.BOOL else inf if v.upper is None else float(v.upper) for v in variables]
        self._lower, self._upper = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)

    def draw(self, count: int, budget: Budget = UNLIMITED) -> Words:
        """Return start states drawn uniformly and independently, packed."""
        return self.compiled.pack(self.starts.sample(count, self.rng, budget=budget))

    def breed(self, count: int) -> Words:
        """Return the next generation, packed: children of the best so far, and some fresh draws."""
        free = (
            np.flatnonzero((self.rows != self.rows[:1]).any(axis=0)) if len(self.rows) else np.zeros(0, dtype=np.int64)
        )
        if not len(free):
            return self.draw(count)
        chance = np.random.default_rng(self.rng.getrandbits(64))
        wanted = round(count * (1 - FRESH))
        children = self._mutated(self._crossed(wanted, free, chance), free, chance)
        values = self._values(children)
        inside = ((values >= self._lower) & (values <= self._upper)).all(axis=1)
        packed = self.compiled.machine.pack(np.ascontiguousarray(children[inside]))
        # SOUND: only start states are ever handed out; what the operators above made of them is thrown away otherwise.
        packed = packed[self.compiled.machine.holds(self.condition, packed).astype(np.bool_)]
        return np.concatenate([packed, self.draw(count - len(packed))])

    def learn(self, starts: Words, nearest: NDArray[np.float64]) -> None:
        """Keep the fittest of what was known and these; equal states once."""
        rows = np.concatenate([self.rows, self.compiled.machine.unpack(np.ascontiguousarray(starts))])
        fitness = np.concatenate([self.fitness, nearest])
        order = np.argsort(fitness, kind="stable")
        _, first = np.unique(rows[order], axis=0, return_index=True)
        kept = order[np.sort(first)[:SIZE]]
        self.rows, self.fitness = rows[kept], fitness[kept]

    def _parents(self, count: int, chance: np.random.Generator) -> NDArray[np.int64]:
        picks = chance.integers(len(self.rows), size=(count, TOURNAMENT)).min(axis=1)  # the fittest stand first
        picked: NDArray[np.int64] = self.rows[picks]
        return picked

    def _crossed(self, count: int, free: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
        """Return children of one parent each, half of them with some variables of another."""
        children = self._parents(count, chance).copy()
        crossed = chance.random(count) < 0.5
        swap = np.zeros(children.shape, dtype=np.bool_)
        swap[:, free] = chance.random((count, len(free))) < 0.5
        swap &= crossed[:, None]
        children[swap] = self._parents(count, chance)[swap]
        return children

    def _mutated(
        self, rows: NDArray[np.int64], free: NDArray[np.int64], chance: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the rows with one free variable changed in most of them; half the time another takes the opposite step."""
        count = len(rows)
        line = np.flatnonzero(chance.random(count) < 0.75)
        place = chance.choice(free, size=len(line))
        step = chance.choice(np.array([-1, 1]), size=len(line)) * (
            1 + np.minimum(8, chance.exponential(1.0, len(line)).astype(np.int64))
        )
        whole = ~self._reals[place] & ~self._booleans[place]
        rows[line[whole], place[whole]] += step[whole]
        flipped = self._booleans[place]
        rows[line[flipped], place[flipped]] ^= 1
        real = self._reals[place]
        if real.any():
            values, known = self._values(rows), self._values(self.rows)
            spread = (known.max(axis=0) - known.min(axis=0))[place[real]]
            moved = values[line[real], place[real]] + chance.normal(0.0, 0.05, int(real.sum())) * spread + 0.0
            rows[line[real], place[real]] = moved.view(np.int64)
        partner = chance.choice(free, size=len(line))
        paired = whole & ~self._reals[partner] & ~self._booleans[partner] & (partner != place)
        paired &= chance.random(len(line)) < 0.5
        rows[line[paired], partner[paired]] -= step[paired]
        return rows

    def _values(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows as numbers."""
        values = rows.astype(np.float64)
        if self._reals.any():
            values[:, self._reals] = np.ascontiguousarray(rows[:, self._reals]).view(np.float64)
        return values
