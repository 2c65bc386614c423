"""Conditions handed to the kernel as hash-consed terms, from which it computes what is left after each variable.

Resolved expressions become terms of `_core.Diagram`: truth values are the integers 0 and 1, comparisons of integers are
sums against zero, chains of ∧, ∨ and + are flat.
"""

from __future__ import annotations

from collections.abc import Mapping

from polvet import _core
from polvet.errors import InputError
from polvet.kernel.assemble import FUNCTIONS
from polvet.model import arithmetic
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
    operands_of,
)
from polvet.model.network import Kind

TERMS = tuple(
    """
    INT REAL FAULT VAR SUM LE0 EQ0 AND OR NOT ITE MUL MIN MAX MOD POW ABS SGN I2F FADD FSUB FMUL FDIV FMIN FMAX FMOD
    FPOW FLOG FABS FSGN FLOOR CEIL TRC FUN FLE FLT FEQ SELECT
    """.split()  # noqa: SIM905
)
OP = {name: number for number, name in enumerate(TERMS)}
INTEGER = {"*": "MUL", "min": "MIN", "max": "MAX", "%": "MOD", "pow": "POW"}
REAL = {
    "+": "FADD", "-": "FSUB", "*": "FMUL", "/": "FDIV", "min": "FMIN", "max": "FMAX", "%": "FMOD", "pow": "FPOW",
    "log": "FLOG",
}  # fmt: skip
ROUNDING = {"floor": "FLOOR", "ceil": "CEIL", "trc": "TRC"}


class Termwriter:
    """Writes expressions as terms of one diagram; `leaves` holds, for each variable, its term and kind."""

    def __init__(self, diagram: _core.Diagram, leaves: Mapping[str, tuple[int, Kind]]) -> None:
        self.diagram, self.leaves = diagram, leaves
        self._written: dict[int, tuple[int, Kind, Expression]] = {}

    def write(self, expression: Expression) -> tuple[int, Kind]:
        """Return the term and kind of a resolved expression."""
        known = self._written.get(id(expression))
        if known is not None:
            return known[0], known[1]
        term, kind = self._write(expression)
        self._written[id(expression)] = term, kind, expression  # keeping the expression keeps its id taken
        return term, kind

    def _write(self, expression: Expression) -> tuple[int, Kind]:
        match expression:
            case BoolLiteral(value):
                return self.diagram.integer(int(value)), Kind.BOOL
            case IntLiteral(value):
                return self._integer(value), Kind.INT
            case RealLiteral(value):
                return self.diagram.number(float(value)), Kind.REAL
            case MathConstant(name):
                return self.diagram.number(arithmetic.CONSTANTS[name]), Kind.REAL
            case Name(name):
                return self.leaves[name]
            case Unary(operator, operand):
                return self._unary(operator, operand)
            case Binary(("∧" | "∨") as operator, _, _):
                parts = [self.write(part)[0] for part in operands_of(expression, operator)]
                return self._term("AND" if operator == "∧" else "OR", *parts), Kind.BOOL
            case Binary("⇒", left, right):
                return self._term("OR", self._not(self.write(left)[0]), self.write(right)[0]), Kind.BOOL
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, left, right):
                return self._comparison(operator, left, right), Kind.BOOL
            case Binary(operator, left, right):
                return self._arithmetic(operator, left, right)
            case Conditional(condition, then, otherwise):
                test = self.write(condition)[0]
                (one, first), (other, second) = self.write(then), self.write(otherwise)
                if first is not second:
                    one, other, first = self._real(one, first), self._real(other, second), Kind.REAL
                return self._term("ITE", test, one, other), first
            case Select(indices, shape, items):
                return self._select(indices, shape, items)
            case _:
                raise InputError(
                    "an array stands where a single value is needed.", hint="Take an element of the array."
                )

    def _term(
        self, name: str, *children: int, aux: int = 0, factors: list[int] | None = None, constant: int = 0
    ) -> int:
        return self.diagram.term(OP[name], aux, constant, list(children), factors or [])

    def _integer(self, value: int) -> int:
        if not -(2**62) < value < 2**62:
            raise InputError(f"the number {value} is too large for a start condition.", hint="Use smaller numbers.")
        return self.diagram.integer(value)

    def _not(self, term: int) -> int:
        return self._term("NOT", term)

    def _real(self, term: int, kind: Kind) -> int:
        return term if kind is Kind.REAL else self._term("I2F", term)

    def _unary(self, operator: str, operand: Expression) -> tuple[int, Kind]:
        term, kind = self.write(operand)
        if operator == "¬":
            return self._not(term), Kind.BOOL
        if operator in ("abs", "sgn"):
            name = operator.upper() if kind is Kind.INT else f"F{operator.upper()}"
            return self._term(name, term), Kind.INT if operator == "sgn" else kind
        if operator in ROUNDING:
            return (term if kind is Kind.INT else self._term(ROUNDING[operator], term)), Kind.INT
        return self._term("FUN", self._real(term, kind), aux=FUNCTIONS.index(operator)), Kind.REAL

    def _comparison(self, operator: str, left: Expression, right: Expression) -> int:
        (one, first), (other, second) = self.write(left), self.write(right)
        if operator in (">", "≥"):
            one, first, other, second = other, second, one, first
            operator = {">": "<", "≥": "≤"}[operator]
        if Kind.REAL in (first, second):
            one, other = self._real(one, first), self._real(other, second)
            name = {"<": "FLT", "≤": "FLE", "=": "FEQ", "≠": "FEQ"}[operator]
            term = self._term(name, one, other)
        else:
            constant = 1 if operator == "<" else 0  # x < y is x - y + 1 <= 0
            difference = self._term("SUM", one, other, factors=[1, -1], constant=constant)
            term = self._term("EQ0" if operator in "=≠" else "LE0", difference)
        return self._not(term) if operator == "≠" else term

    def _arithmetic(self, operator: str, left: Expression, right: Expression) -> tuple[int, Kind]:
        (one, first), (other, second) = self.write(left), self.write(right)
        if first is Kind.INT and second is Kind.INT and operator not in ("/", "log"):
            if operator in "+-":
                return self._term("SUM", one, other, factors=[1, 1 if operator == "+" else -1]), Kind.INT
            return self._term(INTEGER[operator], one, other), Kind.INT
        return self._term(REAL[operator], self._real(one, first), self._real(other, second)), Kind.REAL

    def _select(
        self, indices: tuple[Expression, ...], shape: tuple[int, ...], items: tuple[Expression, ...]
    ) -> tuple[int, Kind]:
        written = [self.write(item) for item in items]
        kind = Kind.REAL if any(one is Kind.REAL for _, one in written) else written[0][1] if written else Kind.INT
        cells = [self._real(term, one) if kind is Kind.REAL else term for term, one in written]
        positions = [self.write(index)[0] for index in indices]
        return self._term("SELECT", *positions, *cells, aux=len(indices), factors=list(shape)), kind
