"""Expressions as frozen data: the whole expression language of JANI, without values and without a solver.

Operators keep JANI's own signs ("∧", "≤", "pow"). `Select` is the one node JANI does not have: instantiation turns an
access `a[i][j]` with a computed index into a choice among the array's scalar elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TypeAlias, TypeGuard, get_args

LONG = 500
"""So many operands of a conjunction or disjunction stand in one chain."""


@dataclass(frozen=True, slots=True)
class BoolLiteral:
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class IntLiteral:
    """An integer."""

    value: int


@dataclass(frozen=True, slots=True)
class RealLiteral:
    """A decimal number, kept exactly; `double` is what computing it in doubles gave, where that is not the nearest one."""

    value: Fraction
    double: float | None = field(default=None, repr=False)

    @property
    def rounded(self) -> float:
        """Return what guards and assignments take it for."""
        return float(self.value) if self.double is None else self.double


@dataclass(frozen=True, slots=True)
class MathConstant:
    """`π` or `e`."""

    name: str


@dataclass(frozen=True, slots=True)
class Name:
    """A constant, variable or parameter, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    """An operator with one operand."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator with two operands."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional:
    """`ite`: one of two expressions, by a condition."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the model, applied."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """`aa`: one element of an array."""

    array: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """`av`: an array by its elements."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ArrayBuild:
    """`ac`: an array by its length and an expression over the index variable."""

    variable: str
    length: Expression
    element: Expression


@dataclass(frozen=True, slots=True)
class Select:
    """The item at `indices` of a box of scalar expressions of the given shape, in row-major order."""

    indices: tuple[Expression, ...]
    shape: tuple[int, ...]
    items: tuple[Expression, ...]


Expression: TypeAlias = (
    BoolLiteral | IntLiteral | RealLiteral | MathConstant | Name | Unary | Binary | Conditional | Call | Element
    | ArrayLiteral | ArrayBuild | Select
)  # fmt: skip

_NODES = get_args(Expression)

TRUE, FALSE = BoolLiteral(True), BoolLiteral(False)

LOGICAL = ("∧", "∨", "⇒")
EQUALITY = ("=", "≠")
ORDER = ("<", "≤", ">", "≥")
ARITHMETIC = ("+", "-", "*", "min", "max", "%", "pow")
REAL_BINARY = ("/", "log")
ROUNDING = ("floor", "ceil", "trc")
TRIGONOMETRIC = (
    "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc",
    "sinh", "cosh", "tanh", "coth", "sech", "csch", "asinh", "acosh", "atanh", "acoth", "asech", "acsch",
)  # fmt: skip
UNARY = ("¬", "abs", "sgn", "exp", *ROUNDING, *TRIGONOMETRIC)
BINARY = (*LOGICAL, *EQUALITY, *ORDER, *ARITHMETIC, *REAL_BINARY)


def is_expression(part: object) -> TypeGuard[Expression]:
    """Return whether the object is an expression, and not another part of a property."""
    return isinstance(part, _NODES)


def literal(value: bool | int | float | Fraction) -> BoolLiteral | IntLiteral | RealLiteral:
    """Return the literal of a Python value.

    >>> literal(True), literal(2), literal(0.5)
    (BoolLiteral(value=True), IntLiteral(value=2), RealLiteral(value=Fraction(1, 2)))
    """
    if isinstance(value, bool):
        return BoolLiteral(value)
    if isinstance(value, int):
        return IntLiteral(value)
    return RealLiteral(Fraction(value))


def conjunction(*operands: Expression) -> Expression:
    """Return the conjunction; none of it is `true`."""
    parts = [operand for operand in operands if operand != TRUE]
    return _joined("∧", parts) if parts else TRUE


def disjunction(*operands: Expression) -> Expression:
    """Return the disjunction; none of it is `false`."""
    parts = [operand for operand in operands if operand != FALSE]
    return _joined("∨", parts) if parts else FALSE


def _joined(operator: str, parts: Sequence[Expression]) -> Expression:
    """Return the operands in their order, in halves where they are many: whoever walks the expression recurses."""
    if len(parts) > LONG:
        middle = len(parts) // 2
        return Binary(operator, _joined(operator, parts[:middle]), _joined(operator, parts[middle:]))
    return reduce(lambda left, right: Binary(operator, left, right), parts)


def first_equality(condition: Expression) -> tuple[str, int] | None:
    """Return the variable and the integer that the first part of a conjunction compares; None where it is something else.

    >>> first_equality(conjunction(Binary("=", Name("x"), IntLiteral(3)), Name("b")))
    ('x', 3)
    """
    while isinstance(condition, Binary) and condition.operator == "∧":
        condition = condition.left
    match condition:
        case Binary("=", Name(name), IntLiteral(value)):
            return name, value
        case _:
            return None


def negation(operand: Expression) -> Expression:
    """Return the negation, without a double one."""
    if isinstance(operand, BoolLiteral):
        return BoolLiteral(not operand.value)
    if isinstance(operand, Unary) and operand.operator == "¬":
        return operand.operand
    return Unary("¬", operand)


def operands_of(expression: Expression, operator: str) -> Iterator[Expression]:
    """Yield the operands of a nested chain of one operator, from left to right."""
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, Binary) and part.operator == operator:
            pending += (part.right, part.left)
        else:
            yield part


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """Yield the operands of a nested conjunction, from left to right; `true` is none."""
    return (part for part in operands_of(expression, "∧") if part != TRUE)


def disjuncts(expression: Expression) -> Iterator[Expression]:
    """Yield the operands of a nested disjunction, from left to right."""
    return operands_of(expression, "∨")


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct sub-expressions."""
    match expression:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Conditional(condition, then, otherwise):
            return (condition, then, otherwise)
        case Call(_, arguments):
            return arguments
        case Element(array, index):
            return (array, index)
        case ArrayLiteral(elements):
            return elements
        case ArrayBuild(_, length, element):
            return (length, element)
        case Select(indices, _, items):
            return (*indices, *items)
        case _:
            return ()


