"""Write expressions and types as JANI documents; numbers stay exact."""

from __future__ import annotations

from polvet.errors import InputError
from polvet.jani.documents import Json
from polvet.jani.text import is_decimal
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
    Unary,
)
from polvet.model.types import ArrayType, BoolType, IntType, RealType, Type
from polvet.numbers import MAX_DIGITS


def write_expression(expression: Expression) -> Json:
    """Return the document of an expression; a number that is no finite decimal becomes a division.

    >>> from fractions import Fraction
    >>> write_expression(RealLiteral(Fraction(1, 3)))
    {'op': '/', 'left': 1, 'right': 3}
    """
    match expression:
        case Binary(operator, left, right):
            return {"op": operator, "left": write_expression(left), "right": write_expression(right)}
        case Name(name):
            return name
        case BoolLiteral(value):
            return value
        case IntLiteral(number):
            return _integer(number)
        case RealLiteral(real):
            if is_decimal(real):
                return real
            return {"op": "/", "left": _integer(real.numerator), "right": _integer(real.denominator)}
        case MathConstant(name):
            return {"constant": name}
        case Unary(operator, operand):
            return {"op": operator, "exp": write_expression(operand)}
        case Conditional(condition, then, otherwise):
            return {
                "op": "ite",
                "if": write_expression(condition),
                "then": write_expression(then),
                "else": write_expression(otherwise),
            }
        case Call(function, arguments):
            return {"op": "call", "function": function, "args": [write_expression(part) for part in arguments]}
        case Element(array, index):
            return {"op": "aa", "exp": write_expression(array), "index": write_expression(index)}
        case ArrayLiteral(elements):
            return {"op": "av", "elements": [write_expression(part) for part in elements]}
        case ArrayBuild(variable, length, element):
            return {
                "op": "ac",
                "var": variable,
                "length": write_expression(length),
                "exp": write_expression(element),
            }
        case _:
            raise InputError(
                f"JANI has no expression '{type(expression).__name__}'.",
                hint="Write the model before it is instantiated.",
            )


def _integer(value: int) -> int:
    if abs(value) >= 10**MAX_DIGITS:
        raise InputError(
            f"an integer has more than {MAX_DIGITS} digits and could not be read again.", hint="Use smaller numbers."
        )
    return value


def write_optional(expression: Expression | None) -> Json:
    """Return the document of an expression; None where there is none."""
    return None if expression is None else write_expression(expression)


def write_wrapped(expression: Expression | None) -> Json:
    """Return the document `{"exp": ...}` that guards and probabilities have; None where there is none."""
    return None if expression is None else {"exp": write_expression(expression)}


def without_absent(document: dict[str, Json]) -> dict[str, Json]:
    """Return the document without the keys of what there is not, whose value is None."""
    return {key: value for key, value in document.items() if value is not None}


def write_type(kind: Type) -> Json:
    """Return the document of a type.

    >>> write_type(IntType(IntLiteral(0), Name("N")))
    {'kind': 'bounded', 'base': 'int', 'lower-bound': 0, 'upper-bound': 'N'}
    """
    match kind:
        case BoolType():
            return "bool"
        case ArrayType(base):
            return {"kind": "array", "base": write_type(base)}
        case IntType(lower, upper) | RealType(lower, upper):
            name = "int" if isinstance(kind, IntType) else "real"
            if lower is None and upper is None:
                return name
            bounds = {"lower-bound": lower, "upper-bound": upper}
            return {
                "kind": "bounded",
                "base": name,
                **{key: write_expression(bound) for key, bound in bounds.items() if bound is not None},
            }
