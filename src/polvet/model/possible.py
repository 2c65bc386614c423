"""Where a branch is possible, as a condition over integers: exact for whoever evaluates it, with doubles or without.

`0.3 - 0.1 * n > 0` is a question about fractions, and doubles answer it wrongly at n = 3; `-n > -3` is the same question about
integers. Read are sums and products of variables and constants, quotients by constants, `min`, `max`, `abs` and `ite`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd, lcm

from polvet.model import folding
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
)
from polvet.model.kinds import kind_of
from polvet.model.network import Kind

MOST_CASES = 32
MOST_TERMS = 32
LARGEST = 2**40
"""Greater coefficients are not written: sums of a few such products would not be exact in doubles."""


class _Unread(Exception):
    """An expression is not read here."""


def possible(probability: Expression, kinds: Mapping[str, Kind]) -> Expression | None:
    """Return a condition over integers that holds exactly where the probability is above 0; None where it is not read.

    A real variable may only be compared with 0: more would be rounded where reals are doubles.

    >>> from polvet.model.infix import dump_expression
    >>> share = Binary("-", RealLiteral(Fraction(3, 10)), Binary("*", RealLiteral(Fraction(1, 10)), Name("n")))
    >>> dump_expression(possible(share, {"n": Kind.INT}))
    '-1 * n > -3'
    """
    try:
        return _Reading(kinds).compared(">", probability, IntLiteral(0))
    except _Unread:
        return None


@dataclass(frozen=True, slots=True)
class _Polynomial:
    """A sum of products of variables, each with a coefficient other than 0; the empty product is the constant."""

    terms: Mapping[tuple[str, ...], Fraction]

    @property
    def constant(self) -> Fraction | None:
        """The value where no variable is read, else None."""
        return self.terms.get((), Fraction(0)) if set(self.terms) <= {()} else None


def _polynomial(terms: Mapping[tuple[str, ...], Fraction]) -> _Polynomial:
    kept = {key: value for key, value in terms.items() if value}
    if len(kept) > MOST_TERMS:
        raise _Unread
    return _Polynomial(kept)


def _number(value: Fraction | int) -> _Polynomial:
    return _polynomial({(): Fraction(value)})


def _added(left: _Polynomial, right: _Polynomial, factor: int = 1) -> _Polynomial:
    terms = dict(left.terms)
    for key, value in right.terms.items():
        terms[key] = terms.get(key, Fraction(0)) + factor * value
    return _polynomial(terms)


def _multiplied(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    terms: dict[tuple[str, ...], Fraction] = {}
    for (one, x), (other, y) in product(left.terms.items(), right.terms.items()):
        key = tuple(sorted(one + other))
        terms[key] = terms.get(key, Fraction(0)) + x * y
    return _polynomial(terms)


_Case = tuple[Expression, _Polynomial]


class _Reading:
    """Reads expressions as polynomials by cases."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self.kinds = kinds

    def compared(self, operator: str, left: Expression, right: Expression) -> Expression:
        """Return the comparison as a condition over integers."""
        condition: Expression = FALSE
        for (one, x), (other, y) in product(self.cases(left), self.cases(right)):
            holds = folding.binary("∧", folding.binary("∧", one, other), self._sign(operator, _added(x, y, -1)))
            condition = folding.binary("∨", condition, holds)
        return condition

    def cases(self, expression: Expression) -> list[_Case]:
        """Return the value by cases that exclude each other and leave nothing out."""
        cases = [case for case in self._cases(expression) if case[0] != FALSE]
        if len(cases) > MOST_CASES:
            raise _Unread
        return cases

    def _cases(self, expression: Expression) -> Iterator[_Case]:
        match expression:
            case IntLiteral(value) | RealLiteral(value):
                yield TRUE, _number(value)
            case Name(name) if self.kinds[name] is not Kind.BOOL:
                yield TRUE, _polynomial({(name,): Fraction(1)})
            case Conditional(test, then, otherwise):
                holds = self.condition(test)
                for truth, part in ((holds, then), (folding.unary("¬", holds), otherwise)):
                    yield from ((folding.binary("∧", truth, one), x) for one, x in self.cases(part))
            case Unary("abs", operand):
                yield from self._cases(Binary("max", operand, Binary("-", IntLiteral(0), operand)))
            case Binary(("+" | "-" | "*" | "/" | "min" | "max") as operator, left, right):
                for (one, x), (other, y) in product(self.cases(left), self.cases(right)):
                    both = folding.binary("∧", one, other)
                    yield from ((folding.binary("∧", both, more), z) for more, z in self._combined(operator, x, y))
            case _:
                raise _Unread

    def _combined(self, operator: str, x: _Polynomial, y: _Polynomial) -> Iterator[_Case]:
        match operator:
            case "+":
                yield TRUE, _added(x, y)
            case "-":
                yield TRUE, _added(x, y, -1)
            case "*":
                yield TRUE, _multiplied(x, y)
            case "/":
                if not y.constant:
                    raise _Unread  # no constant, or a division by zero
                yield TRUE, _multiplied(x, _number(1 / y.constant))
            case _:
                first = self._sign("≤" if operator == "min" else "≥", _added(x, y, -1))
                yield first, x
                yield folding.unary("¬", first), y

    def condition(self, test: Expression) -> Expression:
        """Return a condition with its comparisons over integers."""
        match test:
            case BoolLiteral():
                return test
            case Name():
                return test
            case Unary("¬", operand):
                return folding.unary("¬", self.condition(operand))
            case Binary(("∧" | "∨" | "⇒") as operator, left, right):
                return folding.binary(operator, self.condition(left), self.condition(right))
            case Binary(("=" | "≠") as operator, left, right) if kind_of(left, self.kinds) is Kind.BOOL:
                return folding.binary(operator, self.condition(left), self.condition(right))
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, left, right):
                return self.compared(operator, left, right)
            case _:
                raise _Unread

    def _sign(self, operator: str, difference: _Polynomial) -> Expression:
        """Return `difference operator 0` with integers for coefficients."""
        terms = dict(difference.terms)
        if any(self.kinds[name] is Kind.REAL for key in terms for name in key) and list(map(len, terms)) != [1]:
            raise _Unread
        scale = Fraction(lcm(*(value.denominator for value in terms.values())))
        scale /= gcd(*(int(value * scale) for value in terms.values())) or 1
        whole = {key: int(value * scale) for key, value in terms.items()}
        if any(abs(value) > LARGEST for value in whole.values()):
            raise _Unread
        constant = whole.pop((), 0)
        total: Expression = IntLiteral(0)
        for key, value in sorted(whole.items()):
            term: Expression = Name(key[0])
            for name in key[1:]:
                term = Binary("*", term, Name(name))
            total = folding.binary("+", total, term if value == 1 else Binary("*", IntLiteral(value), term))
        return folding.binary(operator, total, IntLiteral(-constant))
