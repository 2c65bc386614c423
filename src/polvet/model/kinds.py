"""Whether a scalar expression is a truth value, an integer or a real."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
)
from polvet.model.network import Kind


def kind_of(expression: Expression, kinds: Mapping[str, Kind], of: Callable[[Expression], Kind] | None = None) -> Kind:
    """Return the kind of a resolved expression; operands that do not fit raise an InputError.

    `of` tells the kind of an operand where the caller remembers those.

    >>> kind_of(Binary("+", Name("x"), MathConstant("π")), {"x": Kind.INT})
    <Kind.REAL: 'real'>
    """
    if of is None:

        def of(part: Expression) -> Kind:
            return kind_of(part, kinds)

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
            _expect(operand, of, "¬", boolean=True)
            return Kind.BOOL
        case Unary(operator, operand):
            kind = _expect(operand, of, operator, boolean=False)
            if operator in ROUNDING or operator == "sgn":
                return Kind.INT
            return kind if operator == "abs" else Kind.REAL
        case Binary(operator, left, right) if operator in LOGICAL:
            _expect(left, of, operator, boolean=True)
            _expect(right, of, operator, boolean=True)
            return Kind.BOOL
        case Binary(operator, left, right) if operator in EQUALITY:
            one, other = of(left), of(right)
            if (one is Kind.BOOL) != (other is Kind.BOOL):
                raise InputError(
                    f"'{operator}' compares a {one.value} with a {other.value}.", hint="Make both sides the same kind."
                )
            return Kind.BOOL
        case Binary(operator, left, right):
            one, other = (_expect(side, of, operator, boolean=False) for side in (left, right))
            if operator in ORDER:
                return Kind.BOOL
            return Kind.INT if one is other is Kind.INT and operator not in REAL_BINARY else Kind.REAL
        case Conditional(condition, then, otherwise):
            _expect(condition, of, "ite", boolean=True)
            return _join(of(then), of(otherwise))
        case Select(indices, _, items):
            for index in indices:
                if of(index) is not Kind.INT:
                    raise InputError("an index is not an integer.", hint="Write an integer expression.")
            result = of(items[0]) if items else Kind.INT
            for item in items[1:]:
                result = _join(result, of(item))
            return result
        case _:
            raise InputError("an array stands where a single value is needed.", hint="Take an element of the array.")


def _expect(operand: Expression, of: Callable[[Expression], Kind], operator: str, *, boolean: bool) -> Kind:
    kind = of(operand)
    if (kind is Kind.BOOL) != boolean:
        raise InputError(f"'{operator}' does not take a {kind.value}.", hint="Check the types of its operands.")
    return kind


def _join(one: Kind, other: Kind) -> Kind:
    if one is other:
        return one
    if Kind.BOOL in (one, other):
        raise InputError(f"a choice between a {one.value} and a {other.value}.", hint="Make both sides the same kind.")
    return Kind.REAL
