"""Where the labels of a policy's outputs are applicable: the guards of their operators, as boxes and what is left of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import interval
from polvet.check.invariant_claim import Question
from polvet.check.invariant_conditions import guard_box
from polvet.check.invariant_rows import Ints
from polvet.model.expressions import TRUE, Expression, conjunction

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Guards:
    """Guards of one label's operators, each a box and a condition that is left."""

    lower: Ints
    upper: Ints
    rest: tuple[Expression, ...]

    def near(self, lower: Ints, upper: Ints) -> Guards:
        """Return those that may hold somewhere in one box."""
        kept: Bools = np.all((self.lower <= upper) & (self.upper >= lower), axis=1)
        return Guards(
            self.lower[kept], self.upper[kept], tuple(one for one, k in zip(self.rest, kept, strict=True) if k)
        )

    def truth(self, question: Question, lower: Ints, upper: Ints) -> tuple[Bools, Bools]:
        """Return [n, guards]: does it hold everywhere in the box, may it hold somewhere."""
        always: Bools = np.all((lower[:, None, :] >= self.lower) & (upper[:, None, :] <= self.upper), axis=2)
        possible: Bools = np.all((lower[:, None, :] <= self.upper) & (upper[:, None, :] >= self.lower), axis=2)
        for k, condition in enumerate(self.rest):
            if condition != TRUE:
                low, high = interval(condition, question.place, lower.astype(np.float64), upper.astype(np.float64))
                always[:, k] &= low == 1
                possible[:, k] &= high != 0
        return always, possible


def guards_of(question: Question) -> list[Guards]:
    """Return the guards of each output's label, those left out that never hold."""
    guards: list[list[tuple[Ints, Ints, Expression]]] = [[] for _ in question.fitted.labels]
    for operator in question.operators:
        if operator.output >= 0 and (box := guard_box(question, operator.guard)) is not None:
            guards[operator.output].append((*box[:2], conjunction(*box[2])))
    width = len(question.place)
    return [
        Guards(
            np.array([one[0] for one in mine], dtype=np.int64).reshape(-1, width),
            np.array([one[1] for one in mine], dtype=np.int64).reshape(-1, width),
            tuple(one[2] for one in mine),
        )
        for mine in guards
    ]
