"""What a network may choose: every value is a whole number of 2^-scale, with a distance in the same unit that no execution exceeds.

Executions add in any order, fused or not, and their smooth units are anywhere within an enclosure of the true value. A label is
possible unless another surely scores more, or as much and comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

from .policies import Outputs, Scorer, part, row_of
from .text import Item, Unreadable, integer, name, number
from .world import ARITHMETIC_ERRORS, State, World


class _Values:
    """The values of columns in one unit: `at` and `off` are multiples of 2^-scale."""

    def __init__(self, at: list[int], off: list[int], scale: int) -> None:
        self.at, self.off, self.scale = at, off, scale

    def to(self, scale: int) -> _Values:
        """Return the same values in a finer unit."""
        shift = scale - self.scale
        return _Values([x << shift for x in self.at], [x << shift for x in self.off], scale) if shift else self


class _Unknown(Exception):
    """A value may be too large to say anything."""


LARGEST = 125  # where a value may be 2^125 or more, an operation might overflow


def _scaled(values: Sequence[float]) -> tuple[list[int], int]:
    """Return whole numbers and the least scale: value = number * 2^-scale."""
    ratios = [value.as_integer_ratio() for value in values]
    scale = max((bottom.bit_length() - 1 for _, bottom in ratios), default=0)
    return [(top << scale) // bottom for top, bottom in ratios], scale


def _scaled_to(value: float, scale: int) -> int:
    """Return the greatest whole number of 2^-scale that is not above the value."""
    top, bottom = value.as_integer_ratio()
    return (top << scale) // bottom


def network(world: World, parts: Sequence[Item], labels: Sequence[Any]) -> Scorer:
    """Return the scorer of a network."""
    row = row_of(world, parts)
    makers = {"affine": _affine, "apply": _apply, "product": _product}
    nodes = [makers[one[0]](one[1:]) for one in parts if one[0] in makers]
    columns = [integer(word) for word in part(parts, "scores")]
    softmax = ["softmax"] in parts
    if len(columns) != len(labels):
        raise Unreadable("the policy does not have one score per output")

    def possible(state: State, outputs: Outputs) -> Outputs:
        inputs = row(state)
        if not all(map(math.isfinite, inputs)):
            return outputs
        at, scale = _scaled(inputs)
        values = _Values(at, [0] * len(at), scale)
        try:
            for node in nodes:
                made = node(values)
                scale = max(values.scale, made.scale)
                values, made = values.to(scale), made.to(scale)
                values = _Values(values.at + made.at, values.off + made.off, scale)
        except (_Unknown, *ARITHMETIC_ERRORS):
            return outputs
        low = {k: values.at[columns[k]] - values.off[columns[k]] for k in outputs}
        high = {k: values.at[columns[k]] + values.off[columns[k]] for k in outputs}
        if softmax:
            best = max(at + off for at, off in ((values.at[c], values.off[c]) for c in columns))
            for k in outputs:
                slack = _softmax_slack(max(abs(low[k]), abs(high[k])), best - low[k], values.scale)
                low[k], high[k] = low[k] - slack, high[k] + slack
        return [
            k for k in outputs if not any(high[k] < low[i] or (high[k] == low[i] and i < k) for i in outputs if i != k)
        ]

    return possible


def _softmax_slack(size: int, behind: int, scale: int) -> int:
    close = (max(size, behind, 1 << scale) >> 20) + 1
    return max(close, behind - (70 << scale))


def _affine(item: Sequence[Item]) -> Callable[[_Values], _Values]:
    roundings, rows = integer(item[0]), item[1:]
    shared = [integer(word) for word in rows[0][1:]] if rows and rows[0][:1] == ["reads"] else None
    made = []
    for keyword, bias, size, *terms in rows[1:] if shared is not None else rows:
        reads = shared if shared is not None else [integer(c) for c, _ in terms]
        words = terms if shared is not None else [w for _, w in terms]
        if keyword != "row" or len(words) != len(reads):
            raise Unreadable("a row of weights does not have one weight for each column that it reads")
        weights, scale = _scaled([float(number(word)) for word in (bias, size, *words)])
        made.append((reads, weights[0], weights[1], weights[2:], [abs(w) for w in weights[2:]], scale))
    finest = max((scale for *_, scale in made), default=0)

    def apply(values: _Values) -> _Values:
        scale, at, off = values.scale + finest, [], []
        gathered: dict[int, tuple[list[int], list[int], list[int], int]] = {}
        for reads, bias, size, weights, sizes, own in made:
            if id(reads) not in gathered:
                ats, offs = [values.at[c] for c in reads], [values.off[c] for c in reads]
                reach = [abs(x) + d for x, d in zip(ats, offs, strict=True)]
                gathered[id(reads)] = ats, offs, reach, sum(map(bool, reach))
            ats, offs, reach, terms = gathered[id(reads)]
            # In this row one is 2^-unit; the results of all rows are brought to 2^-scale.
            unit, shift = own + values.scale, finest - own
            total = sum(map(mul, weights, ats)) + (bias << values.scale)
            largest = sum(map(mul, sizes, reach)) + (size << values.scale)
            moved = sum(map(mul, sizes, offs)) if any(offs) else 0
            if largest >= 1 << (unit + LARGEST):
                raise _Unknown
            exact = not (moved or roundings) and size == abs(bias)
            if not (exact and _nothing_is_rounded(weights, ats, bias << values.scale, largest, unit)):
                moved += _rounded(terms + 1 + roundings, largest, unit)
            at.append(total << shift)
            off.append(moved << shift)
        return _Values(at, off, scale)

    return apply


def _rounded(roundings: int, largest: int, scale: int) -> int:
    """Return what so many roundings may add to a sum: m u / (1 - m u) of its greatest size, and what is flushed to zero.

    Source   N. Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: in any order, fused or not
    """
    if roundings >= 1 << 20:
        raise _Unknown
    flushed = roundings << (scale - 126) if scale >= 126 else -(-roundings >> (126 - scale))
    return -(-largest * roundings // ((1 << 24) - roundings)) + flushed


def _nothing_is_rounded(weights: Sequence[int], ats: Sequence[int], bias: int, largest: int, scale: int) -> bool:
    """Return whether every order of summation is exact: all summands are multiples of one power of 2, and their sum has 24 digits."""
    bits = abs(bias)
    for weight, at in zip(weights, ats, strict=True):
        bits |= abs(weight * at)
    lowest = bits & -bits
    return bits == 0 or (largest <= lowest << 24 and lowest << 126 >= 1 << scale)


def _product(item: Sequence[Item]) -> Callable[[_Values], _Values]:
    roundings, pairs = integer(item[0]) + 1, [(integer(c), integer(d)) for c, d in item[1:]]

    def apply(values: _Values) -> _Values:
        at, off, scale = [], [], 2 * values.scale
        for c, d in pairs:
            (x, dx), (y, dy) = (values.at[c], values.off[c]), (values.at[d], values.off[d])
            largest = (abs(x) + dx) * (abs(y) + dy)
            if largest >= 1 << (scale + LARGEST):
                raise _Unknown
            at.append(x * y)
            off.append(largest - abs(x * y) + _rounded(roundings, largest, scale))
        return _Values(at, off, scale)

    return apply


# A smooth unit: its value, at least the size of its slope within d of x, and how far a library may be off, in parts of 2^-20.


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _gelu_inner(x: float) -> float:
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def _gelu_tanh_slope(x: float) -> float:
    s, rest = _logistic(_gelu_inner(x)), _logistic(-_gelu_inner(x))
    return s + x * s * rest * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


def _mish_slope(x: float) -> float:
    t = math.tanh(_softplus(x))
    return t + x * _logistic(x) * (1 - t) * (1 + t)


def _near(slope: Callable[[float], float], second: float) -> Callable[..., float]:
    return lambda x, d, a, b: (
        abs(slope(x)) + second * d + LIBRARY
    )  # `second` is at least the greatest second derivative


def _size(x: float, y: float, a: float, b: float) -> float:
    return max(1.0, abs(x))


def _one(x: float, y: float, a: float, b: float) -> float:
    return 1.0


def _own(x: float, y: float, a: float, b: float) -> float:
    return abs(y)


ENCLOSURE = 2.0**-20
LIBRARY = 2.0**-44  # more than Python's own functions are off, relative to what they are computed from
FINE = 80  # the values of smooth units are whole numbers of 2^-80
SMOOTH: dict[str, tuple[Callable[..., float], Callable[..., float], Callable[..., float]]] = {
    "tanh": (lambda x, a, b: math.tanh(x), _near(lambda x: 1 - math.tanh(x) ** 2, 0.78), _one),
    "sigmoid": (lambda x, a, b: _logistic(x), _near(lambda x: _logistic(x) * _logistic(-x), 0.097), _one),
    "erf": (lambda x, a, b: math.erf(x), _near(lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x), 0.97), _one),
    "softsign": (lambda x, a, b: x / (1 + abs(x)), _near(lambda x: (1 + abs(x)) ** -2.0, 2.0), _one),
    "softplus": (lambda x, a, b: _softplus(x), _near(_logistic, 0.26), _size),
    "silu": (lambda x, a, b: x * _logistic(x), _near(lambda x: _logistic(x) * (1 + x * _logistic(-x)), 0.51), _size),
    "gelu": (
        lambda x, a, b: x * _normal(x),
        _near(lambda x: _normal(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi), 0.8),
        _size,
    ),
    "gelu_tanh": (lambda x, a, b: x * _logistic(_gelu_inner(x)), _near(_gelu_tanh_slope, 0.9), _size),
    "mish": (lambda x, a, b: x * math.tanh(_softplus(x)), _near(_mish_slope, 0.66), _size),
    "hard_swish": (lambda x, a, b: x * min(max(x + 3, 0.0), 6.0) / 6, lambda x, d, a, b: 1.5, _size),
    "elu": (
        lambda x, a, b: b * x if x > 0 else a * b * math.expm1(x),
        lambda x, d, a, b: max(
            abs(b) if x + d >= 0 else 0.0, abs(a * b) * math.exp(min(0.0, x + d)) if x <= d else 0.0
        ),
        lambda x, y, a, b: max(1.0, abs(x)) * max(1.0, abs(b), abs(a * b)),
    ),
    "leaky": (
        lambda x, a, b: x if x > 0 else a * x,
        lambda x, d, a, b: max(1.0, abs(a)),
        lambda x, y, a, b: abs(a * x) / 8,
    ),
    "exp": (lambda x, a, b: math.exp(x), lambda x, d, a, b: math.exp(x + d), lambda x, y, a, b: max(1.0, y)),
    "square": (lambda x, a, b: x * x, lambda x, d, a, b: 2 * (abs(x) + d), _own),
    "sqrt": (lambda x, a, b: math.sqrt(x), lambda x, d, a, b: 0.5 / math.sqrt(x - d), _own),
    "reciprocal": (lambda x, a, b: 1 / x, lambda x, d, a, b: _positive(abs(x) - d) ** -2.0, _own),
}


def _positive(value: float) -> float:
    if value <= 0:
        raise _Unknown
    return value


def _apply(item: Sequence[Item]) -> Callable[[_Values], _Values]:
    unit = name(item[0])
    entries: list[Any] = [
        (integer(c), *(None if word == "*" else float(number(word)) for word in ends)) for c, *ends in item[1:]
    ]
    if unit in ("clip", "abs", "equal"):
        return lambda values: _straight(unit, entries, values)
    value, slope, share = SMOOTH[unit]

    def apply(values: _Values) -> _Values:
        at, off = [], []
        for c, *ends in entries:
            a, b = (end or 0.0 for end in ends)
            x, d = values.at[c] / (1 << values.scale), values.off[c] / (1 << values.scale)
            d = d * (1 + LIBRARY) + abs(x) * LIBRARY  # x and d were rounded to doubles
            if abs(x) + d >= 2.0**LARGEST:
                raise _Unknown
            y = value(x, a, b)
            moved = slope(x, d, a, b) * d
            far = x + math.copysign(d, x)
            enclosure = ENCLOSURE * (max(share(x, y, a, b), share(far, value(far, a, b), a, b)) + moved) + 2.0**-120
            at.append(_scaled_to(y, FINE))
            off.append(1 - _scaled_to(-(moved + enclosure) * (1 + LIBRARY) - LIBRARY * (abs(y) + abs(x)), FINE))
        return _Values(at, off, FINE)

    return apply


def _straight(unit: str, entries: Sequence[Any], values: _Values) -> _Values:
    """Return the values of a unit that libraries compute without rounding."""
    ends = [end for _, *both in entries for end in both if end is not None]
    values = values.to(max(values.scale, _scaled(ends)[1]))
    one, at, off = 1 << values.scale, [], []
    for c, a, b in entries:
        x, low, high = values.at[c], values.at[c] - values.off[c], values.at[c] + values.off[c]
        if unit == "abs":
            at.append(abs(x))
            off.append(values.off[c])
            continue
        if unit == "equal":
            wholes = [abs(end) // one * (1 if end > 0 else -1) for end in (low, high)]
            is_equal = wholes[0] in (a, b)
            at.append(one if is_equal else 0)
            off.append(0 if wholes[0] == wholes[1] else one)
            continue
        least, most = (None if end is None else _scaled_to(end, values.scale) for end in (a, b))

        def cut(value: int, least: int | None = least, most: int | None = most) -> int:
            value = value if least is None else max(value, least)
            return value if most is None else min(value, most)

        at.append(cut(x))
        off.append(max(cut(high) - cut(x), cut(x) - cut(low)))
    return _Values(at, off, values.scale)
