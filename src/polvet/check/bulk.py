"""The steps of many listed states at once: that a set of integer states is closed under a policy, in numpy.

What the slow interpreter does state by state is done here column by column: guards, choices, assignments, and where each outcome is
listed (the number of a state changes by what its variables do). SOUND: parts of expressions count only where they are exact
(`check.points`); states where one is not, those with an outcome that is not listed, and those in `fail` are *doubtful*: the interpreter
judges them. Models that might break a rule here unseen (computed indices, two assignments at once, probabilities that are no plain
numbers) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from math import lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.all_starts import iter_all_starts
from polvet.check.box_view import Unreadable, effects
from polvet.check.followed import Followed
from polvet.check.listed_states import Bools, Ints, ListedStates, chance_of, refuse_partial, refuse_unseen
from polvet.check.points import UNKNOWN, Block, Points
from polvet.model.expressions import Binary, BoolLiteral, Expression
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.model.tables import TableMoves
from polvet.policy.binding import UNKNOWN_LABEL
from polvet.policy.rounding import possible_choices
from polvet.records.packed import unpack_arrays
from polvet.records.state_json import Malformed

FEW = 2_000
"""Up to so many states are checked one by one in any case."""
BLOCK = 1 << 15
MOST_VALUES = 1 << 26
"""Of parts in a block: with many parts, blocks are shorter."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What is assigned to a variable: a part, and whether it may leave the bounds."""

    variable: int
    part: int
    may_leave: bool


