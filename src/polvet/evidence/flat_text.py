"""Flat texts in the making: expressions as shared nodes, and what is written of them (docs/flat.md says what a text is).

An item is a list of pieces: strings, and numbers of nodes. A node that stands often, or is long and stands twice, becomes an
abbreviation, so that the text is never much longer than the expressions that it was made of.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from polvet.errors import InputError
from polvet.model.expressions import (
    TRIGONOMETRIC,
    Binary,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    Select,
    Unary,
    children,
    operands_of,
)
from polvet.model.folding import value_of

Piece: TypeAlias = str | int
"""A text, or the number of a node."""
PLAIN = re.compile(r"[A-Za-z_][!#-'*-~]*")
"""What need not be quoted: printable ASCII that begins like a name, without brackets and quotes."""
INVERSES = {"cot": "tan", "sec": "cos", "csc": "sin", "coth": "tanh", "sech": "cosh", "csch": "sinh"}
"""What is 1 divided by another function."""
OF_INVERSES = {"asec": "acos", "acsc": "asin", "acoth": "atanh", "asech": "acosh", "acsch": "asinh"}
"""What is another function of 1 divided by the operand."""
SHORT, SAVED = 40, 160
"""An abbreviation stands for at least so many characters, and spares so many."""
SYMBOLS = {"∧": "and", "∨": "or", "⇒": "=>", "≤": "<=", "¬": "not"}
SWAPPED = {">": "<", "≥": "<="}
CHAINS = ("+", "*", "min", "max")
WITHOUT_EXACT_VALUE = ("exp", "log", "pow", *TRIGONOMETRIC)


def word(name: str | None) -> str:
    """Return a name as a text has it; None is `-`.

    >>> word("x.location"), word("at(a)"), word("-"), word("error"), word("7")
    ('x.location', '"at(a)"', '"-"', '"error"', '"7"')
    """
    if name is None:
        return "-"
    return name if PLAIN.fullmatch(name) and name != "error" else json.dumps(name, ensure_ascii=False)


def double(value: float | Fraction) -> str:
    """Return the nearest double in the fewest digits that say it."""
    return repr(float(value) + 0.0)


class Terms:
    """The expressions of one text."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name: word(name) for name in names}
        self._parts: list[tuple[str, tuple[int, ...]]] = []  # a word, or the head of a list and its nodes
        self._numbers: dict[tuple[str, tuple[int, ...]], int] = {}
        self._seen: dict[tuple[int, bool], tuple[Expression, int]] = {}

    def node(self, head: str, *parts: int) -> int:
        """Return the number of the list `(head parts ...)`, or of the word `head`."""
        key = head, parts
        if key not in self._numbers:
            self._numbers[key] = len(self._parts)
            self._parts.append(key)
        return self._numbers[key]

    def chain(self, head: str, parts: Sequence[int], nothing: str) -> int:
        """Return the list of these parts; one is itself, and none is the word `nothing`."""
        return self.node(head, *parts) if len(parts) > 1 else parts[0] if parts else self.node(nothing)

    def ratio(self, value: int | Fraction) -> int:
        """Return an exact number, as weights have it."""
        if isinstance(value, int):
            return self.node(str(value))
        if value == float(value):
            return self.node(double(value))
        return self.node("/", self.node(str(value.numerator)), self.node(str(value.denominator)))

    def of(self, expression: Expression, *, exact: bool = False) -> int:
        """Return the node of a resolved expression; `exact`: as a weight, where a decimal is the number that was written."""
        key = id(expression), exact
        if key not in self._seen:
            self._seen[key] = expression, self._of(expression, exact)
        return self._seen[key][1]

    def _of(self, expression: Expression, exact: bool) -> int:
        value = value_of(expression)
        if value is not None:
            if isinstance(value, int):
                return self.node(str(int(value)))
            return self.ratio(Fraction(value)) if exact else self.node(double(value))
        match expression:
            case Name(name):
                return self.node(self._names[name])
            case Unary(operator, operand) if operator in TRIGONOMETRIC:
                return self._trigonometric(operator, self.of(operand, exact=exact), exact)
            case Unary(operator, operand):
                return self.node(SYMBOLS.get(operator, operator), self.of(operand, exact=exact))
            case Binary(("∧" | "∨") as operator, _, _):
                parts = [self.of(part, exact=exact) for part in operands_of(expression, operator)]
                return self.node(SYMBOLS[operator], *parts)
            case Binary(operator, left, right) if operator in CHAINS:
                spine = [right]
                while isinstance(left, Binary) and left.operator == operator:
                    spine.append(left.right)
                    left = left.left
                return self.node(operator, *(self.of(part, exact=exact) for part in (left, *reversed(spine))))
            case Binary("≠", left, right):
                return self.node("not", self.node("=", self.of(left, exact=exact), self.of(right, exact=exact)))
            case Binary(operator, left, right):
                one, other = self.of(left, exact=exact), self.of(right, exact=exact)
                if operator in SWAPPED:
                    return self.node(SWAPPED[operator], other, one)
                return self.node(SYMBOLS.get(operator, operator), one, other)
            case Conditional():
                cases: list[tuple[int, int]] = []
                last: Expression = expression
                while isinstance(last, Conditional):
                    cases.append((self.of(last.condition, exact=exact), self.of(last.then, exact=exact)))
                    last = last.otherwise
                result = self.of(last, exact=exact)
                for condition, then in reversed(cases):
                    result = self.node("ite", condition, then, result)
                return result
            case Select(indices, shape, items):
                nodes = [self.of(item, exact=exact) for item in items]
                for index, length in zip(reversed(indices), reversed(shape), strict=True):
                    place = self.of(index, exact=exact)
                    nodes = [self.node("at", place, *nodes[k : k + length]) for k in range(0, len(nodes), length)]
                return nodes[0]
            case _:
                raise InputError(
                    f"a {type(expression).__name__} stands where a value is needed.",
                    hint="Take an element of the array.",
                )

    def _trigonometric(self, operator: str, operand: int, exact: bool) -> int:
        if operator in INVERSES:
            return self.node("/", self.node("1.0"), self.node(INVERSES[operator], operand))
        if operator == "acot":
            return self.node("-", self.node(double(math.pi / 2)), self.node("atan", operand))
        if operator in OF_INVERSES:
            if exact:  # 1 / x would not be rounded before the function is asked
                what = f"a flat text cannot say '{operator}' in a probability as it is computed."
                raise InputError(what, hint=f"Write {OF_INVERSES[operator]}(1 / x).")
            return self.node(OF_INVERSES[operator], self.node("/", self.node("1.0"), operand))
        return self.node(operator, operand)

    def lines(self, items: Sequence[Sequence[Piece]]) -> tuple[list[str], list[str]]:
        """Return the abbreviations, and the items, each as its text."""
        uses = [0] * len(self._parts)
        for item in items:
            for piece in item:
                if isinstance(piece, int):
                    uses[piece] += 1
        for number in range(len(uses) - 1, -1, -1):  # a node stands after its parts
            if uses[number]:
                for part in self._parts[number][1]:
                    uses[part] += 1
        lengths: list[int] = []
        shown: dict[int, str] = {}
        taken, count = set(self._names), 0
        for number, (head, parts) in enumerate(self._parts):
            length = len(head) + (sum(lengths[part] + 1 for part in parts) + 2 if parts else 0)
            if length >= SHORT and (uses[number] - 1) * (length - 4) >= SAVED:
                count += 1
                while f"_{count}" in taken:
                    count += 1
                shown[number] = f"_{count}"
                length = len(shown[number])
            lengths.append(length)
        defined = [f"(define {name} {self._text(number, shown)})" for number, name in shown.items()]
        return defined, ["".join(self._pieces(item, shown)) for item in items]

    def _pieces(self, item: Sequence[Piece], shown: Mapping[int, str]) -> Iterator[str]:
        for piece in item:
            yield piece if isinstance(piece, str) else shown.get(piece) or self._text(piece, shown)

    def _text(self, number: int, shown: Mapping[int, str]) -> str:
        pieces: list[str] = []
        pending: list[Piece] = [number]
        while pending:
            one = pending.pop()
            if isinstance(one, str):
                pieces.append(one)
                continue
            head, parts = self._parts[one]
            if not parts:
                pieces.append(head)
            elif one in shown and one != number:
                pieces.append(shown[one])
            else:
                pieces.append("(" + head)
                pending.append(")")
                for part in reversed(parts):
                    pending += (part, " ")
        return "".join(pieces)


def is_exact(expression: Expression) -> bool:
    """Return whether the expression surely has an exact value as a weight."""
    pending, seen = [expression], set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        match part:
            case Binary("pow", _, IntLiteral(power)) if abs(power) <= 1024:
                pass
            case Unary(operator, _) | Binary(operator, _, _) if operator in WITHOUT_EXACT_VALUE:
                return False
        pending += children(part)
    return True
