"""What JANI's operators do to values: bool, int, exact Fraction, or float; the one table all of Python's side uses.

Exactness follows the operands: ints and Fractions stay exact wherever the result is rational, floats stay floats, so
the same table serves the interpreter (reals are doubles) and exact evaluation (reals are Fractions).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

from polvet.errors import InputError

Value: TypeAlias = bool | int | float | Fraction

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MOST_BITS = 1 << 16
"""Of numerator and denominator of an exact power or an exact constant: chains of constants double it with every link."""


def _divide(x: Any, y: Any) -> Value:
    if y == 0:
        raise InputError(f"division of {x} by zero.", hint="Guard the division.")
    if isinstance(x, float) or isinstance(y, float):
        return _finite(float(x) / float(y))
    return Fraction(x) / Fraction(y)


def _finite(x: Any) -> Value:
    if type(x) is float and not math.isfinite(x):
        raise InputError("a real operation has no finite result.", hint="Guard the operation.")
    return x  # type: ignore[no-any-return]


def _modulo(x: Any, y: Any) -> Value:
    if y == 0:
        raise InputError(f"remainder of {x} by zero.", hint="Guard the operation.")
    return x % abs(y)  # type: ignore[no-any-return]


def _is_small_integer(y: int | Fraction) -> bool:
    return Fraction(y).denominator == 1 and -1024 <= y <= 1024


def _small(x: int | Fraction, y: int) -> int | Fraction:
    """Return the base of an exact power; its size is tested before a digit is computed."""
    if max(x.numerator.bit_length(), x.denominator.bit_length()) * abs(y) > MOST_BITS:
        raise InputError(f"an exact power needs more than {MOST_BITS} bits.", hint="Use smaller numbers.")
    return x


def _power(x: Any, y: Any) -> Value:
    if isinstance(x, int) and isinstance(y, int):
        if y < 0:
            raise InputError(f"the integer power {x}^{y} has a negative exponent.", hint="Use a real base such as 2.0.")
        if (x > 1 or x < -1) and y > 63:
            raise InputError(f"the integer power {x}^{y} leaves 64 bits.", hint="Use a real base such as 2.0.")
        return int(_small(x, y) ** y)
    if isinstance(x, Fraction) and isinstance(y, int | Fraction) and _is_small_integer(y):
        if x == 0 and y < 0:
            raise InputError(f"the power 0^{y} is a division by zero.", hint="Guard the operation.")
        return Fraction(_small(x, int(y)) ** int(y))
    return _real(math.pow, float(x), float(y))


def _log(x: Any, y: Any) -> Value:
    return _real(lambda a, b: math.log(a) / math.log(b), float(x), float(y))


def _real(function: Callable[..., float], *values: float) -> float:
    try:
        result = function(*values)
    except (ValueError, OverflowError, ZeroDivisionError):
        result = math.nan
    if not math.isfinite(result):
        given = ", ".join(str(value) for value in values)
        raise InputError(f"a real operation has no finite result for {given}.", hint="Guard the operation.")
    return result


def _integer(function: Callable[[Any], int]) -> Callable[[Any], Value]:
    def rounded(x: Any) -> Value:
        if isinstance(x, float) and not math.isfinite(x):
            raise InputError(f"{x} cannot be made an integer.", hint="Guard the operation.")
        return function(x)

    return rounded


def _sign(x: Any) -> Value:
    return int(x > 0) - int(x < 0)


def _minimum(x: Any, y: Any) -> Value:
    x, y = _same_kind(x, y)
    return x if x <= y else y  # type: ignore[no-any-return]


def _maximum(x: Any, y: Any) -> Value:
    x, y = _same_kind(x, y)
    return x if x >= y else y  # type: ignore[no-any-return]


def _same_kind(x: Any, y: Any) -> tuple[Any, Any]:
    if type(x) is type(y):
        return x, y
    if isinstance(x, float) or isinstance(y, float):
        return float(x), float(y)
    return Fraction(x), Fraction(y)


BINARY: dict[str, Callable[[Any, Any], Value]] = {
    "∧": lambda x, y: x and y,
    "∨": lambda x, y: x or y,
    "⇒": lambda x, y: not x or y,
    "=": lambda x, y: x == y,
    "≠": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "≤": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    "≥": lambda x, y: x >= y,
    "+": lambda x, y: _finite(x + y),
    "-": lambda x, y: _finite(x - y),
    "*": lambda x, y: _finite(x * y),
    "min": _minimum,
    "max": _maximum,
    "%": _modulo,
    "pow": _power,
    "/": _divide,
    "log": _log,
}


def _trigonometric() -> dict[str, Callable[[Any], Value]]:
    plain: dict[str, Callable[[float], float]] = {
        name: getattr(math, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
    }
    plain |= {
        "cot": lambda x: 1.0 / math.tan(x),
        "sec": lambda x: 1.0 / math.cos(x),
        "csc": lambda x: 1.0 / math.sin(x),
        "acot": lambda x: math.pi / 2 - math.atan(x),
        "asec": lambda x: math.acos(1.0 / x),
        "acsc": lambda x: math.asin(1.0 / x),
        "coth": lambda x: 1.0 / math.tanh(x),
        "sech": lambda x: 1.0 / math.cosh(x),
        "csch": lambda x: 1.0 / math.sinh(x),
        "acoth": lambda x: math.atanh(1.0 / x),
        "asech": lambda x: math.acosh(1.0 / x),
        "acsch": lambda x: math.asinh(1.0 / x),
        "exp": math.exp,
    }
    return {name: partial(_real_of, function) for name, function in plain.items()}


def _real_of(function: Callable[[float], float], x: Any) -> Value:
    return _real(function, float(x))


UNARY: dict[str, Callable[[Any], Value]] = {
    "¬": lambda x: not x,
    "abs": lambda x: abs(x),
    "sgn": _sign,
    "floor": _integer(math.floor),
    "ceil": _integer(math.ceil),
    "trc": _integer(math.trunc),
    **_trigonometric(),
}

CONSTANTS = {"π": math.pi, "e": math.e}
