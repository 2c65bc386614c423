"""Expressions made into Python functions of a state: `compile_expression` is the interpreter's whole evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from polvet.errors import InputError, ModelError
from polvet.model import arithmetic
from polvet.model.arithmetic import Value
from polvet.model.expressions import (
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
    disjuncts,
    first_equality,
)

Evaluator: TypeAlias = Callable[[Sequence[Value]], Any]
MANY_CASES = 8
"""So many parts of a disjunction are looked up; fewer are read one after the other."""


def compile_expression(
    expression: Expression, position: Mapping[str, int], *, exact: bool = False, exact_tests: bool = True
) -> Evaluator:
    """Return the function from a state to the expression's value; with `exact`, reals are Fractions, not doubles.

    Without `exact_tests` what chooses among its parts, conditions and indices, is computed in doubles all the same, as in guards.

    >>> compile_expression(Binary("+", Name("x"), IntLiteral(1)), {"x": 0})((41,))
    42
    """

    def build(part: Expression) -> Evaluator:
        match part:
            case BoolLiteral(value) | IntLiteral(value):
                return lambda state: value
            case RealLiteral(real):
                number: Value = real if exact else part.rounded
                return lambda state: number
            case MathConstant(name):
                constant: Value = Fraction(arithmetic.CONSTANTS[name]) if exact else arithmetic.CONSTANTS[name]
                return lambda state: constant
            case Name(name):
                place = position[name]
                if exact:
                    return lambda state: _exactly(state[place])
                return lambda state: state[place]
            case Unary("¬", operand):
                inner = build(operand)
                return lambda state: not inner(state)
            case Unary(operator, operand):
                inner, apply = build(operand), arithmetic.UNARY[operator]
                return lambda state: apply(inner(state))
            case Binary("∧", left, right):
                one, other = build(left), build(right)
                return lambda state: one(state) and other(state)
            case Binary("∨", left, right):
                if len(parts := list(disjuncts(part))) >= MANY_CASES:
                    return _any_of(parts, position, build)
                one, other = build(left), build(right)
                return lambda state: one(state) or other(state)
            case Binary("⇒", left, right):
                one, other = build(left), build(right)
                return lambda state: not one(state) or other(state)
            case Binary("/", left, right) if not exact:
                one, other, divide = build(left), build(right), arithmetic.BINARY["/"]
                return lambda state: divide(float(one(state)), float(other(state)))
            case Binary(operator, left, right):
                one, other, combine = build(left), build(right), arithmetic.BINARY[operator]
                return lambda state: combine(one(state), other(state))
            case Conditional(condition, then, otherwise):
                test = build(condition) if exact_tests else compile_expression(condition, position)
                yes, no = build(then), build(otherwise)
                return lambda state: yes(state) if test(state) else no(state)
            case Select(_, _, items):
                place_of = compile_position(part, position, exact=exact and exact_tests)
                values = [build(item) for item in items]
                return lambda state: values[place_of(state)](state)
            case _:
                raise InputError(
                    "an array stands where a single value is needed.", hint="Take an element of the array."
                )

    return build(expression)


def _any_of(
    parts: Sequence[Expression], position: Mapping[str, int], build: Callable[[Expression], Evaluator]
) -> Evaluator:
    """Return the function of a long disjunction; where all its parts begin with `x = 3`, they are looked up by the value of `x`."""
    tests = [build(part) for part in parts]
    firsts = [first for part in parts if (first := first_equality(part)) is not None]
    if len(firsts) < len(parts) or len({name for name, _ in firsts}) > 1:
        return lambda state: any(test(state) for test in tests)
    # SOUND: a conjunction is read from the left, so a part is left out only where its first test is false.
    cases: dict[Value, list[Evaluator]] = {}
    for (_, value), test in zip(firsts, tests, strict=True):
        cases.setdefault(value, []).append(test)
    place = position[firsts[0][0]]
    return lambda state: any(test(state) for test in cases.get(state[place], ()))


def compile_position(
    select: Select, position: Mapping[str, int], *, exact: bool = False
) -> Callable[[Sequence[Value]], int]:
    """Return the function from a state to the number of the selected item; an index out of range is a ModelError."""
    indices = [compile_expression(index, position, exact=exact) for index in select.indices]
    shape = select.shape

    def place(state: Sequence[Value]) -> int:
        result = 0
        for index, length in zip(indices, shape, strict=True):
            value = index(state)
            if not 0 <= value < length:
                raise ModelError(f"index {value} is outside an array of {length} elements.", hint="Guard the access.")
            result = result * length + int(value)
        return result

    return place


def _exactly(value: Value) -> Value:
    return Fraction(value) if isinstance(value, float) else value
