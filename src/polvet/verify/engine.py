"""Questions about boxes of states: where in a cell the policy chooses a label, and which states step into that box.

The door to `_core.BoxSystem` (src/_core/boxes.h says how it answers). YES comes with a state in which the policy was
executed, NEAR_TIE with one in which some float32 evaluation order chooses the label, but not the reference order. NO
holds for every evaluation order. UNKNOWN means that a limit came first.
Limits   models that `symbolic` reads; networks and tree ensembles
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeAlias

from polvet import _core
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.networks import Network as NeuralNetwork
from polvet.policy.trees import TreeEnsemble
from polvet.symbolic.cells import Box, Cell, Region, Row, cell_of, meet
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, LinearTask, Transition, linear_task

Point: TypeAlias = tuple[int, ...]
Answer = _core.BoxAnswer
ANYTHING = -1
"""In the place of an output: the policy is not asked."""
MOST_NODES = 2**62


@dataclass(frozen=True, slots=True)
class Step:
    """A transition, taken where the policy chooses `output` (ANYTHING: wherever it is possible)."""

    transition: Transition
    output: int
    cell: Cell  # the transition's, or a part of it


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, with its state and step where there are any."""

    answer: _core.BoxAnswer
    state: Point | None = None
    step: int | None = None
    nodes: int = 0


@dataclass(slots=True)
class Clock:
    """What is left of a limit on seconds."""

    seconds: float | None = None
    begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Return the seconds left, infinite without a limit."""
        return inf if self.seconds is None else self.seconds - self.elapsed

    @property
    def elapsed(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.begun


class Engine:
    """A task as linear data with a policy. `rows` are believed to hold in every state that is asked about."""

    def __init__(
        self, fitted: Fitted, *, rows: Sequence[Row] = (), linear: LinearTask | None = None, seed: int = 0
    ) -> None:
        policy = fitted.policy
        if not isinstance(policy, NeuralNetwork | TreeEnsemble):
            raise NotLinear(f"a {type(policy).__name__} is neither a network nor a tree ensemble")
        self.fitted = fitted
        self.linear = linear_task(fitted.task) if linear is None else linear
        self.rows = tuple(rows)
        self.seed = seed
        self.nodes = self.questions = 0
        system = self.linear.system
        self.guards: list[Region] = [
            () if label == UNKNOWN_LABEL else system.applicable[label] for label in fitted.labels
        ]
        self.core = _core.BoxSystem(
            (system.bounds.lower, system.bounds.upper), policy.kernel, list(fitted.variables), fitted.filtered,
            [[cell_data(cell) for cell in region] for region in self.guards],
        )  # fmt: skip
        self.steps = tuple(_steps(self.linear, fitted, self.guards))
        for step in self.steps:
            updates = [(place, u.terms, u.marks, u.constant) for place, u in step.transition.updates]
            self.core.add_step(step.output, cell_data(step.cell), updates)
        self.core.set_rows([row_data(row) for row in self.rows])
        self.core.set_ended([cell_data(cell) for cell in (*self.linear.fail, *self.linear.goal)])
        self._order = list(range(len(self.steps)))

    def find(
        self,
        region: Iterable[Cell],
        output: int = ANYTHING,
        *,
        without: Iterable[Cell] = (),
        without_boxes: Iterable[Box] = (),
        use_rows: bool = True,
        clock: Clock | None = None,
        nodes: int = MOST_NODES,
    ) -> Reply:
        """Return a state of the region, outside all of `without`, in which the policy chooses the output."""
        answer, state, spent = self.core.find(
            [cell_data(cell) for cell in region], output, [cell_data(cell) for cell in without],
            [(box.lower, box.upper) for box in without_boxes], use_rows, self.seed, nodes,
            inf if clock is None else clock.left,
        )  # fmt: skip
        self._count(spent)
        return Reply(answer, state, None, spent)

    def find_step_into(
        self,
        target: Box | Cell,
        *,
        without_boxes: Iterable[Box] = (),
        clock: Clock | None = None,
        nodes: int = MOST_NODES,
    ) -> Reply:
        """Return a state that is not ended, not blocked and not in `without_boxes`, and the step that takes it to `target`."""
        data = cell_data(target) if isinstance(target, Cell) else box_data(target)
        answer, state, step, spent = self.core.find_step_into(
            data, [(box.lower, box.upper) for box in without_boxes], self._order, self.seed, nodes,
            inf if clock is None else clock.left,
        )  # fmt: skip
        self._count(spent)
        if answer == Answer.YES and self._order[0] != step:  # what led there last is tried first
            self._order.remove(step)
            self._order.insert(0, step)
        return Reply(answer, state, step if step >= 0 else None, spent)

    def find_leaving(self, *, clock: Clock | None = None) -> Reply:
        """Return a state that is not ended and not blocked, in which the policy's step leaves a variable's bounds."""
        blocked = self.blocked()
        ended = (*self.linear.fail, *self.linear.goal)
        leaving = {id(one): region for one, region in self.linear.system.leaving}
        result = Reply(Answer.NO)
        for number, step in enumerate(self.steps):
            cells = [c for cell in leaving.get(id(step.transition), ()) if (c := meet(cell, step.cell)) is not None]
            if not cells:
                continue
            reply = self.find(cells, step.output, without=ended, without_boxes=blocked, clock=clock)
            if reply.answer == Answer.YES:
                return Reply(reply.answer, reply.state, number, reply.nodes)
            if reply.answer != Answer.NO and result.answer != Answer.UNKNOWN:
                result = Reply(reply.answer, reply.state, number, reply.nodes)
        return result

    def block(self, box: Box) -> None:
        """Let the states of the box count no more in `find_step_into` and `find_leaving`."""
        self.core.block(box.lower, box.upper)

    def blocked(self) -> list[Box]:
        """Return the blocked boxes; those inside others are left out."""
        return [Box(tuple(lower), tuple(upper)) for lower, upper in self.core.blocked]

    def successor(self, state: Point, step: int) -> Point:
        """Return where the step leads."""
        return self.steps[step].transition.successor(state)

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        self.questions += 1

    @property
    def figures(self) -> dict[str, Any]:
        """Return how much was asked."""
        return {"questions": self.questions, "boxes_searched": self.nodes}


def _steps(linear: LinearTask, fitted: Fitted, guards: Sequence[Region]) -> Iterable[Step]:
    """Yield the steps that runs of the policy take: its label's operators, and silent ones wherever a run goes on."""
    output_of = {label: k for k, label in enumerate(fitted.labels) if label != UNKNOWN_LABEL}
    labelled = [cell for region in linear.system.applicable for cell in region]
    for one in linear.system.transitions:
        if one.label != SILENT:
            if one.label in output_of:
                yield Step(one, output_of[one.label], one.cell)
            continue
        if fitted.filtered and not fitted.unscored:
            yield Step(one, ANYTHING, one.cell)
            continue
        # A raw policy whose label is not applicable is stuck, and so is a filtered one that scores no applicable label.
        for output, guard in enumerate(guards):
            for cell in guard:
                both = meet(one.cell, cell)
                if both is not None:
                    yield Step(one, ANYTHING if fitted.filtered else output, both)
        yield from (Step(one, ANYTHING, cell) for cell in _outside(one.cell, labelled))


