"""What must be shown of a claimed invariant, piece by piece: that no state of a box satisfies some rows and tests.

Of start states: none breaks a row, is in a blocked box or in `fail`. Of states in the invariant: no operator breaks a rule of the
model, and none that the policy takes leads out. The pieces and their order follow from the task and the claim alone, so that whoever
makes a certificate (`polvet.verify.split_tree`) and whoever checks it (`check.invariant_tree`) speak of the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from polvet.check.box_view import effects, interval
from polvet.check.invariant_claim import Question
from polvet.check.invariant_conditions import (
    contracted,
    exclusions,
    expanded,
    hulls,
    marked_bounds,
    narrowed,
    rows_of,
    simplified,
)
from polvet.check.invariant_errors import possible_errors
from polvet.check.invariant_rows import Ints, Row
from polvet.check.invariant_space import ANYTHING, NEVER, Operator
from polvet.check.invariant_ways import broken_rows, entered_boxes, ways_out
from polvet.model.expressions import Binary, Expression, Name, Unary, conjunction, conjuncts, literal
from polvet.records.state_json import Malformed

Boxes = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class Obligation:
    """No state of the root satisfies all rows and tests; with `inside`: is in the invariant, and the policy may choose the output."""

    root: Boxes  # one box, arrays [1, variables]
    rows: tuple[Row, ...]
    tests: tuple[Expression, ...]
    output: int
    inside: bool


def start_condition(question: Question) -> Expression:
    """Return what start states satisfy."""
    if question.task.start is not None:
        return question.task.start
    fixed = [Binary("=", Name(v.name), literal(v.initial)) for v in question.network.variables if v.initial is not None]
    return conjunction(*fixed, question.network.initial_condition)


def start_obligations(question: Question) -> Iterator[Obligation]:
    """Yield what shows that every start state is in the invariant, or every one of the region that the claim is about.

    SOUND: a start state of a region is outside `fail`, and in no box that the region leaves out. All start states satisfy the rows.
    """
    region = question.arena.region
    if region is not None and region.inside:
        raise Malformed("the region of an invariant is not what boxes leave out")
    left_out = frozenset(
        k
        for k in range(len(question.claim.lower) if region is not None else 0)
        if region is not None and region.covers(question.claim.lower[k].tolist(), question.claim.upper[k].tolist())
    )
    fails = [[question.task.fail]] if region is None else []
    for begins in expanded([start_condition(question)]):
        root = narrowed(question, begins, inside=False)
        if root is None:
            continue
        for bad in [*broken_rows(question, {}), *entered_boxes(question, {}, root, left_out), *fails]:
            yield from _obligations(question, [*begins, *bad], ANYTHING, root, inside=False)


def step_obligations(question: Question) -> Iterator[Obligation]:
    """Yield what shows that no operator breaks a rule of the model in the invariant, and that no step of the policy leaves it."""
    for error in possible_errors(question):
        yield from _obligations(question, error.conditions, ANYTHING, error.root, inside=True)
    for operator in question.operators:
        if operator.output != NEVER:
            yield from _operator_obligations(question, operator)


def _operator_obligations(question: Question, operator: Operator) -> Iterator[Obligation]:
    guard = list(conjuncts(operator.guard))
    running: list[Expression] = [Unary("¬", question.task.goal), Unary("¬", question.task.fail)]
    for branches, happens in operator.ways():
        root = narrowed(question, [*guard, *happens], inside=True)
        if root is None:
            continue
        after = effects(question.network, operator.edges, branches)
        for bad in ways_out(question, after, root):
            yield from _obligations(question, [*guard, *happens, *running, *bad], operator.output, root, inside=True)


def _obligations(
    question: Question, conditions: Sequence[Expression], output: int, root: Boxes, *, inside: bool
) -> Iterator[Obligation]:
    """Yield one for each alternative that rows and bounds do not exclude at once. `root` holds all states that satisfy the conditions."""
    for together in expanded(conditions):
        rows, tests = rows_of(question, together)
        known_before = question.claim.rows if inside else exclusions(question, root[0], root[1])
        rows = [*rows, *hulls(question, tests), *known_before]
        known = simplified(question, rows, *root)
        if known is None:
            continue
        lower, upper, _ = contracted(question, root[0][None, :], root[1][None, :], known)
        if not len(lower):
            continue
        known = simplified(question, rows, lower[0], upper[0])
        if known is None:
            continue
        # What holds in all of the root needs no asking again.
        left = tuple(row for row in known if not _holds_in(question, row, (lower, upper)))
        low, high = lower.astype(np.float64), upper.astype(np.float64)
        open_tests = tuple(test for test in tests if interval(test, question.place, low, high)[0][0] != 1)
        yield Obligation((lower, upper), left, open_tests, output, inside)


def _holds_in(question: Question, row: Row, box: Boxes) -> bool:
    """Return whether the row holds in every state of a box."""
    low, high = marked_bounds(question, *box)
    ends = np.stack([row.coefficients * low[0], row.coefficients * high[0]])
    return bool(ends.min(axis=0).sum() >= row.lower and ends.max(axis=0).sum() <= row.upper)
