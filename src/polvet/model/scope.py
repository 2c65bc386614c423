"""Resolving expressions: constants become literals, functions are unfolded, arrays become their scalar elements.

A `Scope` maps names to *symbols*: a scalar expression, or a tuple of symbols (an array). `expand` returns a symbol,
`scalar` insists on a scalar. Array accesses with a computed index become `Select`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TypeAlias

from polvet.errors import InputError, Where, suggest
from polvet.model import folding
from polvet.model.automata import NOWHERE, Function
from polvet.model.expressions import (
    ArrayBuild,
    ArrayLiteral,
    Binary,
    BoolLiteral,
    Call,
    Conditional,
    Element,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
)

Symbol: TypeAlias = Expression | tuple["Symbol", ...]

MOST_BITS = 1023
"""An integer of so many bits is in the range of doubles."""
MAX_NODES = 20_000_000
MAX_ARRAY = 1_000_000
# Expressions nest at most a few hundred deep (documents are limited), functions multiply that.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))


class Scope:
    """Names and functions in force at one place of a model."""

    def __init__(
        self,
        names: Mapping[str, Symbol],
        functions: Mapping[str, tuple[Function, Scope | None]],
        locations: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.names = names
        self.functions = functions  # each with the scope of its body; None: this one
        self.locations = locations  # location variable -> its locations' names
        self._nodes = 0
        self._active: list[str] = []

    def scalar(self, expression: Expression, where: Where = NOWHERE, *, exact: bool = False) -> Expression:
        """Return the expression over scalars only; constant parts as doubles compute them, unless they are meant exactly."""
        single = _single(self.expand(expression, where), where)
        return single if exact else folding.in_doubles(single)

    def leaf(self, expression: Expression) -> Symbol | None:
        """Return the symbol of a name that is known, of a truth value or of a small number; None: expand it, and say where."""
        if isinstance(expression, Name):
            return self.names.get(expression.name)
        if isinstance(expression, BoolLiteral) or (
            isinstance(expression, IntLiteral) and expression.value.bit_length() <= MOST_BITS
        ):
            return expression
        return None

    def expand(self, expression: Expression, where: Where = NOWHERE) -> Symbol:
        """Return the expression's symbol."""
        try:
            return self._expand(expression, {}, where)
        except InputError as error:
            if error.where is None:
                raise InputError(error.what, where, error.hint) from None
            raise

    def _expand(self, expression: Expression, bound: Mapping[str, Symbol], where: Where) -> Symbol:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise InputError(
                f"unfolding functions and arrays gives more than {MAX_NODES} nodes.",
                where,
                "Make functions and arrays smaller.",
            )
        match expression:
            case IntLiteral(value) if value.bit_length() > MOST_BITS:
                digits = len(str(abs(value)))
                what = f"a number of {digits} digits is beyond the range of doubles."
                raise InputError(what, where, "Use smaller numbers.")
            case BoolLiteral() | IntLiteral() | RealLiteral() | MathConstant():
                return expression
            case Binary("/", IntLiteral(), IntLiteral()):
                return folding.binary("/", expression.left, expression.right)  # a double, perhaps, though neither is
            case Name(name):
                if name in bound:
                    return bound[name]
                if name in self.names:
                    return self.names[name]
                raise InputError(f"no variable or constant '{name}'.", where, suggest(name, self.names))
            case Unary(operator, operand):
                return folding.unary(operator, self._scalar(operand, bound, where))
            case Binary(("=" | "≠") as operator, left, right) if _quoted(left) or _quoted(right):
                return self._location_test(operator, left, right, where)
            case Binary(operator, left, right):
                return folding.binary(operator, self._scalar(left, bound, where), self._scalar(right, bound, where))
            case Conditional(condition, then, otherwise):
                test = self._scalar(condition, bound, where)
                if isinstance(test, BoolLiteral):
                    return self._expand(then if test.value else otherwise, bound, where)
                return _choose(test, self._expand(then, bound, where), self._expand(otherwise, bound, where), where)
            case Call(function, arguments):
                return self._call(function, [self._expand(one, bound, where) for one in arguments], where)
            case Element():
                return self._element(expression, bound, where)
            case ArrayLiteral(elements):
                return tuple(self._expand(element, bound, where) for element in elements)
            case ArrayBuild(variable, length, element):
                count = self.constant_int(length, bound, where)
                return tuple(self._expand(element, {**bound, variable: IntLiteral(i)}, where) for i in range(count))
            case Select(indices, shape, items):
                return folding.select(
                    tuple(self._scalar(index, bound, where) for index in indices),
                    shape,
                    tuple(self._scalar(item, bound, where) for item in items),
                )

    def _scalar(self, expression: Expression, bound: Mapping[str, Symbol], where: Where) -> Expression:
        return _single(self._expand(expression, bound, where), where)

    def constant_int(self, expression: Expression, bound: Mapping[str, Symbol], where: Where) -> int:
        """Return the length of an array, which must be known before the model runs."""
        value = folding.value_of(self._scalar(expression, bound, where))
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_ARRAY:
            raise InputError(
                "the length of an array is not a known number of elements.", where, f"Use a constant up to {MAX_ARRAY}."
            )
        return value

    def _call(self, name: str, arguments: list[Symbol], where: Where) -> Symbol:
        if name not in self.functions:
            raise InputError(f"no function '{name}'.", where, suggest(name, self.functions))
        function, home = self.functions[name]
        if len(arguments) != len(function.parameters):
            given, needed = len(arguments), len(function.parameters)
            raise InputError(
                f"function '{name}' takes {needed} arguments, not {given}.",
                where,
                "Give as many as the function declares.",
            )
        if name in self._active:
            circle = " -> ".join((*self._active, name))
            raise InputError(f"functions call each other in a circle: {circle}.", where, "Functions must not recurse.")
        self._active.append(name)
        try:
            scope = self if home is None else home
            bound = dict(zip((parameter for parameter, _ in function.parameters), arguments, strict=True))
            return scope._expand(function.body, bound, where)
        finally:
            self._active.pop()

    def _element(self, access: Element, bound: Mapping[str, Symbol], where: Where) -> Symbol:
        indices: list[Expression] = []
        base: Expression = access
        while isinstance(base, Element):
            indices.append(self._scalar(base.index, bound, where))
            base = base.array
        symbol = self._expand(base, bound, where)
        return _access(symbol, tuple(reversed(indices)), where)

    def _location_test(self, operator: str, left: Expression, right: Expression, where: Where) -> Expression:
        variable, location = (right, left) if _quoted(left) else (left, right)
        if not isinstance(variable, Name) or variable.name not in self.locations or not isinstance(location, Name):
            raise InputError(
                "a text is compared with something that is not a location.",
                where,
                "Compare automaton.location with a location's name.",
            )
        known = self.locations[variable.name]
        wanted = location.name.strip('"')
        if wanted not in known:
            raise InputError(f"'{variable.name}' is never '{wanted}'.", where, suggest(wanted, known))
        symbol = self.names.get(variable.name, IntLiteral(0))
        assert not isinstance(symbol, tuple)
        return folding.binary(operator, symbol, IntLiteral(known.index(wanted)))


