"""Building expressions with what is known already computed: literals folded exactly, `true ∧ x` made `x`."""

from __future__ import annotations

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
    RealLiteral,
    Select,
    Unary,
    literal,
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
    value = value_of(operand)
    if value is not None:
        return _constant(arithmetic.UNARY[operator](value))
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
    x, y = value_of(left), value_of(right)
    if x is not None and y is not None:
        return _constant(arithmetic.BINARY[operator](x, y))
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
