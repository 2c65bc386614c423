"""Proofs over a few variables: the policy stays in cells of equal values from which all is won, or cells are entered one by one.

Source   policy predicate abstraction (Vinzent, Sharma, Hoffmann 2022) with "x = value" for all values of the variables that decide
         `fail` as predicates, so that abstract states are boxes; the questions are those of Algorithm 1, answered by `verify.engine`
Differs  first, the cells that are won whatever the other variables hold (restricted games, `safety/restrictions.py`) are an
         invariant if the policy takes no exit (`safety/exits.py`): one question per label (`_stay_in_won_cells`). Policies with a
         fence (`repair/fence.py`) are proved so. Else forward reachability; a step into a cell from which no policy can save a
         run (relaxed games, `safety/projections.py`) ends it at once
Cost     a question per label, or a few per cell that is entered; cells are combinations of values of the few variables only
Limits   as `verify.engine`; what is assigned to the few variables must depend on them alone. Never finds an unsafe run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.policy.binding import UNKNOWN_LABEL
from polvet.policy.compiled import Bound
from polvet.safety.exits import Key, boxes_around, find_exits, is_closed, least_of
from polvet.safety.projections import core_of, count_of, fits, has_one_automaton, iter_lost
from polvet.safety.restrictions import wider_core_of
from polvet.symbolic.cells import Box, Cell, cell_of
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.linear import NotLinear
from polvet.verify.engine import ANYTHING, Answer, Engine, Point
from polvet.verify.ic3 import NEEDS, agreed_rows
from polvet.verify.invariant_file import invariant_certificate
from polvet.verify.method import Method, Request, read_linear
from polvet.verify.verdicts import Safe, SafetyResult, Unknown

METHOD = "projection"
MOST_CELLS = 200_000
CELLS_AT_ONCE = 32
"""So many cells are left together, whatever the number of threads."""


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """Cells of equal values of a few variables that runs may enter; no run enters another one."""

    space: Space
    marks: NDArray[np.bool_]

    def others(self) -> list[Box]:
        """Return boxes that hold all other cells, and none of these."""
        return self.space.boxes(~self.marks)

    @property
    def figures(self) -> Figures:
        """Return what was entered."""
        return {"cells": int(self.marks.sum()), "variables": [variable.name for variable in self.space.variables]}


class Space:
    """Questions about cells of equal values of the kept variables."""

    def __init__(self, engine: Engine, kept: Sequence[int], budget: Budget) -> None:
        self.engine, self.budget, self.kept = engine, budget, list(kept)
        self.linear, self.bounds = engine.linear, engine.linear.system.bounds
        self.variables = [self.linear.task.network.variables[k] for k in kept]
        self.shape = tuple(count_of(variable) for variable in self.variables)
        self.least = tuple(least_of(variable) for variable in self.variables)

    def starts(self) -> set[Key]:
        """Return the cells that hold start states."""
        starts: set[Key] = set()
        for cell in self.linear.start:
            ranges = [range(cell.box.lower[k], cell.box.upper[k] + 1) for k in self.kept]
            if np.prod([float(len(one)) for one in ranges]) > MOST_CELLS:
                raise LimitReached(f"start states are in more than {MOST_CELLS:,} cells")
            keys = [key for values in product(*ranges) if (key := self.key(values)) not in starts]
            parts = {key: part for key in keys if (part := self.part(cell, key)) is not None}
            states = self.find_all([([part], ANYTHING) for part in parts.values()], ())
            starts.update(key for key, state in zip(parts, states, strict=True) if state is not None)
        return starts

    def find_all(self, questions: Sequence[tuple[Sequence[Cell], int]], without: Sequence[Cell]) -> list[Point | None]:
        """Return for each region and output a state there, and outside the cells, in which the policy may choose it; else None."""
        replies = self.engine.find_all(questions, without=without, budget=self.budget)
        if any(reply.answer == Answer.UNKNOWN for reply in replies):
            raise self.engine.undecided(self.budget)
        return [reply.state for reply in replies]

    def key(self, values: Sequence[int]) -> Key:
        """Return the number of each value, from 0."""
        return tuple(value - least for value, least in zip(values, self.least, strict=True))

    def is_inside(self, key: Key) -> bool:
        """Return whether these are values of the variables."""
        return all(0 <= at < size for at, size in zip(key, self.shape, strict=True))

    def part(self, cell: Cell, low: Key, high: Key | None = None) -> Cell | None:
        """Return the part of the cell with these values."""
        return cell_of(cell.box.meet(self.box(low, low if high is None else high)), cell.rows, cell.holes)

    def box(self, low: Key, high: Key) -> Box:
        """Return the states with these values."""
        lower, upper = list(self.bounds.lower), list(self.bounds.upper)
        for k, least, a, b in zip(self.kept, self.least, low, high, strict=True):
            lower[k], upper[k] = least + a, least + b
        return Box(tuple(lower), tuple(upper))

    def boxes(self, marks: NDArray[np.bool_]) -> list[Box]:
        """Return boxes that hold exactly the marked cells."""
        return [self.box(low, high) for low, high in boxes_around(marks)]

    def judge_bounds(self, entered: Entered) -> Entered | str:
        """Return what is entered, or a reason where a step from there may leave the bounds of a variable."""
        for box in entered.others():
            self.engine.block(box)
        reply = self.engine.find_leaving(budget=self.budget)
        if reply.answer == Answer.UNKNOWN:
            raise self.engine.undecided(self.budget)
        return entered if reply.state is None else "a step may leave the bounds of a variable"


def _stay_in_won_cells(engine: Engine, budget: Budget) -> Entered | str:
    """Return the won cells where runs start in them and the policy takes no exit, else a reason."""
    try:
        exits = find_exits(engine.linear.task, linear=engine.linear, budget=budget)
    except NotLinear as refusal:
        return refusal.why
    space = Space(engine, exits.variables, budget)
    if not all(exits.won[key] for key in space.starts()):
        return "a start state may be in a cell that is not won"
    questions: list[tuple[list[Cell], int]] = []
    for output, label in enumerate(engine.fitted.labels):
        corners = [] if label == UNKNOWN_LABEL else exits.boxes(label)
        parts = [space.part(cell, *ends) for ends in corners for cell in engine.linear.system.applicable[label]]
        if region := [part for part in parts if part is not None]:
            questions.append((region, output))
    for (_, output), state in zip(questions, space.find_all(questions, engine.ended), strict=True):
        if state is not None:
            return f"the policy may take an exit: '{engine.fitted.policy.outputs[output]}'"
    return space.judge_bounds(Entered(space, exits.won))


def _enter_cells(engine: Engine, budget: Budget) -> Entered | str:
    """Return the cells that runs may enter, or a reason where one of them is lost or they are too many."""
    space = _chosen_space(engine, budget)
    lost = _lost(space)
    marks = np.zeros(space.shape, dtype=np.bool_)
    todo = sorted(space.starts())
    for key in todo:
        if lost[key]:
            return "a start state may be in a cell without a way out"
        marks[key] = True
    while todo:
        if marks.sum() > MOST_CELLS:
            return f"more than {MOST_CELLS:,} cells are entered"
        for following in _steps_from(space, [todo.pop() for _ in range(min(CELLS_AT_ONCE, len(todo)))]):
            if lost[following]:
                return f"a state without a way out may be entered ({marks.sum():,} cells so far)"
            if not marks[following]:
                marks[following] = True
                todo.append(following)
    return space.judge_bounds(Entered(space, marks))


def _chosen_space(engine: Engine, budget: Budget) -> Space:
    task = engine.linear.task
    if not has_one_automaton(task.network):
        raise NotLinear("several automata")
    for names in (wider_core_of(task), core_of(task)):
        kept = sorted(task.network.index_of(name) for name in names)
        if kept and fits(task.network, names) and is_closed((step.transition for step in engine.steps), kept):
            return Space(engine, kept, budget)
    raise NotLinear("what decides the failure depends on too many variables")


def _lost(space: Space) -> NDArray[np.bool_]:
    """Return for each cell whether it is lost, by the relaxed game over some of the variables."""
    marks = np.zeros(space.shape, dtype=np.bool_)
    for told in islice(iter_lost(space.linear.task), 1):
        inside = [space.kept.index(k) for k in told.variables if k in space.kept]
        if len(inside) == len(told.variables):
            small = told.verdicts.reshape([marks.shape[d] for d in inside]) != 0
            marks |= small.reshape([size if d in inside else 1 for d, size in enumerate(marks.shape)])
    return marks


def _steps_from(space: Space, keys: Sequence[Key]) -> Iterator[Key]:
    """Yield the cells that steps from these may enter."""
    engine = space.engine
    steps = [(step, cell) for key in keys for step in engine.steps if (cell := space.part(step.cell, key)) is not None]
    questions = list(dict.fromkeys((cell, step.output) for step, cell in steps))
    states = space.find_all([([cell], output) for cell, output in questions], engine.ended)
    taken = dict(zip(questions, states, strict=True))
    for step, cell in steps:
        state = taken[cell, step.output]
        if state is None:
            continue
        after = step.transition.successor(state)
        following = space.key([after[k] for k in space.kept])
        if space.is_inside(following):  # `judge_bounds` tells of others
            yield following


def _verify(bound: Bound, request: Request) -> SafetyResult:
    """Return safe where the policy stays in won cells, or no cell that may be entered is lost; else unknown."""
    fitted, linear = bound.fitted, read_linear(request)
    rows = conserved_rows(linear)
    rows = (*rows, *agreed_rows(fitted, linear, rows, request.parallelism))
    for search in (_stay_in_won_cells, _enter_cells):
        # Of its own: what one blocks, the other does not.
        engine = Engine(fitted, rows=rows, linear=linear, seed=request.seed, parallelism=request.parallelism)
        entered = search(engine, request.budget)
        if not isinstance(entered, str):
            certificate = invariant_certificate(fitted.task, fitted.sha256, engine.rows, entered.others())
            return Safe(certificate, METHOD, engine.figures | entered.figures)
        reason = entered
    return Unknown(reason, METHOD, engine.figures)


PROJECTION = Method(
    METHOD,
    "the policy stays among combinations of values of the few variables that decide `fail` that are won, or enters none that is lost",
    _verify,
    NEEDS,
    linear=True,
)
