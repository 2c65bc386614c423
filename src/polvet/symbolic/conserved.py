"""Sums that no operator changes and that all start states agree on: rows that hold in every reachable state.

A sum ranges over variables and over marks [variable = value], which count the variables that are only ever assigned constants.
`conserved_rows` solves, in fractions, for coefficients a with a f(x') = a f(x) in every transition and a f(x) the same
constant in every start state. "The packages sum to 15" is found so, and "as many blocks stand on the table as its counter
says". No policy is asked: the rows hold whatever it chooses.
Cost     one Gaussian elimination over variables and marks; MOST_FEATURES bounds it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from polvet.symbolic.cells import Cell, Row, row_of
from polvet.symbolic.linear import Affine
from polvet.symbolic.operators import LinearTask, Transition

Vector: TypeAlias = dict[int, Fraction]
Feature: TypeAlias = tuple[int, int | None]
"""(variable, None) is the variable itself, (variable, value) the mark [variable = value]."""
MOST_FEATURES = 400
MOST_MARKED_VALUES = 40


def conserved_rows(linear: LinearTask) -> tuple[Row, ...]:
    """Return independent equality rows that hold in every state reachable from the start; none where there is no start.

    >>> from polvet.domains.transport import transport
    >>> from polvet.symbolic.operators import linear_task
    >>> [row] = conserved_rows(linear_task(transport(locations=3, packages=2).task()))
    >>> row.terms, row.lower, row.upper
    (((0, 1), (1, 1), (2, 1), (4, 1)), 2, 2)
    """
    if "conserved rows" not in linear.derived:
        linear.derived["conserved rows"] = _conserved_rows(linear)
    rows: tuple[Row, ...] = linear.derived["conserved rows"]
    return rows


def _conserved_rows(linear: LinearTask) -> tuple[Row, ...]:
    if not linear.start:
        return ()
    features = _features(linear)
    column = {feature: k for k, feature in enumerate(features)}
    constant = len(features)  # the last column: what a sum is equal to
    equations = [row for one in linear.system.transitions for row in _changes(one, features, column)]
    space = nullspace(equations, len(features))
    common: list[Vector] | None = None
    for cell in linear.start:
        known = list(reduced(_equalities(cell, column, constant)).values())
        common = _combinations(space, known, constant) if common is None else _combinations(common, known, constant + 1)
        common = list(reduced(common).values())
        if not common:
            return ()
    chosen = _sparse_basis(space, common or [], constant)
    return tuple(row for vector in chosen if (row := _row(vector, features, constant)) is not None)


def unchanging_sums(linear: LinearTask) -> tuple[Row, ...]:
    """Return sums that no operator changes, as rows without bounds; who knows their value in all start states may give them one."""
    features = _features(linear)
    column = {feature: k for k, feature in enumerate(features)}
    space = nullspace(
        [row for one in linear.system.transitions for row in _changes(one, features, column)], len(features)
    )
    rows = (_row(vector, features, len(features)) for vector in sorted(space, key=len))
    return tuple(Row(row.terms, None, None, row.marks) for row in rows if row is not None)


def _features(linear: LinearTask) -> list[Feature]:
    """Return what sums may range over: variables that are counted with, marks of those that are only assigned constants."""
    bounds = linear.system.bounds
    summands = set()
    assigned = set()
    for transition in linear.system.transitions:
        for place, update in transition.updates:
            assigned.add(place)
            if _constant(update, transition) is None:
                summands.add(place)
    features: list[Feature] = []
    for place, (low, high) in enumerate(zip(bounds.lower, bounds.upper, strict=True)):
        if place in assigned and place not in summands and 2 <= high - low < MOST_MARKED_VALUES:
            features += [(place, value) for value in range(low, high)]  # the greatest value follows from the others
        else:
            features.append((place, None))
    if len(features) > MOST_FEATURES:
        return [(place, None) for place in range(len(bounds.lower))]
    return features


def _constant(update: Affine, transition: Transition) -> int | None:
    """Return the value of an update that is the same everywhere in the transition's cell, None if it is not."""
    least, most = update.span(transition.cell.box)
    return least if least == most else None


