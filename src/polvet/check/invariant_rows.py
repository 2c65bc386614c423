"""What an invariant's certificate claims, as arrays: rows that hold, boxes that are blocked; and how rows narrow a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


FAR = 2**62
"""The bound of a row that has none at this end."""
MOST_REACH = 2**60
"""No row's sum is beyond this in any state. SOUND: sums, and bounds less sums, are below 2^63 and exact in int64."""


@dataclass(frozen=True, slots=True)
class Row:
    """lower <= coefficients x <= upper, over all variables and the claim's marks (columns behind the variables)."""

    coefficients: Ints
    lower: int
    upper: int


def row_between(columns: Mapping[int, int], lower: int | None, upper: int | None, most: Sequence[int]) -> Row | None:
    """Return the row with these coefficients; None where a sum of int64 would not hold it. `most` has each column's greatest size."""
    if sum(abs(c) * most[column] for column, c in columns.items()) > MOST_REACH:
        return None
    # A column that is always 0 may have a coefficient that is none of int64's.
    kept = {column: c for column, c in columns.items() if c and most[column]}
    coefficients = np.zeros(len(most), dtype=np.int64)
    for column, c in kept.items():
        coefficients[column] = c
    # SOUND: bounds beyond what any sum reaches say as much as those just beyond it.
    low = -FAR if lower is None or lower < -MOST_REACH else min(lower, MOST_REACH + 1)
    high = FAR if upper is None or upper > MOST_REACH else max(upper, -MOST_REACH - 1)
    return Row(coefficients, low, high)


@dataclass(frozen=True, eq=False)
class Claim:
    """An invariant as read: rows, and blocked boxes as arrays [k, variables]."""

    rows: tuple[Row, ...]
    lower: Ints
    upper: Ints
    marks: tuple[tuple[int, int], ...]  # (variable, value)

    @cached_property
    def places(self) -> Ints:
        """The variable of each mark."""
        return np.array([place for place, _ in self.marks], dtype=np.int64)

    @cached_property
    def values(self) -> Ints:
        """The value of each mark."""
        return np.array([value for _, value in self.marks], dtype=np.int64)

    def marked(self, points: Ints) -> Ints:
        """Return points [n, variables] with a column for each mark."""
        if not self.marks:
            return points
        return np.concatenate([points, points[:, self.places] == self.values], axis=1, dtype=np.int64)

    def holds(self, points: Ints) -> npt.NDArray[np.bool_]:
        """Return which points [n, variables] satisfy the rows and are in no blocked box."""
        good = np.ones(len(points), dtype=np.bool_)
        columns = self.marked(points)
        for row in self.rows:
            value = columns @ row.coefficients
            good &= (value >= row.lower) & (value <= row.upper)
        for low, high in zip(self.lower, self.upper, strict=True):
            good &= ~((points >= low) & (points <= high)).all(axis=1)
        return good


