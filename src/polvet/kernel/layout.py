"""Where each variable lives in a packed state: bit fields that never straddle a 64-bit word.

Integers are stored from their lower bound up, in as few bits as their range needs; unbounded integers and reals take a
word of their own. Fields are placed first-fit, the widest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from polvet.model.network import Kind, Variable
from polvet.numbers import at_least

FULL = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """A variable's place: word, shift and mask; and what may be stored there."""

    word: int
    shift: int
    mask: int
    lower: int
    range: int
    real: bool
    real_lower: float
    real_upper: float

    def as_tuple(self) -> tuple[int, int, int, int, int, bool, float, float]:
        """Return the fields in the order the kernel reads them."""
        return (
            self.word,
            self.shift,
            self.mask,
            self.lower,
            self.range,
            self.real,
            self.real_lower,
            self.real_upper,
        )


def bits_of(variable: Variable) -> int:
    """Return how many bits the variable's values need.

    >>> bits_of(Variable("x", Kind.INT, -1, 6)), bits_of(Variable("b", Kind.BOOL)), bits_of(Variable("n", Kind.INT))
    (3, 1, 64)
    """
    if variable.kind is Kind.BOOL:
        return 1
    if variable.kind is Kind.REAL or variable.lower is None or variable.upper is None:
        return 64
    return int(variable.upper - variable.lower).bit_length()


def lay_out(variables: Sequence[Variable]) -> tuple[tuple[Field, ...], int]:
    """Return one field per variable, and the number of words (at least one)."""
    free: list[int] = []  # bits left in each word
    places: dict[int, tuple[int, int, int]] = {}
    for i in sorted(range(len(variables)), key=lambda i: -bits_of(variables[i])):
        bits = bits_of(variables[i])
        word = next((w for w, left in enumerate(free) if left >= bits), len(free))
        if word == len(free):
            free.append(64)
        places[i] = word, (64 - free[word]) % 64, bits
        free[word] -= bits
    return tuple(_field(variable, *places[i]) for i, variable in enumerate(variables)), max(1, len(free))


def _field(variable: Variable, word: int, shift: int, bits: int) -> Field:
    mask = (1 << bits) - 1
    if variable.kind is Kind.REAL:
        least = -inf if variable.lower is None else at_least(variable.lower)
        most = inf if variable.upper is None else -at_least(-variable.upper)
        return Field(word, shift, mask, 0, 0, True, least, most)
    if variable.kind is Kind.BOOL:
        return Field(word, shift, mask, 0, 1, False, 0.0, 0.0)
    lower, upper = variable.lower, variable.upper
    if lower is None or upper is None:
        # Half-bounded integers keep the bound they have: the range is counted up from the smallest value allowed.
        low = -(2**63) + 1 if lower is None else int(lower)
        high = 2**63 - 2 if upper is None else int(upper)
        return Field(word, shift, FULL, low, high - low, False, 0.0, 0.0)
    return Field(word, shift, mask, int(lower), int(upper - lower), False, 0.0, 0.0)
