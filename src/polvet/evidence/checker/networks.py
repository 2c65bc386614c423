"""What a network may choose: every value is a whole number of 2^-scale, with a distance in the same unit that no execution exceeds.

Executions add in any order, fused or not, and their smooth units are anywhere within an enclosure of the true value. A label is possible unless
another surely scores more, or as much and comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

from .policies import Outputs, Scorer, part, row_of
from .text import Item, Unreadable, integer, name, number
from .world import State, World


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


LARGEST = 125
"""Where a value may have so many binary digits before the point, an operation might overflow."""


def _dyadic(value: float) -> tuple[int, int]:
    """Return an odd number and an exponent: value = number * 2^-exponent."""
    top, bottom = value.as_integer_ratio()
    return top, bottom.bit_length() - 1


def _scaled(values: Sequence[float]) -> tuple[list[int], int]:
    """Return whole numbers and the least scale: value = number * 2^-scale."""
    pairs = [_dyadic(value) for value in values]
    scale = max((exponent for _, exponent in pairs), default=0)
    return [top << (scale - exponent) for top, exponent in pairs], scale


def _above(value: float, scale: int) -> int:
    """Return a whole number of 2^-scale that is at least the value."""
    top, bottom = value.as_integer_ratio()
    return -((-top << scale) // bottom)


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
        except (_Unknown, OverflowError):
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
    for item in rows[1:] if shared is not None else rows:
        if item[:1] != ["row"]:
            raise Unreadable(f"{str(item)[:60]} is not a row of weights")
        terms = (
            [(c, w) for c, w in zip(shared, item[3:], strict=True)]
            if shared is not None
            else [tuple(t) for t in item[3:]]
        )
        reads = shared if shared is not None else [integer(c) for c, _ in terms]
        weights, scale = _scaled([float(number(word)) for word in (*item[1:3], *(w for _, w in terms))])
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


# Smooth units: value, |slope| where it is at most |f'(x)| + M d within d of x (M: the greatest second derivative), and the enclosure
# of libraries: how far their float32 value may be from the true one.


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _gelu_slope(x: float) -> float:
    return _normal(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _gelu_inner(x: float) -> float:
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def _gelu_tanh_slope(x: float) -> float:
    s, rest = _logistic(_gelu_inner(x)), _logistic(-_gelu_inner(x))
    return s + x * s * rest * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


def _mish_slope(x: float) -> float:
    t = math.tanh(_softplus(x))
    return t + x * _logistic(x) * (1 - t) * (1 + t)


SMOOTH: dict[str, tuple[Callable[[float], float], Callable[[float], float], float, bool]] = {
    # name: value, derivative, at least its greatest derivative, and whether the unit is bounded
    "tanh": (math.tanh, lambda x: 1 - math.tanh(x) ** 2, 0.78, True),
    "sigmoid": (_logistic, lambda x: _logistic(x) * _logistic(-x), 0.097, True),
    "erf": (math.erf, lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x), 0.97, True),
    "softsign": (lambda x: x / (1 + abs(x)), lambda x: (1 + abs(x)) ** -2.0, 2.0, True),
    "softplus": (_softplus, _logistic, 0.26, False),
    "silu": (lambda x: x * _logistic(x), lambda x: _logistic(x) * (1 + x * _logistic(-x)), 0.51, False),
    "gelu": (lambda x: x * _normal(x), _gelu_slope, 0.8, False),
    "gelu_tanh": (lambda x: x * _logistic(_gelu_inner(x)), _gelu_tanh_slope, 0.9, False),
    "mish": (lambda x: x * math.tanh(_softplus(x)), _mish_slope, 0.66, False),
}
ENCLOSURE = 2.0**-20
LIBRARY = 2.0**-44
"""More than Python's own functions are off, relative to what they are computed from."""
FINE = 80
"""The results of smooth units are whole numbers of 2^-80."""


def _slope(unit: str, x: float, d: float, a: float, b: float) -> float:
    """Return at least the size of the unit's slope everywhere within d of x."""
    if unit in SMOOTH:
        return abs(SMOOTH[unit][1](x)) + SMOOTH[unit][2] * d + LIBRARY
    match unit:
        case "leaky":
            return max(1.0, abs(a))
        case "hard_swish":
            return 1.5
        case "elu":
            below = abs(a * b) * math.exp(min(0.0, x + d))
            return abs(b) if x > d else max(abs(b) if x + d >= 0 else 0.0, below)
        case "exp":
            return math.exp(x + d)
        case "square":
            return 2 * (abs(x) + d)
        case "sqrt" if x > d:
            return 0.5 / math.sqrt(x - d)
        case "reciprocal" if abs(x) > d:
            return (abs(x) - d) ** -2.0
    raise _Unknown


def _value(unit: str, x: float, a: float, b: float) -> tuple[float, float]:
    """Return the unit's value and its enclosure there, as a share of 2^-20."""
    if unit in SMOOTH:
        return SMOOTH[unit][0](x), 1.0 if SMOOTH[unit][3] else max(1.0, abs(x))
    match unit:
        case "leaky":
            return (x if x > 0 else a * x), abs(a * x) / 8
        case "hard_swish":
            return x * min(max(x + 3, 0.0), 6.0) / 6, max(1.0, abs(x))
        case "elu":
            return (b * x if x > 0 else a * b * math.expm1(x)), max(1.0, abs(x)) * max(1.0, abs(b), abs(a * b))
        case "exp":
            return math.exp(x), max(1.0, math.exp(x))
        case "square":
            return x * x, x * x
        case "sqrt":
            return math.sqrt(x), math.sqrt(x)
        case "reciprocal":
            return 1 / x, abs(1 / x)
    raise Unreadable(f"there is no unit {unit}")


def _apply(item: Sequence[Item]) -> Callable[[_Values], _Values]:
    unit = name(item[0])
    entries = [(integer(c), *(None if word == "*" else float(number(word)) for word in ends)) for c, *ends in item[1:]]
    if unit in ("clip", "abs", "equal"):
        return lambda values: _straight(unit, entries, values)

    def apply(values: _Values) -> _Values:
        at, off = [], []
        for c, a, b in entries:
            x, d = values.at[c] / (1 << values.scale), values.off[c] / (1 << values.scale)
            d = d * (1 + LIBRARY) + abs(x) * LIBRARY  # x and d were rounded to doubles
            if abs(x) + d >= 2.0**LARGEST:
                raise _Unknown
            y, share = _value(unit, x, a or 0.0, b or 0.0)
            moved = _slope(unit, x, d, a or 0.0, b or 0.0) * d
            _, far = _value(unit, x + math.copysign(d, x), a or 0.0, b or 0.0)
            enclosure = ENCLOSURE * (max(share, far) + moved) + 2.0**-120
            at.append(_scaled_to(y, FINE))
            off.append(_above((moved + enclosure) * (1 + LIBRARY) + LIBRARY * (abs(y) + abs(x)), FINE) + 1)
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


def _scaled_to(value: float, scale: int) -> int:
    top, bottom = value.as_integer_ratio()
    return (top << scale) // bottom
