"""Listed integer states as sorted numbers in a mixed radix, and what of a model can be followed column by column in numpy.

SOUND: values are doubles there, so all variables are bounded integers below 2^52; models that might break a rule unseen (operators
that are not total, two assignments at once, computed indices, probabilities that are no plain numbers) are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import LARGE, Unreadable, refuse_hidden_errors
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
    children,
)
from polvet.model.network import PROBABILITY_TOLERANCE, Kind, Network, NetworkEdge
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
LARGEST_WORD = 2**63
"""Of a state's key: a larger number is written in several words."""
TOTAL = frozenset(("¬", "abs", "+", "-", "*", "min", "max", "∧", "∨", "⇒", "=", "≠", "<", "≤", ">", "≥"))


class ListedStates:
    """States by columns, each of them once; Unreadable where not all variables are bounded integers."""

    def __init__(self, network: Network, columns: Sequence[npt.NDArray[Any]]) -> None:
        if network.disables_out_of_bounds:
            raise Unreadable("operators that leave the bounds are disabled")
        self.variables = network.variables
        ends = [(0, 1) if v.kind is Kind.BOOL else (v.lower, v.upper) for v in self.variables]
        if any(v.kind is Kind.REAL for v in self.variables) or any(low is None or high is None for low, high in ends):
            raise Unreadable("not all variables are bounded integers")
        if any(abs(int(end or 0)) >= LARGE for pair in ends for end in pair):
            raise Unreadable("a variable's bounds are beyond 2^52")  # values are doubles here
        self.lower = np.array([int(low or 0) for low, _ in ends], dtype=np.int64)
        self.upper = np.array([int(high or 0) for _, high in ends], dtype=np.int64)
        self.words = _words([int(high or 0) - int(low or 0) + 1 for low, high in ends])
        self.place = {variable.name: k for k, variable in enumerate(self.variables)}
        self.columns = [column.astype(np.int64) for column in columns]
        for k, column in enumerate(self.columns):
            if len(column) and not (self.lower[k] <= column.min() and column.max() <= self.upper[k]):
                raise Malformed(f"'{self.variables[k].name}' leaves its bounds in a listed state")
        keys = self._keys(self.columns)
        self.is_sorted = bool((keys[1:] > keys[:-1]).all())
        self.order = np.arange(len(keys)) if self.is_sorted else np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        if not self.is_sorted and (self.keys[1:] == self.keys[:-1]).any():
            raise Malformed("a state stands twice")

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, rows: Ints) -> Ints:
        """Return where each state (between the bounds) is listed; -1: nowhere."""
        if not len(self.keys):
            return np.full(len(rows), -1, dtype=np.int64)
        keys = self._keys(list(rows.T))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.order[at], -1)

    def _keys(self, columns: Sequence[Ints]) -> npt.NDArray[Any]:
        """Return one key per state, in the order of states: a number, or the bytes of several, the greatest digits first."""
        keys = np.zeros((len(columns[0]), len(self.words)), dtype=">u8")
        for k, word in enumerate(self.words):
            number = np.zeros(len(keys), dtype=np.uint64)
            for place, weight in word:
                number += (columns[place] - self.lower[place]).astype(np.uint64) * np.uint64(weight)
            keys[:, k] = number
        # SOUND: bytes of equal length are compared from the left, which is the order of numbers with the greatest byte first.
        return keys[:, 0].astype(np.uint64) if len(self.words) == 1 else keys.view(f"S{8 * len(self.words)}")[:, 0]

    def state(self, place: int) -> State:
        """Return the state listed there."""
        return tuple(
            bool(column[place]) if variable.kind is Kind.BOOL else int(column[place])
            for variable, column in zip(self.variables, self.columns, strict=True)
        )


def _words(sizes: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return the variables in words of a mixed radix, each variable with its weight; the last one is the fastest.

    >>> _words([2**40, 2**30, 4])
    [[(0, 1)], [(1, 4), (2, 1)]]
    """
    words: list[list[int]] = [[]]
    for place, size in enumerate(sizes):
        if words[-1] and prod(sizes[k] for k in words[-1]) * size >= LARGEST_WORD:
            words.append([])
        words[-1].append(place)
    return [[(place, prod(sizes[k] for k in word[n + 1 :])) for n, place in enumerate(word)] for word in words]


def share_of(edge: NetworkEdge, branch: int) -> Fraction:
    """Return the probability of the branch as the model writes it; Unreadable where it is no plain number."""
    likely = edge.branches[branch].probability
    if not isinstance(likely, RealLiteral | IntLiteral):
        raise Unreadable("a probability is no plain number")
    return Fraction(likely.value)


def refuse_unseen(parts: Sequence[NetworkEdge], branches: Sequence[int]) -> None:
    """Raise Unreadable where executing this outcome might be an error that bulk steps do not see."""
    for part in parts:
        shares = [share_of(part, k) for k in range(len(part.branches))]
        if any(share < 0 for share in shares) or abs(sum(shares, Fraction(0)) - 1) > PROBABILITY_TOLERANCE:
            raise Unreadable("probabilities are not a distribution")
    refuse_hidden_errors(parts, branches)
    for part, k in zip(parts, branches, strict=True):
        for update in part.branches[k].updates:
            refuse_partial(update.value)


def refuse_partial(expression: Expression) -> None:
    """Raise Unreadable where evaluating may be an error: total operators on bounded integers are all that is read in bulk."""
    pending = [expression]
    while pending:
        part = pending.pop()
        total = isinstance(part, BoolLiteral | IntLiteral | RealLiteral | Name | Conditional)
        if isinstance(part, Binary) and part.operator == "%" and isinstance(part.right, IntLiteral):
            total = part.right.value > 0
        if not (total or (isinstance(part, Unary | Binary) and part.operator in TOTAL)):
            raise Unreadable("an operator is not total")
        pending += children(part)