def _changes(transition: Transition, features: Sequence[Feature], column: Mapping[Feature, int]) -> Iterable[Vector]:
    """Yield the equations on a that a (f(x') - f(x)) = 0 gives for all x in the cell: one per feature and the constant."""
    box = transition.cell.box
    equations: dict[object, Vector] = {}

    def enter(key: Feature | None, feature: Feature, amount: int) -> None:
        """Note that `feature` changes by amount * key (None: by the amount itself), with what the cell fixes put in."""
        if key is not None:
            place, value = key
            if box.lower[place] == box.upper[place]:
                amount *= box.lower[place] if value is None else int(box.lower[place] == value)
                key = None
            elif value is not None and not box.lower[place] <= value <= box.upper[place]:
                return
        if amount:
            row = equations.setdefault(key, {})
            row[column[feature]] = row.get(column[feature], Fraction(0)) + amount

    updates = dict(transition.updates)
    for feature in features:
        place, value = feature
        if place not in updates:
            continue
        update: Affine = updates[place]
        enter(feature, feature, -1)
        if value is not None:
            enter(None, feature, int(_constant(update, transition) == value))
            continue
        for variable, coefficient in update.terms:
            enter((variable, None), feature, coefficient)
        for variable, marked, coefficient in update.marks:
            enter((variable, marked), feature, coefficient)
        enter(None, feature, update.constant)
    for equation in equations.values():
        yield {k: entry for k, entry in equation.items() if entry}


def _equalities(cell: Cell, column: Mapping[Feature, int], constant: int) -> Iterable[Vector]:
    """Yield what a start cell fixes, as sums of features with their constant."""
    one = Fraction(1)
    for (place, value), k in column.items():
        low, high = cell.box.lower[place], cell.box.upper[place]
        if value is None:
            if low == high:
                yield {k: one, constant: Fraction(low)}
        elif low == high or not low <= value <= high:
            yield {k: one, constant: Fraction(int(low == high == value))}
    for row in cell.rows:
        least, most = cell.box.span(row.terms, row.marks)  # a bound that the box implies is not in the row
        least = least if row.lower is None else max(least, row.lower)
        most = most if row.upper is None else min(most, row.upper)
        if least != most:
            continue
        vector: Vector = {constant: Fraction(least)}
        if all(_enter(vector, (place, None), c, column, cell, constant) for place, c in row.terms) and all(
            _enter(vector, (place, value), c, column, cell, constant) for place, value, c in row.marks
        ):
            yield {k: entry for k, entry in vector.items() if entry}


def _enter(vector: Vector, key: Feature, amount: int, column: Mapping[Feature, int], cell: Cell, constant: int) -> bool:
    """Add amount * key to the vector in terms of features; False if it cannot be said in them."""

    def add(k: int, entry: int) -> None:
        vector[k] = vector.get(k, Fraction(0)) + entry

    place, value = key
    if key in column:
        add(column[key], amount)
        return True
    low, high = cell.box.lower[place], cell.box.upper[place]
    if low == high:
        add(constant, -amount * (low if value is None else int(low == value)))
        return True
    marks = [(v, column[place, v]) for v in range(low, high + 1) if (place, v) in column]
    missing = [v for v in range(low, high + 1) if (place, v) not in column]
    if len(missing) > 1:
        return False
    if value is not None and value not in missing:
        return not low <= value <= high
    # The one value without a mark of its own is there exactly where no other is.
    other = missing[0] if missing else 0
    for v, k in marks:
        add(k, amount * (v - other) if value is None else -amount)
    add(constant, -amount * (other if value is None else 1) if missing else 0)
    return bool(missing) or value is None