def merged(rows: Sequence[Row], fixed: npt.NDArray[np.bool_], values: Ints) -> list[Row] | None:
    """Return the rows with the values of fixed columns put in, parallel ones made one, in lowest terms; None if they contradict each other.

    SOUND: a share of a sum is at most MOST_REACH and exact in int64. The rest is an integer, so that bounds are rounded inwards, in
    Python's integers.
    """
    if not rows or not len(values):
        return None if any(row.lower > 0 or row.upper < 0 for row in rows) else []
    matrix = np.stack([row.coefficients for row in rows])
    shares = (matrix[:, fixed] @ values[fixed]).tolist()
    matrix[:, fixed] = 0
    divisors = np.gcd.reduce(matrix, axis=1)
    leading = matrix[np.arange(len(matrix)), (matrix != 0).argmax(axis=1)]
    whole = matrix // np.where(leading < 0, -divisors, np.maximum(divisors, 1))[:, None]
    sides: dict[bytes, tuple[Ints, int, int]] = {}
    for row, share, divisor, first, columns in zip(
        rows, shares, divisors.tolist(), leading.tolist(), whole, strict=True
    ):
        low = row.lower if row.lower == -FAR else row.lower - share
        high = row.upper if row.upper == FAR else row.upper - share
        if divisor == 0:
            if low > 0 or high < 0:
                return None
            continue
        if first < 0:
            low, high = -high, -low
        low = low if low == -FAR else -(-low // divisor)
        high = high if high == FAR else high // divisor
        key = columns.tobytes()
        _, least, most = sides.get(key, (columns, -FAR, FAR))
        low, high = max(low, least), min(high, most)
        if low > high:
            return None
        sides[key] = columns, low, high
    return [Row(columns, low, high) for columns, low, high in sides.values()]


def is_contradiction(rows: Sequence[Row], lower: Ints, upper: Ints, sums: Sequence[tuple[int, int]]) -> bool:
    """Return whether a sum of multiples of rows, pairs (row, multiplier), has no value within its bounds anywhere in a box.

    SOUND: in Python's integers. A multiple that asks for a bound that a row has not leaves that end of the sum open.
    """
    total = np.zeros(len(lower), dtype=object)
    least: int | None = 0
    greatest: int | None = 0
    for number, multiplier in sums:
        row = rows[number]
        total = total + multiplier * row.coefficients.astype(object)
        ends = (row.lower, row.upper) if multiplier > 0 else (row.upper, row.lower)
        low, high = (None if abs(end) == FAR else multiplier * end for end in ends)
        least = None if least is None or low is None else least + low
        greatest = None if greatest is None or high is None else greatest + high
    reach = [(c * int(a), c * int(b)) for c, a, b in zip(total.tolist(), lower, upper, strict=True)]
    most, fewest = sum(max(pair) for pair in reach), sum(min(pair) for pair in reach)
    return (least is not None and most < least) or (greatest is not None and fewest > greatest)


def contract(lower: Ints, upper: Ints, rows: Sequence[Row]) -> tuple[Ints, Ints, Ints]:
    """Return what rows leave of the boxes, by bounds propagation, and which there are; boxes with nothing left are dropped.

    SOUND: boxes lie between the variables' bounds, so that sums are at most MOST_REACH and rooms below FAR + 2 MOST_REACH: all are
    exact in int64, and quotients are rounded by integer division. A bound at FAR never tells.
    """
    kept = np.arange(len(lower))
    used_by = [np.flatnonzero(row.coefficients) for row in rows]
    lower, upper = lower.T.copy(), upper.T.copy()  # the bounds of one variable stand side by side
    narrowed = np.ones(len(lower), dtype=np.bool_)
    for _ in range(4):
        before, narrowed = narrowed, np.zeros(len(lower), dtype=np.bool_)
        for row, used in zip(rows, used_by, strict=True):
            if not (before[used] | narrowed[used]).any() and len(used):
                continue  # nothing is new since this row was asked
            a = row.coefficients[used][:, None]
            low, high = a * lower[used], a * upper[used]
            least, most = np.minimum(low, high), np.maximum(low, high)
            total_least, total_most = least.sum(axis=0), most.sum(axis=0)
            if (total_least >= row.lower).all() and (total_most <= row.upper).all():
                continue  # it holds in all of the boxes
            keep = (total_most >= row.lower) & (total_least <= row.upper)
            if not keep.all():
                lower, upper, kept = lower[:, keep], upper[:, keep], kept[keep]
                least, most, total_least, total_most = (
                    least[:, keep],
                    most[:, keep],
                    total_least[keep],
                    total_most[keep],
                )
            room_high = row.upper - (total_least - least)  # a x <= room_high
            room_low = row.lower - (total_most - most)  # a x >= room_low
            divided = (
                np.multiply if (np.abs(a) == 1).all() else np.floor_divide
            )  # the same for 1 and -1, and much faster
            new_upper = np.minimum(upper[used], divided(np.where(a > 0, room_high, room_low), a))
            new_lower = np.maximum(lower[used], -divided(-np.where(a > 0, room_low, room_high), a))
            narrowed[used] |= ((new_upper < upper[used]) | (new_lower > lower[used])).any(axis=1)
            upper[used], lower[used] = new_upper, new_lower
            keep = (new_lower <= new_upper).all(axis=0)
            if not keep.all():
                lower, upper, kept = lower[:, keep], upper[:, keep], kept[keep]
        if not len(kept) or not narrowed.any():
            break
    return lower.T, upper.T, kept
