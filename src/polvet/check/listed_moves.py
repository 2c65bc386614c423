"""The enabled operators of many listed states at once, with exact probabilities: what the slow interpreter says, in numpy.

Operators that differ in numbers only have one *shape*: their numbers become columns, so that a model with an edge per cell is as quick
as one with a few edges. Where the guard begins with tests such as `x = 3`, an operator is held against the states with that value alone.
SOUND: an expression counts only where its interval over the single state is a point, and integers below 2^52 are exact; states where
one is not, or where an operator leaves the bounds, are `doubtful`: the interpreter has to judge them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.arena import Arena
from polvet.check.box_view import LARGE, Unreadable, effects, interval
from polvet.check.listed_states import Bools, Floats, Ints, ListedStates, chance_of, refuse_partial, refuse_unseen
from polvet.model.expressions import Binary, BoolLiteral, Expression, IntLiteral, Name, conjuncts, rebuild
from polvet.model.network import Network

BLOCK = 1 << 17
MOST_OPERATORS = 2_000_000
INT64 = 2**63
MARK = "\0"
"""Before the number of a column that stands for a literal: no variable is called so."""
Whole = npt.NDArray[Any]
"""Exact integers: int64 where they fit, else Python's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Enabled operators of one label: outcome k of row i is the listed state target[i, k] (-1: none) with chance share[i, k] / whole[i]."""

    label: str | None
    source: Ints
    target: Ints
    share: Whole
    whole: Whole


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    label: str | None
    guard: Expression
    outcomes: tuple[tuple[tuple[str, Expression], ...], ...]
    literals: Floats  # of each operator
    share: Whole
    whole: Whole


