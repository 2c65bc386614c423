"""Where to cut boxes of states so that the parts are decided: along blocked boxes, along guards, else in the middle.

A cut is a variable and a value for each box, arrays [n]: the part up to the value, and the part above it; variable -1 means that
there is no such cut. Any cut is sound; a good one saves many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Cut = tuple[Ints, Ints]


def by_boxes(lower: Ints, upper: Ints, boxes: tuple[Ints, Ints]) -> tuple[Ints, Cut]:
    """Return which listed box holds all of each box (-1: none does), and else a cut one part of which a listed box holds."""
    count = len(lower)
    holder = np.full(count, -1, dtype=np.int64)
    variable, value = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for k, (low, high) in enumerate(zip(*boxes, strict=True)):
        meets = ((lower <= high) & (upper >= low)).all(axis=1)
        if not meets.any():
            continue
        sticks_out = (lower < low) | (upper > high)
        outside = sticks_out.sum(axis=1)
        holder[meets & (outside == 0)] = k
        one = np.flatnonzero(meets & (outside == 1) & (variable < 0))
        side = sticks_out[one].argmax(axis=1)
        begins, ends = lower[one, side] >= low[side], upper[one, side] <= high[side]
        variable[one[begins | ends]] = side[begins | ends]
        value[one[begins]] = high[side[begins]]
        value[one[ends]] = low[side[ends]] - 1
    return holder, (variable, value)


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
