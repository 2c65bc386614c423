"""What is known of costs that only experience tells: a lower and an upper bound per choice (state and action).

promised   every cost of a choice lies between its `lower` and `upper`: l(s,a) <= cost <= u(s,a) of the paper
fixed      (no confidence) a cost depends on the state, the action and the state that follows; one visit tells it, and another one for the
           same step is a contradiction. The cost of a choice is the mean over what may follow; what was not seen counts as promised
random     (a confidence) a cost is drawn anew each time, and the mean is asked for: Hoeffding's interval around what was seen, with a
           union bound over all choices and all numbers of visits, so that all bounds hold at all times with at least that confidence
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polvet.mdp.sparse import Float64s, Mask, SparseMdp

ROUNDING = 2.0**-40
"""How far a mean is widened, relatively: more than the doubles of its probabilities and its sum can be off."""


class Contradiction(Exception):
    """A cost that was not promised, or not the one that was seen before."""


class CostBook:
    """Costs as they were paid, and the bounds that follow."""

    def __init__(self, mdp: SparseMdp, lower: Float64s, upper: Float64s, confidence: float | None = None) -> None:
        self.mdp, self.lower, self.upper, self.confidence = mdp, lower, upper, confidence
        self.visits: NDArray[np.int64] = np.zeros(mdp.choices, dtype=np.int64)
        self._paid = np.full(mdp.branches, math.nan)
        self._total = np.zeros(mdp.choices)

    @property
    def visited(self) -> Mask:
        """Which choices were taken."""
        return np.asarray(self.visits > 0)

    @property
    def known(self) -> int:
        """How much is known: steps whose cost was seen, or, of random costs, how often one was paid."""
        return int((~np.isnan(self._paid)).sum()) if self.confidence is None else int(self.visits.sum())

    def note(self, choice: int, target: int, cost: float) -> None:
        """Note what the choice cost when it led to the target."""
        low, high = float(self.lower[choice]), float(self.upper[choice])
        if not low <= cost <= high:
            raise Contradiction(f"the cost {cost:g} is outside [{low:g}, {high:g}]")
        self.visits[choice] += 1
        if self.confidence is not None:
            self._total[choice] += cost
            return
        begin, end = int(self.mdp.branch_start[choice]), int(self.mdp.branch_start[choice + 1])
        for branch in range(begin, end):
            if self.mdp.target[branch] == target:
                before = float(self._paid[branch])
                if before != cost and not math.isnan(before):
                    raise Contradiction(f"the cost was {before:g} and is {cost:g}")
                self._paid[branch] = cost

    def bounds(self) -> tuple[Float64s, Float64s]:
        """Return a lower and an upper bound on the mean cost of each choice.

        >>> mdp = SparseMdp.build([[[(0, 0.5), (1, 0.5)]], []])
        >>> book = CostBook(mdp, np.zeros(1), np.full(1, 8.0))
        >>> book.note(0, 1, 2.0)
        >>> [round(float(side[0]), 9) for side in book.bounds()]
        [1.0, 5.0]
        """
        if not self.mdp.choices:
            return self.lower, self.upper
        if self.confidence is not None:
            return self._interval(1 - self.confidence)
        owners = np.repeat(np.arange(self.mdp.choices), np.diff(self.mdp.branch_start).astype(np.int64))
        seen = ~np.isnan(self._paid)
        sides = [np.where(seen, self._paid, side[owners]) for side in (self.lower, self.upper)]
        return self._mean(sides[0], -1.0), self._mean(sides[1], 1.0)

    def _mean(self, costs: Float64s, side: float) -> Float64s:
        """Return the mean of the costs of each choice's branches, rounded outward; exact where they are all the same."""
        starts = self.mdp.branch_start[:-1].astype(np.int64)
        base = np.minimum.reduceat(costs, starts)
        widths = np.diff(self.mdp.branch_start).astype(np.int64)
        excess = np.add.reduceat(self.mdp.probability * (costs - np.repeat(base, widths)), starts)
        rough = base + excess * (1 + side * ROUNDING)
        return np.where(excess > 0, rough + side * ROUNDING * np.abs(rough), base)

    def _interval(self, doubt: float) -> tuple[Float64s, Float64s]:
        visits = np.maximum(1, self.visits).astype(np.float64)
        mean = self._total / visits
        # SOUND: the sum over n >= 1 of 1 / (n (n + 1)) is 1, so the doubts of all choices and numbers of visits add up to `doubt`.
        radius = (self.upper - self.lower) * np.sqrt(
            np.log(2 * self.mdp.choices * visits * (visits + 1) / doubt) / (2 * visits)
        )
        low = np.maximum(self.lower, mean - radius - ROUNDING * mean)
        high = np.minimum(self.upper, mean + radius + ROUNDING * mean)
        return np.where(self.visits > 0, low, self.lower), np.where(self.visits > 0, high, self.upper)
