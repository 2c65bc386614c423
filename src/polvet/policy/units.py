"""The units of a network, in one table: value, derivative, where the derivative turns or jumps, and the enclosure of libraries.

Libraries compute smooth units in float32 with differing last bits. A verdict holds for every evaluation whose units are
within the *enclosure* of the true value at their own input: 2^-20 for bounded units, 2^-20 max(1, |x|) for the others,
2^-20 max(1, |value|) for exp, 2^-20 |value| for square, sqrt and reciprocal. Piecewise linear units are exact (`leaky`: one rounding).
Tests compare torch and onnxruntime with it. No use is made of a library's monotonicity, and nothing is cut to [-1, 1].

`src/_core/policies/units.h` is the kernel's table; tests compare the two. Units have up to two parameters a and b:
clip  min(max(x, a), b), so ReLU is clip with 0 and infinity     leaky  x > 0 ? x : a x     elu  x > 0 ? b x : a b (e^x - 1)
equal  1 where x, cut off to an integer, is a or b, else 0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi, sqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Reals: TypeAlias = npt.NDArray[np.float64]
Function: TypeAlias = Callable[[Any, Any, Any], Any]
"""From x and the parameters a and b, arrays of one shape or numbers."""

ENCLOSURE = 2.0**-20
SOFTMAX_REACH = 70.0
"""A score that is at most so far behind the best one has a probability in float32 that is no denormal number."""
_SCALE, _CUBE = sqrt(2 / pi), 0.044715  # of GELU's approximation by tanh


@dataclass(frozen=True, slots=True)
class UnitKind:
    """A unit as a function, and what bounds of it rest on."""

    name: str
    value: Function
    slope: Function  # the derivative; at a jump any value between both sides
    turns: tuple[float, ...] = ()  # where the derivative turns or jumps
    enclosure: str = "size"  # "exact", "rounded", "plain", "size", "value" or "relative"
    parameters: int = 0

    @property
    def is_straight(self) -> bool:
        """Return whether the unit is piecewise linear and continuous."""
        return self.name in ("clip", "leaky", "abs")


def _logistic(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _erf(x: Any) -> Any:
    """The error function: a series of positive terms near 0, a continued fraction for its complement elsewhere."""
    x = np.asarray(x, dtype=np.float64)
    size = np.minimum(np.abs(x), 30.0)
    near, far = np.minimum(size, 3.0), np.maximum(size, 2.0)
    term = 2 / sqrt(pi) * near * np.exp(-near * near)
    total = term.copy()
    for n in range(1, 70):
        term = term * (2 * near * near / (2 * n + 1))
        total = total + term
    fraction = far
    for n in range(60, 0, -1):
        fraction = far + n / 2 / fraction
    beyond = np.exp(-far * far) / (sqrt(pi) * fraction)
    return np.copysign(np.where(size < 2.5, total, 1 - beyond), x)


def _normal(x: Any) -> Any:
    """The normal distribution's share below x, without cancellation where it is small."""
    x = np.asarray(x, dtype=np.float64)
    far = np.maximum(-x / sqrt(2), 2.0)
    fraction = far
    for n in range(60, 0, -1):
        fraction = far + n / 2 / fraction
    tail = np.exp(-far * far) / (2 * sqrt(pi) * fraction)
    return np.where(x < -2.5 * sqrt(2), tail, 0.5 * (1 + _erf(x / sqrt(2))))


def _gelu_inner(x: Any) -> Any:
    return 2 * _SCALE * (x + _CUBE * x * x * x)


def _equal(x: Any, a: Any, b: Any) -> Any:
    whole = np.trunc(x)
    return ((whole == a) | (whole == b)).astype(np.float64)


def _mish_slope(x: Any, a: Any, b: Any) -> Any:
    t = np.tanh(_softplus(x))
    return t + x * _logistic(x) * (1 - t) * (1 + t)


def _gelu_tanh_slope(x: Any, a: Any, b: Any) -> Any:
    s, rest = _logistic(_gelu_inner(x)), _logistic(-_gelu_inner(x))
    return s + x * s * rest * 2 * _SCALE * (1 + 3 * _CUBE * x * x)


