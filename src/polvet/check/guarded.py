"""What an edge's guard says, bit for bit, about a value that the edge assigns.

A guard such as `(0 - v) * t - k < h` is there so that `h + (v * t + k)` stays above 0. Intervals cannot tell, since both sides are
rounded; but rounding is symmetric and monotone, so that the very same operations with the other sign round to the very same number
with the other sign. `Signed` is an expression up to what doubles do not notice: the order of two operands, and where signs stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from polvet.model.expressions import Binary, Expression, Name, conjuncts
from polvet.model.folding import value_of


@dataclass(frozen=True, slots=True)
class Signed:
    """`sign` times something that two expressions share exactly if their `key` is the same."""

    sign: int
    key: Any

    def negated(self) -> Signed:
        """Return what has the other sign, bit for bit."""
        return Signed(-self.sign, self.key)


def signed(expression: Expression) -> Signed:
    """Return the expression in a form that is the same for expressions that doubles compute the same way."""
    number = value_of(expression)
    if number is not None and not isinstance(number, bool):
        exact = Fraction(number)
        return Signed(-1 if exact < 0 else 1, ("number", abs(exact)))
    match expression:
        case Name(name):
            return Signed(1, ("name", name))
        case Binary("-", left, right) if value_of(left) == 0:
            return signed(right).negated()
        case Binary(("+" | "-") as operator, left, right):
            one, other = signed(left), signed(right)
            if operator == "-":
                other = other.negated()
            one, other = sorted((one, other), key=lambda part: repr(part.key))
            return Signed(one.sign, ("+", one.key, one.sign * other.sign, other.key))
        case Binary("*", left, right):
            one, other = sorted((signed(left), signed(right)), key=lambda part: repr(part.key))
            return Signed(one.sign * other.sign, ("*", one.key, other.key))
        case _:
            return Signed(1, expression)


def guarded_ends(guard: Expression, value: Expression) -> tuple[Fraction | None, Fraction | None]:
    """Return bounds of the value that the guard gives exactly; None where it gives none.

    >>> from polvet.model.infix import parse_expression
    >>> guarded_ends(parse_expression("(0 - v) * 0.5 - 2 < h && v <= 7"), parse_expression("h + (v * 0.5 + 2)"))
    (Fraction(0, 1), None)
    """
    low: Fraction | None = None
    high: Fraction | None = None
    wanted = signed(value)
    sums: list[tuple[Signed, Signed]] = []
    if isinstance(value, Binary) and value.operator in ("+", "-"):
        other = signed(value.right)
        sums = [(signed(value.left), other if value.operator == "+" else other.negated())]
        sums.append((sums[0][1], sums[0][0]))
    for small, large in _at_most(list(conjuncts(guard))):
        less, more = signed(small), signed(large)
        if more == wanted and (bound := value_of(small)) is not None:
            low = Fraction(bound) if low is None else max(low, Fraction(bound))
        if less == wanted and (bound := value_of(large)) is not None:
            high = Fraction(bound) if high is None else min(high, Fraction(bound))
        for one, other in sums:
            # SOUND: -other <= one in doubles, so the exact sum is not negative, and rounding it keeps that.
            if more == one and less == other.negated():
                low = Fraction(0) if low is None else max(low, Fraction(0))
            if less == one and more == other.negated():
                high = Fraction(0) if high is None else min(high, Fraction(0))
    return low, high


def _at_most(parts: Sequence[Expression]) -> Iterator[tuple[Expression, Expression]]:
    """Yield (x, y) for each part that says x <= y or x < y."""
    for part in parts:
        match part:
            case Binary("<" | "≤", left, right):
                yield left, right
            case Binary(">" | "≥", left, right):
                yield right, left
