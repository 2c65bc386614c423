"""Values over a set of states as affine forms: what an expression can be there, however doubles round on the way.

Source   L. de Figueiredo, J. Stolfi, Affine arithmetic: concepts and applications, Numerical Algorithms 37, 2004
A form is `center + sum(slope_k e_k) + error [-1, 1]` with symbols -1 <= e_k <= 1 that all values of one set share: what moves
together stays together, so a step of a linear model makes no set wider than it is. Products leave their quadratic part in
the error. numpy over many sets at once.
SOUND: every operation widens the error by `_rounding` times all magnitudes involved, more than the model's own double operation
and those made here can be off together: at most three roundings of 2^-53 each, and sums over n symbols whose relative error is
at most (n + 1) 2^-53, Higham's gamma. Integers are exact in the model, so their ends count only below 2^53.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import DOUBLES, Unreadable
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
    conjuncts,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Truth = tuple[Bools, Bools]
"""For each set: whether a condition surely holds everywhere in it, and whether it possibly holds somewhere."""
ROUNDING = 2.0**-50
"""Eight units in the last place: at most three double roundings per operation, and few symbols to be summed up."""
TINY = 2.0**-1060
"""More than what underflow can lose in one operation."""
MOST_PAIRED = 4
"""At most so many comparisons are added up in pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One value in each of n sets: center [n], slopes [n, symbols], error [n]; `whole` values are integers.

    `ends` are bounds by intervals. SOUND: rounding is monotone, so the model's own operation on the ends of its operands bounds
    its result without any widening.
    """

    center: Floats
    slopes: Floats
    error: Floats
    whole: bool
    ends: tuple[Floats, Floats]

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the least and the greatest value in each set, by both readings; integers inwards to the next one."""
        radius = np.abs(self.slopes).sum(axis=1) + self.error
        slack = _rounding(self.slopes) * (np.abs(self.center) + radius) + TINY
        low, high = self.center - radius - slack, self.center + radius + slack
        low, high = np.maximum(low, self.ends[0]), np.minimum(high, self.ends[1])
        return (np.ceil(low), np.floor(high)) if self.whole else (low, high)

    def magnitude(self) -> Floats:
        """Return no less than the greatest absolute value in each set."""
        size: Floats = np.abs(self.center) + np.abs(self.slopes).sum(axis=1) + self.error
        return size


Forms = Mapping[str, Form]


def _rounding(slopes: Floats) -> float:
    """Return the relative error of one operation and of sums over all symbols."""
    return float(ROUNDING + slopes.shape[1] * 2.0**-52)


