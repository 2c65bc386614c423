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
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.all_starts import iter_all_starts
from polvet.check.box_view import Unreadable, effects, interval
from polvet.check.followed import Followed
from polvet.check.listed_states import (
    Bools,
    Floats,
    Ints,
    ListedStates,
    refuse_partial,
    refuse_unseen,
    share_of,
)
from polvet.model.expressions import Binary, BoolLiteral, Expression
from polvet.model.semantics import State
from polvet.model.tables import TableMoves
from polvet.policy.binding import UNKNOWN_LABEL
from polvet.policy.rounding import possible_choices
from polvet.records.state_json import Malformed

BLOCK = 1 << 15


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
        if isinstance(self.network.edges, TableMoves):
            raise Unreadable("the rows of a table are read state by state")
        self.states = ListedStates(self.network, columns)
        if not self.states.is_sorted:
            raise Malformed("the states are not sorted, or one stands twice")
        self.place, self.lower, self.upper = self.states.place, self.states.lower, self.states.upper
        self.everything = self.lower[None, :].astype(np.float64), self.upper[None, :].astype(np.float64)
        refuse_partial(self.arena.task.fail)
        refuse_partial(self.arena.task.goal)
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
                refuse_partial(guard)
                outcomes = []
                for branches in product(*(range(len(part.branches)) for part in parts)):
                    refuse_unseen(parts, branches)
                    if all(share_of(part, k) > 0 for part, k in zip(parts, branches, strict=True)):
                        outcomes.append(effects(self.network, parts, branches))
                number = None if joint.label is None else self.network.labels.index(joint.label)
                output = None if number is None else output_of.get(number, UNKNOWN_LABEL)
                yield _Operator(output, len(self.guards) - 1, tuple(outcomes))

    # -- membership

    def listed(self, rows: Ints) -> Bools:
        """Return which states (between the bounds) are listed."""
        return self.states.find(rows) >= 0

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
        for begin in range(0, len(self.states), BLOCK):
            self.followed.arena.budget.check()
            points = np.stack([column[begin : begin + BLOCK] for column in self.states.columns], axis=1)
            for k in np.flatnonzero(self._doubtful(points)):
                yield self.states.state(begin + int(k))

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
