"""A small linear program over a cone, solved exactly, to which cuts are added while it runs.

Maximise objective . x with 0 <= x <= 1 under cuts c . x <= 0. The point 0 is always feasible. Rows are integers with
one common denominator each, so no number is ever rounded. The dual simplex method continues from the last basis
after each cut, and falls back on Bland's rule, which cannot cycle.

Source   Chvatal, Linear Programming, 1983, chapters 2, 3 and 10 (dictionaries, Bland's rule, dual simplex)
Cost     one pivot costs (columns + cuts in use) x columns integer operations
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

from polvet.budget import UNLIMITED, Budget
from polvet.numbers import whole_multiple

PATIENCE = 60
"""Pivots by the steepest rule in one reoptimisation before Bland's rule takes over."""


class CuttingPlane:
    """The program's current optimal dictionary; `add` a cut, then `reoptimise`.

    >>> program = CuttingPlane([1, 1])
    >>> program.add([1, -2]), program.add([-1, -1]); program.add([2, 1])
    (0, 1)
    2
    >>> program.reoptimise(); program.value(), program.point()
    (Fraction(0, 1), [0, 0])
    """

    def __init__(self, objective: Sequence[int]) -> None:
        self._size = size = len(objective)
        self._nonbasic: list[int] = []  # variable numbers: x is 0..size-1, box slacks follow, then the cuts' slacks
        self._rows: dict[int, list[int]] = {}  # basic variable -> [denominator, constant, coefficients]
        self._cuts = 0
        self._objective = [1, 0, *([0] * size)]
        for column, weight in enumerate(objective):
            inside, slack = column, size + column
            resting, basic = (slack, inside) if weight > 0 else (inside, slack)
            self._nonbasic.append(resting)
            row = [1, 1, *([0] * size)]
            row[2 + column] = -1
            self._rows[basic] = row
            self._objective[1] += max(weight, 0)
            self._objective[2 + column] = -abs(weight)

    def add(self, cut: Sequence[int]) -> int:
        """Add the cut and return its number; the optimum is stale until `reoptimise`."""
        denominator = lcm(*(self._rows[column][0] for column in range(self._size) if column in self._rows), 1)
        row = [denominator, 0, *([0] * self._size)]
        position = {variable: place for place, variable in enumerate(self._nonbasic)}
        for column, weight in enumerate(cut):
            if not weight:
                continue
            if column in self._rows:
                basic = self._rows[column]
                factor = weight * (denominator // basic[0])
                for place in range(1, self._size + 2):
                    row[place] -= factor * basic[place]
            else:
                row[2 + position[column]] -= weight * denominator
        self._rows[2 * self._size + self._cuts] = _reduced(row)
        self._cuts += 1
        return self._cuts - 1

    def reoptimise(self, budget: Budget = UNLIMITED) -> None:
        """Pivot until no basic variable is negative."""
        pivots = 0
        while True:
            budget.check()
            leaving = self._leaving(bland=pivots > PATIENCE)
            if leaving is None:
                return
            self._pivot(leaving, self._entering(leaving))
            pivots += 1

    def _leaving(self, *, bland: bool) -> int | None:
        worst, chosen = Fraction(0), None
        for variable, row in self._rows.items():
            if row[1] >= 0:
                continue
            if bland:
                chosen = variable if chosen is None else min(chosen, variable)
            elif (depth := Fraction(row[1], row[0])) < worst:
                worst, chosen = depth, variable
        return chosen

    def _entering(self, leaving: int) -> int:
        row = self._rows[leaving]
        best: tuple[Fraction, int, int] | None = None
        for column, variable in enumerate(self._nonbasic):
            if row[2 + column] > 0:
                candidate = Fraction(-self._objective[2 + column], row[2 + column]), variable, column
                best = candidate if best is None else min(best, candidate)
        assert best is not None, "the point 0 satisfies every cut"
        return best[2]

    def _pivot(self, leaving: int, column: int) -> None:
        old = self._rows.pop(leaving)
        pivot = old[2 + column]
        sign = 1 if pivot > 0 else -1
        new = [abs(pivot), *(-sign * value for value in old[1:])]
        new[2 + column] = sign * old[0]
        new = _reduced(new)
        entering = self._nonbasic[column]
        self._nonbasic[column] = leaving
        for variable, row in self._rows.items():
            if row[2 + column]:
                self._rows[variable] = _substituted(row, new, 2 + column)
        self._objective = _substituted(self._objective, new, 2 + column)
        self._rows[entering] = new

    def value(self) -> Fraction:
        """Return the optimal value of the objective."""
        return Fraction(self._objective[1], self._objective[0])

    def point(self) -> list[int]:
        """Return the optimal point, scaled to integers without a common divisor."""
        values = [
            Fraction(self._rows[column][1], self._rows[column][0]) if column in self._rows else Fraction(0)
            for column in range(self._size)
        ]
        return whole_multiple(values)

    def multipliers(self) -> dict[int, Fraction]:
        """Return the optimal dual: cut number -> multiplier, without zeros."""
        first = 2 * self._size
        return {
            variable - first: Fraction(-weight, self._objective[0])
            for variable, weight in zip(self._nonbasic, self._objective[2:], strict=True)
            if variable >= first and weight
        }


def _substituted(row: list[int], new: list[int], place: int) -> list[int]:
    """Return the row after the variable at `place` is replaced by its own row `new`."""
    factor, scale = row[place], new[0]
    result = [scale * value for value in row]
    result[place] = 0
    for index in range(1, len(row)):
        result[index] += factor * new[index]
    return _reduced(result)


def _reduced(row: list[int]) -> list[int]:
    divisor = gcd(*row)
    return row if divisor == 1 else [value // divisor for value in row]
