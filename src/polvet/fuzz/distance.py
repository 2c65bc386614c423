"""How far a state is from satisfying a condition, as an expression that the kernel evaluates like any other.

Source   Korel, Automated software test data generation, TSE 1990, and Tracey and others, 1998: branch distances.
         An atom that fails by d counts d / (d + 1), so that no atom drowns the others; conjunctions add up,
         disjunctions take the least, negations are pushed to the atoms
Cost     one pass over the condition per state; shared sub-expressions are evaluated each time
Limits   the distance is 0 where the condition holds, and only there (up to a tiny step at strict comparisons of reals);
         it looks at all atoms, also at those that the condition itself does not reach (`y != 0 && x / y > 1`): where it
         cannot be computed, the kernel takes the state to be far away
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    Name,
    RealLiteral,
    Unary,
)  # fmt: skip
from polvet.model.kinds import kind_of
from polvet.model.network import Kind, Network

ZERO, ONE = RealLiteral(Fraction(0)), RealLiteral(Fraction(1))
TINY = RealLiteral(Fraction(1, 10**9))
OPPOSITE = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}
MIRRORED = {">": "<", "≥": "≤"}


def distance_to(condition: Expression, network: Network) -> Expression:
    """Return a real expression over the network's variables that is 0 exactly where the condition holds.

    >>> from polvet.model.build import ModelBuilder
    >>> from polvet.model.semantics import Semantics
    >>> m = ModelBuilder("m"); x = m.int("x", 0, 9); m.edge("stay"); task = m.task(fail=x >= 8)
    >>> far = Semantics(task.network).compile(distance_to(task.fail, task.network))
    >>> far((9,)), far((7,)), far((5,))
    (0.0, 0.5, 0.75)
    """
    kinds = {variable.name: variable.kind for variable in network.variables}
    codes = {variable.name for variable in network.variables if variable.is_location}
    return _Distances(kinds, codes).of(condition, holds=True)


class _Distances:
    def __init__(self, kinds: Mapping[str, Kind], codes: set[str]) -> None:
        self.kinds = kinds
        self.codes = codes  # variables whose numbers are names: locations

    def of(self, condition: Expression, *, holds: bool) -> Expression:
        """Return the distance to the condition being true, or false."""
        match condition:
            case BoolLiteral(value):
                return ZERO if value == holds else ONE
            case Unary("¬", operand):
                return self.of(operand, holds=not holds)
            case Binary("⇒", left, right):
                return self._join(self.of(left, holds=not holds), self.of(right, holds=holds), both=not holds)
            case Binary(("∧" | "∨") as operator, left, right):
                both = (operator == "∧") == holds
                return self._join(self.of(left, holds=holds), self.of(right, holds=holds), both=both)
            case Binary(operator, left, right) if operator in OPPOSITE:
                return self._comparison(operator if holds else OPPOSITE[operator], left, right)
            case Conditional(choice, then, otherwise):
                first = self._join(self.of(choice, holds=True), self.of(then, holds=holds), both=True)
                second = self._join(self.of(choice, holds=False), self.of(otherwise, holds=holds), both=True)
                return self._join(first, second, both=False)
            case _:
                return _step(condition) if holds else _step(Unary("¬", condition))

    def _join(self, left: Expression, right: Expression, *, both: bool) -> Expression:
        if both:
            return right if left == ZERO else left if right == ZERO else Binary("+", left, right)
        if ZERO in (left, right):
            return ZERO
        return Binary("min", left, right)

    def _comparison(self, operator: str, left: Expression, right: Expression) -> Expression:
        if operator in MIRRORED:
            operator, left, right = MIRRORED[operator], right, left
        one, other = kind_of(left, self.kinds), kind_of(right, self.kinds)
        names = any(isinstance(side, Name) and side.name in self.codes for side in (left, right))
        if operator == "≠" or one is Kind.BOOL or names:
            return _step(Binary(operator, left, right))
        gap = Binary("-", _real(left), _real(right))
        if operator == "=":
            return _damped(Unary("abs", gap))
        if operator == "≤":
            return _damped(Binary("max", ZERO, gap))
        # SOUND: a strict comparison that fails by nothing is not fulfilled: the distance stays above 0.
        least = ONE if one is other is Kind.INT else TINY
        return Conditional(Binary("<", left, right), ZERO, _damped(Binary("+", Binary("max", ZERO, gap), least)))


def _real(expression: Expression) -> Expression:
    return Binary("+", expression, ZERO)  # differences of large integers do not overflow as reals


def _damped(gap: Expression) -> Expression:
    return Binary("-", ONE, Binary("/", ONE, Binary("+", gap, ONE)))


def _step(condition: Expression) -> Expression:
    return Conditional(condition, ZERO, ONE)
