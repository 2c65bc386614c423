"""Where sets of real states may break a rule of the model, besides its bounds: the interpreter runs every enabled operator of a state.

Conditions that hold together where something has no value (a division by zero, no finite result), and draws whose probabilities
may be no distribution. SOUND: each state where the interpreter reports such an error satisfies all conditions of some list, or is
in a box whose draw is not surely a distribution: probabilities are enclosed by exact intervals, their sum also by cancelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from math import ceil

import numpy as np

from polvet.check.chances import Bools, Boxes, is_never_negative, may_be_positive
from polvet.check.model_errors import errors_in, errors_of_updates, rules_of
from polvet.model.expressions import Binary, Expression, IntLiteral, RealLiteral, Unary
from polvet.model.network import PROBABILITY_TOLERANCE, Kind, Network, Variable
from polvet.model.task import Task

Conditions = list[Expression]


@dataclass(frozen=True, slots=True)
class Draw:
    """The probabilities of an edge, and the guard under which they must be a distribution."""

    guard: Expression
    probabilities: tuple[Expression, ...]

    def is_sure(self, boxes: Boxes) -> Bools:
        """Return for each box whether they surely are a distribution in all of its states."""
        sure = _sums_to_one(self.probabilities, boxes)
        for probability in self.probabilities:
            sure &= is_never_negative(probability, boxes)
        return sure


def draws_of(network: Network) -> list[Draw]:
    """Return the draws that depend on the state."""
    draws = []
    for edge in network.edges:
        shares = tuple(branch.probability for branch in edge.branches)
        if not all(isinstance(share, IntLiteral | RealLiteral) for share in shares):
            draws.append(Draw(edge.guard, shares))
    return draws


def error_conditions(task: Task) -> Iterator[Conditions]:
    """Yield conditions that hold together where the interpreter may find no value; bounds of variables are left to whoever asks."""
    network = task.network
    known = (*network.variables, *network.scratch)
    sizes = {variable.name: size for variable in known if (size := _size(variable)) is not None}
    rules = rules_of(network, sizes)
    yield from errors_in(task.fail, [], rules)
    yield from errors_in(task.goal, [Unary("¬", task.fail)], rules)
    for joint in network.joints:
        for edges in product(*joint.participants):
            parts = [network.edges[edge] for edge in edges]
            guards: Conditions = []
            for part in parts:
                yield from errors_in(part.guard, guards, rules)
                guards = [*guards, part.guard]
            for part in parts:
                for branch in part.branches:
                    yield from errors_in(branch.probability, guards, rules)
            for branches in product(*(part.branches for part in parts)):
                updates = [update for branch in branches for update in branch.updates]
                yield from errors_of_updates(updates, guards, rules, bounded={v.name for v in network.scratch})


def _size(variable: Variable) -> int | None:
    if variable.kind is Kind.BOOL:
        return 1
    if variable.lower is None or variable.upper is None:
        return None
    return max(abs(ceil(variable.lower)), abs(ceil(variable.upper))) + 1


def _sums_to_one(probabilities: Sequence[Expression], boxes: Boxes) -> Bools:
    total = reduce(_added, map(_terms, probabilities))
    constant = total.pop(None, Fraction(0))
    count = len(next(iter(boxes.values()))[0])
    if not any(total.values()):
        return np.full(count, abs(constant - 1) <= PROBABILITY_TOLERANCE)
    whole = reduce(lambda one, other: Binary("+", one, other), probabilities)
    slack = RealLiteral(Fraction(PROBABILITY_TOLERANCE))
    above = Binary("-", Binary("-", whole, IntLiteral(1)), slack)
    below = Binary("-", Binary("-", IntLiteral(1), whole), slack)
    return ~(may_be_positive(above, boxes) | may_be_positive(below, boxes))


def _terms(expression: Expression) -> dict[Expression | None, Fraction]:
    """Return exact coefficients of what sums, differences and constant factors leave; None is the constant."""
    match expression:
        case IntLiteral(value) | RealLiteral(value):
            return {None: Fraction(value)}
        case Binary("+", left, right):
            return _added(_terms(left), _terms(right))
        case Binary("-", left, right):
            return _added(_terms(left), _scaled(_terms(right), Fraction(-1)))
        case Binary("*", IntLiteral(value) | RealLiteral(value), other) | Binary(
            "*", other, IntLiteral(value) | RealLiteral(value)
        ):
            return _scaled(_terms(other), Fraction(value))
        case _:
            return {expression: Fraction(1)}


def _scaled(terms: dict[Expression | None, Fraction], factor: Fraction) -> dict[Expression | None, Fraction]:
    return {name: share * factor for name, share in terms.items()}


def _added(
    one: dict[Expression | None, Fraction], other: dict[Expression | None, Fraction]
) -> dict[Expression | None, Fraction]:
    return {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in {**one, **other}}
