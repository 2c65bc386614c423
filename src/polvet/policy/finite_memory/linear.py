"""Linear inequalities over integers, solved exactly by Fourier and Motzkin's elimination; small systems only.

An expression is a dict from names to integer coefficients, the constant under the empty name; a constraint says that
an expression is >= 0. Where elimination would grow beyond `MAX_ROWS`, rows are dropped: then fewer consequences are
found, never wrong ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

Expression = Mapping[str, int]
CONSTANT = ""
MAX_ROWS = 300


def plus(first: Expression, second: Expression, factor: int = 1) -> dict[str, int]:
    """Return first + factor * second, without zeros."""
    total = dict(first)
    for name, coefficient in second.items():
        total[name] = total.get(name, 0) + factor * coefficient
    return {name: coefficient for name, coefficient in total.items() if coefficient}


def substituted(expression: Expression, values: Mapping[str, Expression]) -> dict[str, int]:
    """Return the expression with every name that has a value replaced by it."""
    total: dict[str, int] = {}
    for name, coefficient in expression.items():
        total = plus(total, values.get(name, {name: 1}) if name else {CONSTANT: 1}, coefficient)
    return total


def tightened(constraint: Expression) -> dict[str, int]:
    """Return the constraint divided by the common divisor of its coefficients; over integers the constant is floored.

    >>> tightened({"x": 2, "": -3})
    {'x': 1, '': -2}
    """
    divisor = gcd(*(value for name, value in constraint.items() if name))
    if divisor <= 1:
        return dict(constraint)
    reduced = {name: value // divisor for name, value in constraint.items() if name}
    constant = constraint.get(CONSTANT, 0) // divisor
    return {**reduced, CONSTANT: constant} if constant else reduced


def eliminate(constraints: Iterable[Expression], keep: frozenset[str] = frozenset()) -> list[dict[str, int]]:
    """Return consequences of the constraints that mention only the names to keep."""
    rows = _distinct(constraints)
    while True:
        names = {name for row in rows for name in row if name and name not in keep}
        if not names:
            return rows

        def growth(name: str, rows: list[dict[str, int]] = rows) -> tuple[int, str]:
            up = sum(row.get(name, 0) > 0 for row in rows)
            down = sum(row.get(name, 0) < 0 for row in rows)
            return up * down - up - down, name

        name = min(names, key=growth)
        up = [row for row in rows if row.get(name, 0) > 0]
        down = [row for row in rows if row.get(name, 0) < 0]
        combined = [row for row in rows if not row.get(name)]
        for above in up:
            for below in down:
                scaled = {key: -below[name] * value for key, value in above.items()}
                combined.append(plus(scaled, below, above[name]))
        # SOUND: dropping rows only loses consequences.
        rows = sorted(_distinct(combined), key=len)[:MAX_ROWS]


def _distinct(constraints: Iterable[Expression]) -> list[dict[str, int]]:
    """Return the constraints tightened; of those that differ in the constant only, the strongest."""
    strongest: dict[tuple[tuple[str, int], ...], int] = {}
    for constraint in constraints:
        row = tightened({name: value for name, value in constraint.items() if value})
        key = tuple(sorted((name, value) for name, value in row.items() if name))
        constant = row.get(CONSTANT, 0)
        if key or constant < 0:
            strongest[key] = min(strongest.get(key, constant), constant)
    return [{**dict(key), **({CONSTANT: constant} if constant else {})} for key, constant in strongest.items()]


def is_infeasible(constraints: Iterable[Expression]) -> bool:
    """Return whether elimination shows that no integers satisfy all constraints.

    >>> is_infeasible([{"x": 1, "": -1}, {"x": -1}])
    True
    """
    return any(row.get(CONSTANT, 0) < 0 for row in eliminate(constraints) if set(row) <= {CONSTANT})


def bounds_of(expression: Expression, constraints: Iterable[Expression]) -> tuple[int | None, int | None]:
    """Return integer bounds of the expression under the constraints; None where elimination finds none.

    >>> bounds_of({"x": -1, "y": -1}, [{"x": 1, "": -1}, {"y": 1, "": -2}])
    (None, -3)
    """
    result = "= "
    rows = [*constraints, plus({result: 1}, expression, -1), plus(expression, {result: 1}, -1)]
    low: int | None = None
    high: int | None = None
    for row in eliminate(rows, frozenset([result])):
        slope, constant = row.get(result, 0), row.get(CONSTANT, 0)
        if slope > 0:
            bound = -(constant // slope)
            low = bound if low is None else max(low, bound)
        elif slope < 0:
            bound = constant // -slope
            high = bound if high is None else min(high, bound)
    return low, high