def _outside(cell: Cell, taken: Sequence[Cell]) -> Iterable[Cell]:
    """Yield the part of the cell that is in none of the others: holes take them out, holes of holes are put back."""
    plain = [Cell(one.box, one.rows) for one in taken if not one.holes]
    rest = cell_of(cell.box, cell.rows, (*cell.holes, *plain))
    if rest is None:
        return
    parts: list[Cell] = [rest]
    for one in taken:
        if one.holes:
            without = [
                c for part in parts if (c := cell_of(part.box, part.rows, (*part.holes, Cell(one.box, one.rows))))
            ]
            inside = [c for part in parts for hole in one.holes if (c := meet(part, hole)) is not None]
            parts = without + inside
    yield from parts


def row_data(row: Row) -> tuple[Any, ...]:
    """Return the row as the kernel reads it."""
    return row.terms, row.marks, row.lower, row.upper


def cell_data(cell: Cell) -> tuple[Any, ...]:
    """Return the cell as the kernel reads it."""
    rows = tuple(row_data(row) for row in cell.rows)
    return cell.box.lower, cell.box.upper, rows, tuple(cell_data(hole) for hole in cell.holes)


def box_data(box: Box) -> tuple[Any, ...]:
    """Return a box as a cell for the kernel."""
    return box.lower, box.upper, (), ()
