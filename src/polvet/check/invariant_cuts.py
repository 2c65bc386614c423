"""Where to cut boxes of states so that the parts are decided: along blocked boxes, along guards, else in the middle.

A cut is a variable and a value for each box, arrays [n]: the part up to the value, and the part above it; variable -1 means that
there is no such cut. Any cut is sound; a good one saves many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import interval
from polvet.check.invariant_claim import Question
from polvet.check.invariant_conditions import rows_of
from polvet.check.invariant_rows import Ints, contract
from polvet.model.expressions import TRUE, Expression, conjunction, conjuncts

Bools = npt.NDArray[np.bool_]
Cut = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class Guards:
    """Guards of one label's operators, each a box and a condition that is left."""

    lower: Ints
    upper: Ints
    rest: tuple[Expression, ...]

    def near(self, lower: Ints, upper: Ints) -> Guards:
        """Return those that may hold somewhere in one box."""
        kept: Bools = np.all((self.lower <= upper) & (self.upper >= lower), axis=1)
        return Guards(
            self.lower[kept], self.upper[kept], tuple(one for one, k in zip(self.rest, kept, strict=True) if k)
        )

    def truth(self, asked: Question, lower: Ints, upper: Ints) -> tuple[Bools, Bools]:
        """Return [n, guards]: does it hold everywhere in the box, may it hold somewhere."""
        always: Bools = np.all((lower[:, None, :] >= self.lower) & (upper[:, None, :] <= self.upper), axis=2)
        possible: Bools = np.all((lower[:, None, :] <= self.upper) & (upper[:, None, :] >= self.lower), axis=2)
        for k, condition in enumerate(self.rest):
            if condition != TRUE:
                low, high = interval(condition, asked.place, lower.astype(np.float64), upper.astype(np.float64))
                always[:, k] &= low == 1
                possible[:, k] &= high != 0
        return always, possible


def guards_of(asked: Question) -> list[Guards]:
    """Return the guards of each output's label, those left out that never hold."""
    found: list[list[tuple[Ints, Ints, Expression]]] = [[] for _ in asked.fitted.labels]
    for operator in asked.operators:
        if operator.output < 0:
            continue
        lower, upper = asked.lower[None, :].copy(), asked.upper[None, :].copy()
        alone, parts = [], []
        for part in conjuncts(operator.guard):
            rows, _ = rows_of(asked, [part])
            used = np.flatnonzero(rows[0].coefficients).tolist() if rows else []
            if len(used) == 1 and used[0] < len(asked.place):  # exactly an interval of one variable
                alone += rows
            else:
                parts.append(part)
        lower, upper = contract(lower, upper, alone)
        if len(lower):
            found[operator.output].append((lower[0], upper[0], conjunction(*parts)))
    width = len(asked.place)
    return [
        Guards(
            np.array([one[0] for one in mine], dtype=np.int64).reshape(-1, width),
            np.array([one[1] for one in mine], dtype=np.int64).reshape(-1, width),
            tuple(one[2] for one in mine),
        )
        for mine in found
    ]


def shaved(lower: Ints, upper: Ints, blocked: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Return the boxes without what blocked boxes take off at an end; boxes that are all blocked are dropped."""
    for low, high in zip(*blocked, strict=True):
        meets = ((lower <= high) & (upper >= low)).all(axis=1)
        if not meets.any():
            continue
        sticks_out = (lower < low) | (upper > high)
        count = sticks_out.sum(axis=1)
        gone = meets & (count == 0)
        one = np.flatnonzero(meets & (count == 1))
        side = sticks_out[one].argmax(axis=1)
        begins, ends = lower[one, side] >= low[side], upper[one, side] <= high[side]
        lower[one[begins], side[begins]] = high[side[begins]] + 1
        upper[one[ends], side[ends]] = low[side[ends]] - 1
        if gone.any():
            lower, upper = lower[~gone], upper[~gone]
    return lower, upper


def along_boxes(lower: Ints, upper: Ints, boxes: tuple[Ints, Ints], least: float) -> Cut:
    """Return a cut along the face of the box that takes the greatest part of each, if it takes more than `least` of it."""
    count = len(lower)
    variable, value = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    best = np.full(count, least)
    width = (upper - lower + 1).astype(np.float64)
    every = np.arange(count)
    for low, high in zip(*boxes, strict=True):
        inner_low, inner_high = np.maximum(lower, low), np.minimum(upper, high)
        share = np.maximum(inner_high - inner_low + 1, 0) / width
        part = share.prod(axis=1)
        at = share.argmin(axis=1)
        better = (part > best) & (share[every, at] < 1)
        if not better.any():
            continue
        best = np.where(better, part, best)
        variable = np.where(better, at, variable)
        from_below = inner_low[every, at] > lower[every, at]
        where = np.where(from_below, inner_low[every, at] - 1, inner_high[every, at])
        value = np.where(better, where, value)
    return variable, value


def in_the_middle(lower: Ints, upper: Ints, weight: npt.NDArray[np.float64]) -> Cut:
    """Return a cut of the side with the greatest weight, in its middle; of the widest where no weight tells."""
    width = upper - lower
    weight = np.where(width > 0, np.where(np.isfinite(weight), weight, 1.0), -1.0)
    flat = weight.max(axis=1) <= 0
    weight[flat] = width[flat]
    variable = weight.argmax(axis=1)
    every = np.arange(len(lower))
    return variable, lower[every, variable] + width[every, variable] // 2


def first_of(cuts: Sequence[Cut]) -> Cut:
    """Return for each box the first cut that there is."""
    variable, value = cuts[0]
    for other, other_value in cuts[1:]:
        none = variable < 0
        variable, value = np.where(none, other, variable), np.where(none, other_value, value)
    return variable, value


def split(lower: Ints, upper: Ints, cut: Cut) -> tuple[Ints, Ints]:
    """Return the two parts of each box."""
    variable, value = cut
    every = np.arange(len(lower))
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[every, variable] = value
    right_lower[every, variable] = value + 1
    return np.concatenate([lower, right_lower]), np.concatenate([left_upper, upper])
