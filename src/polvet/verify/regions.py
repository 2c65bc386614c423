"""Cells as conditions over the model's variables, as people read and write them."""

from __future__ import annotations

from polvet.model.expressions import (
    Binary,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    Unary,
    conjunction,
    negation,
)
from polvet.model.network import Kind, Network
from polvet.symbolic.cells import Box, Cell, Row


def condition_of_cell(network: Network, cell: Cell, bounds: Box) -> Expression:
    """Return that a state is in the cell; bounds that hold anyway are left out."""
    parts: list[Expression] = []
    for place, (low, high) in enumerate(zip(cell.box.lower, cell.box.upper, strict=True)):
        variable = network.variables[place]
        if variable.kind is Kind.BOOL:
            if low == high:
                parts.append(Name(variable.name) if low else Unary("¬", Name(variable.name)))
            continue
        if low == high:
            parts.append(Binary("=", Name(variable.name), IntLiteral(low)))
            continue
        if low > bounds.lower[place]:
            parts.append(Binary("≥", Name(variable.name), IntLiteral(low)))
        if high < bounds.upper[place]:
            parts.append(Binary("≤", Name(variable.name), IntLiteral(high)))
    parts += [_row(network, row) for row in cell.rows]
    parts += [negation(condition_of_cell(network, hole, bounds)) for hole in cell.holes]
    return conjunction(*parts)


def _row(network: Network, row: Row) -> Expression:
    total: Expression | None = None
    for place, factor in row.terms:
        value = _number(network, place)
        total = _plus(total, value if factor == 1 else Binary("*", IntLiteral(factor), value))
    for place, wanted, factor in row.marks:
        equal = Binary("=", _number(network, place), IntLiteral(wanted))
        total = _plus(total, Conditional(equal, IntLiteral(factor), IntLiteral(0)))
    total = IntLiteral(0) if total is None else total
    parts: list[Expression] = []
    if row.lower is not None and row.lower == row.upper:
        return Binary("=", total, IntLiteral(row.lower))
    if row.lower is not None:
        parts.append(Binary("≥", total, IntLiteral(row.lower)))
    if row.upper is not None:
        parts.append(Binary("≤", total, IntLiteral(row.upper)))
    return conjunction(*parts)


def _plus(left: Expression | None, right: Expression) -> Expression:
    return right if left is None else Binary("+", left, right)


def _number(network: Network, place: int) -> Expression:
    variable = network.variables[place]
    if variable.kind is Kind.BOOL:
        return Conditional(Name(variable.name), IntLiteral(1), IntLiteral(0))
    return Name(variable.name)
