"""SMT-LIB 2 text: cells of integer states, affine successors, numbers. Names of variables are given by the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from polvet.symbolic.cells import Cell, Marks, Row, Terms
from polvet.symbolic.linear import Affine


def number(value: int | Fraction) -> str:
    """Return the number as an SMT-LIB real or integer.

    >>> number(-2), number(Fraction(-1, 3))
    ('(- 2)', '(- (/ 1.0 3.0))')
    """
    if isinstance(value, int):
        return str(value) if value >= 0 else f"(- {-value})"
    text = f"(/ {abs(value.numerator)}.0 {value.denominator}.0)"
    return text if value >= 0 else f"(- {text})"


def conjunction(parts: Iterable[str]) -> str:
    """Return the conjunction of formulas."""
    items = list(parts)
    return "true" if not items else items[0] if len(items) == 1 else f"(and {' '.join(items)})"


def disjunction(parts: Iterable[str]) -> str:
    """Return the disjunction of formulas."""
    items = list(parts)
    return "false" if not items else items[0] if len(items) == 1 else f"(or {' '.join(items)})"


def total(parts: Sequence[str], zero: str = "0") -> str:
    """Return the sum of terms."""
    return zero if not parts else parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"


def _summands(terms: Terms, marks: Marks, names: Sequence[str]) -> list[str]:
    parts = [f"(* {number(factor)} {names[place]})" for place, factor in terms]
    return parts + [f"(ite (= {names[place]} {number(value)}) {number(factor)} 0)" for place, value, factor in marks]


def affine_term(affine: Affine, names: Sequence[str]) -> str:
    """Return the value of the affine expression."""
    return total([*_summands(affine.terms, affine.marks, names), number(affine.constant)])


def row_formula(row: Row, names: Sequence[str]) -> str:
    """Return that the row holds."""
    value = total(_summands(row.terms, row.marks, names))
    parts = []
    if row.lower is not None:
        parts.append(f"(>= {value} {number(row.lower)})")
    if row.upper is not None:
        parts.append(f"(<= {value} {number(row.upper)})")
    return conjunction(parts)


def cell_formula(cell: Cell, names: Sequence[str]) -> str:
    """Return that the state of these names is in the cell."""
    parts = []
    for name, low, high in zip(names, cell.box.lower, cell.box.upper, strict=True):
        parts.append(f"(= {name} {number(low)})" if low == high else f"(<= {number(low)} {name} {number(high)})")
    parts += [row_formula(row, names) for row in cell.rows]
    parts += [f"(not {cell_formula(hole, names)})" for hole in cell.holes]
    return conjunction(parts)


def region_formula(region: Iterable[Cell], names: Sequence[str]) -> str:
    """Return that the state is in some cell of the region."""
    return disjunction(cell_formula(cell, names) for cell in region)


def declare(names: Iterable[str], sort: str = "Int") -> str:
    """Return the declarations."""
    return "".join(f"(declare-const {name} {sort})\n" for name in names)
