"""Boxes, linear rows and cells: sets of integer states as plain data.

A *row* says lower <= sum of coefficient * variable + sum of coefficient * [variable = value] <= upper. A *cell* is a box with
rows and holes: the integer states in the box that satisfy every row and are in no hole. A *region* is a tuple of cells and
means their union. Truth values are 0 and 1, locations their number.
All numbers are Python integers, so nothing here rounds or overflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from operator import ge, gt, le
from typing import TypeAlias

from polvet.model.arithmetic import Value

Terms: TypeAlias = tuple[tuple[int, int], ...]
Marks: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """lower <= sum(coefficient * x[variable]) + sum(coefficient * [x[variable] = value]) <= upper; None is no bound.

    `terms` are pairs (variable, coefficient), `marks` are triples (variable, value, coefficient) that count equalities.
    Both are sorted, coefficients are not zero.
    """

    terms: Terms
    lower: int | None
    upper: int | None
    marks: Marks = ()

    def value(self, state: Sequence[Value]) -> int:
        """Return the sum in a state."""
        return linear_sum(self.terms, self.marks, state)

    def reads(self, place: int) -> bool:
        """Return whether the row speaks of the variable."""
        return any(one == place for one, _ in self.terms) or any(one == place for one, _, _ in self.marks)

    def holds(self, state: Sequence[Value]) -> bool:
        """Return whether the state satisfies the row."""
        value = self.value(state)
        return (self.lower is None or self.lower <= value) and (self.upper is None or value <= self.upper)


@dataclass(frozen=True, slots=True)
class Box:
    """The integer states between `lower` and `upper`, both inclusive, one bound per variable.

    >>> Box((0, 2), (3, 2)).count
    4
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether no state is in the box."""
        return any(map(gt, self.lower, self.upper))

    @property
    def count(self) -> int:
        """Return the number of states in the box."""
        return 0 if self.is_empty else prod(h - low + 1 for low, h in zip(self.lower, self.upper, strict=True))

    def holds(self, state: Sequence[Value]) -> bool:
        """Return whether the state is in the box."""
        return all(low <= int(x) <= high for low, x, high in zip(self.lower, state, self.upper, strict=True))

    def contains(self, other: Box) -> bool:
        """Return whether every state of the other box is in this one."""
        return other.is_empty or (all(map(le, self.lower, other.lower)) and all(map(ge, self.upper, other.upper)))

    def meet(self, other: Box) -> Box:
        """Return the common part, perhaps an empty box."""
        return Box(tuple(map(max, self.lower, other.lower)), tuple(map(min, self.upper, other.upper)))

    def span(self, terms: Terms, marks: Marks = ()) -> tuple[int, int]:
        """Return bounds on a linear sum over the box; without marks they are the least and the greatest value."""
        low = high = 0
        for place, value, c in marks:
            if self.lower[place] <= value <= self.upper[place]:
                fixed = self.lower[place] == self.upper[place]
                low, high = low + (c if fixed else min(c, 0)), high + (c if fixed else max(c, 0))
        for place, c in terms:
            a, b = c * self.lower[place], c * self.upper[place]
            low, high = low + min(a, b), high + max(a, b)
        return low, high


@dataclass(frozen=True, slots=True)
class Cell:
    """A box with rows, without its holes (cells that have none themselves); `cell_of` leaves out what says nothing new."""

    box: Box
    rows: tuple[Row, ...] = ()
    holes: tuple[Cell, ...] = ()

    def holds(self, state: Sequence[Value]) -> bool:
        """Return whether the state is in the cell."""
        return (
            self.box.holds(state)
            and all(row.holds(state) for row in self.rows)
            and not any(hole.holds(state) for hole in self.holes)
        )


Region: TypeAlias = tuple[Cell, ...]


def linear_sum(terms: Terms, marks: Marks, state: Sequence[Value]) -> int:
    """Return the value of a linear sum with marks in a state.

    >>> linear_sum(((0, 2),), ((1, 7, 10),), (3, 7))
    16
    """
    plain = sum(coefficient * int(state[place]) for place, coefficient in terms)
    return plain + sum(coefficient for place, value, coefficient in marks if int(state[place]) == value)


def point_box(state: Sequence[Value]) -> Box:
    """Return the box that holds one state."""
    values = tuple(int(value) for value in state)
    return Box(values, values)


def row_of(coefficients: Mapping[int, int], lower: int | None, upper: int | None, marks: Marks = ()) -> Row:
    """Return the row in normal form: divided by the coefficients' greatest divisor, the first coefficient positive.

    SOUND: over the integers the bounds may be rounded inwards after the division.
    >>> row_of({1: -2, 0: -4}, None, 5)
    Row(terms=((0, 2), (1, 1)), lower=-2, upper=None, marks=())
    """
    terms = tuple(sorted((place, c) for place, c in coefficients.items() if c))
    if not terms and not marks:
        return Row((), lower, upper)
    divisor = gcd(*(c for _, c in terms), *(c for _, _, c in marks))
    if (terms[0][1] if terms else marks[0][2]) < 0:
        divisor = -divisor
        lower, upper = upper, lower
    terms = tuple((place, c // divisor) for place, c in terms)
    marks = tuple((place, value, c // divisor) for place, value, c in marks)
    if lower is not None:
        lower = -(lower // -divisor)
    return Row(terms, lower, None if upper is None else upper // divisor, marks)


def cell_of(box: Box, rows: Iterable[Row] = (), holes: Iterable[Cell] = ()) -> Cell | None:
    """Return the cell, its box narrowed by rows of one variable, rows and holes without effect left out; None if empty.

    A cell that is returned may still be empty: rows are only compared with the box, and holes one by one.
    """
    lower, upper = list(box.lower), list(box.upper)
    wide: dict[tuple[Terms, Marks], tuple[int | None, int | None]] = {}
    for row in rows:
        if not row.terms and not row.marks:
            if not row.holds(()):
                return None
        elif len(row.terms) == 1 and not row.marks:  # in normal form the coefficient is 1
            place = row.terms[0][0]
            if row.lower is not None:
                lower[place] = max(lower[place], row.lower)
            if row.upper is not None:
                upper[place] = min(upper[place], row.upper)
        else:
            low, high = wide.get((row.terms, row.marks), (None, None))
            wide[row.terms, row.marks] = _greater(low, row.lower), _less(high, row.upper)
    narrowed = Box(tuple(lower), tuple(upper))
    if narrowed.is_empty:
        return None
    remaining = []
    for (terms, marks), (low, high) in wide.items():
        least, most = narrowed.span(terms, marks)
        if (low is not None and most < low) or (high is not None and least > high):
            return None
        low = None if low is not None and least >= low else low
        high = None if high is not None and most <= high else high
        if low is not None or high is not None:
            if low is not None and high is not None and low > high:
                return None
            remaining.append(Row(terms, low, high, marks))
    missing: dict[Cell, None] = {}
    for hole in holes:
        inner = cell_of(narrowed.meet(hole.box), hole.rows)
        if inner is None:
            continue
        if inner.box == narrowed and set(inner.rows) <= set(remaining):
            return None
        missing[inner] = None
    return Cell(narrowed, tuple(remaining), tuple(missing))


def cell_with(cell: Cell, row: Row) -> Cell | None:
    """Return what `cell_of` returns for the cell with one more row, at less cost: only what the row touches is looked at again."""
    if len(row.terms) != 1 or row.marks:
        return cell_of(cell.box, (*cell.rows, row), cell.holes)
    place = row.terms[0][0]
    low, high = cell.box.lower[place], cell.box.upper[place]
    lower = low if row.lower is None else max(low, row.lower)
    upper = high if row.upper is None else min(high, row.upper)
    if lower > upper:
        return None
    if (lower, upper) == (low, high):
        return cell
    box = Box(
        (*cell.box.lower[:place], lower, *cell.box.lower[place + 1 :]),
        (*cell.box.upper[:place], upper, *cell.box.upper[place + 1 :]),
    )
    remaining = []
    for one in cell.rows:
        inside = _inside(one, box) if one.reads(place) else one
        if inside is None:
            return None
        if inside.lower is not None or inside.upper is not None:
            remaining.append(inside)
    holes = []
    for hole in cell.holes:
        inner = cell_with(hole, row)
        if inner is None:
            continue
        if inner.box == box and set(inner.rows) <= set(remaining):
            return None
        holes.append(inner)
    return Cell(box, tuple(remaining), tuple(dict.fromkeys(holes)))


def entailed(cell: Cell, row: Row) -> bool | None:
    """Return whether bounds alone tell that all states of the cell satisfy the row (True), or none (False)."""
    least, most = cell.box.span(row.terms, row.marks)
    above = row.lower is None or least >= row.lower
    below = row.upper is None or most <= row.upper
    if above and below:
        return True
    if (row.lower is not None and most < row.lower) or (row.upper is not None and least > row.upper):
        return False
    return None


def _inside(row: Row, box: Box) -> Row | None:
    """Return the row without bounds that the box implies; None if no state of the box satisfies it."""
    least, most = box.span(row.terms, row.marks)
    low, high = row.lower, row.upper
    if (low is not None and most < low) or (high is not None and least > high):
        return None
    return Row(
        row.terms,
        None if low is not None and least >= low else low,
        None if high is not None and most <= high else high,
        row.marks,
    )


def meet(left: Cell, right: Cell) -> Cell | None:
    """Return the common part of two cells; None if it is surely empty."""
    box = left.box.meet(right.box)
    if box.is_empty:
        return None
    return cell_of(box, (*left.rows, *right.rows), (*left.holes, *right.holes))


def meet_regions(left: Region, right: Region) -> Iterator[Cell]:
    """Yield the common parts of two regions, cell by cell, without surely empty ones."""
    for one in left:
        for other in right:
            both = meet(one, other)
            if both is not None:
                yield both


def _greater(x: int | None, y: int | None) -> int | None:
    return y if x is None else x if y is None else max(x, y)


def _less(x: int | None, y: int | None) -> int | None:
    return y if x is None else x if y is None else min(x, y)
