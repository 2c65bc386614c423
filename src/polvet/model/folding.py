"""Building expressions with what is known already computed: literals folded, `true ∧ x` made `x`.

A constant part has two values: the exact one, which probabilities, bounds and rewards mean, and what doubles give, which guards and
assignments mean (`in_doubles`), as they do where a variable is read. A truth value or an integer in which the two differ is not folded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from polvet.errors import InputError
from polvet.model import arithmetic
from polvet.model.arithmetic import Value
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
    children,
    literal,
    rebuild,
)
from polvet.numbers import LARGEST


def value_of(expression: Expression) -> Value | None:
    """Return the value of a literal, None for anything else; reals are Fractions."""
    if isinstance(expression, BoolLiteral | IntLiteral | RealLiteral):
        return expression.value
    if isinstance(expression, MathConstant):
        return Fraction(arithmetic.CONSTANTS[expression.name])
    return None


def unary(operator: str, operand: Expression) -> Expression:
    """Return the operator applied, folded where the operand is known."""
    if (constant := _computed(operator, arithmetic.UNARY[operator], operand)) is not None:
        return constant
    if operator == "¬":
        match operand:
            case Unary("¬", inner):
                return inner
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as comparison, left, right):
                # SOUND: reals are never NaN here, so a comparison and its opposite exclude each other.
                return Binary(_OPPOSITE[comparison], left, right)
    if operator in ("floor", "ceil", "trc") and isinstance(operand, IntLiteral):
        return operand
    return Unary(operator, operand)


_OPPOSITE = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}


def binary(operator: str, left: Expression, right: Expression) -> Expression:
    """Return the operator applied, folded where operands are known.

    >>> binary("+", IntLiteral(2), IntLiteral(3))
    IntLiteral(value=5)
    >>> binary("∧", TRUE, MathConstant("π"))
    MathConstant(name='π')
    """
    if operator == "⇒":
        operator, left = "∨", unary("¬", left)
    if operator in ("∧", "∨"):
        neutral, zero = (TRUE, FALSE) if operator == "∧" else (FALSE, TRUE)
        if isinstance(left, BoolLiteral):
            return right if left == neutral else zero
        if isinstance(right, BoolLiteral):
            return left if right == neutral else zero
        return Binary(operator, left, right)
    if (constant := _computed(operator, arithmetic.BINARY[operator], left, right)) is not None:
        return constant
    x, y = value_of(left), value_of(right)
    if operator in ("=", "≠"):
        # b = true is b, b = false is ¬b
        for known, other in ((x, right), (y, left)):
            if isinstance(known, bool):
                return other if known == (operator == "=") else unary("¬", other)
    if isinstance(right, IntLiteral) and right.value == 0 and operator in ("+", "-"):
        return left
    if isinstance(left, IntLiteral) and left.value == 0 and operator == "+":
        return right
    return Binary(operator, left, right)


def in_doubles(expression: Expression) -> Expression:
    """Return the expression as guards and assignments mean it: constant parts are what computing them in doubles gives.

    >>> product = binary("*", RealLiteral(Fraction(1, 10)), IntLiteral(3))
    >>> value_of(product), float(value_of(in_doubles(product)))
    (Fraction(3, 10), 0.30000000000000004)
    """
    if not _differs(expression):
        return expression
    done: dict[int, Expression] = {}  # shared parts are changed once

    def change(part: Expression) -> Expression:
        if isinstance(part, RealLiteral) and part.double is not None:
            return RealLiteral(Fraction(part.double))
        if id(part) not in done:
            done[id(part)] = _rebuilt(rebuild(part, change))
        return done[id(part)]

    return change(expression)


def _differs(expression: Expression) -> bool:
    """Return whether doubles give another value for a constant part than the nearest one."""
    pending, seen = [expression], set[int]()
    while pending:
        part = pending.pop()
        if type(part) is RealLiteral:
            if part.double is not None:
                return True
        elif type(part) is not Name and id(part) not in seen:
            seen.add(id(part))
            pending += children(part)
    return False


def _rebuilt(part: Expression) -> Expression:
    match part:
        case Unary(operator, operand):
            return unary(operator, operand)
        case Binary(operator, left, right):
            return binary(operator, left, right)
        case Conditional(condition, then, otherwise):
            return conditional(condition, then, otherwise)
        case Select(indices, shape, items):
            return select(indices, shape, items)
    return part


def _computed(operator: str, apply: Callable[..., Value], *operands: Expression) -> Expression | None:
    """Return the constant; None where an operand is none, or where doubles give another truth value or integer, or nothing."""
    values = [value_of(one) for one in operands]
    if any(value is None for value in values):
        return None
    exact = _constant(apply(*values))
    as_double = operator == "/" or any(isinstance(value, Fraction) for value in values)
    if not as_double:
        return exact
    try:
        double = apply(*(_double_of(one, value) for one, value in zip(operands, values, strict=True)))
    except (InputError, OverflowError):
        return None
    if not isinstance(exact, RealLiteral):
        return exact if value_of(exact) == double else None
    return exact if exact.rounded == double else replace(exact, double=float(double))


def _double_of(operand: Expression, value: Value | None) -> float | int:
    return operand.rounded if isinstance(operand, RealLiteral) else float(value or 0)


def _constant(value: Value) -> Expression:
    if not isinstance(value, bool | float):
        bits = max(value.numerator.bit_length(), value.denominator.bit_length())
        if bits > arithmetic.MOST_BITS or not -LARGEST <= value <= LARGEST:
            what = f"a constant has {bits} bits or is beyond the range of doubles."
            raise InputError(what, hint="Use smaller numbers.")
    return literal(value)


def conditional(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    """Return `ite`, folded where the condition is known."""
    if isinstance(condition, BoolLiteral):
        return then if condition.value else otherwise
    if then is otherwise:
        return then
    if then == TRUE and otherwise == FALSE:
        return condition
    return Conditional(condition, then, otherwise)


def select(indices: tuple[Expression, ...], shape: tuple[int, ...], items: tuple[Expression, ...]) -> Expression:
    """Return the selection, folded where every index is known and inside the shape."""
    position = 0
    for index, length in zip(indices, shape, strict=True):
        value = value_of(index)
        if not isinstance(value, int) or not 0 <= value < length:
            return Select(indices, shape, items)
        position = position * length + value
    return items[position]
