"""Expressions over many listed states at once: each part of an expression is computed once per block, in exact integers.

Parts are numbered, equal ones alike, with the range of their values over all listed states. SOUND: a part counts only where that range,
and those of all its own parts, stays below 2^52, so that neither the integers here nor the interpreter's doubles lose anything; anything
else is `UNKNOWN`, and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import LARGE
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
)

Range = tuple[int, int]
Column = npt.NDArray[Any]
"""The values of a part in a block of states; of a literal one value for all of them."""
UNKNOWN = -1
WORDS: dict[str, Callable[..., Any]] = {
    "¬": np.logical_not,
    "abs": np.abs,
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "%": np.remainder,
    "min": np.minimum,
    "max": np.maximum,
    "∧": np.logical_and,
    "∨": np.logical_or,
    "⇒": lambda left, right: np.logical_or(np.logical_not(left), right),
    "=": np.equal,
    "≠": np.not_equal,
    "<": np.less,
    "≤": np.less_equal,
    ">": np.greater,
    "≥": np.greater_equal,
    "ite": np.where,
}
NUMBERS = frozenset(("abs", "+", "-", "*", "%", "min", "max"))
"""Operators of integers that give one; the others give truth values, but for `ite`."""


class Points:
    """Numbered parts of expressions over variables with these ranges; truth values are 0 and 1."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        self.ranges: list[Range] = []
        self._words: list[tuple[str, tuple[Any, ...]]] = []
        self._number: dict[tuple[str, tuple[Any, ...]], int] = {}
        self._known: dict[Expression, int] = {}
        self._variables = dict(ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def number(self, expression: Expression) -> int:
        """Return the number of an expression; UNKNOWN where its values may not be exact, or it is not read here."""
        if (known := self._known.get(expression)) is not None:
            return known
        self._known[expression] = found = self._numbered(expression)
        return found

    def _numbered(self, expression: Expression) -> int:
        match expression:
            case BoolLiteral(value):
                return self._part("truth", (value,), (int(value), int(value)))
            case IntLiteral(value):
                return self._part("number", (value,), (value, value))
            case RealLiteral(value) if value.denominator == 1:
                return self._part("number", (int(value),), (int(value), int(value)))
            case Name(name) if name in self._variables:
                return self._part("variable", (name,), self._variables[name])
            case Unary(("¬" | "abs") as operator, operand):
                return self._operation(operator, operand)
            case Binary("%", left, IntLiteral(value)) if value > 0:
                return self._operation("%", left, IntLiteral(value))
            case Binary(operator, left, right) if operator in WORDS and operator != "%":
                return self._operation(operator, left, right)
            case Conditional(test, then, otherwise):
                return self._operation("ite", test, then, otherwise)
            case _:
                return UNKNOWN

    def _operation(self, operator: str, *operands: Expression) -> int:
        parts = tuple(self.number(one) for one in operands)
        if UNKNOWN in parts:
            return UNKNOWN
        return self._part(operator, parts, _range(operator, [self.ranges[part] for part in parts]))

    def _part(self, word: str, operands: tuple[Any, ...], ends: Range) -> int:
        if max(abs(ends[0]), abs(ends[1])) >= LARGE:
            return UNKNOWN
        key = word, operands
        if key not in self._number:
            self._number[key] = len(self.ranges)
            self._words.append(key)
            self.ranges.append(ends)
        return self._number[key]

    def block(self, columns: Mapping[str, Column]) -> Block:
        """Return the values of all parts in a block of states, given by the columns of its variables."""
        return Block(self._words, columns)


class Block:
    """The values of numbered parts in a block of states, computed when they are asked for and then kept."""

    def __init__(self, words: Sequence[tuple[str, tuple[Any, ...]]], columns: Mapping[str, Column]) -> None:
        self._words, self._columns = words, columns
        self._values: dict[int, Any] = {}

    def value(self, part: int) -> Any:
        """Return the column of a part: int64 or bool, or one value for the whole block."""
        if (found := self._values.get(part)) is not None:
            return found
        word, operands = self._words[part]
        if word in ("truth", "number"):
            value = operands[0]
        elif word == "variable":
            value = self._columns[operands[0]]
        elif word == "∧" and not (left.any() if isinstance(left := self.value(operands[0]), np.ndarray) else left):
            value = left  # false everywhere, whatever the other part is
        elif word in NUMBERS:
            value = WORDS[word](*(self.value(operand) for operand in operands), dtype=np.int64)
        else:
            value = WORDS[word](*(self.value(operand) for operand in operands))
        self._values[part] = value
        return value

    def holds(self, part: int, count: int) -> npt.NDArray[np.bool_]:
        """Return in which of the block's states a condition holds; not to be written to."""
        value = self.value(part)
        whole = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.bool_
        return value if whole else np.full(count, bool(value))


def _range(operator: str, operands: Sequence[Range]) -> Range:
    if operator not in NUMBERS and operator != "ite":
        return 0, 1
    (a, b), *others = operands
    match operator:
        case "abs":
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        case "+":
            return a + others[0][0], b + others[0][1]
        case "-":
            return a - others[0][1], b - others[0][0]
        case "*":
            corners = [one * other for one, other in product((a, b), others[0])]
            return min(corners), max(corners)
        case "%":
            return 0, others[0][1] - 1
        case "min":
            return min(a, others[0][0]), min(b, others[0][1])
        case "max":
            return max(a, others[0][0]), max(b, others[0][1])
    then, otherwise = others
    return min(then[0], otherwise[0]), max(then[1], otherwise[1])
