"""Listed integer states as sorted numbers in a mixed radix, and what of a model can be followed column by column in numpy.

SOUND: values are doubles there, so all variables are bounded integers below 2^52; models that might break a rule unseen (operators
that are not total, two assignments at once, computed indices, probabilities that are no plain numbers) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
Words = npt.NDArray[np.uint64]
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
        self.columns = [np.asarray(column) for column in columns]
        for k, column in enumerate(self.columns):
            if len(column) and not (self.lower[k] <= column.min() and column.max() <= self.upper[k]):
                raise Malformed(f"'{self.variables[k].name}' leaves its bounds in a listed state")
        self.weights = [(word, np.uint64(weight)) for _, word, weight in sorted(_weights(self.words))]
        """Of each variable: the word of the key that it is part of, and by how much it counts there."""
        self.numbers = self._numbers(self.columns)
        """The words of each state's key."""
        self._stages: list[tuple[Words, Words]] = []
        keys = self.numbers[0]
        for number in self.numbers[1:]:
            keys = self._joined(keys, number)
        self.is_sorted = bool((keys[1:] > keys[:-1]).all())
        self.order = np.arange(len(keys)) if self.is_sorted else np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        if not self.is_sorted and (self.keys[1:] == self.keys[:-1]).any():
            raise Malformed("a state stands twice")

    def __len__(self) -> int:
        return len(self.keys)

    def _joined(self, keys: Words, more: Words) -> Words:
        """Return one number for each pair, in the order of pairs: the ranks of both among those that are listed.

        SOUND: ranks are below 2^32, since so many states are never listed; two pairs have one number only if they are equal.
        """
        (first, one), (second, other) = np.unique(keys, return_inverse=True), np.unique(more, return_inverse=True)
        self._stages.append((first, second))
        return one.astype(np.uint64) * np.uint64(len(second)) + other.astype(np.uint64)

    def find(self, rows: Ints) -> Ints:
        """Return where each state (between the bounds) is listed; -1: nowhere."""
        return self.find_numbers(self._numbers(list(rows.T)))

    def find_numbers(self, numbers: Sequence[Words]) -> Ints:
        """Return where the states with these keys are listed; -1: nowhere."""
        if not len(self.keys):
            return np.full(len(numbers[0]), -1, dtype=np.int64)
        keys, there = numbers[0], np.ones(len(numbers[0]), dtype=np.bool_)
        for number, (first, second) in zip(numbers[1:], self._stages, strict=True):
            (one, known), (other, known_too) = _ranks(first, keys), _ranks(second, number)
            keys = one.astype(np.uint64) * np.uint64(len(second)) + other.astype(np.uint64)
            there &= known & known_too
        at, known = _ranks(self.keys, keys)
        return np.where(there & known, self.order[at], -1)

    def _numbers(self, columns: Sequence[npt.NDArray[Any]]) -> list[Words]:
        """Return the words of each state's key, the first one with the greatest digits."""
        numbers = [np.zeros(len(columns[0]), dtype=np.uint64) for _ in self.words]
        for column, lower, (word, weight) in zip(columns, self.lower, self.weights, strict=True):
            numbers[word] += (column - lower).astype(np.uint64) * weight
        return numbers

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return the least and the greatest value of each variable in the listed states."""
        if not len(self):
            return {name: (int(self.lower[k]), int(self.upper[k])) for name, k in self.place.items()}
        return {name: (int(self.columns[k].min()), int(self.columns[k].max())) for name, k in self.place.items()}

    def state(self, place: int) -> State:
        """Return the state listed there."""
        return tuple(
            bool(column[place]) if variable.kind is Kind.BOOL else int(column[place])
            for variable, column in zip(self.variables, self.columns, strict=True)
        )


def _weights(words: Sequence[Sequence[tuple[int, int]]]) -> Iterator[tuple[int, int, int]]:
    for number, word in enumerate(words):
        for place, weight in word:
            yield place, number, weight


def _ranks(known: Words, keys: Words) -> tuple[Ints, Bools]:
    """Return the place of each key among the sorted ones, and whether it is there."""
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return at, known[at] == keys


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


def chance_of(edge: NetworkEdge, branch: int) -> Fraction:
    """Return the branch's share of all the edge's shares, which need not sum to 1 to the last digit."""
    return share_of(edge, branch) / sum((share_of(edge, k) for k in range(len(edge.branches))), Fraction(0))


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