def _rounded(
    center: Floats, slopes: Floats, error: Floats, whole: bool, size: Floats, ends: tuple[Floats, Floats]
) -> Form:
    """Return the form after one operation whose operands and result are no greater than `size`."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = error + _rounding(slopes) * (size + np.abs(center) + np.abs(slopes).sum(axis=1) + error) + TINY
    if not np.isfinite(wide).all():
        raise Unreadable("a value has no bound")
    if whole and (np.maximum(np.abs(ends[0]), np.abs(ends[1])) >= DOUBLES).any():
        raise Unreadable("an integer may be beyond 2^53")
    return Form(center, slopes, wide, whole, ends)


def constant(value: float, like: Form, *, whole: bool) -> Form:
    """Return the form of a number."""
    count = len(like.center)
    number = np.full(count, value)
    return Form(number, np.zeros_like(like.slopes), np.zeros(count), whole, (number, number))


def between(low: Floats, high: Floats, like: Form, *, whole: bool) -> Form:
    """Return the form that knows only bounds."""
    center = low / 2 + high / 2
    radius = np.maximum(high - center, center - low)
    return _rounded(center, np.zeros_like(like.slopes), radius, whole, np.abs(center), (low, high))


def value_of(expression: Expression, forms: Forms) -> Form:
    """Return the expression's value in each set; Unreadable where an operator is not followed over sets."""
    like = next(iter(forms.values()))
    match expression:
        case BoolLiteral(value) | IntLiteral(value):
            if abs(int(value)) > 2**52:
                raise Unreadable(f"the number {value} is too large")
            return constant(float(value), like, whole=True)
        case RealLiteral(value):
            return constant(float(value), like, whole=value.denominator == 1)
        case Name(name):
            if name not in forms:
                raise Unreadable(f"'{name}' is no variable of a state")
            return forms[name]
        case Binary("+", left, right):
            return _sum(value_of(left, forms), value_of(right, forms), 1.0)
        case Binary("-", left, right):
            return _sum(value_of(left, forms), value_of(right, forms), -1.0)
        case Binary("*", left, right):
            return _product(value_of(left, forms), value_of(right, forms))
        case Binary("/", left, right):
            return _quotient(value_of(left, forms), value_of(right, forms))
        case Binary(("min" | "max") as operator, left, right):
            return _extreme(value_of(left, forms), value_of(right, forms), least=operator == "min")
        case Unary("abs", operand):
            one = value_of(operand, forms)
            return _extreme(one, _sum(constant(0.0, like, whole=one.whole), one, -1.0), least=False)
        case Conditional(test, then, otherwise):
            surely, possibly = truth_of(test, forms)
            return _either(value_of(then, forms), value_of(otherwise, forms), surely, ~possibly)
        case Unary("¬") | Binary("∧" | "∨" | "⇒" | "=" | "≠" | "<" | "≤" | ">" | "≥"):
            surely, possibly = truth_of(expression, forms)
            return between(surely.astype(np.float64), possibly.astype(np.float64), like, whole=True)
        case _:
            shown = getattr(expression, "operator", type(expression).__name__)
            raise Unreadable(f"'{shown}' is not followed over sets of real states")


def truth_of(condition: Expression, forms: Forms) -> Truth:
    """Return where the condition surely, and where it possibly holds."""
    match condition:
        case BoolLiteral(value):
            count = len(next(iter(forms.values())).center)
            return np.full(count, value), np.full(count, value)
        case Unary("¬", operand):
            surely, possibly = truth_of(operand, forms)
            return ~possibly, ~surely
        case Binary("∧"):
            return _all_of(list(conjuncts(condition)), forms)
        case Binary("∨", left, right):
            (a, b), (c, d) = truth_of(left, forms), truth_of(right, forms)
            return a | c, b | d
        case Binary("⇒", left, right):
            (a, b), (c, d) = truth_of(left, forms), truth_of(right, forms)
            return ~b | c, ~a | d
        case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, left, right):
            return _compare(operator, value_of(left, forms), value_of(right, forms))
        case _:
            low, high = value_of(condition, forms).bounds()
            return low >= 1, high >= 1


def _all_of(parts: Sequence[Expression], forms: Forms) -> Truth:
    """Return where all parts hold. Two bounds on sums hold together only where the sum of both does."""
    count = len(next(iter(forms.values())).center)
    surely, possibly = np.ones(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)
    below: list[Form] = []  # differences that must not be positive
    for part in parts:
        match part:
            case Binary(("<" | "≤" | ">" | "≥") as operator, left, right):
                one, other = value_of(left, forms), value_of(right, forms)
                a, b = _compare(operator, one, other)
                below.append(_sum(one, other, -1.0) if operator in ("<", "≤") else _sum(other, one, -1.0))
            case _:
                a, b = truth_of(part, forms)
        surely, possibly = surely & a, possibly & b
    if possibly.any() and len(below) <= MOST_PAIRED:
        for one, other in combinations(below, 2):
            # SOUND: the model does not make these sums, so the ends' rounding counts here.
            slack = _rounding(one.slopes) * (one.magnitude() + other.magnitude()) + TINY
            possibly = possibly & (_sum(one, other, 1.0).bounds()[0] <= slack)
    return surely, possibly


