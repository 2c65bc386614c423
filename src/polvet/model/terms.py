"""Expressions written in Python: a `Term` wraps an expression, and its operators build bigger ones.

    x >= 3                          a condition (`==` and `!=` build conditions, too)
    (x < 9) & ~crashed | lost       `&`, `|`, `~` are and, or, not; they bind tighter than comparisons: use brackets
    lane[i + 1] * 2 - abs(v)        arithmetic; `/` is the exact quotient, `%` JANI's remainder, `**` the power
    when(x > 0, x - 1, 0)           one of two values

Whatever takes a term also takes an infix text (`"x >= 3"`), a Python number or an `Expression`: `expression_of` reads
all four. Decimals are meant as they are written: `0.1` is one tenth. The expressions themselves stay plain data.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NoReturn, TypeAlias

from polvet.errors import InputError, Where
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    BoolLiteral,
    Call,
    Conditional,
    Element,
    Expression,
    IntLiteral,
    RealLiteral,
    Unary,
)
from polvet.model.infix import (
    UNARY_FUNCTIONS,
    chained_operands,
    decimal_places,
    dump_expression,
    negative,
    parse_expression,
)

TERMS = Where("term")
EXPRESSION_TYPES: tuple[type, ...] = Expression.__args__


class Term:
    """An expression with Python's operators; `term.expression` is the data.

    >>> x, y = Term.of("x"), Term.of("y")
    >>> (x + 1 < 2 * y) & (x != 0)
    Term('x + 1 < 2 * y && x != 0')
    >>> ~(x >= 3) | (y == 0.5)
    Term('!(x >= 3) || y == 0.5')
    """

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    @classmethod
    def of(cls, value: Termlike) -> Term:
        """Return the term of a text, number or expression."""
        return cls(expression_of(value))

    def __repr__(self) -> str:
        return f"Term({dump_expression(self.expression)!r})"

    def __hash__(self) -> int:
        return id(self) >> 4

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"the truth of '{dump_expression(self.expression)}' is not known before the model runs.",
            TERMS,
            "Join conditions with & and |, negate them with ~, and do not chain comparisons.",
        )

    def __iter__(self) -> NoReturn:
        raise InputError(f"'{dump_expression(self.expression)}' has no known length.", TERMS, "Give the index range.")

    def _with(self, sign: str, other: Termlike, *, swapped: bool = False) -> Term:
        mine, theirs = self.expression, expression_of(other)
        return Term(Binary(sign, theirs, mine) if swapped else Binary(sign, mine, theirs))

    def __eq__(self, other: Termlike) -> Term:  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: Termlike) -> Term:  # type: ignore[override]
        return self._with("≠", other)

    def __lt__(self, other: Termlike) -> Term:
        return self._with("<", other)

    def __le__(self, other: Termlike) -> Term:
        return self._with("≤", other)

    def __gt__(self, other: Termlike) -> Term:
        return self._with(">", other)

    def __ge__(self, other: Termlike) -> Term:
        return self._with("≥", other)

    def __and__(self, other: Termlike) -> Term:
        return self._with("∧", other)

    def __rand__(self, other: Termlike) -> Term:
        return self._with("∧", other, swapped=True)

    def __or__(self, other: Termlike) -> Term:
        return self._with("∨", other)

    def __ror__(self, other: Termlike) -> Term:
        return self._with("∨", other, swapped=True)

    def __invert__(self) -> Term:
        return Term(Unary("¬", self.expression))

    def __add__(self, other: Termlike) -> Term:
        return self._with("+", other)

    def __radd__(self, other: Termlike) -> Term:
        return self._with("+", other, swapped=True)

    def __sub__(self, other: Termlike) -> Term:
        return self._with("-", other)

    def __rsub__(self, other: Termlike) -> Term:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: Termlike) -> Term:
        return self._with("*", other)

    def __rmul__(self, other: Termlike) -> Term:
        return self._with("*", other, swapped=True)

    def __truediv__(self, other: Termlike) -> Term:
        return self._with("/", other)

    def __rtruediv__(self, other: Termlike) -> Term:
        return self._with("/", other, swapped=True)

    def __mod__(self, other: Termlike) -> Term:
        return self._with("%", other)

    def __rmod__(self, other: Termlike) -> Term:
        return self._with("%", other, swapped=True)

    def __pow__(self, other: Termlike) -> Term:
        return self._with("pow", other)

    def __rpow__(self, other: Termlike) -> Term:
        return self._with("pow", other, swapped=True)

    def __neg__(self) -> Term:
        return Term(negative(self.expression))

    def __abs__(self) -> Term:
        return Term(Unary("abs", self.expression))

    def __getitem__(self, index: Termlike) -> Term:
        return Term(Element(self.expression, expression_of(index)))

    def implies(self, other: Termlike) -> Term:
        """Return `self => other`."""
        return self._with("⇒", other)


Termlike: TypeAlias = Term | Expression | str | bool | int | float | Fraction


def expression_of(value: Termlike, where: Where = TERMS) -> Expression:
    """Return the expression that a term, a text, a number or an expression stands for.

    A fraction that no decimal hits becomes a division of integers, since that is how model files can say it.

    >>> expression_of("x < 2"), expression_of(Fraction(1, 3))
    (Binary(operator='<', left=Name(name='x'), right=IntLiteral(value=2)), \
Binary(operator='/', left=IntLiteral(value=1), right=IntLiteral(value=3)))
    """
    match value:
        case Term():
            return value.expression
        case str():
            return parse_expression(value, where)
        case bool():
            return BoolLiteral(value)
        case int():
            return IntLiteral(value)
        case float():
            try:
                return RealLiteral(Fraction(repr(value)))
            except ValueError:
                raise InputError(f"{value} is not a finite number.", where, "Give a finite number.") from None
        case Fraction():
            if value.denominator == 1:
                return IntLiteral(value.numerator)
            if decimal_places(value) is not None:
                return RealLiteral(value)
            return Binary("/", IntLiteral(value.numerator), IntLiteral(value.denominator))
        case _ if isinstance(value, EXPRESSION_TYPES):
            return value
    raise InputError(f"a {type(value).__name__} is no expression.", where, "Give a term, an infix text or a number.")


def when(condition: Termlike, then: Termlike, otherwise: Termlike) -> Term:
    """Return `condition ? then : otherwise`.

    >>> when("x > 0", "x - 1", 0)
    Term('x > 0 ? x - 1 : 0')
    """
    return Term(Conditional(expression_of(condition), expression_of(then), expression_of(otherwise)))


def every(*conditions: Termlike) -> Term:
    """Return the conjunction; of nothing it is true.

    >>> every("a", "b < 2", "c")
    Term('a && b < 2 && c')
    """
    return Term(chained_operands("∧", [one for one in map(expression_of, conditions) if one != TRUE]))


def some(*conditions: Termlike) -> Term:
    """Return the disjunction; of nothing it is false."""
    return Term(chained_operands("∨", [one for one in map(expression_of, conditions) if one != FALSE]))


def total(*summands: Termlike) -> Term:
    """Return the sum, balanced so that long ones nest little; of nothing it is 0.

    >>> total("a", "b", 1)
    Term('a + (b + 1)')
    """
    return Term(balanced("+", [expression_of(one) for one in summands] or [IntLiteral(0)]))


def least(*values: Termlike) -> Term:
    """Return the minimum."""
    return Term(balanced("min", [expression_of(one) for one in values]))


def greatest(*values: Termlike) -> Term:
    """Return the maximum.

    >>> greatest("x", "y", 3)
    Term('max(x, max(y, 3))')
    """
    return Term(balanced("max", [expression_of(one) for one in values]))


def function(name: str, *arguments: Termlike) -> Term:
    """Return a function of the model, or a built-in one of a single argument such as `floor` or `sin`, applied.

    >>> function("floor", "x / 2"), function("next", "x", 1)
    (Term('floor(x / 2)'), Term('next(x, 1)'))
    """
    operands = tuple(expression_of(argument) for argument in arguments)
    if name in UNARY_FUNCTIONS and len(operands) == 1:
        return Term(Unary(name, operands[0]))
    return Term(Call(name, operands))


def balanced(sign: str, operands: list[Expression]) -> Expression:
    """Return the operands joined in halves, so that thousands of them nest a dozen deep."""
    if not operands:
        raise InputError(f"'{sign}' of nothing.", TERMS, "Give at least one operand.")
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    return Binary(sign, balanced(sign, operands[:middle]), balanced(sign, operands[middle:]))
