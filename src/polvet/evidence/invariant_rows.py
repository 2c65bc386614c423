"""What an invariant's certificate claims, as arrays: rows that hold, boxes that are blocked; and how rows narrow a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """lower <= coefficients x <= upper, over all variables and the claim's marks (columns behind the variables)."""

    coefficients: Floats
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """An invariant as read: rows, and blocked boxes as arrays [k, variables]."""

    rows: tuple[Row, ...]
    lower: Ints
    upper: Ints
    marks: tuple[tuple[int, int], ...]  # (variable, value)

    def marked(self, points: Ints) -> Ints:
        """Return points [n, variables] with a column for each mark."""
        if not self.marks:
            return points
        columns = [(points[:, place] == value).astype(np.int64) for place, value in self.marks]
        return np.concatenate([points, np.stack(columns, axis=1)], axis=1)

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


def merged(rows: Sequence[Row]) -> list[Row] | None:
    """Return the rows with parallel ones made one, in lowest terms; None if they contradict each other."""
    found: dict[tuple[int, ...], tuple[float, float]] = {}
    for row in rows:
        whole = [int(c) for c in row.coefficients]
        divisor = gcd(*whole)
        if divisor == 0:
            if row.lower > 0 or row.upper < 0:
                return None
            continue
        if next(c for c in whole if c) < 0:
            divisor = -divisor
        ends = sorted((row.lower / divisor, row.upper / divisor))
        key = tuple(c // divisor for c in whole)
        low, high = found.get(key, (-np.inf, np.inf))
        # SOUND: the sum is an integer, so its bounds may be rounded inwards, after a step outwards against division's error.
        ends = [np.ceil(ends[0] - 1e-9), np.floor(ends[1] + 1e-9)]
        found[key] = max(low, ends[0]), min(high, ends[1])
        if found[key][0] > found[key][1]:
            return None
    return [Row(np.array(key, dtype=np.float64), low, high) for key, (low, high) in found.items()]


def contradicts(rows: Sequence[Row]) -> bool:
    """Return whether some row is a combination of equalities that gives it a value outside its bounds.

    SOUND: multipliers are guessed in floating point, but count only where they are integers and the combination, a sum of
    small integers and therefore exact, is the row itself.
    """
    equal = [row for row in rows if row.lower == row.upper]
    if not equal:
        return False
    matrix = np.stack([row.coefficients for row in equal])
    values = np.array([row.lower for row in equal])
    for row in rows:
        if row.lower == row.upper:
            continue
        multipliers = np.round(np.linalg.lstsq(matrix.T, row.coefficients, rcond=None)[0])
        if np.abs(multipliers).max() < 2**20 and np.array_equal(multipliers @ matrix, row.coefficients):
            value = float(multipliers @ values)
            if not row.lower <= value <= row.upper:
                return True
    return False


def contract(lower: Ints, upper: Ints, rows: Sequence[Row]) -> tuple[Ints, Ints]:
    """Return what rows leave of the boxes, by bounds propagation; boxes with nothing left are dropped.

    SOUND: all numbers are integers below 2^53, exact in float64, so that quotients are rounded correctly outwards by 1e-9.
    """
    for _ in range(4):
        before = lower.sum() - upper.sum()
        for row in rows:
            used = np.flatnonzero(row.coefficients)
            a = row.coefficients[used]
            low, high = a * lower[:, used], a * upper[:, used]
            least, most = np.minimum(low, high), np.maximum(low, high)
            total_least, total_most = least.sum(axis=1), most.sum(axis=1)
            keep = (total_most >= row.lower) & (total_least <= row.upper)
            if not keep.all():
                lower, upper = lower[keep], upper[keep]
                least, most, total_least, total_most = least[keep], most[keep], total_least[keep], total_most[keep]
            if not len(lower):
                return lower, upper
            room_high = row.upper - (total_least[:, None] - least)  # a x <= room_high
            room_low = row.lower - (total_most[:, None] - most)  # a x >= room_low
            top = np.where(a > 0, room_high / a, room_low / a)
            bottom = np.where(a > 0, room_low / a, room_high / a)
            new_upper = np.where(np.isfinite(top), np.floor(top + 1e-9), np.inf)
            new_lower = np.where(np.isfinite(bottom), np.ceil(bottom - 1e-9), -np.inf)
            upper[:, used] = np.minimum(upper[:, used], np.clip(new_upper, -(2.0**50), 2.0**50).astype(np.int64))
            lower[:, used] = np.maximum(lower[:, used], np.clip(new_lower, -(2.0**50), 2.0**50).astype(np.int64))
            keep = (lower <= upper).all(axis=1)
            lower, upper = lower[keep], upper[keep]
        if not len(lower) or lower.sum() - upper.sum() == before:
            break
    return lower, upper