_TABLE = (
    UnitKind(
        "clip",
        lambda x, a, b: np.minimum(np.maximum(x, a), b),
        lambda x, a, b: ((x > a) & (x < b)).astype(np.float64),
        (),
        "exact",
        2,
    ),
    UnitKind(
        "leaky",
        lambda x, a, b: np.where(x > 0, x, a * x),
        lambda x, a, b: np.where(x > 0, 1.0, a),
        (0.0,),
        "rounded",
        1,
    ),
    UnitKind("abs", lambda x, a, b: np.abs(x), lambda x, a, b: np.sign(x), (0.0,), "exact"),
    UnitKind("equal", _equal, lambda x, a, b: np.zeros_like(x), (), "exact", 2),
    UnitKind("tanh", lambda x, a, b: np.tanh(x), lambda x, a, b: (1 - np.tanh(x)) * (1 + np.tanh(x)), (0.0,), "plain"),
    UnitKind("sigmoid", lambda x, a, b: _logistic(x), lambda x, a, b: _logistic(x) * _logistic(-x), (0.0,), "plain"),
    UnitKind("erf", lambda x, a, b: _erf(x), lambda x, a, b: 2 / sqrt(pi) * np.exp(-x * x), (0.0,), "plain"),
    UnitKind("softsign", lambda x, a, b: x / (1 + np.abs(x)), lambda x, a, b: (1 + np.abs(x)) ** -2.0, (0.0,), "plain"),
    UnitKind("softplus", lambda x, a, b: _softplus(x), lambda x, a, b: _logistic(x)),
    UnitKind(
        "silu",
        lambda x, a, b: x * _logistic(x),
        lambda x, a, b: _logistic(x) * (1 + x * _logistic(-x)),
        (-2.3993572805154677, 2.3993572805154677),
    ),
    UnitKind(
        "gelu",
        lambda x, a, b: x * _normal(x),
        lambda x, a, b: _normal(x) + x * np.exp(-x * x / 2) / sqrt(2 * pi),
        (-sqrt(2), sqrt(2)),
    ),
    UnitKind(
        "gelu_tanh",
        lambda x, a, b: x * _logistic(_gelu_inner(x)),
        _gelu_tanh_slope,
        (-1.4185040087908283, 1.4185040087908283),
    ),
    UnitKind("mish", lambda x, a, b: x * np.tanh(_softplus(x)), _mish_slope, (-2.256376396360793, 1.4905711794854286)),
    UnitKind(
        "hard_swish",
        lambda x, a, b: x * np.clip(x + 3, 0, 6) / 6,
        lambda x, a, b: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3 + 0.5)),
        (-3.0, 3.0),
    ),
    UnitKind(
        "elu",
        lambda x, a, b: np.where(x > 0, b * x, a * b * np.expm1(np.minimum(x, 0))),
        lambda x, a, b: np.where(x > 0, b, a * b * np.exp(np.minimum(x, 0))),
        (0.0,),
        "size",
        2,
    ),
    UnitKind("exp", lambda x, a, b: np.exp(x), lambda x, a, b: np.exp(x), (), "value"),
    UnitKind("square", lambda x, a, b: x * x, lambda x, a, b: 2 * x, (), "relative"),
    UnitKind("sqrt", lambda x, a, b: np.sqrt(x), lambda x, a, b: 0.5 / np.sqrt(x), (), "relative"),
    UnitKind("reciprocal", lambda x, a, b: 1 / x, lambda x, a, b: -1 / (x * x), (), "relative"),
)
UNITS: dict[str, UnitKind] = {kind.name: kind for kind in _TABLE}


def turns_of(kind: UnitKind, a: Reals, b: Reals) -> tuple[Reals, ...]:
    """Return the places where the derivative turns or jumps, per parameter."""
    if kind.name == "clip":
        return a, b
    return tuple(np.full_like(a, at) for at in kind.turns)


def enclosure_of(kind: UnitKind, size: Any, result: Any, a: Any, b: Any) -> Any:
    """Return how far a library's value may be from the true one, where |x| <= size and |value| <= result."""
    match kind.enclosure:
        case "exact":
            return np.zeros_like(size)
        case "rounded":
            return np.abs(a) * size * 2.0**-23 + 2.0**-126
        case "plain":
            return np.full_like(size, ENCLOSURE)
        case "value":
            return ENCLOSURE * np.maximum(1.0, result)
        case "relative":
            return ENCLOSURE * result + 2.0**-120
    scale = np.maximum(1.0, np.maximum(np.abs(b), np.abs(a * b))) if kind.name == "elu" else 1.0
    return ENCLOSURE * np.maximum(1.0, size) * scale


def is_relu(name: str, a: npt.ArrayLike, b: npt.ArrayLike) -> bool:
    """Return whether a unit is plain ReLU in all its columns.

    >>> is_relu("clip", [0.0, 0.0], [inf, inf]), is_relu("clip", [0.0], [6.0])
    (True, False)
    """
    return name == "clip" and bool(np.all(np.equal(a, 0))) and bool(np.all(np.equal(b, inf)))
