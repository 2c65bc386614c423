"""The values of constants: given from outside or computed from each other, and what values a type admits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from polvet.errors import InputError, Where, did_you_mean
from polvet.model import folding
from polvet.model.arithmetic import INT64_MAX, INT64_MIN, Value
from polvet.model.automata import Constant, Function, Model
from polvet.model.expressions import literal
from polvet.model.scope import Scope, Symbol
from polvet.model.types import BoolType, IntType, RealType, Type


def evaluate_constants(model: Model, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of every constant; reals are exact Fractions."""
    known = {constant.name: constant for constant in model.constants}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"The model has: {', '.join(known) or 'none'}."
            raise InputError(f"no constant '{name}'.", model.where, hint)
    values: dict[str, Value] = {}
    active: list[str] = []
    functions = {function.name: (function, None) for function in model.functions}

    def value_of(constant: Constant) -> Value:
        name = constant.name
        if name in values:
            return values[name]
        if name in active:
            circle = " -> ".join((*active, name))
            raise InputError(
                f"constants depend on each other in a circle: {circle}.", constant.where, "Give one of them a value."
            )
        active.append(name)
        value: Value | None
        if name in given:
            value = given[name]
        elif constant.value is None:
            raise InputError(
                f"constant '{name}' has no value.", constant.where, f"Give it with --constants {name}=VALUE."
            )
        else:
            value = folding.value_of(
                Scope(_Lazily(known, value_of), functions, {}).scalar(constant.value, constant.where, exact=True)
            )
        if value is None:
            raise InputError(f"constant '{name}' is not constant.", constant.where, "Use constants only.")
        active.pop()
        values[name] = fit(value, constant.type, f"constant '{name}'", constant.where)
        return values[name]

    for constant in model.constants:
        value_of(constant)
    for constant in model.constants:
        _check_bounds(constant, values, functions)
    return values


class _Lazily(Mapping[str, Symbol]):
    """Constants by name, each evaluated when it is first asked for."""

    def __init__(self, known: Mapping[str, Constant], evaluate: Callable[[Constant], Value]) -> None:
        self._known, self._evaluate = known, evaluate

    def __getitem__(self, name: str) -> Symbol:
        return literal(self._evaluate(self._known[name]))

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _check_bounds(
    constant: Constant, values: Mapping[str, Value], functions: Mapping[str, tuple[Function, None]]
) -> None:
    if isinstance(constant.type, IntType | RealType):
        scope = Scope({name: literal(value) for name, value in values.items()}, functions, {})
        lower, upper = bounds_of(constant.type, scope, constant.where)
        value = values[constant.name]
        if (lower is not None and value < lower) or (upper is not None and value > upper):
            raise InputError(
                f"constant '{constant.name}' is {value}, outside [{lower}, {upper}].",
                constant.where,
                "Give a value within the bounds.",
            )


def fit(value: Value, type_: Type, what: str, where: Where) -> Value:
    """Return the value as the type holds it (reals as Fractions), or raise an InputError that names `what`."""
    match type_:
        case BoolType() if isinstance(value, bool):
            return value
        case IntType() if not isinstance(value, bool) and value == int(value):
            return _int64(int(value), what, where)
        case RealType() if not isinstance(value, bool):
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{what} is {value}.", where, "Give a finite number.")
            return Fraction(value)
    raise InputError(f"{what} is {value}, which is not of type {type_}.", where, f"Give a value of type {type_}.")


def _int64(value: int, what: str, where: Where) -> int:
    if not INT64_MIN < value < INT64_MAX:
        raise InputError(f"{what} is {value}, which does not fit into 64 bits.", where, "Use smaller numbers.")
    return value


def bounds_of(
    type_: IntType | RealType, scope: Scope, where: Where
) -> tuple[int | Fraction | None, int | Fraction | None]:
    """Return the lower and upper bound of a type, None where it has none."""
    ends: list[int | Fraction | None] = []
    for end, bound in (("lower", type_.lower), ("upper", type_.upper)):
        if bound is None:
            ends.append(None)
            continue
        value = folding.value_of(scope.scalar(bound, where, exact=True))
        if value is None or isinstance(value, bool):
            raise InputError(f"the {end} bound is not a constant number.", where, "Use constants only.")
        if isinstance(type_, IntType):
            if value != int(value):
                raise InputError(
                    f"the {end} bound {value} of an integer is not an integer.", where, "Write an integer."
                )
            ends.append(_int64(int(value), f"the {end} bound", where))
        else:
            ends.append(Fraction(value))
    lower, upper = ends
    if lower is not None and upper is not None and lower > upper:
        raise InputError(f"the bounds [{lower}, {upper}] are empty.", where, "Put the smaller bound first.")
    return lower, upper
