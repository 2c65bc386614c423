"""Binary decision diagrams (package `dd`, with CUDD where it is built in), and integers as vectors of their bits.

A number is a list of diagrams, one per bit, the lowest first, in two's complement: the last one is the sign and may be
thought of as repeated for ever. Every operation makes its result as wide as it can get, so nothing overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from polvet.errors import MissingExtra

Diagram: TypeAlias = Any  # a function of dd's; its operators are & | ~
Number: TypeAlias = list[Diagram]


class Diagrams:
    """A manager of diagrams with arithmetic on bit vectors."""

    def __init__(self) -> None:
        try:
            from dd import cudd as backend
        except ImportError:
            try:
                from dd import autoref as backend
            except ImportError:
                raise MissingExtra("dd", "bdd") from None
        self.manager = backend.BDD()
        self.true, self.false = self.manager.true, self.manager.false

    def declare(self, names: Sequence[str]) -> list[Diagram]:
        """Return new variables, below each other in the order."""
        self.manager.declare(*names)
        return [self.manager.var(name) for name in names]

    @property
    def nodes(self) -> int:
        """Return how many nodes the manager holds."""
        return len(self.manager)

    def constant(self, value: int) -> Number:
        """Return the number as constant bits."""
        return [self.true if value >> k & 1 else self.false for k in range(value.bit_length() + 1)]

    def differ(self, left: Diagram, right: Diagram) -> Diagram:
        """Return where exactly one of the two holds."""
        return self.manager.apply("xor", left, right)

    def choose(self, condition: Diagram, yes: Diagram, no: Diagram) -> Diagram:
        """Return `yes` where the condition holds, else `no`."""
        return self.manager.ite(condition, yes, no)

    def substitute(self, replacement: dict[str, Diagram], function: Diagram) -> Diagram:
        """Return the function with all named variables replaced at once."""
        return self.manager.let(replacement, function)

    def pick(self, condition: Diagram, yes: Number, no: Number) -> Number:
        """Return one of two numbers, by a condition."""
        return [self.choose(condition, a, b) for a, b in zip(*_aligned(yes, no), strict=True)]

    def add(self, left: Number, right: Number, carry: Diagram | None = None) -> Number:
        """Return the sum, one more where the carry holds."""
        width = max(len(left), len(right)) + 1
        result, carried = [], self.false if carry is None else carry
        for a, b in zip(_widened(left, width), _widened(right, width), strict=True):
            one = self.differ(a, b)
            result.append(self.differ(one, carried))
            carried = (a & b) | (carried & one)
        return _shortened(result)

    def negate(self, number: Number) -> Number:
        """Return minus the number."""
        return self.add([~bit for bit in number], [self.false], self.true)

    def subtract(self, left: Number, right: Number) -> Number:
        """Return the difference."""
        return self.add(left, [~bit for bit in right], self.true)

    def multiply(self, left: Number, right: Number) -> Number:
        """Return the product, by shifting and adding; the sign bit counts negatively."""
        result = self.constant(0)
        for k, bit in enumerate(right):
            part = [self.false] * k + [bit & other for other in left]
            result = self.subtract(result, part) if k == len(right) - 1 else self.add(result, part)
        return result

    def is_less(self, left: Number, right: Number) -> Diagram:
        """Return where left < right."""
        return self.subtract(left, right)[-1]

    def is_equal(self, left: Number, right: Number) -> Diagram:
        """Return where both numbers are the same."""
        result = self.true
        for a, b in zip(*_aligned(left, right), strict=True):
            result &= ~self.differ(a, b)
        return result


def _widened(number: Number, width: int) -> Number:
    return number + [number[-1]] * (width - len(number))


def _aligned(left: Number, right: Number) -> tuple[Number, Number]:
    width = max(len(left), len(right))
    return _widened(left, width), _widened(right, width)


def _shortened(number: Number) -> Number:
    """Return the number without needless copies of its sign."""
    width = len(number)
    while width > 1 and number[width - 1] == number[width - 2]:
        width -= 1
    return number[:width]
