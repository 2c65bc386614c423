"""Forward reachability over a few variables: cells of equal values, entered wherever the policy may step into them.

Source   policy predicate abstraction (Vinzent, Sharma, Hoffmann 2022) with "x = value" for all values of the variables that decide
         `fail` as predicates, so that abstract states are boxes; the questions are those of Algorithm 1, answered by `verify.engine`
Differs  a step into a cell from which no policy can save a run (relaxed games, `safety/projections.py`) ends the proof at once.
         `find_weak_spots` asks for more: cells are to be ones that are won whatever the other variables hold (restricted games,
         `safety/restrictions.py`). A state in which the policy may step out of these is a *weak spot*: perhaps no run comes there,
         but with another action in it, and there is one, the proof goes through; `campaign/strengthen.py` makes use of that
Cost     a few questions per cell that is entered; cells are combinations of values of the few variables only
Limits   as `verify.engine`; what is assigned to the few variables must depend on them alone. Never finds an unsafe run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.errors import LimitReached
from polvet.evidence.invariant_format import invariant_certificate
from polvet.kernel.compiled import Limits
from polvet.model.network import Variable
from polvet.model.semantics import Semantics, State
from polvet.policy.binding import Fitted
from polvet.safety.projections import core_of, count_of, fits, has_one_automaton, iter_lost
from polvet.safety.restrictions import iter_won, wider_core_of
from polvet.symbolic.cells import Box, Cell, cell_of
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask, linear_task, state_of
from polvet.verify.box_system import ALONE, Power
from polvet.verify.engine import ANYTHING, Answer, Clock, Engine, Point
from polvet.verify.ic3 import agreed_rows
from polvet.verify.verdicts import Safe, SafetyResult, Unknown

METHOD = "projection"
MOST_CELLS = 200_000
CELLS_AT_ONCE = 32
"""So many cells are left together, whatever the number of threads."""
SPOTS_PER_STEP = 3
MOST_SPOTS = 400
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeakSpot:
    """A state in which the policy may take an action that may leave the cells to stay in, and the actions that stay."""

    state: State
    action: str
    staying: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explored:
    """The cells entered and the weak spots; `reason` says why it stopped where it did."""

    cells: int
    spots: tuple[WeakSpot, ...]
    reason: str | None


def verify_by_projection(
    fitted: Fitted, *, limits: Limits | None = None, seed: int = 0, linear: LinearTask | None = None,
    power: Power = ALONE,
) -> SafetyResult:  # fmt: skip
    """Return safe where no cell that may be entered is lost, else unknown."""
    clock = Clock(None if limits is None else limits.seconds)
    try:
        search = _Forward(fitted, linear, clock, seed, power)
        reason = search.run()
        if reason is None:
            reason = search.leaves_bounds()
        if reason is not None:
            return Unknown(reason, METHOD, search.figures)
        blocked = search.never_entered()
        certificate = invariant_certificate(fitted.task, fitted.sha256, search.engine.rows, blocked)
        return Safe(certificate, METHOD, search.figures)
    except NotLinear as refusal:
        return Unknown(f"not linear: {refusal.why}", METHOD)
    except LimitReached as limit:
        return Unknown(limit.limit, METHOD)


def find_weak_spots(
    fitted: Fitted, *, limits: Limits | None = None, seed: int = 0, linear: LinearTask | None = None,
    power: Power = ALONE,
) -> Explored:  # fmt: skip
    """Return weak spots of the policy, a few for each step that ends the proof; none where the proof goes through or is not tried."""
    try:
        search = _Forward(fitted, linear, Clock(None if limits is None else limits.seconds), seed, power)
        search.stay_in_won_cells()
    except NotLinear as refusal:
        return Explored(0, (), f"not linear: {refusal.why}")
    reason = search.run()
    return Explored(len(search.reached), tuple(search.spots), reason)


class _Forward:
    def __init__(self, fitted: Fitted, linear: LinearTask | None, clock: Clock, seed: int, power: Power) -> None:
        self.fitted, self.clock = fitted, clock
        self.linear = linear_task(fitted.task) if linear is None else linear
        rows = conserved_rows(self.linear)
        rows = (*rows, *agreed_rows(fitted, self.linear, rows, power))
        self.engine = Engine(fitted, rows=rows, linear=self.linear, seed=seed, power=power)
        self.bounds = self.linear.system.bounds
        self.kept = self._choose()
        self.variables = [fitted.task.network.variables[k] for k in self.kept]
        self.bad = self._lost()  # cells that are not to be entered
        self.most_spots = 0  # so many ways into them are collected; 0: the first one ends it
        self.reached: set[Key] = set()
        self.spots: list[WeakSpot] = []
        self.semantics = Semantics(fitted.task.network)

    def stay_in_won_cells(self) -> None:
        """Let all cells be bad that are not won, and collect the ways into them."""
        *_, told = iter_won(self.fitted.task)
        if list(told.variables) != self.kept:
            raise NotLinear("no restricted game over these variables")
        self.bad = told.verdicts.reshape(self.bad.shape) == 0
        self.most_spots = MOST_SPOTS

    def _choose(self) -> list[int]:
        task = self.fitted.task
        if not has_one_automaton(task.network):
            raise NotLinear("several automata")
        for names in (wider_core_of(task), core_of(task)):
            kept = sorted(task.network.index_of(name) for name in names)
            if kept and fits(task.network, names) and self._is_closed(set(kept)):
                return kept
        raise NotLinear("what decides the failure depends on too many variables")

    def _is_closed(self, kept: set[int]) -> bool:
        return all(
            not update.marks and all(place in kept for place, _ in update.terms)
            for step in self.engine.steps
            for target, update in step.transition.updates
            if target in kept
        )

    def _lost(self) -> NDArray[np.bool_]:
        """Return for each combination of kept values whether it is lost, by the relaxed game over some of them."""
        marks = np.zeros([count_of(variable) for variable in self.variables], dtype=np.bool_)
        for told in islice(iter_lost(self.fitted.task), 1):
            inside = [self.kept.index(k) for k in told.variables if k in self.kept]
            if len(inside) == len(told.variables):
                small = told.verdicts.reshape([marks.shape[d] for d in inside]) != 0
                marks |= small.reshape([size if d in inside else 1 for d, size in enumerate(marks.shape)])
        return marks

    def run(self) -> str | None:
        """Enter cells until nothing is left, or enough weak spots are found; return why it gave up, if it did."""
        todo = []
        for key in self._start_keys():
            if self.bad[self._index(key)]:
                return "a start state may be in a cell that is not won"
            self.reached.add(key)
            todo.append(key)
        at_once = 1 if self.most_spots else CELLS_AT_ONCE
        while todo:
            if len(self.reached) > MOST_CELLS:
                return f"more than {MOST_CELLS:,} cells are entered"
            keys = [todo.pop() for _ in range(min(at_once, len(todo)))]
            for following in self._steps_from(keys):
                if following is None:
                    return f"a state without a way out may be entered ({len(self.reached):,} cells so far)"
                if following not in self.reached:
                    self.reached.add(following)
                    todo.append(following)
            if self.most_spots and len(self.spots) >= self.most_spots:
                return None
        return None

    def _start_keys(self) -> Iterator[Key]:
        seen: set[Key] = set()
        for cell in self.linear.start:
            ranges = [range(cell.box.lower[k], cell.box.upper[k] + 1) for k in self.kept]
            if np.prod([float(len(one)) for one in ranges]) > MOST_CELLS:
                raise LimitReached(f"start states are in more than {MOST_CELLS:,} cells")
            parts = {key: part for key in product(*ranges) if key not in seen and (part := self._part(cell, key))}
            found = self._find_all([(part, ANYTHING) for part in parts.values()], ())
            seen.update(key for key, state in zip(parts, found, strict=True) if state is not None)
        yield from sorted(seen)

    def _steps_from(self, keys: Sequence[Key]) -> Iterator[Key | None]:
        """Yield the cells that steps from these may enter; None for a bad one, unless ways into these are collected."""
        steps = [(step, cell) for key in keys for step in self.engine.steps if (cell := self._part(step.cell, key))]
        asked = list(dict.fromkeys((cell, step.output) for step, cell in steps))
        taken = dict(zip(asked, self._find_all(asked, self.engine.ended), strict=True))
        for step, cell in steps:
            state = taken[cell, step.output]
            if state is None:
                continue
            after = step.transition.successor(state)
            following = tuple(after[k] for k in self.kept)
            if not self._is_inside(following):
                continue  # `leaves_bounds` tells
            if not self.bad[self._index(following)]:
                yield following
            elif not self.most_spots:
                yield None
            elif step.transition.label >= 0:
                for point in self._several(cell, step.output, state):
                    self.spots.append(self._weak(point, step.transition.label))

    def _weak(self, point: Point, label: int) -> WeakSpot:
        network = self.fitted.task.network
        state = state_of(network, point)
        leaving, known = set(), set()
        for move in self.semantics.moves(state):
            known.add(move.label)
            for outcome in move.outcomes:
                key = tuple(int(outcome.state[k]) for k in self.kept)
                if self.bad[self._index(key)]:
                    leaving.add(move.label)
        staying = tuple(name for name in network.labels if name in known and name not in leaving)
        return WeakSpot(state, network.labels[label], staying if None not in leaving else ())

    def _several(self, cell: Cell, output: int, state: Point) -> list[Point]:
        found = [state]
        while len(found) < SPOTS_PER_STEP:
            (more,) = self._find_all([(cell, output)], self.engine.ended, without=found)
            if more is None:
                break
            found.append(more)
        return found

    def _find_all(
        self, asked: Sequence[tuple[Cell, int]], ended: Sequence[Cell], without: Sequence[Point] = ()
    ) -> list[Point | None]:
        """Return for each cell and output a state in which the policy may choose it, where there is one."""
        replies = self.engine.find_all(
            [([cell], output) for cell, output in asked],
            without=ended, without_boxes=[Box(point, point) for point in without], clock=self.clock,
        )  # fmt: skip
        if any(reply.answer == Answer.UNKNOWN for reply in replies):
            raise LimitReached(f"time limit of {self.clock.seconds or 0:g} s reached", "--time-limit")
        return [reply.state for reply in replies]

    def _part(self, cell: Cell, key: Key) -> Cell | None:
        """Return the part of the cell with these values."""
        return cell_of(cell.box.meet(self._box(key, key)), cell.rows, cell.holes)

    def _box(self, low: Key, high: Key) -> Box:
        lower, upper = list(self.bounds.lower), list(self.bounds.upper)
        for k, a, b in zip(self.kept, low, high, strict=True):
            lower[k], upper[k] = a, b
        return Box(tuple(lower), tuple(upper))

    def _index(self, key: Key) -> Key:
        return tuple(value - least_of(variable) for value, variable in zip(key, self.variables, strict=True))

    def _is_inside(self, key: Key) -> bool:
        index = self._index(key)
        return all(0 <= at < size for at, size in zip(index, self.bad.shape, strict=True))

    def never_entered(self) -> list[Box]:
        """Return boxes that hold all cells that are not entered, and no other."""
        free = np.ones(self.bad.shape, dtype=np.bool_)
        for key in self.reached:
            free[self._index(key)] = False
        least = [least_of(variable) for variable in self.variables]
        return [
            self._box(
                tuple(a + b for a, b in zip(low, least, strict=True)),
                tuple(a + b for a, b in zip(high, least, strict=True)),
            )
            for low, high in boxes_around(free)
        ]

    def leaves_bounds(self) -> str | None:
        """Return a reason where a step from an entered cell may leave the bounds of a variable."""
        for box in self.never_entered():
            self.engine.block(box)
        reply = self.engine.find_leaving(clock=self.clock)
        if reply.answer == Answer.UNKNOWN:
            raise LimitReached(f"time limit of {self.clock.seconds or 0:g} s reached", "--time-limit")
        return None if reply.state is None else "a step may leave the bounds of a variable"

    @property
    def figures(self) -> dict[str, Any]:
        """Return how much was done."""
        names = [variable.name for variable in self.variables]
        return {**self.engine.figures, "cells": len(self.reached), "variables": names, "spots": len(self.spots)}


def least_of(variable: Variable) -> int:
    """Return the least value of an integer variable or of a truth value."""
    return 0 if variable.lower is None else int(variable.lower)


def boxes_around(marks: NDArray[np.bool_]) -> list[tuple[Key, Key]]:
    """Return boxes of marked cells that together hold all of them; they may overlap.

    >>> boxes_around(np.array([[True, True], [False, True]]))
    [((0, 0), (0, 1)), ((0, 1), (1, 1))]
    """
    left = marks.copy()
    found = []
    while left.any():
        low = [int(at) for at in np.unravel_index(int(np.argmax(left)), left.shape)]
        high = list(low)
        for axis in range(marks.ndim):
            for ends, by in ((high, 1), (low, -1)):
                while 0 <= (beyond := ends[axis] + by) < marks.shape[axis]:
                    place = tuple(
                        beyond if d == axis else slice(a, b + 1) for d, (a, b) in enumerate(zip(low, high, strict=True))
                    )
                    if not marks[place].all():
                        break
                    ends[axis] = beyond
        left[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] = False
        found.append((tuple(low), tuple(high)))
    return found