def _compare(operator: str, one: Form, other: Form) -> Truth:
    """Return where the values compare so: by their difference, and by their bounds, which may be exact."""
    surely, possibly = _compared(operator, *_sum(one, other, -1.0).bounds())
    (a, b), (c, d) = one.bounds(), other.bounds()
    # SOUND: subtraction of doubles never changes the order of its operands.
    also_surely, also_possibly = _compared(operator, a - d, b - c)
    return surely | also_surely, possibly & also_possibly


def _compared(operator: str, low: Floats, high: Floats) -> Truth:
    """Return whether a difference between the bounds compares so with 0."""
    tests: dict[str, Callable[[], Truth]] = {
        "<": lambda: (high < 0, low < 0),
        "≤": lambda: (high <= 0, low <= 0),
        ">": lambda: (low > 0, high > 0),
        "≥": lambda: (low >= 0, high >= 0),
        "=": lambda: ((low == 0) & (high == 0), (low <= 0) & (high >= 0)),
        "≠": lambda: ((low > 0) | (high < 0), ~((low == 0) & (high == 0))),
    }
    return tests[operator]()


def difference(one: Form, other: Form) -> Form:
    """Return what one value is more than the other."""
    return _sum(one, other, -1.0)


def _sum(one: Form, other: Form, sign: float) -> Form:
    center = one.center + sign * other.center
    size = np.abs(one.center) + np.abs(other.center)
    (a, b), (c, d) = one.bounds(), other.bounds()
    ends = (a + c, b + d) if sign > 0 else (a - d, b - c)
    slopes, error = one.slopes + sign * other.slopes, one.error + other.error
    return _rounded(center, slopes, error, one.whole and other.whole, size, ends)


def _product(one: Form, other: Form) -> Form:
    center = one.center * other.center
    slopes = one.center[:, None] * other.slopes + other.center[:, None] * one.slopes
    radius, other_radius = np.abs(one.slopes).sum(axis=1) + one.error, np.abs(other.slopes).sum(axis=1) + other.error
    error = np.abs(one.center) * other.error + np.abs(other.center) * one.error + radius * other_radius
    (a, b), (c, d) = one.bounds(), other.bounds()
    corners = np.stack([a * c, a * d, b * c, b * d])
    ends = corners.min(axis=0), corners.max(axis=0)
    return _rounded(center, slopes, error, one.whole and other.whole, one.magnitude() * other.magnitude(), ends)


def _quotient(one: Form, other: Form) -> Form:
    if other.slopes.any() or other.error.any() or not other.center.all():
        raise Unreadable("a division by what is no constant is not followed over sets of real states")
    by = other.center
    low, high = one.bounds()
    ends = np.minimum(low / by, high / by), np.maximum(low / by, high / by)
    size = one.magnitude() / np.abs(by)
    return _rounded(one.center / by, one.slopes / by[:, None], one.error / np.abs(by), False, size, ends)


def _extreme(one: Form, other: Form, *, least: bool) -> Form:
    low, high = _sum(one, other, -1.0).bounds()
    first, second = (high <= 0, low >= 0) if least else (low >= 0, high <= 0)
    (a, b), (c, d) = one.bounds(), other.bounds()
    pick = np.minimum if least else np.maximum
    return _chosen(one, other, first, second, pick(a, c), pick(b, d))


def _either(one: Form, other: Form, first: Bools, second: Bools) -> Form:
    (a, b), (c, d) = one.bounds(), other.bounds()
    return _chosen(one, other, first, second, np.minimum(a, c), np.maximum(b, d))


def _chosen(one: Form, other: Form, first: Bools, second: Bools, low: Floats, high: Floats) -> Form:
    """Return `one` where the first is sure, `other` where the second is, and what lies between the bounds elsewhere."""
    rest = between(low, high, one, whole=one.whole and other.whole)
    second = second & ~first
    mixed = [(first, one), (second, other)]
    center, slopes, error = rest.center.copy(), rest.slopes.copy(), rest.error.copy()
    for where, form in mixed:
        center[where], slopes[where], error[where] = form.center[where], form.slopes[where], form.error[where]
    return Form(center, slopes, error, one.whole and other.whole, (low, high))
