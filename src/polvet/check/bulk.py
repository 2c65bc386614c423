"""The steps of many listed states at once: that a set of integer states is closed under a policy, in numpy.

What the slow interpreter does state by state is done here column by column: guards, choices, assignments, and whether each outcome is
listed (states are sorted keys: one or more numbers in a mixed radix). SOUND: an expression counts only where its interval over the
single state is a point, and integers below 2^52 are exact; states where one is not, and those about to be rejected, go to the
interpreter. Models that might break a rule here unseen (computed indices, two assignments at once, probabilities that are no plain
numbers) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.all_starts import iter_all_starts
from polvet.check.box_view import LARGE, Unreadable, effects, interval, refuse_hidden_errors
from polvet.check.followed import Followed
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
from polvet.model.network import PROBABILITY_TOLERANCE, Kind, NetworkEdge
from polvet.model.semantics import State
from polvet.policy.binding import UNKNOWN_LABEL
from polvet.policy.rounding import possible_choices
from polvet.records.state_json import Malformed

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
BLOCK = 1 << 15
LARGEST_WORD = 2**63
"""Of a state's key: a larger number is written in several words."""
TOTAL = frozenset(("¬", "abs", "+", "-", "*", "min", "max", "∧", "∨", "⇒", "=", "≠", "<", "≤", ">", "≥"))


@dataclass(frozen=True, slots=True)
class _Operator:
    output: int | None  # None: silent
    guard: int
    outcomes: tuple[dict[str, Expression], ...]


