"""Whether a probability may be above 0 somewhere in a box of states: its exact value, enclosed by intervals rounded outward.

What is not read, such as a function without rational values, counts as possible. SOUND: a branch is left out only where its
probability is proved to be at most 0 in all states of the box.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from polvet.model.expressions import Binary, BoolLiteral, Conditional, Expression, IntLiteral, Name, RealLiteral, Unary

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Interval = tuple[Floats, Floats]
Boxes = Mapping[str, Interval]


class _Unread(Exception):
    """An expression has no bounds here."""


def may_be_positive(probability: Expression, boxes: Boxes) -> Bools:
    """Return for each box whether the probability may be above 0 in one of its states.

    >>> share = Binary("-", IntLiteral(1), Binary("*", Name("x"), Name("x")))
    >>> may_be_positive(share, {"x": (np.array([0.5, 2.0]), np.array([2.0, 3.0]))}).tolist()
    [True, False]
    """
    with np.errstate(all="ignore"):
        try:
            high = _bounds(probability, boxes)[1]
        except _Unread:
            return np.ones(_count(boxes), dtype=np.bool_)
    return ~(high <= 0)


def is_never_negative(probability: Expression, boxes: Boxes) -> Bools:
    """Return for each box whether the probability is proved to be at least 0 in all of its states.

    >>> is_never_negative(Binary("-", Name("x"), IntLiteral(1)), {"x": (np.array([0.5, 1.0]), np.array([2.0, 3.0]))}).tolist()
    [False, True]
    """
    with np.errstate(all="ignore"):
        try:
            return _bounds(probability, boxes)[0] >= 0
        except _Unread:
            return np.zeros(_count(boxes), dtype=np.bool_)


def _count(boxes: Boxes) -> int:
    return len(next(iter(boxes.values()))[0])


def _outward(low: Floats, high: Floats) -> Interval:
    """Return the interval one double wider at each end: more than one operation rounds; what is undefined is unbounded."""
    low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    undefined = np.isnan(low) | np.isnan(high)
    return np.where(undefined, -np.inf, low), np.where(undefined, np.inf, high)


def _bounds(expression: Expression, boxes: Boxes) -> Interval:
    """Return bounds of the exact value in each box."""
    match expression:
        case BoolLiteral(value) | IntLiteral(value) | RealLiteral(value):
            number = np.full(_count(boxes), float(value))
            return (number, number) if float(value) == value else _outward(number, number)
        case Name(name) if name in boxes:
            return boxes[name]
        case Binary(("+" | "-" | "*" | "/" | "min" | "max") as operator, left, right):
            return _combined(operator, _bounds(left, boxes), _bounds(right, boxes))
        case Unary("abs", operand):
            low, high = _bounds(operand, boxes)
            least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
            return least, np.maximum(np.abs(low), np.abs(high))
        case Conditional(test, then, otherwise):
            surely, maybe = _truth(test, boxes)
            (a, b), (c, d) = _bounds(then, boxes), _bounds(otherwise, boxes)
            low = np.where(surely, a, np.where(maybe, np.minimum(a, c), c))
            return low, np.where(surely, b, np.where(maybe, np.maximum(b, d), d))
        case _:
            raise _Unread


def _combined(operator: str, one: Interval, other: Interval) -> Interval:
    (a, b), (c, d) = one, other
    match operator:
        case "+":
            return _sum(a, c)[0], _sum(b, d)[1]
        case "-":
            return _sum(a, -d)[0], _sum(b, -c)[1]
        case "min":
            return np.minimum(a, c), np.minimum(b, d)
        case "max":
            return np.maximum(a, c), np.maximum(b, d)
    corners = np.stack([a * c, a * d, b * c, b * d] if operator == "*" else [a / c, a / d, b / c, b / d])
    low, high = _outward(corners.min(axis=0), corners.max(axis=0))
    low = np.where((a >= 0) & (c >= 0) & (low < 0), 0.0, low)  # rounding changes no sign
    if operator == "/":
        through = (c <= 0) & (d >= 0)
        return np.where(through, -np.inf, low), np.where(through, np.inf, high)
    return low, high


def _sum(one: Floats, other: Floats) -> Interval:
    """Return bounds of the sums: the doubles themselves where nothing was rounded (Knuth's two-sum tells)."""
    total = one + other
    part = total - one
    lost = (one - (total - part)) + (other - part)
    low, high = _outward(total, total)
    return np.where(lost == 0, total, low), np.where(lost == 0, total, high)


def _truth(test: Expression, boxes: Boxes) -> tuple[Bools, Bools]:
    """Return where a condition surely, and where it possibly holds."""
    match test:
        case Unary("¬", operand):
            surely, maybe = _truth(operand, boxes)
            return ~maybe, ~surely
        case Binary(("∧" | "∨" | "⇒") as operator, left, right):
            (one, maybe_one), (other, maybe_other) = _truth(left, boxes), _truth(right, boxes)
            if operator == "∧":
                return one & other, maybe_one & maybe_other
            if operator == "∨":
                return one | other, maybe_one | maybe_other
            return ~maybe_one | other, ~one | maybe_other
        case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, left, right):
            (a, b), (c, d) = _bounds(left, boxes), _bounds(right, boxes)
            match operator:
                case "<":
                    return b < c, a < d
                case "≤":
                    return b <= c, a <= d
                case ">":
                    return a > d, b > c
                case "≥":
                    return a >= d, b >= c
            same, apart = (a == b) & (c == d) & (a == c), (b < c) | (d < a)
            return (same, ~apart) if operator == "=" else (apart, ~same)
        case _:
            low, high = _bounds(test, boxes)
            return low >= 1, high >= 1