def rebuild(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the expression with `change` applied to its direct sub-expressions."""
    match expression:
        case Unary(operator, operand):
            return Unary(operator, change(operand))
        case Binary(operator, left, right):
            return Binary(operator, change(left), change(right))
        case Conditional(condition, then, otherwise):
            return Conditional(change(condition), change(then), change(otherwise))
        case Call(function, arguments):
            return Call(function, tuple(change(argument) for argument in arguments))
        case Element(array, index):
            return Element(change(array), change(index))
        case ArrayLiteral(elements):
            return ArrayLiteral(tuple(change(element) for element in elements))
        case ArrayBuild(variable, length, element):
            return ArrayBuild(variable, change(length), change(element))
        case Select(indices, shape, items):
            return Select(tuple(change(index) for index in indices), shape, tuple(change(item) for item in items))
        case _:
            return expression


def names(expression: Expression) -> set[str]:
    """Return every name the expression reads.

    >>> sorted(names(Binary("+", Name("x"), Element(Name("a"), Name("i")))))
    ['a', 'i', 'x']
    """
    if isinstance(expression, BoolLiteral | IntLiteral | RealLiteral):
        return set()
    read: set[str] = set()
    seen: set[int] = set()
    pending: list[Expression] = [expression]
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Name):
            read.add(part.name)
        elif isinstance(part, ArrayBuild):
            read |= names(part.length) | (names(part.element) - {part.variable})
        else:
            pending += children(part)
    return read


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all its sub-expressions, shared ones each time."""
    pending = [expression]
    while pending:
        yield (part := pending.pop())
        pending += children(part)


def size(expression: Expression) -> int:
    """Return the number of nodes, shared ones counted each time."""
    return sum(1 for _ in parts_of(expression))
