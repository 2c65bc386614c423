"""How likely is failing at most? An upper bound from a finite abstraction: states with the same values of a few variables are one.

Source   abstraction of probabilistic programs by Markov decision processes: D'Argenio, Jeannet, Jensen, Larsen, Reachability analysis
         of probabilistic systems by successive refinements, PAPM 2001; Wachter, Zhang, Hermanns, Probabilistic model checking modulo
         theories, QEST 2007. Which operators the policy may take in an abstract state is asked of `verify.engine`
Differs  an abstract state is a box: for each of a few variables one of its segments. Finer partitions are tried as long as time lasts
         (`_Refinement`), and the least bound counts
SOUND    in every state of an abstract state the policy's operators are choices of it, and each branch of an operator leads where one of
         the abstract successors of that branch is (the worst is taken). A state in `fail` may be anywhere in an abstract state that
         meets it. So the greatest probability of the MDP is no less than that of any state it stands for, by induction over steps;
         near ties count as chosen, so that it holds for every order of evaluation
Cost     a few questions per abstract state, operator and successor; then one MDP
Limits   as `verify.engine`; probabilities that do not depend on the state. Lower bounds are not its business
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp.query import Reach
from polvet.mdp.solve import solve
from polvet.mdp.sparse import SparseMdp
from polvet.model.expressions import Name, names
from polvet.model.task import Task
from polvet.policy.compiled import Bound
from polvet.symbolic.cells import Box, Cell, cell_of, row_of
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask, probability_of
from polvet.verify.box_system import ALONE, Parallelism
from polvet.verify.engine import ANYTHING, Answer, Engine, Step
from polvet.verify.ic3 import agreed_rows
from polvet.verify.linearized import linearized

MOST_VALUES = 64
"""A variable with more values is cut where conditions of the model cut it."""
MOST_STATES = 20_000
AT_ONCE = 32
SHARE = 0.3
"""Of the time that is left, for one partition."""
Key = tuple[int, ...]
Choices = list[list[tuple[int, Fraction]]]


class TooCoarse(Exception):
    """A partition does not even show that the model is in order."""


@dataclass(frozen=True, slots=True)
class AbstractRisk:
    """No run of the policy fails with a greater probability than `upper`; `limit` says why it is 1 where nothing was found."""

    upper: float
    states: int = 0
    variables: tuple[str, ...] = ()
    limit: str | None = None


def find_abstract_risk(
    bound: Bound,
    *,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    parallelism: Parallelism = ALONE,
    most_states: int = MOST_STATES,
) -> AbstractRisk:
    """Return the least bound that partitions over more and more variables give."""
    linear = linearized(bound, budget)
    if isinstance(linear, str):
        return AbstractRisk(1.0, limit=linear)
    try:
        rows = conserved_rows(linear)
        rows = (*rows, *agreed_rows(bound.fitted, linear, rows, parallelism, budget))
        engine = Engine(bound.fitted, rows=rows, linear=linear, seed=seed, parallelism=parallelism)
        return _Refinement(engine, budget, most_states).run()
    except NotLinear as refusal:
        return AbstractRisk(1.0, limit=f"not linear: {refusal.why}")


def iter_levels(task: Task) -> Iterator[frozenset[str]]:
    """Yield the variables of `fail`, then these with what their changes depend on, and so on; at last all."""
    network = task.network
    own = frozenset(variable.name for variable in network.variables)
    kept = names(task.fail) & own
    before = None
    while kept != before:
        if kept:
            yield frozenset(kept)
        before = kept
        for edge in network.edges:
            updates = [update for branch in edge.branches for update in branch.updates]
            written = [u for u in updates if not isinstance(u.target, Name) or u.target.name in before]
            if written:
                kept = kept | (names(edge.guard).union(*(names(update.value) for update in written)) & own)
    if kept != own:
        yield own


class _Refinement:
    """Partitions one after the other: whole levels as long as they gain and fit, then single variables that make the bound less."""

    def __init__(self, engine: Engine, budget: Budget, most_states: int) -> None:
        self.engine, self.budget, self.most_states = engine, budget, most_states
        self.best = AbstractRisk(1.0, limit="no partition told anything")

    def run(self) -> AbstractRisk:
        """Return the least bound found."""
        kept: frozenset[str] = frozenset()
        for level in iter_levels(self.engine.fitted.task):
            before = self.best.upper
            if not self._try(level):
                self._add_single(kept, level)
                break
            kept = level
            if self.best.upper == 0 or self.best.upper == before < 1:
                break
        return self.best

    def _add_single(self, kept: frozenset[str], level: frozenset[str]) -> None:
        """Add variables one by one, those of the level first, and keep those that make the bound less."""
        others = [variable.name for variable in self.engine.fitted.task.network.variables if variable.name not in kept]
        for name in sorted(others, key=lambda name: name not in level):
            before = self.best.upper
            self._try(kept | {name})
            if self.best.upper < before:
                kept = kept | {name}

    def _try(self, kept: frozenset[str]) -> bool:
        """Return whether the partition over these variables fits the limits; the best bound is kept."""
        if self.budget.is_over():
            return False
        variables = self.engine.fitted.task.network.variables
        places = [k for k, variable in enumerate(variables) if variable.name in kept]
        try:
            risk = _Abstraction(self.engine, places, self.budget.share(SHARE), self.most_states).solve()
        except TooCoarse as vague:
            risk = AbstractRisk(1.0, limit=str(vague))
        except LimitReached as limit:
            if self.best.upper == 1:
                self.best = AbstractRisk(1.0, limit=limit.limit)
            return False
        if risk.upper < self.best.upper:
            self.best = risk
        return True


class _Abstraction:
    """One partition: its abstract states are numbered as they are met; 0 is `fail`."""

    def __init__(self, engine: Engine, places: Sequence[int], budget: Budget, most_states: int) -> None:
        self.engine, self.places, self.budget, self.most_states = engine, places, budget, most_states
        self.linear = linear = engine.linear
        self.bounds = linear.system.bounds
        self.segments = [segments_of(linear, place) for place in places]
        self.operators: dict[tuple[int, ...], dict[tuple[int, ...], list[Step]]] = {}
        for step in engine.steps:
            one = step.transition
            self.operators.setdefault((one.label, *one.edges), {}).setdefault(one.branches, []).append(step)
        self.likely = {
            (operator, branches): probability_of(linear.system.network, steps[0].transition)
            for operator, all_branches in self.operators.items()
            for branches, steps in all_branches.items()
        }
        self.number: dict[Key, int] = {}
        self.choices: list[Choices] = [[]]

    def solve(self) -> AbstractRisk:
        """Return the bound of this partition."""
        start = self._starts()
        waiting = list(start)
        while waiting:
            now, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            waiting += self._expand(now)
            if len(self.number) > self.most_states:
                raise LimitReached(f"more than {self.most_states:,} abstract states")
        self._check_bounds()
        mdp = SparseMdp.build(self.choices, initial=[self.number[key] for key in start])
        fail = np.zeros(len(self.choices), dtype=np.bool_)
        fail[0] = True
        value = solve(mdp, Reach(fail), budget=self.budget)
        variables = self.linear.task.network.variables
        return AbstractRisk(
            value.upper,
            len(self.number),
            tuple(variables[k].name for k in self.places),
            None if value.limit is None else str(value.limit),
        )

    def _starts(self) -> list[Key]:
        parts = []
        for cell in self.linear.start:
            ranges = [
                range(self._segment(d, cell.box.lower[place]), self._segment(d, cell.box.upper[place]) + 1)
                for d, place in enumerate(self.places)
            ]
            if prod(map(len, ranges)) > self.most_states:
                raise LimitReached(f"more than {self.most_states:,} abstract start states")
            parts += [(key, part) for key in product(*ranges) if (part := self._part(cell, key)) is not None]
        possible = self._are_possible([(part, ANYTHING) for _, part in parts])
        starts = list(dict.fromkeys(key for (key, _), yes in zip(parts, possible, strict=True) if yes))
        if not starts:
            raise NotLinear("there is no start state")
        for key in starts:
            self._numbered(key)
        return starts

    def _expand(self, keys: Sequence[Key]) -> list[Key]:
        """Give the abstract states their choices, and return the successors that are new."""
        fails = [[both for cell in self.linear.fail if (both := self._part(cell, key)) is not None] for key in keys]
        fail_replies = self.engine.find_all([(cells, ANYTHING) for cells in fails], budget=self.budget)
        moves = [
            (key, operator, branches, following, part, step.output)
            for key in keys
            for operator, all_branches in self.operators.items()
            for branches, steps in all_branches.items()
            for step in steps
            if (here := self._part(step.cell, key)) is not None
            for following, part in self._successors(key, step, here)
        ]
        questions = list(dict.fromkeys((part, output) for *_, part, output in moves))
        possible = dict(zip(questions, self._are_possible(questions, self.engine.ended), strict=True))
        taken: dict[tuple[Key, tuple[int, ...]], dict[tuple[int, ...], dict[Key, None]]] = {}
        for key, operator, branches, following, part, output in moves:
            if possible[part, output]:
                taken.setdefault((key, operator), {}).setdefault(branches, {})[following] = None
        known = len(self.number)
        for key, reply in zip(keys, fail_replies, strict=True):
            if reply.answer != Answer.NO:
                self.choices[self.number[key]].append([(0, Fraction(1))])
        for (key, operator), successors in taken.items():
            # SOUND: a state in which the operator is taken has a successor for each of its branches.
            if len(successors) == len(self.operators[operator]):
                choice: dict[int, Fraction] = {}
                for branches, targets in successors.items():
                    target = self._worst([self._numbered(one) for one in targets])
                    choice[target] = choice.get(target, Fraction(0)) + self.likely[operator, branches]
                self.choices[self.number[key]].append(list(choice.items()))
        return list(self.number)[known:]

    def _numbered(self, key: Key) -> int:
        if key not in self.number:
            self.number[key] = len(self.choices)
            self.choices.append([])
        return self.number[key]

    def _worst(self, targets: list[int]) -> int:
        """Return the only target, or a state that chooses among them."""
        if len(targets) == 1:
            return targets[0]
        self.choices.append([[(target, Fraction(1))] for target in targets])
        return len(self.choices) - 1

    def _successors(self, key: Key, step: Step, here: Cell) -> Iterator[tuple[Key, Cell]]:
        """Yield the abstract states the step may lead to, each with the part of `here` it comes from."""
        updates = dict(step.transition.updates)

        def follow(d: int, part: Cell) -> Iterator[tuple[Key, Cell]]:
            if d == len(self.places):
                yield (), part
                return
            update = updates.get(self.places[d])
            if update is None:
                yield from (((key[d], *rest), one) for rest, one in follow(d + 1, part))
                return
            low, high = update.span(part.box)
            least, most = self.bounds.lower[self.places[d]], self.bounds.upper[self.places[d]]
            if high < least or low > most:
                return  # `_check_bounds` tells
            for number in range(self._segment(d, max(low, least)), self._segment(d, min(high, most)) + 1):
                a, b = self._ends(d, number)
                row = row_of(dict(update.terms), a - update.constant, b - update.constant, update.marks)
                narrowed = cell_of(part.box, (*part.rows, row), part.holes)
                if narrowed is not None:
                    yield from (((number, *rest), one) for rest, one in follow(d + 1, narrowed))

        yield from follow(0, here)

    def _are_possible(self, questions: Sequence[tuple[Cell, int]], without: Sequence[Cell] = ()) -> list[bool]:
        """Return for each cell whether the policy may choose the output there."""
        replies = self.engine.find_all(
            [([cell], output) for cell, output in questions], without=without, budget=self.budget
        )
        self.budget.check()
        return [reply.answer != Answer.NO for reply in replies]

    def _check_bounds(self) -> None:
        """Raise where a step from a reached abstract state may leave the bounds of a variable."""
        # SOUND: an operator that leaves the bounds is an error of the model wherever it is enabled, chosen or not.
        questions = dict.fromkeys(
            (part, ANYTHING)
            for _, region in self.linear.system.leaving
            for cell in region
            for key in self.number
            if (part := self._part(cell, key)) is not None
        )
        if any(self._are_possible(list(questions), self.engine.ended)):
            raise TooCoarse("a step may leave the bounds of a variable, as far as the partitions tell")

    def _part(self, cell: Cell, key: Key) -> Cell | None:
        lower, upper = list(cell.box.lower), list(cell.box.upper)
        for d, (place, number) in enumerate(zip(self.places, key, strict=True)):
            a, b = self._ends(d, number)
            lower[place], upper[place] = max(a, lower[place]), min(b, upper[place])
            if lower[place] > upper[place]:
                return None
        return cell_of(Box(tuple(lower), tuple(upper)), cell.rows, cell.holes)

    def _segment(self, d: int, value: int) -> int:
        return bisect_right(self.segments[d], value) - 1

    def _ends(self, d: int, number: int) -> tuple[int, int]:
        begins = self.segments[d]
        beyond = begins[number + 1] if number + 1 < len(begins) else self.bounds.upper[self.places[d]] + 1
        return begins[number], beyond - 1


def segments_of(linear: LinearTask, place: int) -> list[int]:
    """Return where the segments of a variable begin: its values, or where conditions of the model cut it if these are many."""
    low, high = linear.system.bounds.lower[place], linear.system.bounds.upper[place]
    if high - low < MOST_VALUES:
        return list(range(low, high + 1))
    cells = [*linear.start, *linear.fail, *linear.goal, *(one.cell for one in linear.system.transitions)]
    cuts = {cell.box.lower[place] for cell in cells} | {cell.box.upper[place] + 1 for cell in cells}
    return sorted({low} | {cut for cut in cuts if low < cut <= high})
