"""Square systems of linear equations over the integers, solved exactly.

Source   Bareiss, "Sylvester's identity and multistep integer-preserving Gaussian elimination", 1968
Cost     size^3 / 3 products of integers with at most size x (bits of an entry) bits
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def solve_exactly(matrix: Sequence[Sequence[int]], right: Sequence[int]) -> list[Fraction] | None:
    """Return x with matrix . x = right, or None where the matrix is singular.

    >>> solve_exactly([[2, 1], [1, 3]], [3, 5])
    [Fraction(4, 5), Fraction(7, 5)]
    """
    size = len(matrix)
    rows = [[*map(int, row), int(value)] for row, value in zip(matrix, right, strict=True)]
    before = 1
    for step in range(size):
        pivot = next((row for row in range(step, size) if rows[row][step]), None)
        if pivot is None:
            return None
        rows[step], rows[pivot] = rows[pivot], rows[step]
        top = rows[step]
        for row in rows[step + 1 :]:
            factor = row[step]
            for column in range(step + 1, size + 1):
                row[column] = (top[step] * row[column] - factor * top[column]) // before
        before = top[step]
    outcome = [Fraction(0)] * size
    for step in reversed(range(size)):
        row = rows[step]
        known = sum((row[column] * outcome[column] for column in range(step + 1, size)), Fraction(0))
        outcome[step] = (row[size] - known) / row[step]
    return outcome


def independent_columns(matrix: Sequence[Sequence[float]], count: int) -> list[int]:
    """Return `count` columns that look independent in floating point, greedily by what is left of them; or fewer.

    >>> independent_columns([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]], 2)
    [2, 1]
    """
    import numpy as np

    left = np.array(matrix, dtype=np.float64)
    chosen: list[int] = []
    while len(chosen) < count:
        sizes = np.sqrt((left * left).sum(axis=0))
        best = int(sizes.argmax()) if len(sizes) else 0
        if not len(sizes) or sizes[best] < 1e-9:
            break
        unit = left[:, best] / sizes[best]
        left = left - np.outer(unit, (left * unit[:, None]).sum(axis=0))
        left[:, best] = 0.0
        chosen.append(best)
    return chosen
