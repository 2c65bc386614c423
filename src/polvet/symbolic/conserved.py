"""Linear sums that no operator changes and that all start states agree on: rows that hold in every reachable state.

`conserved_rows` solves, in fractions, for coefficients a with a x' = a x in every transition and a x the same constant in
every start state; "the packages sum to 15" is found so. No policy is asked: the rows hold whatever it chooses.
Cost     one Gaussian elimination over the variables
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm

from polvet.symbolic.cells import Cell, Row, row_of
from polvet.symbolic.operators import LinearTask, Transition

Vector = list[Fraction]


def conserved_rows(linear: LinearTask) -> tuple[Row, ...]:
    """Return independent equality rows that hold in every state reachable from the start; none where there is no start.

    >>> from polvet.domains.transport import transport
    >>> from polvet.symbolic.operators import linear_task
    >>> [row] = conserved_rows(linear_task(transport(locations=3, packages=2).task()))
    >>> row.terms, row.lower, row.upper
    (((0, 1), (1, 1), (2, 1), (4, 1)), 2, 2)
    """
    size = len(linear.system.bounds.lower)
    if not linear.start:
        return ()
    space = nullspace([row for one in linear.system.transitions for row in _changes(one, size)], size)
    # A start cell's equalities as rows (coefficients, constant); the sums wanted are combinations of them.
    common: list[Vector] | None = None  # vectors with the constant as last entry
    for cell in linear.start:
        known = _reduced(_equalities(cell, size))
        found = _combinations(space, known, size) if common is None else _combinations(common, known, size, keep=True)
        common = _reduced(found)
        if not common:
            return ()
    rows = []
    for vector in common or []:
        scale = lcm(*(entry.denominator for entry in vector))
        whole = [int(entry * scale) for entry in vector]
        divisor = gcd(*whole) or 1
        constant = whole[-1] // divisor
        rows.append(row_of({p: c // divisor for p, c in enumerate(whole[:-1]) if c}, constant, constant))
    return tuple(row for row in rows if row.terms)


def _changes(transition: Transition, size: int) -> Iterable[Vector]:
    """Yield the equations on a that a (x' - x) = 0 gives, for all x in the cell: one per variable, mark and the constant."""
    box = transition.cell.box
    equations: dict[object, dict[int, int]] = {}
    for place, update in transition.updates:
        change = dict(update.terms)
        change[place] = change.get(place, 0) - 1
        constant = update.constant
        for variable, coefficient in change.items():
            if box.lower[variable] == box.upper[variable]:
                constant += coefficient * box.lower[variable]
            elif coefficient:
                equations.setdefault(variable, {})[place] = coefficient
        for variable, value, coefficient in update.marks:
            equations.setdefault((variable, value), {})[place] = coefficient
        if constant:
            equations.setdefault("constant", {})[place] = constant
    for equation in equations.values():
        yield [Fraction(equation.get(place, 0)) for place in range(size)]


def _equalities(cell: Cell, size: int) -> list[Vector]:
    found = []
    for place, (low, high) in enumerate(zip(cell.box.lower, cell.box.upper, strict=True)):
        if low == high:
            found.append([Fraction(int(k == place)) for k in range(size)] + [Fraction(low)])
    for row in cell.rows:
        if row.lower is not None and row.lower == row.upper and not row.marks:
            terms = dict(row.terms)
            found.append([Fraction(terms.get(k, 0)) for k in range(size)] + [Fraction(row.lower)])
    return found


def _combinations(space: list[Vector], known: list[Vector], size: int, *, keep: bool = False) -> list[Vector]:
    """Return the vectors of `space` that are combinations of `known`, with the constant that `known` gives them.

    With `keep`, the vectors of `space` have constants already, and only combinations on which both agree are returned.
    """
    if not space or not known:
        return []
    width = size + 1 if keep else size
    # sum s_i space_i - sum k_j known_j = 0
    columns = [vector[:width] for vector in space] + [[-entry for entry in vector[:width]] for vector in known]
    equations = [[column[k] for column in columns] for k in range(width)]
    result = []
    for solution in nullspace(equations, len(columns)):
        weights = solution[len(space) :]
        result.append(
            [sum((w * v[k] for w, v in zip(weights, known, strict=True)), Fraction(0)) for k in range(size + 1)]
        )
    return result


def nullspace(rows: Iterable[Sequence[Fraction]], size: int) -> list[Vector]:
    """Return a basis of all x with row x = 0 for every row.

    >>> nullspace([[Fraction(1), Fraction(1)]], 2)
    [[Fraction(-1, 1), Fraction(1, 1)]]
    """
    reduced = _reduced([list(row) for row in rows])
    pivots = [next(k for k, entry in enumerate(row) if entry) for row in reduced]
    basis = []
    for free in range(size):
        if free in pivots:
            continue
        vector = [Fraction(0)] * size
        vector[free] = Fraction(1)
        for row, pivot in zip(reduced, pivots, strict=True):
            vector[pivot] = -row[free]
        basis.append(vector)
    return basis


def _reduced(rows: Iterable[Vector]) -> list[Vector]:
    """Return the reduced row echelon form without zero rows; rows are taken in one by one, so many duplicates cost little."""
    kept: dict[int, Vector] = {}
    seen: set[tuple[Fraction, ...]] = set()
    for given in rows:
        key = tuple(given)
        if key in seen:
            continue
        seen.add(key)
        row = given
        for pivot, other in kept.items():
            if row[pivot]:
                factor = row[pivot]
                row = [a - factor * b for a, b in zip(row, other, strict=True)]
        first = next((k for k, entry in enumerate(row) if entry), None)
        if first is None:
            continue
        row = [entry / row[first] for entry in row]
        for at, other in kept.items():
            if other[first]:
                factor = other[first]
                kept[at] = [a - factor * b for a, b in zip(other, row, strict=True)]
        kept[first] = row
    return [kept[pivot] for pivot in sorted(kept)]