class Bulk:
    """A listed set of states and the policy that is followed in it; Unreadable where that cannot be done in bulk."""

    def __init__(self, followed: Followed, columns: Sequence[npt.NDArray[Any]]) -> None:
        self.followed, self.arena, self.fitted = followed, followed.arena, followed.fitted
        self.network = self.arena.task.network
        variables = self.network.variables
        if self.arena.task.network.disables_out_of_bounds:
            raise Unreadable("operators that leave the bounds are disabled")
        ends = [(0, 1) if v.kind is Kind.BOOL else (v.lower, v.upper) for v in variables]
        if any(v.kind is Kind.REAL for v in variables) or any(low is None or high is None for low, high in ends):
            raise Unreadable("not all variables are bounded integers")
        self.lower = np.array([int(low or 0) for low, _ in ends], dtype=np.int64)
        self.upper = np.array([int(high or 0) for _, high in ends], dtype=np.int64)
        if any(abs(int(end or 0)) >= LARGE for pair in ends for end in pair):
            raise Unreadable("a variable's bounds are beyond 2^52")  # values are doubles here
        self.words = _words([int(high or 0) - int(low or 0) + 1 for low, high in ends])
        self.place = {variable.name: k for k, variable in enumerate(variables)}
        self.everything = self.lower[None, :].astype(np.float64), self.upper[None, :].astype(np.float64)
        self.columns = columns
        self.keys = self._keys(columns)
        if (self.keys[1:] <= self.keys[:-1]).any():
            raise Malformed("the states are not sorted, or one stands twice")
        _refuse_partial(self.arena.task.fail)
        _refuse_partial(self.arena.task.goal)
        self.guards: list[Expression] = []
        self.operators = list(self._operators())

    def _operators(self) -> Iterator[_Operator]:
        output_of = {k: output for output, k in enumerate(self.fitted.labels) if k != UNKNOWN_LABEL}
        for joint in self.network.joints:
            for edges in product(*joint.participants):
                parts = [self.network.edges[edge] for edge in edges]
                guard: Expression = BoolLiteral(True)
                for part in parts:
                    guard = Binary("∧", guard, part.guard)
                self.guards.append(guard)
                _refuse_partial(guard)
                outcomes = []
                for branches in product(*(range(len(part.branches)) for part in parts)):
                    _refuse_unseen(parts, branches)
                    if all(_share(part, k) > 0 for part, k in zip(parts, branches, strict=True)):
                        outcomes.append(effects(self.network, parts, branches))
                number = None if joint.label is None else self.network.labels.index(joint.label)
                output = None if number is None else output_of.get(number, UNKNOWN_LABEL)
                yield _Operator(output, len(self.guards) - 1, tuple(outcomes))

    # -- membership

    def listed(self, rows: Ints) -> Bools:
        """Return which states (between the bounds) are listed."""
        keys = self._keys(list(rows.T))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(self.keys[at] == keys) if len(self.keys) else np.zeros(len(rows), dtype=np.bool_)

    def _keys(self, columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return one key per state, in the order of states: a number, or the bytes of several, the greatest digits first."""
        found = np.zeros((len(columns[0]), len(self.words)), dtype=">u8")
        for k, word in enumerate(self.words):
            number = np.zeros(len(found), dtype=np.uint64)
            for place, weight in word:
                number += (columns[place].astype(np.int64) - self.lower[place]).astype(np.uint64) * np.uint64(weight)
            found[:, k] = number
        # SOUND: bytes of equal length are compared from the left, which is the order of numbers with the greatest byte first.
        return found[:, 0].astype(np.uint64) if len(self.words) == 1 else found.view(f"S{8 * len(self.words)}")[:, 0]

    def check_starts(self) -> None:
        """Raise Malformed unless all start states are listed."""
        pending = iter_all_starts(self.arena)
        while block := list(islice(pending, BLOCK)):
            self.followed.arena.budget.check()
            missing = ~self.listed(np.array(block, dtype=np.int64))
            if missing.any():
                raise Malformed(f"the start state {self.arena.show(block[int(missing.argmax())])} is not listed")

    # -- steps

    def doubtful_states(self) -> Iterator[State]:
        """Yield the states that the interpreter has to judge; from all others, steps lead to listed states outside `fail`."""
        for begin in range(0, len(self.keys), BLOCK):
            self.followed.arena.budget.check()
            block = [column[begin : begin + BLOCK] for column in self.columns]
            points = np.stack([column.astype(np.int64) for column in block], axis=1)
            for k in np.flatnonzero(self._doubtful(points)):
                yield tuple(
                    bool(x) if variable.kind is Kind.BOOL else int(x)
                    for variable, x in zip(self.network.variables, points[k].tolist(), strict=True)
                )

    def _doubtful(self, points: Ints) -> Bools:
        values = points.astype(np.float64)
        doubtful: Bools = np.zeros(len(points), dtype=np.bool_)

        def exactly(expression: Expression, where: Ints | None = None) -> npt.NDArray[np.float64]:
            mine = values if where is None else values[where]
            low, high = interval(expression, self.place, mine, mine)
            vague = low != high
            if vague.any():
                doubtful[np.flatnonzero(vague) if where is None else where[vague]] = True
            return high

        doubtful |= exactly(self.arena.task.fail) != 0  # to be rejected by the interpreter
        running = exactly(self.arena.task.goal) == 0
        guards = [exactly(guard) != 0 for guard in self.guards]
        labelled = np.zeros(len(points), dtype=np.bool_)
        mask = np.zeros((len(points), len(self.fitted.labels)), dtype=np.bool_)
        for operator in self.operators:
            if operator.output is not None:
                labelled |= guards[operator.guard]
                if operator.output != UNKNOWN_LABEL:
                    mask[:, operator.output] |= guards[operator.guard]
        possible = np.zeros_like(mask)
        rest = np.flatnonzero(running & labelled & ~doubtful)
        if not self.fitted.is_plain:  # computed inputs are the interpreter's
            doubtful[rest] = True
        elif len(rest):
            rows = values[rest][:, list(self.fitted.variables)].astype(np.float32)
            masks = mask[rest] if self.fitted.filtered else None
            possible[rest] = possible_choices(self.fitted.policy, rows, masks) & mask[rest]
        goes_on = running & (~labelled | possible.any(axis=1))
        for operator in self.operators:
            self._doubt_errors(operator, guards[operator.guard] & running & ~doubtful, values, doubtful)
            taken = guards[operator.guard] & goes_on & ~doubtful
            if operator.output is not None:
                if operator.output == UNKNOWN_LABEL:
                    continue
                taken &= possible[:, operator.output]
            where = np.flatnonzero(taken)
            if not len(where):
                continue
            for outcome in operator.outcomes:
                after = values[where].copy()
                for name, value in outcome.items():
                    after[:, self.place[name]] = exactly(value, where)
                within: Bools = np.isfinite(after) & (after >= self.lower) & (after <= self.upper)
                inside = np.asarray(within.all(axis=1))
                rows_after = np.where(inside[:, None], after, self.lower).astype(np.int64)
                doubtful[where[~(inside & self.listed(rows_after))]] = True
        return doubtful

    def _doubt_errors(self, operator: _Operator, enabled: Bools, values: Floats, doubtful: Bools) -> None:
        """Mark states in which the operator may leave the bounds: an error of the model, whether the policy chooses it or not."""
        for outcome in operator.outcomes:
            for name, value in outcome.items():
                k = self.place[name]
                least, most = interval(value, self.place, self.everything[0], self.everything[1])
                if self.lower[k] <= least[0] and most[0] <= self.upper[k]:
                    continue
                where = np.flatnonzero(enabled & ~doubtful)
                low, high = interval(value, self.place, values[where], values[where])
                doubtful[where[~((low >= self.lower[k]) & (high <= self.upper[k]))]] = True


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


def _share(edge: NetworkEdge, branch: int) -> Any:
    likely = edge.branches[branch].probability
    if not isinstance(likely, RealLiteral | IntLiteral):
        raise Unreadable("a probability is no plain number")
    return likely.value


def _refuse_unseen(parts: Sequence[NetworkEdge], branches: Sequence[int]) -> None:
    """Raise Unreadable where executing this outcome might be an error that bulk steps do not see."""
    for part in parts:
        shares = [_share(part, k) for k in range(len(part.branches))]
        if min(shares) < 0 or abs(sum(shares) - 1) > PROBABILITY_TOLERANCE:
            raise Unreadable("probabilities are not a distribution")
    refuse_hidden_errors(parts, branches)
    for part, k in zip(parts, branches, strict=True):
        for update in part.branches[k].updates:
            _refuse_partial(update.value)


def _refuse_partial(expression: Expression) -> None:
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
