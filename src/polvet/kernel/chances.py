"""Probabilities that depend on the state, as trees the kernel evaluates exactly: integers and fractions of any length.

Whether a branch is possible is decided as the interpreter does, not by doubles. Constants keep the digits they were written with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

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
)
from polvet.model.network import Kind

ProgramData: TypeAlias = dict[str, Any]
"""Parts of a program by name, as `_core.Program.make` takes them."""
NODES = tuple(
    """
    NUMBER SLOT NOT AND OR IMPLIES EQ NE LT LE GT GE ADD SUB MUL DIV MIN MAX MOD POW LOG ABS SGN FLOOR CEIL TRC FUN ITE
    SELECT
    """.split()  # noqa: SIM905
)
OP = {name: number for number, name in enumerate(NODES)}
UNARY = {"¬": "NOT", "abs": "ABS", "sgn": "SGN", "floor": "FLOOR", "ceil": "CEIL", "trc": "TRC"}
BINARY = {
    "∧": "AND", "∨": "OR", "⇒": "IMPLIES", "=": "EQ", "≠": "NE", "<": "LT", "≤": "LE", ">": "GT", "≥": "GE", "+": "ADD",
    "-": "SUB", "*": "MUL", "/": "DIV", "min": "MIN", "max": "MAX", "%": "MOD", "pow": "POW", "log": "LOG",
}  # fmt: skip


class ChanceWriter:
    """Collects the trees of one program; equal trees are written once."""

    def __init__(self, slots: Mapping[str, int], kinds: Mapping[str, Kind]) -> None:
        self.slots, self.kinds = slots, kinds
        self.nodes: dict[tuple[int, int, int, int], int] = {}
        self.numbers: dict[tuple[bool, bool, str, str], int] = {}
        self.lists: dict[tuple[int, ...], int] = {}
        self.edges: list[tuple[list[int], list[int]]] = []

    def edge(self, probabilities: Sequence[Expression], reads: Sequence[int]) -> int:
        """Return the number of an edge with these probabilities, which read these slots."""
        self.edges.append(([self.node(one) for one in probabilities], list(reads)))
        return len(self.edges) - 1

    def data(self) -> ProgramData:
        """Return all that was collected, as `_core.Program.make` takes it."""
        return {
            "computed_edges": self.edges,
            "chance_nodes": list(self.nodes),
            "chance_numbers": list(self.numbers),
            "chance_lists": [list(one) for one in self.lists],
        }

    def node(self, expression: Expression) -> int:
        """Return the number of the expression's node."""
        match expression:
            case BoolLiteral(value) | IntLiteral(value):
                return self._number(Fraction(int(value)), whole=True)
            case RealLiteral(real):
                return self._number(real, whole=False)
            case MathConstant(name):
                return self._number(Fraction(arithmetic.CONSTANTS[name]), whole=False)
            case Name(name):
                return self._node("SLOT", self.slots[name], int(self.kinds[name] is Kind.REAL))
            case Unary(operator, operand) if operator in UNARY:
                return self._node(UNARY[operator], self.node(operand))
            case Unary(operator, operand):
                return self._node("FUN", self.node(operand), FUNCTIONS.index(operator))
            case Binary(operator, left, right):
                return self._node(BINARY[operator], self.node(left), self.node(right))
            case Conditional(condition, then, otherwise):
                return self._node("ITE", self.node(condition), self.node(then), self.node(otherwise))
            case Select(indices, shape, items):
                parts = (*map(self.node, indices), *shape, *map(self.node, items))
                return self._node("SELECT", self.lists.setdefault(parts, len(self.lists)), len(indices))
            case _:
                raise InputError(
                    "an array stands where a single value is needed.", hint="Take an element of the array."
                )

    def _node(self, name: str, a: int, b: int = 0, c: int = 0) -> int:
        return self.nodes.setdefault((OP[name], a, b, c), len(self.nodes))

    def _number(self, value: Fraction, *, whole: bool) -> int:
        key = whole, value < 0, f"{abs(value.numerator):x}", f"{value.denominator:x}"
        return self._node("NUMBER", self.numbers.setdefault(key, len(self.numbers)))