@dataclass(frozen=True, slots=True)
class Operator:
    """A label, or none; a guard; and what may be assigned, each with its share of the whole."""

    output: int | None  # None: silent
    guard: int
    outcomes: tuple[tuple[_Change, ...], ...]
    shares: tuple[int, ...]
    whole: int


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """An operator that may move from states of a block: their places there, and where each outcome is listed in all (-1: nowhere)."""

    operator: Operator
    source: Ints
    targets: tuple[Ints, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What may happen in a block of listed states; of doubtful ones some of it may be missing or wrong."""

    begin: int
    doubtful: Bools
    goal: Bools
    deadlock: Bools
    may_stick: Bools
    chosen: Bools  # [output, state]: an applicable label that some evaluation order chooses
    taken: tuple[Taken, ...]


class Bulk:
    """A listed set of states and the policy that is followed in it; Unreadable where that cannot be done in bulk."""

    def __init__(self, followed: Followed, columns: Sequence[npt.NDArray[Any]]) -> None:
        self.followed, self.arena, self.fitted = followed, followed.arena, followed.fitted
        self.network = self.arena.task.network
        if isinstance(self.network.edges, TableMoves):
            raise Unreadable("the rows of a table are read state by state")
        if not self.fitted.is_plain:
            raise Unreadable("the policy's inputs are computed")
        self.states = ListedStates(self.network, columns)
        self.points = Points(self.states.ranges())
        self.fail, self.goal = self._part(self.arena.task.fail), self._part(self.arena.task.goal)
        self.operators = list(self._operators())

    def _part(self, condition: Expression) -> int:
        refuse_partial(condition)
        if (part := self.points.number(condition)) == UNKNOWN:
            raise Unreadable("a condition has values beyond 2^52, or is none of integers")
        return part

    def _operators(self) -> Iterator[Operator]:
        output_of = {k: output for output, k in enumerate(self.fitted.labels) if k != UNKNOWN_LABEL}
        for joint in self.network.joints:
            for edges in product(*joint.participants):
                parts = [self.network.edges[edge] for edge in edges]
                guard: Expression = BoolLiteral(True)
                for part in parts:
                    guard = Binary("∧", guard, part.guard)
                outcomes, chances = [], []
                for branches in product(*(range(len(part.branches)) for part in parts)):
                    refuse_unseen(parts, branches)
                    chance = prod((chance_of(*pair) for pair in zip(parts, branches, strict=True)), start=Fraction(1))
                    if chance > 0:
                        chances.append(chance)
                        after = effects(self.network, parts, branches)
                        outcomes.append(tuple(self._change(name, value) for name, value in after.items()))
                number = None if joint.label is None else self.network.labels.index(joint.label)
                output = None if number is None else output_of.get(number, UNKNOWN_LABEL)
                whole = lcm(*(chance.denominator for chance in chances))
                shares = tuple(int(chance * whole) for chance in chances)
                yield Operator(output, self._part(guard), tuple(outcomes), shares, whole)

    def _change(self, name: str, value: Expression) -> _Change:
        part, place = self.points.number(value), self.states.place[name]
        if part == UNKNOWN:
            return _Change(place, part, True)
        low, high = self.points.ranges[part]
        return _Change(place, part, not (self.states.lower[place] <= low and high <= self.states.upper[place]))

    # -- membership

    def listed(self, rows: Ints) -> Bools:
        """Return which states (between the bounds) are listed."""
        return self.states.find(rows) >= 0

    def check_starts(self) -> None:
        """Raise Malformed unless all start states are listed."""
        for _ in self.starts():
            pass

    def starts(self) -> Iterator[Ints]:
        """Yield the places of all start states, block by block; Malformed where one is not listed."""
        pending = iter_all_starts(self.arena)
        while block := list(islice(pending, BLOCK)):
            self.followed.arena.budget.check()
            places = self.states.find(np.array(block, dtype=np.int64))
            if (places < 0).any():
                raise Malformed(f"the start state {self.arena.show(block[int((places < 0).argmax())])} is not listed")
            yield places

    # -- steps

    def doubtful_states(self, avoids: Sequence[str] = ()) -> Iterator[State]:
        """Yield the states that the interpreter has to judge; from all others, steps lead to listed states, none of them bad."""
        for steps in self.blocks():
            doubtful = steps.doubtful.copy()
            if "stuck" in avoids:
                doubtful |= steps.may_stick
            if "deadlock" in avoids:
                doubtful |= steps.deadlock
            for k in np.flatnonzero(doubtful):
                yield self.states.state(steps.begin + int(k))

    def blocks(self) -> Iterator[Steps]:
        """Yield what may happen in all listed states, in their order."""
        length = max(BLOCK >> 5, min(BLOCK, MOST_VALUES // max(1, len(self.points))))
        for begin in range(0, len(self.states), length):
            self.followed.arena.budget.check()
            yield self._steps(begin, min(begin + length, len(self.states)))

    def _steps(self, begin: int, end: int) -> Steps:
        count, variables = end - begin, self.network.variables
        columns = [
            column[begin:end].astype(np.bool_ if variable.kind is Kind.BOOL else np.int64)
            for variable, column in zip(variables, self.states.columns, strict=True)
        ]
        block = self.points.block({variable.name: column for variable, column in zip(variables, columns, strict=True)})
        doubtful = block.holds(self.fail, count).copy()  # to be rejected by the interpreter
        goal = block.holds(self.goal, count)
        running = ~(doubtful | goal)
        enabled = []
        for operator in self.operators:
            guard = block.holds(operator.guard, count)
            if guard.any() and (guard := guard & running).any():
                enabled.append((operator, guard))
        labelled, chosen, may_stick = self._choices(columns, enabled, count)
        moving: Bools = np.zeros(count, dtype=np.bool_)
        for operator, guard in enabled:
            moving |= guard
            self._doubt_errors(operator, guard, block, doubtful)
        goes_on = ~labelled | chosen.any(axis=0)
        taken = []
        for operator, guard in enabled:
            here = guard & goes_on & ~doubtful
            if operator.output is not None:
                if operator.output == UNKNOWN_LABEL:
                    continue
                here &= chosen[operator.output]
            if len(source := np.flatnonzero(here)):
                targets = tuple(self._targets(outcome, begin, source, block) for outcome in operator.outcomes)
                for target in targets:
                    doubtful[source[target < 0]] = True
                taken.append(Taken(operator, source, targets))
        return Steps(begin, doubtful, goal, running & ~moving, may_stick, chosen, tuple(taken))

    def _choices(
        self, columns: Sequence[npt.NDArray[Any]], enabled: Sequence[tuple[Operator, Bools]], count: int
    ) -> tuple[Bools, Bools, Bools]:
        """Return where a label is applicable, which applicable ones may be chosen [output, state], and where the policy may be stuck."""
        labelled: Bools = np.zeros(count, dtype=np.bool_)
        mask: Bools = np.zeros((len(self.fitted.labels), count), dtype=np.bool_)
        for operator, guard in enabled:
            if operator.output is not None:
                labelled |= guard
                if operator.output != UNKNOWN_LABEL:
                    mask[operator.output] |= guard
        chosen, may_stick = np.zeros_like(mask), np.zeros(count, dtype=np.bool_)
        # Where nothing is applicable the policy is not asked.
        if len(asked := np.flatnonzero(labelled)):
            rows = np.empty((len(asked), len(self.fitted.variables)), dtype=np.float32)
            for k, variable in enumerate(self.fitted.variables):
                rows[:, k] = columns[variable][asked]
            applicable = mask[:, asked].T
            possible = possible_choices(self.fitted.policy, rows, applicable if self.fitted.filtered else None)
            within = possible & applicable
            chosen[:, asked] = within.T
            may_stick[asked] = ~within.any(axis=1) | (possible & ~applicable).any(axis=1)
        return labelled, chosen, may_stick

    def _targets(self, outcome: Sequence[_Change], begin: int, source: Ints, block: Block) -> Ints:
        """Return where the outcome of each state is listed: its key differs by what is assigned."""
        states = self.states
        numbers = [number[begin + source] for number in states.numbers]
        for change in outcome:
            word, weight = states.weights[change.variable]
            before = states.columns[change.variable][begin + source].astype(np.int64)
            difference = _at(block.value(change.part), source) - before
            numbers[word] += (
                difference.astype(np.uint64) * weight
            )  # negative ones are taken modulo 2^64: the sum is right
        return states.find_numbers(numbers)

    def _doubt_errors(self, operator: Operator, enabled: Bools, block: Block, doubtful: Bools) -> None:
        """Mark states in which the operator may leave the bounds: an error of the model, whether the policy chooses it or not."""
        for outcome in operator.outcomes:
            for change in outcome:
                if change.part == UNKNOWN:
                    doubtful |= enabled
                elif change.may_leave:
                    value = block.value(change.part)
                    lower, upper = self.states.lower[change.variable], self.states.upper[change.variable]
                    doubtful |= enabled & ((value < lower) | (value > upper))


def listed_in_bulk(followed: Followed, item: Any, count: int) -> Bulk | None:
    """Return the packed states in bulk, if they are more than a few and the model allows it."""
    if count <= FEW:
        return None
    try:
        return Bulk(followed, unpack_arrays(followed.arena.task.network.variables, item, count))
    except Unreadable:
        return None  # state by state, then


def _at(value: Any, source: Ints) -> Ints:
    """Return the values of a part at these places of its block."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value[source].astype(np.int64)
    return np.full(len(source), int(value), dtype=np.int64)
