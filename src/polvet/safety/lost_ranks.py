"""Ranks of a relaxed game: how many steps `fail` can be put off at most, and boxes in which that number is affine.

Source   attractors, computed backwards layer by layer (Thomas, On the synthesis of strategies in infinite games, 1995)
Idea     on a line, what is lost is put off by one step for each package that may be picked up and by two for each place that is left: a
         few boxes with a rank of a few slopes say of a hundred thousand combinations why each of them is lost (check/lost_boxes.py)
Cost     linear in the game; a box is grown greedily, a slab at a time
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.kernel.compiled import Compiled, Words
from polvet.safety.decide import FAIL, GOAL

Ranks = NDArray[np.int32]


def ranks_of(compiled: Compiled, states: Words, *, budget: Budget = UNLIMITED) -> Ranks | None:
    """Return the rank of each of all the states of a game, -1 where it is not lost; None where a limit comes first."""
    space = compiled.explore(states, build=True, stop_at=[FAIL, GOAL], budget=budget)
    if space.status != _core.Status.DONE or len(space) != len(states):
        return None
    assert (space.initial == np.arange(len(states))).all()
    fail, goal = space.mask(FAIL) != 0, space.mask(GOAL) != 0
    choice_start, target_start, targets, *_ = space.take_matrix()
    first, ends = choice_start.astype(np.int64), target_start.astype(np.int64)
    owner = np.repeat(np.arange(len(states)), np.diff(first))  # of a choice
    choice = np.repeat(np.arange(len(ends) - 1), np.diff(ends))  # of an outcome
    order = np.argsort(targets, kind="stable")
    into = np.searchsorted(targets[order], np.arange(len(states) + 1))
    ranks = np.where(fail, 0, -1).astype(np.int32)
    left, bad, layer = np.diff(first), np.zeros(len(ends) - 1, dtype=np.bool_), 0
    fresh = np.flatnonzero(fail)
    while len(fresh):
        counts = into[fresh + 1] - into[fresh]
        places = np.repeat(into[fresh] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        worse = np.unique(choice[order[places]])
        worse = worse[~bad[worse]]
        bad[worse] = True
        mine, lost = np.unique(owner[worse], return_counts=True)
        left[mine] -= lost
        layer += 1
        fresh = mine[(left[mine] == 0) & ~goal[mine] & (ranks[mine] < 0)]
        ranks[fresh] = layer
    return ranks


@dataclass(frozen=True, slots=True)
class RankedBox:
    """Numbers of values from `low` to `high`, both inclusive, with the rank at `low` and how it grows along each axis."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    rank: int
    slopes: tuple[int, ...]


def ranked_boxes(ranks: Ranks, flat: Collection[int] = ()) -> list[RankedBox]:
    """Return boxes in which ranks are affine, and that hold all of rank 1 and more; along `flat` axes the last value is told apart.

    >>> ranked_boxes(np.array([[0, 1, 2], [-1, 3, 4]], dtype=np.int32))
    [RankedBox(low=(0, 1), high=(1, 2), rank=1, slopes=(2, 1))]
    """
    left, boxes = ranks > 0, []
    axes = sorted(range(ranks.ndim), key=lambda axis: -ranks.shape[axis])
    while left.any():
        at = tuple(int(place) for place in np.unravel_index(int(np.argmax(left)), ranks.shape))
        box = RankedBox(at, at, int(ranks[at]), (0,) * ranks.ndim)
        for axis, by in product(axes, (1, -1)):
            while (larger := _grown(ranks, box, axis, by, flat=axis in flat)) is not None:
                box = larger
        left[_slices(box)] = False
        boxes.append(box)
    return boxes


def _grown(ranks: Ranks, box: RankedBox, axis: int, by: int, *, flat: bool) -> RankedBox | None:
    """Return the box with one more slab along the axis, None where ranks are not affine there."""
    end = (box.high if by > 0 else box.low)[axis]
    beyond = end + by
    if not 0 <= beyond < ranks.shape[axis]:
        return None
    slabs = [ranks[(*_slices(box)[:axis], slice(k, k + 1), *_slices(box)[axis + 1 :])] for k in (end, beyond)]
    if (slabs[1] <= 0).any():
        return None
    change = by * (slabs[1] - slabs[0])
    slope = int(change.flat[0])
    if (change != slope).any() or (box.low[axis] < box.high[axis] and slope != box.slopes[axis]):
        return None
    if flat and slope and max(end, beyond) == ranks.shape[axis] - 1:
        return None  # the last value stands for all greater ones, which have one rank
    slopes = (*box.slopes[:axis], slope, *box.slopes[axis + 1 :])
    if by > 0:
        return replace(box, high=(*box.high[:axis], beyond, *box.high[axis + 1 :]), slopes=slopes)
    return RankedBox((*box.low[:axis], beyond, *box.low[axis + 1 :]), box.high, box.rank - slope, slopes)


def _slices(box: RankedBox) -> tuple[slice, ...]:
    return tuple(slice(low, high + 1) for low, high in zip(box.low, box.high, strict=True))