def _combinations(space: Sequence[Vector], others: Sequence[Vector], width: int) -> list[Vector]:
    """Return the vectors of `space` that agree in the first `width` columns with a combination of `others`, as that one."""
    if not space or not others:
        return []
    # sum s_i space_i - sum k_j others_j = 0, column by column
    equations: dict[int, Vector] = {}
    for number, vector in enumerate([*space, *others]):
        sign = 1 if number < len(space) else -1
        for k, entry in vector.items():
            if k < width:
                equations.setdefault(k, {})[number] = sign * entry
    result = []
    for solution in nullspace(equations.values(), len(space) + len(others)):
        combination: Vector = {}
        for number, weight in solution.items():
            if number >= len(space):
                for k, entry in others[number - len(space)].items():
                    combination[k] = combination.get(k, Fraction(0)) + weight * entry
        result.append({k: entry for k, entry in combination.items() if entry})
    return result


def _sparse_basis(space: Sequence[Vector], common: Sequence[Vector], constant: int) -> list[Vector]:
    """Return a basis of what `common` spans, with vectors of `space` first: they are short, so people and checkers like them."""
    combinations: list[Vector] = []
    for vector in sorted(space, key=len):
        if len(combinations) < len(common):
            combinations += _combinations([vector], common, constant)
    echelon: dict[int, Vector] = {}
    basis = []
    for vector in [*combinations, *sorted(common, key=len)]:
        extension = reduced([*echelon.values(), vector])
        if len(extension) > len(echelon):
            echelon = extension
            basis.append(vector)
    return basis


def _row(vector: Vector, features: Sequence[Feature], constant: int) -> Row | None:
    scale = lcm(*(entry.denominator for entry in vector.values()))
    whole = {k: int(entry * scale) for k, entry in vector.items()}
    divisor = gcd(*whole.values()) or 1
    equal = whole.pop(constant, 0) // divisor
    terms = {features[k][0]: c // divisor for k, c in whole.items() if features[k][1] is None}
    marks = sorted((features[k][0], v, c // divisor) for k, c in whole.items() if (v := features[k][1]) is not None)
    if not terms and not marks:
        return None
    return row_of(terms, equal, equal, tuple(marks))


def nullspace(rows: Iterable[Vector], size: int) -> list[Vector]:
    """Return a basis of all x with row x = 0 for every row.

    >>> nullspace([{0: Fraction(1), 1: Fraction(1)}], 2)
    [{1: Fraction(1, 1), 0: Fraction(-1, 1)}]
    """
    echelon = reduced(rows)
    basis: dict[int, Vector] = {free: {free: Fraction(1)} for free in range(size) if free not in echelon}
    for pivot, row in echelon.items():
        for k, entry in row.items():
            if k != pivot:
                basis[k][pivot] = -entry
    return list(basis.values())


def reduced(rows: Iterable[Vector]) -> dict[int, Vector]:
    """Return the reduced row echelon form, each row under its pivot; duplicates cost little."""
    echelon: dict[int, Vector] = {}
    keys: set[tuple[tuple[int, Fraction], ...]] = set()
    for vector in rows:
        key = tuple(sorted(vector.items()))
        if key in keys:
            continue
        keys.add(key)
        row = {k: entry for k, entry in vector.items() if entry}
        for pivot in [k for k in row if k in echelon]:
            _subtract(row, echelon[pivot], row[pivot])
        if not row:
            continue
        first = min(row)
        lead = row[first]
        row = {k: entry / lead for k, entry in row.items()}
        for other in echelon.values():
            if first in other:
                _subtract(other, row, other[first])
        echelon[first] = row
    return echelon


def _subtract(row: Vector, other: Vector, factor: Fraction) -> None:
    for k, entry in other.items():
        difference = row.get(k, Fraction(0)) - factor * entry
        if difference:
            row[k] = difference
        else:
            row.pop(k, None)
