"""Whether a scalar expression is a truth value, an integer or a real."""

from __future__ import annotations

from collections.abc import Mapping

from polvet.errors import InputError
from polvet.model.expressions import (
    EQUALITY,
    LOGICAL,
    ORDER,
    REAL_BINARY,
    ROUNDING,
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
)  # fmt: skip
from polvet.model.network import Kind


def kind_of(expression: Expression, kinds: Mapping[str, Kind]) -> Kind:
    """Return the kind of a resolved expression; operands that do not fit raise an InputError.

    >>> kind_of(Binary("+", Name("x"), MathConstant("π")), {"x": Kind.INT})
    <Kind.REAL: 'real'>
    """
    match expression:
        case BoolLiteral():
            return Kind.BOOL
        case IntLiteral():
            return Kind.INT
        case RealLiteral() | MathConstant():
            return Kind.REAL
        case Name(name):
            return kinds[name]
        case Unary("¬", operand):
            _expect(operand, kinds, "¬", boolean=True)
            return Kind.BOOL
        case Unary(operator, operand):
            kind = _expect(operand, kinds, operator, boolean=False)
            if operator in ROUNDING or operator == "sgn":
                return Kind.INT
            return kind if operator == "abs" else Kind.REAL
        case Binary(operator, left, right) if operator in LOGICAL:
            _expect(left, kinds, operator, boolean=True)
            _expect(right, kinds, operator, boolean=True)
            return Kind.BOOL
        case Binary(operator, left, right) if operator in EQUALITY:
            one, other = kind_of(left, kinds), kind_of(right, kinds)
            if (one is Kind.BOOL) != (other is Kind.BOOL):
                raise InputError(
                    f"'{operator}' compares a {one.value} with a {other.value}.", hint="Make both sides the same kind."
                )
            return Kind.BOOL
        case Binary(operator, left, right):
            one, other = (_expect(side, kinds, operator, boolean=False) for side in (left, right))
            if operator in ORDER:
                return Kind.BOOL
            return Kind.INT if one is other is Kind.INT and operator not in REAL_BINARY else Kind.REAL
        case Conditional(condition, then, otherwise):
            _expect(condition, kinds, "ite", boolean=True)
            return _join(kind_of(then, kinds), kind_of(otherwise, kinds))
        case Select(indices, _, items):
            for index in indices:
                if kind_of(index, kinds) is not Kind.INT:
                    raise InputError("an index is not an integer.", hint="Write an integer expression.")
            result = kind_of(items[0], kinds) if items else Kind.INT
            for item in items[1:]:
                result = _join(result, kind_of(item, kinds))
            return result
        case _:
            raise InputError("an array stands where a single value is needed.", hint="Take an element of the array.")


def _expect(operand: Expression, kinds: Mapping[str, Kind], operator: str, *, boolean: bool) -> Kind:
    kind = kind_of(operand, kinds)
    if (kind is Kind.BOOL) != boolean:
        raise InputError(f"'{operator}' does not take a {kind.value}.", hint="Check the types of its operands.")
    return kind


def _join(one: Kind, other: Kind) -> Kind:
    if one is other:
        return one
    if Kind.BOOL in (one, other):
        raise InputError(f"a choice between a {one.value} and a {other.value}.", hint="Make both sides the same kind.")
    return Kind.REAL