def _single(symbol: Symbol, where: Where) -> Expression:
    if isinstance(symbol, tuple):
        raise InputError("an array stands where a single value is needed.", where, "Access one of its elements.")
    return symbol


def _quoted(expression: Expression) -> bool:
    return isinstance(expression, Name) and expression.name.startswith('"')


def _choose(condition: Expression, then: Symbol, otherwise: Symbol, where: Where) -> Symbol:
    if isinstance(then, tuple) or isinstance(otherwise, tuple):
        if not isinstance(then, tuple) or not isinstance(otherwise, tuple) or len(then) != len(otherwise):
            raise InputError("a choice between arrays of different shape.", where, "Give both the same length.")
        return tuple(_choose(condition, one, other, where) for one, other in zip(then, otherwise, strict=True))
    return folding.conditional(condition, then, otherwise)


def _access(symbol: Symbol, indices: tuple[Expression, ...], where: Where) -> Symbol:
    """Return the element of an array; known leading indices are followed, the rest becomes one Select per scalar."""
    while indices and isinstance(value := folding.value_of(indices[0]), int) and not isinstance(value, bool):
        if not isinstance(symbol, tuple):
            raise InputError("an element of something that is not an array.", where, "Only arrays have elements.")
        if not 0 <= value < len(symbol):
            raise InputError(
                f"index {value} is outside an array of {len(symbol)} elements.",
                where,
                "Use an index from 0 to the length less 1.",
            )
        symbol, indices = symbol[value], indices[1:]
    if not indices:
        return symbol
    shape: list[int] = []
    cells: list[Symbol] = [symbol]
    for _ in indices:
        rows: list[tuple[Symbol, ...]] = []
        for cell in cells:
            if not isinstance(cell, tuple):
                raise InputError("an element of something that is not an array.", where, "Only arrays have elements.")
            rows.append(cell)
        lengths = {len(row) for row in rows}
        if len(lengths) != 1:
            raise InputError("a computed index into an array whose rows differ in length.", where, "Pad the rows.")
        shape.append(lengths.pop())
        cells = [one for row in rows for one in row]
    return _select(indices, tuple(shape), cells, where)


def _select(indices: tuple[Expression, ...], shape: tuple[int, ...], cells: list[Symbol], where: Where) -> Symbol:
    if cells and isinstance(cells[0], tuple):
        columns = [cell for cell in cells if isinstance(cell, tuple)]
        if len(columns) < len(cells) or len({len(column) for column in columns}) != 1:
            raise InputError("a computed index into an array whose rows differ in length.", where, "Pad the rows.")
        return tuple(_select(indices, shape, list(column), where) for column in zip(*columns, strict=True))
    items = tuple(cell for cell in cells if not isinstance(cell, tuple))
    return folding.select(indices, shape, items)