class ListedMoves:
    """Listed states and the operators enabled in them; Unreadable where the model cannot be followed in bulk."""

    def __init__(self, arena: Arena, states: ListedStates) -> None:
        self.arena, self.states = arena, states
        if arena.task.network.is_chain:
            raise Unreadable("nobody chooses in a Markov chain")
        refuse_partial(arena.task.fail)
        refuse_partial(arena.task.goal)
        self.shapes = _shapes(arena.task.network)
        self.doubtful: Bools = np.zeros(len(states), dtype=np.bool_)
        self.fail = self._holds(arena.task.fail)
        self.goal = self._holds(arena.task.goal) & ~self.fail

    def _holds(self, condition: Expression) -> Bools:
        """Return in which states the condition holds."""
        truth = np.zeros(len(self.states), dtype=np.bool_)
        for begin in range(0, len(self.states), BLOCK):
            source = np.arange(begin, min(begin + BLOCK, len(self.states)))
            truth[source] = self._exactly(condition, self.states.place, self._values(source), source) != 0
        return truth

    def _values(self, source: Ints, literals: Floats | None = None) -> Floats:
        count = len(self.states.columns)
        more = 0 if literals is None else literals.shape[1]
        values = np.empty((len(source), count + more), dtype=np.float64, order="F")
        for k, column in enumerate(self.states.columns):
            values[:, k] = column[source]
        if literals is not None:
            values[:, count:] = literals
        return values

    def _exactly(self, expression: Expression, place: dict[str, int], values: Floats, source: Ints) -> Floats:
        low, high = interval(expression, place, values, values)
        self.doubtful[source[low != high]] = True
        return high

    def blocks(self) -> Iterator[Moves]:
        """Yield all enabled operators of the states where runs go on; of doubtful states some may be missing or wrong."""
        running = np.flatnonzero(~(self.fail | self.goal | self.doubtful))
        for shape in self.shapes:
            names = {f"{MARK}{k}": len(self.states.columns) + k for k in range(shape.literals.shape[1])}
            place = self.states.place | names
            for source, operator in self._candidates(shape, running):
                self.arena.budget.check()
                values = self._values(source, shape.literals[operator])
                enabled = np.flatnonzero(self._exactly(shape.guard, place, values, source) != 0)
                if len(enabled):
                    target = self._targets(shape, place, values[enabled], source[enabled])
                    mine = operator[enabled]
                    yield Moves(shape.label, source[enabled], target, shape.share[mine], shape.whole[mine])

    def _candidates(self, shape: _Shape, running: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield pairs of a state and an operator of the shape such that in all other pairs the guard is false."""
        count = len(shape.whole)
        pins = _pins(shape.guard, self.states)
        keys = np.zeros(len(running), dtype=np.int64)
        wanted = np.zeros(count, dtype=np.int64)
        possible = np.ones(count, dtype=np.bool_)
        radix = 1
        for variable, literal in pins.items():
            low, high = int(self.states.lower[variable]), int(self.states.upper[variable])
            if radix * (high - low + 1) >= INT64:
                break  # fewer pins leave more pairs
            number = shape.literals[:, literal]
            possible &= (number >= low) & (number <= high)
            wanted += (np.clip(number, low, high).astype(np.int64) - low) * radix
            keys += (self.states.columns[variable][running] - low) * radix
            radix *= high - low + 1
        order = np.argsort(keys, kind="stable")
        running, keys = running[order], keys[order]
        begin = np.searchsorted(keys, wanted, "left")
        counts = np.where(possible, np.searchsorted(keys, wanted, "right") - begin, 0)
        ends = np.cumsum(counts)
        for first in range(0, int(ends[-1]) if count else 0, BLOCK):
            pair = np.arange(first, min(first + BLOCK, int(ends[-1])))
            operator = np.searchsorted(ends, pair, "right")
            yield running[begin[operator] + pair - (ends - counts)[operator]], operator

    def _targets(self, shape: _Shape, place: dict[str, int], values: Floats, source: Ints) -> Ints:
        states = self.states
        target = np.full((len(source), len(shape.outcomes)), -1, dtype=np.int64)
        for k, outcome in enumerate(shape.outcomes):
            after = values[:, : len(states.columns)].copy()
            for name, value in outcome:
                after[:, states.place[name]] = self._exactly(value, place, values, source)
            within: Bools = np.isfinite(after) & (after >= states.lower) & (after <= states.upper)
            inside = np.asarray(within.all(axis=1))
            self.doubtful[source[~inside]] = True  # an error of the model, to be told by the interpreter
            found = states.find(np.where(inside[:, None], after, states.lower).astype(np.int64))
            target[:, k] = np.where(inside, found, -1)
        return target


def _pins(guard: Expression, states: ListedStates) -> dict[int, int]:
    """Return the literal (a column of its shape) that each variable must equal wherever the guard holds."""
    pins: dict[int, int] = {}
    for part in conjuncts(guard):
        match part:
            case Binary("=", Name(one), Name(other)):
                name, mark = (other, one) if one.startswith(MARK) else (one, other)
                if mark.startswith(MARK) and not name.startswith(MARK):
                    pins.setdefault(states.place[name], int(mark.removeprefix(MARK)))
    return pins


def _shapes(network: Network) -> list[_Shape]:
    """Return the operators of the network by shape."""
    if any(variable.name.startswith(MARK) for variable in (*network.variables, *network.scratch)):
        raise Unreadable("a variable has a name that is used here")
    found: dict[Any, list[tuple[list[int], list[Fraction]]]] = {}
    for joint in network.joints:
        if prod(len(edges) for edges in joint.participants) > MOST_OPERATORS:
            raise Unreadable("there are too many operators")
        for edges in product(*joint.participants):
            parts = [network.edges[edge] for edge in edges]
            literals: list[int] = []
            guard: Expression = BoolLiteral(True)
            for part in parts:
                guard = part.guard if guard == BoolLiteral(True) else Binary("∧", guard, part.guard)
            refuse_partial(guard)
            guard = _lifted(guard, literals)
            outcomes, chances = [], []
            for branches in product(*(range(len(part.branches)) for part in parts)):
                refuse_unseen(parts, branches)
                chance = prod((chance_of(*pair) for pair in zip(parts, branches, strict=True)), start=Fraction(1))
                if chance > 0:
                    after = effects(network, parts, branches)
                    outcomes.append(tuple((name, _lifted(after[name], literals)) for name in sorted(after)))
                    chances.append(chance)
            found.setdefault((joint.label, guard, tuple(outcomes)), []).append((literals, chances))
    return [_shape(label, guard, outcomes, operators) for (label, guard, outcomes), operators in found.items()]


def _shape(
    label: str | None, guard: Expression, outcomes: Any, operators: list[tuple[list[int], list[Fraction]]]
) -> _Shape:
    whole = [lcm(*(chance.denominator for chance in chances)) for _, chances in operators]
    share = [[int(chance * all_) for chance in chances] for (_, chances), all_ in zip(operators, whole, strict=True)]
    kind: Any = np.int64 if max(whole) < INT64 else object
    literals = np.array([literals for literals, _ in operators], dtype=np.float64).reshape(len(operators), -1)
    return _Shape(
        label,
        guard,
        outcomes,
        literals,
        np.array(share, dtype=kind).reshape(len(operators), -1),
        np.array(whole, dtype=kind),
    )


def _lifted(expression: Expression, literals: list[int]) -> Expression:
    """Return the expression with a column in the place of each integer, which is put into `literals`."""
    if isinstance(expression, IntLiteral) and abs(expression.value) < LARGE:
        literals.append(expression.value)
        return Name(f"{MARK}{len(literals) - 1}")
    if isinstance(expression, Binary) and expression.operator == "%":  # a remainder is read by a plain number only
        return Binary("%", _lifted(expression.left, literals), expression.right)
    return rebuild(expression, lambda part: _lifted(part, literals))
