"""A `permissive` shield with many states: the conditions of check/permissive.py, tested for all of them at once.

One inequality per allowed operator, sum of share * value <= whole * value, in exact integers: the values are brought to one denominator
where that is short, and are fractions otherwise. SOUND: 64-bit integers are used only where whole * value cannot overflow, which bounds
every sum, since the shares of an operator sum to its whole. States that break a condition are not rejected here: they are yielded
with the doubtful ones for the interpreter to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.listed_moves import INT64, ListedMoves, Moves, Whole
from polvet.check.listed_states import Bools, Ints

SHORT = 1 << 11
"""Bits of a common denominator up to which values are brought to it."""


class BulkShield:
    """Allowed labels and values of listed states, held against all enabled operators."""

    def __init__(self, moves: ListedMoves, allowed: Sequence[Sequence[str | None]], values: Sequence[Fraction]) -> None:
        self.moves, self.count = moves, len(values)
        self.values, self.one = scaled(values)
        labels: list[str | None] = list(moves.arena.task.network.labels)
        self.column = {label: k for k, label in enumerate([*labels, None])}
        self.allowed: Bools = np.zeros((self.count, len(self.column)), dtype=np.bool_)
        self.bad: Bools = np.zeros(
            self.count, dtype=np.bool_
        )  # breaks a condition, or its operators are not known exactly
        for place, mine in enumerate(allowed):
            for label in mine:
                if label in self.column:
                    self.allowed[place, self.column[label]] = True
                else:
                    self.bad[place] = True

    def check(self, *, exact: bool) -> tuple[Bools, list[tuple[Ints, Ints]]]:
        """Return which states the interpreter must judge, and (state, outcome) where an operator attains the state's value."""
        applicable = np.zeros_like(self.allowed)
        attaining: list[tuple[Ints, Ints]] = []
        for block in self.moves.blocks():
            column = self.column[block.label]
            applicable[block.source, column] = True
            taken = np.flatnonzero(self.allowed[block.source, column]) if block.label is not None else slice(None)
            part = Moves(block.label, block.source[taken], block.target[taken], block.share[taken], block.whole[taken])
            self.bad[part.source[(part.target < 0).any(axis=1)]] = True
            expected, least = self._expected(part)
            self.bad[part.source[expected > least]] = True
            if exact:
                same = np.asarray((expected == least) & (least > 0), dtype=np.bool_)
                for k in range(part.target.shape[1]):
                    attaining.append((part.source[same], part.target[same, k]))
        fail, goal = self.moves.fail, self.moves.goal
        stops = fail | goal | ~applicable.any(axis=1)
        self.bad |= stops & self.allowed.any(axis=1)
        self.bad |= fail & np.asarray(self.values != self.one, dtype=np.bool_)
        if exact:
            self.bad |= stops & ~fail & np.asarray(self.values != 0, dtype=np.bool_)
        self.bad |= ~stops & ~self.allowed.any(axis=1)
        # The pseudo-action None stands for silent operators only where there is nothing else.
        applicable[:, -1] &= ~applicable[:, :-1].any(axis=1)
        self.bad |= ~stops & (self.allowed & ~applicable).any(axis=1)
        return self.bad | self.moves.doubtful, attaining

    def _expected(self, part: Moves) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return what is expected of the values after each operator, and the value before it, both times its whole."""
        share, whole, values = part.share, part.whole, self.values
        if values.dtype == np.int64 and len(whole) and int(whole.max()) * self.one >= INT64:
            values = values.astype(object)
        total = share[:, 0] * values[part.target[:, 0]]
        for k in range(1, share.shape[1]):
            total = total + share[:, k] * values[part.target[:, k]]
        return total, whole * values[part.source]


def scaled(values: Sequence[Fraction]) -> tuple[Whole, Any]:
    """Return the values as integers over one denominator, and that denominator; as fractions and 1 where it is too long.

    >>> scaled([Fraction(1, 2), Fraction(1, 3)])
    (array([3, 2]), 6)
    """
    one = 1
    for denominator in {value.denominator for value in values}:
        one = lcm(one, denominator)
        if one.bit_length() > SHORT:
            return np.array([*values, None], dtype=object)[:-1], 1
    numbers = [value.numerator * (one // value.denominator) for value in values]
    return np.array(numbers, dtype=np.int64 if one < INT64 else object), one


def reaches(count: int, sources: Bools, attaining: Sequence[tuple[Ints, Ints]]) -> Bools:
    """Return from which states the pairs (state, outcome) lead to a source."""
    state = np.concatenate([pair[0] for pair in attaining]) if attaining else np.zeros(0, dtype=np.int64)
    after = np.concatenate([pair[1] for pair in attaining]) if attaining else np.zeros(0, dtype=np.int64)
    state, after = state[after >= 0], after[after >= 0]
    order = np.argsort(after, kind="stable")
    users = state[order]
    begin = np.searchsorted(after[order], np.arange(count + 1))
    reached = sources.copy()
    frontier = np.flatnonzero(reached)
    while len(frontier):
        widths = begin[frontier + 1] - begin[frontier]
        places = np.repeat(begin[frontier] - np.cumsum(widths) + widths, widths) + np.arange(int(widths.sum()))
        fresh = np.unique(users[places])
        frontier = fresh[~reached[fresh]]
        reached[frontier] = True
    return reached
