"""Labelled states as boxes: a decision tree cuts them until every box holds states of one label only.

Source   CART (Breiman, Friedman, Olshen, Stone 1984): the cut that lessens the Gini impurity most comes first
Differs  it is grown until it makes no mistake, so that the boxes say exactly which of the given states have which label; of other
         states they say nothing. Where the time or the boxes run out, what is still mixed gets the label MIXED
Cost     one pass over a box's states and variables per cut
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget

MIXED = -1
"""The label of a box that was not told apart in time."""
MOST_BOXES = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class LabelledBox:
    """The ends that cuts gave a box, by place, the label of its states, and the rows they stand in."""

    ends: dict[int, tuple[int | float, int | float]]
    label: int
    rows: npt.NDArray[np.int64]


def cover(
    columns: list[npt.NDArray[np.int64] | npt.NDArray[np.float64]],
    labels: npt.NDArray[np.int64],
    *,
    budget: Budget = UNLIMITED,
    most: int = MOST_BOXES,
) -> list[LabelledBox]:
    """Return boxes, no two with a state in common, that hold all the states; columns are the values of each variable.

    >>> x = np.array([0, 1, 2, 3, 4]); y = np.zeros(5, dtype=np.int64)
    >>> [(box.ends, box.label) for box in cover([x, y], np.array([1, 1, 0, 0, 0]))]
    [({0: (0, 1)}, 1), ({0: (2, 4)}, 0)]
    """
    values, codes = [], []
    for column in columns:
        distinct, numbers = np.unique(column, return_inverse=True)
        values.append(distinct)
        codes.append(numbers)
    table = np.stack(codes, axis=1) if codes else np.zeros((len(labels), 0), dtype=np.int64)
    whole = [(0, len(distinct) - 1) for distinct in values]
    boxes: list[LabelledBox] = []
    pending = [(np.arange(len(labels)), tuple(whole))] if len(labels) else []
    while pending:
        rows, bounds = pending.pop()
        mine = labels[rows]
        cut = None
        label = int(mine[0])
        if (mine != label).any():
            cut = None if len(boxes) + len(pending) >= most or budget.is_over() else best_cut(table[rows], mine)
            label = MIXED
        if cut is None:
            ends = {
                place: (values[place][low].item(), values[place][high].item())
                for place, (low, high) in enumerate(bounds)
                if (low, high) != whole[place]
            }
            boxes.append(LabelledBox(ends, label, rows))
            continue
        place, code = cut
        below = table[rows, place] <= code
        low, high = bounds[place]
        pending.append((rows[~below], (*bounds[:place], (code + 1, high), *bounds[place + 1 :])))
        pending.append((rows[below], (*bounds[:place], (low, code), *bounds[place + 1 :])))
    return boxes


def best_cut(table: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the variable and the code after which a cut leaves the least impurity; None where the states are all the same."""
    best: tuple[float, int, int] | None = None
    kinds, mine = np.unique(labels, return_inverse=True)
    for place in range(table.shape[1]):
        codes = table[:, place]
        first = int(codes.min())
        size = int(codes.max()) - first + 1
        if size == 1:
            continue
        counts = np.zeros((len(kinds), size))
        np.add.at(counts, (mine, codes - first), 1)
        left = counts.cumsum(axis=1)[:, :-1]
        right = counts.sum(axis=1, keepdims=True) - left
        below, above = left.sum(axis=0), right.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            impurity = (below - (left**2).sum(axis=0) / below) + (above - (right**2).sum(axis=0) / above)
        impurity[(below == 0) | (above == 0)] = np.inf
        at = int(impurity.argmin())
        if best is None or impurity[at] < best[0]:
            best = float(impurity[at]), place, first + at
    return None if best is None else (best[1], best[2])
