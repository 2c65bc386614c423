"""Errors of the model in a claimed invariant: conditions under which running some operator may break a rule there.

The interpreter, and explicit search with it, runs all enabled operators of a state where a run goes on, chosen by the policy or not.
So must an invariant: what may be an error is refuted over boxes or judged in the interpreter (`check.model_errors`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polvet.check.box_view import interval
from polvet.check.invariant_conditions import narrowed, rows_of
from polvet.check.invariant_rows import Ints
from polvet.check.invariant_space import Space
from polvet.check.model_errors import errors_in, errors_of, rules_of
from polvet.model.expressions import Expression, Unary


@dataclass(frozen=True, slots=True, eq=False)
class PossibleError:
    """Conditions that hold together where a rule may be broken, and a box around the states of the claim that satisfy them."""

    conditions: tuple[Expression, ...]
    root: tuple[Ints, Ints]


def possible_errors(space: Space) -> list[PossibleError]:
    """Return the errors that the claim's rows do not exclude at once."""
    sizes = {name: space.sizes[place] for name, place in space.place.items()}
    rules = rules_of(space.network, sizes)
    ended, failed = space.task.goal, space.task.fail
    errors = [*errors_in(failed, [], rules), *errors_in(ended, [Unary("¬", failed)], rules)]
    for operator in space.operators:
        for error in errors_of(operator.edges, operator.ways(), rules):
            errors.append([*error, Unary("¬", failed), Unary("¬", ended)])
    possible = []
    for conditions in dict.fromkeys(map(tuple, errors)):
        root = narrowed(space, conditions, inside=True)
        if root is not None and _is_possible(space, conditions, root):
            possible.append(PossibleError(conditions, root))
    return possible


def _is_possible(space: Space, conditions: tuple[Expression, ...], root: tuple[Ints, Ints]) -> bool:
    low, high = root[0][None, :].astype(np.float64), root[1][None, :].astype(np.float64)
    tests = rows_of(space, conditions)[1]
    return all(interval(test, space.place, low, high)[1][0] != 0 for test in tests)
