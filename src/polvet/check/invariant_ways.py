"""Ways to leave the claimed invariant by a step, as conditions over the state before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import numpy as np

from polvet.check.box_view import alternatives, interval, substituted
from polvet.check.invariant_claim import Question
from polvet.check.invariant_rows import FAR, Ints
from polvet.model.expressions import Binary, Expression, IntLiteral, Name
from polvet.model.folding import binary, conditional


def ways_out(question: Question, after: Mapping[str, Expression], box: tuple[Ints, Ints]) -> Iterator[list[Expression]]:
    """Yield conditions that hold together where a step with these values after it leaves the invariant.

    `box` holds all states in which the step is taken. Leaving the variables' bounds is an error of the model (invariant_errors).
    """
    yield from broken_rows(question, after)
    yield from alternatives(substituted(question.task.fail, after))
    yield from entered_boxes(question, after, box)


def broken_rows(question: Question, after: Mapping[str, Expression]) -> Iterator[list[Expression]]:
    """Yield, for each end of each row, that the sum of the values is beyond it."""
    names = [variable.name for variable in question.network.variables]
    for row in question.claim.rows:
        total: Expression = IntLiteral(0)
        for column in np.flatnonzero(row.coefficients):
            if column < len(names):
                value = after.get(names[column], Name(names[column]))
            else:
                place, marked = question.claim.marks[column - len(names)]
                test = binary("=", after.get(names[place], Name(names[place])), IntLiteral(marked))
                value = conditional(test, IntLiteral(1), IntLiteral(0))
            total = Binary("+", total, Binary("*", IntLiteral(int(row.coefficients[column])), value))
        if row.lower != -FAR:
            yield [Binary("<", total, IntLiteral(row.lower))]
        if row.upper != FAR:
            yield [Binary(">", total, IntLiteral(row.upper))]


def entered_boxes(
    question: Question,
    after: Mapping[str, Expression],
    box: tuple[Ints, Ints],
    left_out: Set[int] = frozenset(),
) -> Iterator[list[Expression]]:
    """Yield, for each blocked box (but for those left out) that a step may enter, that the values after it are in the box."""
    names = [variable.name for variable in question.network.variables]
    claim = question.claim
    low, high = box[0][None, :].astype(np.float64), box[1][None, :].astype(np.float64)
    near = np.ones(len(claim.lower), dtype=np.bool_)
    for place, name in enumerate(names):
        least, most = interval(after.get(name, Name(name)), question.place, low, high)
        near &= (claim.lower[:, place] <= most[0]) & (claim.upper[:, place] >= least[0])
    for k in np.flatnonzero(near):
        if int(k) in left_out:
            continue
        conditions: list[Expression] = []
        for place, name in enumerate(names):
            a, b = int(claim.lower[k, place]), int(claim.upper[k, place])
            value = after.get(name, Name(name))
            if a > question.lower[place]:
                conditions.append(Binary("≥", value, IntLiteral(a)))
            if b < question.upper[place]:
                conditions.append(Binary("≤", value, IntLiteral(b)))
        yield conditions
