"""Trying the states of a claimed invariant: one by one in the interpreter, or many at once in numpy.

Where the rows leave few states, all of them are tried and nothing else needs to be shown; where boxes are refuted, single states
that remain are. A policy is asked for every choice that some order of float32 operations makes (`policy.rounding`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import effects, interval
from polvet.check.invariant_claim import Question
from polvet.check.invariant_conditions import marked_bounds
from polvet.check.invariant_errors import PossibleError, possible_errors
from polvet.check.invariant_rows import Floats, Ints
from polvet.check.invariant_space import ANYTHING, NEVER
from polvet.model.expressions import Expression
from polvet.policy.binding import UNKNOWN_LABEL
from polvet.policy.rounding import possible_choices
from polvet.records.state_json import Malformed

Bools = npt.NDArray[np.bool_]
MOST_POINTS = 1_000_000
"""At most so many states are tried all; FEW_POINTS of them in the interpreter alone."""
FEW_POINTS = 2_000
POINTS_AT_ONCE = 65_536


def try_all_states(question: Question, judge: Judge) -> bool:
    """Judge every state of the claim where they are few enough; return whether that was done."""
    points = all_points(question)
    if points is not None:
        judge.all(points)
    return points is not None


def all_points(question: Question) -> Ints | None:
    """Return every state that satisfies the rows and is in no blocked box, None if that takes too many steps.

    Values are filled in variable by variable; what no row allows any more, whatever the rest, is left out at once.
    """
    size, claim = len(question.place), question.claim
    points = np.zeros((1, 0), dtype=np.int64)
    low, high = marked_bounds(question, question.lower[None, :], question.upper[None, :])
    for known in range(1, size + 1):
        least, most = int(question.lower[known - 1]), int(question.upper[known - 1])
        if len(points) * (most - least + 1) > MOST_POINTS:
            return None
        values = np.arange(least, most + 1, dtype=np.int64)
        points = np.column_stack([np.repeat(points, len(values), axis=0), np.tile(values, len(points))])
        for row in question.arena.budget.each(claim.rows):
            open_columns = [*range(known, size)]
            total = points @ row.coefficients[:known]
            for column, (place, value) in enumerate(claim.marks, start=size):
                if place >= known:
                    open_columns.append(column)
                elif row.coefficients[column]:
                    total = total + row.coefficients[column] * (points[:, place] == value)
            a = row.coefficients[open_columns]
            ends = np.stack([a * low[0, open_columns], a * high[0, open_columns]])
            fits = (total + ends.max(axis=0).sum() >= row.lower) & (total + ends.min(axis=0).sum() <= row.upper)
            points = points[fits]
    return points[claim.holds(points)]


def points_of(lower: Ints, upper: Ints) -> Ints:
    """Return all states of some small boxes [n, variables]."""
    width = upper - lower + 1
    counts = width.prod(axis=1)
    box = np.repeat(np.arange(len(lower)), counts)
    number = np.arange(len(box)) - np.repeat(np.cumsum(counts) - counts, counts)
    points = np.empty((len(box), lower.shape[1]), dtype=np.int64)
    for k in range(lower.shape[1] - 1, -1, -1):
        points[:, k] = lower[box, k] + number % width[box, k]
        number = number // width[box, k]
    return points


class Judge:
    """Raises Malformed where a step of the policy from a state of the claimed invariant leaves it."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.judged: set[tuple[int, ...]] = set()

    @cached_property
    def errors(self) -> list[PossibleError]:
        """Where a rule of the model may be broken."""
        return possible_errors(self.question)

    def all(self, points: Ints) -> None:
        """Judge states of the claim, each in the interpreter where they are few."""
        if len(points) <= FEW_POINTS:
            for point in points:
                self.one(point)
            return
        for begin in range(0, len(points), POINTS_AT_ONCE):
            self.question.arena.budget.check()
            self.many(points[begin : begin + POINTS_AT_ONCE])

    def one(self, point: Ints) -> None:
        """Judge a state in the interpreter; states outside the claim are passed over."""
        question, claim = self.question, self.question.claim
        key = tuple(point.tolist())
        if key in self.judged or not claim.holds(point[None, :])[0]:
            return
        self.judged.add(key)
        arena, fitted = question.arena, question.fitted
        state = question.state(point)
        if arena.is_fail(state) or arena.is_goal(state):
            return
        moves = arena.moves(state)
        labels = {move.label for move in moves if move.label is not None}
        taken: set[str] = set()
        if labels:
            names = [None if k == UNKNOWN_LABEL else question.network.labels[k] for k in fitted.labels]
            mask = np.array([[name in labels for name in names]], dtype=np.bool_)
            if fitted.filtered and not mask.any():
                return
            possible = possible_choices(fitted.policy, fitted.row(state), mask if fitted.filtered else None)[0]
            taken = {
                name for name, may in zip(names, possible, strict=True) if may and name in labels and name is not None
            }
            if not taken:
                return
        for move in moves:
            if move.label is not None and move.label not in taken:
                continue
            for outcome in move.outcomes:
                after = np.array([int(x) for x in outcome.state], dtype=np.int64)
                if arena.is_fail(outcome.state) or not claim.holds(after[None, :])[0]:
                    raise Malformed(
                        f"{arena.show(state)} may lead to {arena.show(outcome.state)}, outside the invariant"
                    )

    def many(self, points: Ints) -> None:
        """As `one`, for many states of the claim at once; where an expression is not decided, the interpreter is asked."""
        question, fitted = self.question, self.question.fitted
        values = points.astype(np.float64)
        doubtful = np.zeros(len(points), dtype=np.bool_)

        def exactly(expression: Expression) -> Floats:
            low, high = interval(expression, question.place, values, values)
            doubtful[low != high] = True
            return high

        running = (exactly(question.task.fail) == 0) & (exactly(question.task.goal) == 0)
        for error in self.errors:
            possible_error = np.ones(len(points), dtype=np.bool_)
            for condition in error.conditions:
                possible_error &= interval(condition, question.place, values, values)[1] != 0
            doubtful |= possible_error
        guards = [exactly(operator.guard) != 0 for operator in question.operators]
        labelled = np.zeros(len(points), dtype=np.bool_)
        mask = np.zeros((len(points), len(fitted.labels)), dtype=np.bool_)
        for operator, guard in zip(question.operators, guards, strict=True):
            if operator.output != ANYTHING:
                labelled |= guard
            if operator.output >= 0:
                mask[:, operator.output] |= guard
        rows = points[:, list(fitted.variables)].astype(np.float64).astype(np.float32)
        possible = possible_choices(fitted.policy, rows, mask if fitted.filtered else None) & mask
        goes_on = running & (~labelled | possible.any(axis=1))
        for operator, guard in zip(question.operators, guards, strict=True):
            if operator.output == NEVER:
                continue
            taken = guard & goes_on
            if operator.output != ANYTHING:
                taken &= possible[:, operator.output]
            for branches, happens in operator.ways():
                moving = taken.copy()
                for condition in happens:
                    moving &= exactly(condition) != 0
                after = values.copy()
                for name, value in effects(question.network, operator.edges, branches).items():
                    after[:, question.place[name]] = exactly(value)
                self._landed(points, after, np.flatnonzero(moving & ~doubtful), doubtful)
        for point in points[doubtful]:
            self.one(point)

    def _landed(self, points: Ints, after: Floats, moved: Ints, doubtful: Bools) -> None:
        """Judge where the moved points have come, given all values after the step."""
        if not len(moved):
            return
        question = self.question
        after = after[moved]
        outside: Bools = np.any((after < question.lower) | (after > question.upper), axis=1)
        landed = np.where(outside[:, None], question.lower, after).astype(np.int64)
        low, high = interval(question.task.fail, question.place, landed.astype(np.float64), landed.astype(np.float64))
        doubtful[moved[low != high]] = True
        for point in points[moved[outside | (low == 1) | ~question.claim.holds(landed)]]:
            self.one(point)
            raise Malformed(f"a step from {question.arena.show(question.state(point))} leaves the invariant")


class Pool:
    """States of the claim that wait to be judged: many at once, none twice."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.waiting: list[Ints] = []
        self.count = 0

    def add(self, points: Ints) -> None:
        """Let these states be judged, now or later."""
        self.waiting.append(points)
        self.count += len(points)
        if self.count > 4 * POINTS_AT_ONCE:
            self.empty()

    def empty(self) -> None:
        """Judge all that wait."""
        if self.waiting:
            self.judge.all(np.unique(np.concatenate(self.waiting), axis=0))
        self.waiting, self.count = [], 0
