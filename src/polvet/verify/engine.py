"""Questions about boxes of states: where in a cell the policy chooses a label, and which states step into that box.

The door to `_core.BoxSystem` (src/_core/boxes/boxes.h says how it answers). YES comes with a state in which the policy was
executed, NEAR_TIE with one in which some float32 evaluation order chooses the label, but not the reference order. NO
holds for every evaluation order. UNKNOWN means that a limit came first.
Batches  `find_all` and `find_first_step` ask many questions at once, of all threads; workers elsewhere get those that take more
         than NODES_HERE nodes. Answers are those of one thread that asks one by one
Limits   models that `symbolic` reads; networks, tree ensembles, and what verify/partition.py makes trees of
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork
from polvet.symbolic.cells import Box, Cell, Region, Row, cell_of, meet
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, LinearTask, Transition, linear_task
from polvet.verify.box_system import ALONE, BoxData, Packed, Parallelism, RemoteQuestion, answer_remotely
from polvet.verify.partition import partition

Point: TypeAlias = tuple[int, ...]
Answer = _core.BoxAnswer
ANYTHING = -1
"""In the place of an output: the policy is not asked."""
MOST_NODES = 2**62
NODES_HERE = 1_000
"""What a question may take before workers elsewhere get it: a tenth of a second, ten times what sending it costs."""


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


class Engine:
    """A task as linear data with a policy. `rows` are believed to hold in every state that is asked about."""

    def __init__(
        self,
        fitted: Fitted,
        *,
        rows: Sequence[Row] = (),
        linear: LinearTask | None = None,
        seed: int = 0,
        parallelism: Parallelism = ALONE,
    ) -> None:
        self.fitted = fitted
        self.linear = linear_task(fitted.task) if linear is None else linear
        policy = fitted.policy
        if isinstance(policy, Table | Rules):
            policy = partition(fitted, self.linear.system.bounds)
        if not isinstance(policy, AnyNetwork | TreeEnsemble):
            raise NotLinear(f"a {type(policy).__name__} is not read over boxes")
        self.rows = tuple(rows)
        self.seed = seed
        self.nodes = self.questions = 0
        system = self.linear.system
        self.guards: list[Region] = [
            () if label == UNKNOWN_LABEL else system.applicable[label] for label in fitted.labels
        ]
        self.steps = tuple(_steps(self.linear, fitted, self.guards))
        self.ended = (*self.linear.fail, *self.linear.goal)
        self.parallelism = parallelism
        self.data = BoxData(
            policy,
            tuple(fitted.variables),
            fitted.filtered,
            (system.bounds.lower, system.bounds.upper),
            tuple([cell_data(cell) for cell in region] for region in self.guards),
            tuple((step.output, cell_data(step.cell), _updates(step)) for step in self.steps),
            tuple(row_data(row) for row in self.rows),
            tuple(cell_data(cell) for cell in self.ended),
        )
        self.core = self.data.kernel()
        self._order = list(range(len(self.steps)))

    def find(
        self,
        region: Iterable[Cell],
        output: int = ANYTHING,
        *,
        without: Iterable[Cell] = (),
        without_boxes: Iterable[Box] = (),
        use_rows: bool = True,
        budget: Budget = UNLIMITED,
        nodes: int = MOST_NODES,
    ) -> Reply:
        """Return a state of the region, outside all of `without`, in which the policy chooses the output."""
        (reply,) = self.find_all(
            [(region, output)],
            without=without,
            without_boxes=without_boxes,
            use_rows=use_rows,
            budget=budget,
            nodes=nodes,
        )
        return reply

    def find_all(
        self,
        questions: Iterable[tuple[Iterable[Cell], int]],
        *,
        without: Iterable[Cell] = (),
        without_boxes: Iterable[Box] = (),
        use_rows: bool = True,
        budget: Budget = UNLIMITED,
        nodes: int = MOST_NODES,
        until_yes: bool = False,
    ) -> list[Reply]:
        """Return for each region and output what `find` does, in order; with `until_yes` nothing after the first YES."""
        regions = [([cell_data(cell) for cell in region], output) for region, output in questions]
        out = [cell_data(cell) for cell in without]
        boxes = [(box.lower, box.upper) for box in without_boxes]
        left = budget.left()
        answers = self.core.find(
            [region for region, _ in regions],
            [output for _, output in regions],
            out,
            boxes,
            use_rows,
            self.seed,
            self._nodes_here(nodes),
            left,
            until_yes,
            self.parallelism.threads,
        )
        replies = [Reply(answer, state, None, spent) for answer, state, spent in answers]
        hard = [k for k, reply in enumerate(replies) if self._is_hard(reply, nodes)]
        far = (
            RemoteQuestion(
                "find", ([regions[k][0]], [regions[k][1]], out, boxes, use_rows, self.seed, nodes, left, False, 1)
            )
            for k in hard
        )
        for k, (answer, state, spent) in zip(hard, self._ask_remotely(far, budget), strict=False):
            replies[k] = Reply(Answer(answer), state, None, spent)
            if until_yes and replies[k].answer == Answer.YES:
                replies = replies[: k + 1]
                break
        self._count(replies)
        return replies

    def find_step_into(
        self,
        target: Box | Cell,
        *,
        without_boxes: Iterable[Box] = (),
        budget: Budget = UNLIMITED,
        nodes: int = MOST_NODES,
    ) -> Reply:
        """Return a state that is not ended, not blocked and not in `without_boxes`, and the step that takes it to `target`."""
        _, reply = self.find_first_step([target], without_boxes=without_boxes, budget=budget, nodes=nodes)
        return reply

    def find_first_step(
        self,
        targets: Sequence[Box | Cell],
        *,
        sources: Box | None = None,
        without_boxes: Iterable[Box] = (),
        budget: Budget = UNLIMITED,
        nodes: int = MOST_NODES,
    ) -> tuple[int, Reply]:
        """Return the first target that a step (from a state of the box of sources) may lead into, with the state and the step.

        len(targets) and NO where there is none.
        """
        cells = [cell_data(target) if isinstance(target, Cell) else box_data(target) for target in targets]
        within = self.linear.system.bounds if sources is None else sources
        where = (within.lower, within.upper), [(box.lower, box.upper) for box in without_boxes]
        left = budget.left()
        answers = self.core.find_step_into(
            cells, *where, self._order, self.seed, self._nodes_here(nodes), left, self.parallelism.threads
        )
        replies = [Reply(answer, state, step if step >= 0 else None, spent) for answer, state, step, spent in answers]
        hard = [k for k, reply in enumerate(replies) if self._is_hard(reply, nodes)]
        if hard:
            replies = self._ask_steps_remotely(replies, hard, cells, where, budget)
        first = next((k for k, reply in enumerate(replies) if reply.answer != Answer.NO), len(targets))
        self._count(replies[: first + 1])
        if first == len(targets):
            return first, Reply(Answer.NO, nodes=sum(reply.nodes for reply in replies))
        reply = replies[first]
        if reply.answer == Answer.YES and reply.step is not None and self._order[0] != reply.step:
            self._order.remove(reply.step)  # what led there last is tried first
            self._order.insert(0, reply.step)
        return first, reply

    def _ask_steps_remotely(
        self,
        replies: list[Reply],
        hard: Sequence[int],
        cells: Sequence[Any],
        where: tuple[Any, list[Any]],
        budget: Budget,
    ) -> list[Reply]:
        """Return the replies with those of hard targets found by workers, each step on its own; nothing after the first YES."""
        within, without = where[0], [*where[1], *self.core.blocked]
        items = [(k, step) for k in hard for step in self._order]
        far = (
            RemoteQuestion(
                "find_step_into", ([cells[k]], within, without, [step], self.seed, MOST_NODES, budget.left(), 1)
            )
            for k, step in items
        )
        done: dict[int, Reply] = {}
        answered = 0
        for (k, step), (number, state, _, spent) in zip(items, self._ask_remotely(far, budget), strict=False):
            answered += 1
            answer = Answer(number)
            before = done.get(k, Reply(Answer.NO))
            counts = answer in (Answer.YES, Answer.UNKNOWN) or (answer, before.answer) == (Answer.NEAR_TIE, Answer.NO)
            done[k] = Reply(answer, state, step, spent) if counts else before
            done[k] = replace(done[k], nodes=before.nodes + spent)
            if answer == Answer.YES:
                break
        if answered < len(items) and all(reply.answer != Answer.YES for reply in done.values()):
            return replies  # the time is over
        last = max(done)
        cut = last + 1 if done[last].answer == Answer.YES else len(replies)
        return [done.get(k, reply) for k, reply in enumerate(replies[:cut])]

    def _ask_remotely(self, questions: Iterable[RemoteQuestion], budget: Budget) -> Iterator[tuple[Any, ...]]:
        """Yield the workers' answers in order, fewer where the time is over."""
        if self.parallelism.workers is None:
            return
        try:
            yield from self.parallelism.workers.map(answer_remotely, self._packed, questions, budget=budget)
        except LimitReached:
            if not budget.is_over():
                raise

    @cached_property
    def _packed(self) -> Packed:
        return Packed.of(self.data)

    @staticmethod
    def undecided(budget: Budget) -> LimitReached:
        """Return the limit that left a question open: the time, or else the boxes that one question may be split into."""
        if budget.is_over():
            return budget.reached("time")
        return LimitReached(f"a question needs more than {MOST_NODES:,} boxes")

    def _nodes_here(self, nodes: int) -> int:
        return NODES_HERE if self.parallelism.workers is not None and nodes == MOST_NODES else nodes

    def _is_hard(self, reply: Reply, nodes: int) -> bool:
        """Whether it is unknown only because the nodes here were few."""
        return reply.answer == Answer.UNKNOWN and reply.nodes > self._nodes_here(nodes) < nodes

    def find_leaving(self, *, without_boxes: Iterable[Box] = (), budget: Budget = UNLIMITED) -> Reply:
        """Return a state in which some operator, chosen or not, leaves a variable's bounds: not ended, not blocked, not in those boxes."""
        questions = [(list(region), ANYTHING) for _, region in self.linear.system.leaving]
        boxes = (*self.blocked(), *without_boxes)
        replies = self.find_all(questions, without=self.ended, without_boxes=boxes, budget=budget, until_yes=True)
        result = Reply(Answer.NO)
        for reply in replies:
            if reply.answer == Answer.YES:
                return reply
            if reply.answer != Answer.NO and result.answer != Answer.UNKNOWN:
                result = reply
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

    def _count(self, replies: Sequence[Reply]) -> None:
        self.nodes += sum(reply.nodes for reply in replies)
        self.questions += len(replies)

    @property
    def figures(self) -> Figures:
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
        yield from (Step(one, ANYTHING, cell) for cell in outside(one.cell, labelled))


def outside(cell: Cell, taken: Sequence[Cell]) -> Iterable[Cell]:
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


def _updates(step: Step) -> list[Any]:
    return [(place, u.terms, u.marks, u.constant) for place, u in step.transition.updates]


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
