"""Backward blocking of boxes: an inductive invariant from counterexamples to induction, for networks and tree ensembles.

Source   A. Bradley, SAT-based model checking without unrolling (IC3), VMCAI 2011: obligations, blocking, generalization by
         relative induction. M. Vinzent and J. Hoffmann apply it to neural policies over predicates
Differs  clauses are complements of integer boxes, and there is one frame, the candidate invariant itself. A counterexample to
         induction is a state that steps into `fail` or into another one; `Blocking.widen` makes it a box of such states. A box
         without predecessors outside what is blocked is grown while that stays true (`Blocking.generalize`), then
         blocked for good. So every box that waits leads to `fail` for certain, and a start state in it ends an unsafe run
Cost     at worst one box per state that leads to `fail`
Limits   models and policies that `verify.engine` reads
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.model.semantics import Semantics, State
from polvet.policy.binding import Fitted
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Run
from polvet.symbolic.cells import Box, Cell, Region, Row, cell_of, meet_regions, point_box
from polvet.symbolic.conserved import conserved_rows, unchanging_sums
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask, state_of, without_holes
from polvet.verify.box_system import ALONE, Parallelism
from polvet.verify.engine import ANYTHING, Answer, Engine, Point, Reply, box_data
from polvet.verify.invariant_file import invariant_certificate
from polvet.verify.method import ONLY_FAIL, PLAIN_INPUTS, READ_OVER_BOXES, STRICT_BOUNDS, Method, Request, read_linear
from polvet.verify.replay import replay_fitted
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe

TargetCell = TypeVar("TargetCell", Box, Cell)
MOST_SUMMANDS = 60
FEW_NODES = 4_000
"""How long a single question may take that only serves to block more at once."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """A box whose every state takes `step` into the next obligation's box, or into `fail` (`next` None).

    Without a step, an operator leaves a variable's bounds there: an error of the model.
    """

    box: Box
    step: int | None
    next: Obligation | None
    near_tie: bool  # only some evaluation order takes the step


def block_backwards(
    fitted: Fitted, method: str, request: Request, *, generalize: bool = True, most_boxes: int | None = None
) -> SafetyResult:
    """Return the verdict of backward blocking, with or without generalization, with at most `most_boxes` blocked."""
    engine, fail = what_to_block(fitted, request)
    blocking = Blocking(
        engine, request.budget, random.Random(request.seed), generalize=generalize, most_boxes=most_boxes
    )
    try:
        return blocking.run(fail, method)
    except LimitReached as limit:
        return Unknown(limit.limit, method, blocking.figures)


def what_to_block(fitted: Fitted, request: Request) -> tuple[Engine, Region]:
    """Return the engine, with the sums that the model conserves, and `fail` as cells without holes."""
    linear, parallelism = read_linear(request), request.parallelism
    rows = conserved_rows(linear)
    rows = (*rows, *agreed_rows(fitted, linear, rows, parallelism, request.budget))
    fail = tuple(part for cell in linear.fail for part in without_holes(cell))
    if any(row.marks for cell in fail for row in cell.rows):
        raise NotLinear("the fail condition counts equalities")
    return Engine(fitted, rows=rows, linear=linear, seed=request.seed, parallelism=parallelism), fail


def agreed_rows(
    fitted: Fitted,
    linear: LinearTask,
    known: Sequence[Row],
    parallelism: Parallelism = ALONE,
    budget: Budget = UNLIMITED,
) -> tuple[Row, ...]:
    """Return further sums that no operator changes and whose value is the same in all start states, asked of the engine.

    So "every place has one tile" is found where the start condition says it by ≠.
    """
    engine = Engine(fitted, rows=known, linear=linear, parallelism=parallelism)
    some = engine.find(linear.start, nodes=FEW_NODES, budget=budget).state
    if some is None:
        return ()
    same = {(row.terms, row.marks) for row in known}
    rows = [
        Row(row.terms, value, value, row.marks)
        for row in unchanging_sums(linear)
        if (row.terms, row.marks) not in same and len(row.terms) + len(row.marks) <= MOST_SUMMANDS
        for value in [row.value(some)]
    ]
    for below in (True, False):
        others = [_beside(row, below) for row in rows]
        questions = [
            (
                [p for one in linear.start if (p := cell_of(one.box, (*one.rows, other), one.holes)) is not None],
                ANYTHING,
            )
            for other in others
        ]
        replies = engine.find_all(questions, nodes=FEW_NODES)
        rows = [row for row, reply in zip(rows, replies, strict=True) if reply.answer == Answer.NO]
    return tuple(rows)


def _beside(row: Row, below: bool) -> Row:
    """Return the row that says the sum is less than this one's value, or greater."""
    assert row.lower is not None
    if below:
        return Row(row.terms, None, row.lower - 1, row.marks)
    return Row(row.terms, row.lower + 1, None, row.marks)


class Blocking:
    """Blocks what leads to `fail`. With `past_starts` start states among it do not end the search; they are blocked, too."""

    def __init__(
        self,
        engine: Engine,
        budget: Budget,
        rng: random.Random,
        *,
        generalize: bool = True,
        most_boxes: int | None = None,
        past_starts: bool = False,
    ) -> None:
        self.engine, self.budget, self.rng = engine, budget, rng
        self.spent = stopwatch()
        self.generalizes, self.most_boxes = generalize, most_boxes
        self.linear = engine.linear
        self.semantics = Semantics(engine.fitted.task.network)
        self.obligations = self.blocked = 0
        self.stack: list[Obligation] = []
        self.past_starts = past_starts

    def run(self, fail: Region, method: str) -> SafetyResult:
        """Close `fail` and the states that leave the bounds against predecessors, then say what is left."""
        at_once = self.failing_start(fail)
        if at_once is not None:
            return Unsafe(at_once, method, self.figures)
        failure = self.close(fail)
        if failure is not None:
            return self.conclude(failure, method)
        certificate = invariant_certificate(
            self.engine.fitted.task, self.engine.fitted.sha256, self.engine.rows, self.needed(fail)
        )
        return Safe(certificate, method, self.figures)

    def failing_start(self, fail: Region) -> Run | None:
        """Return the run without a step of a start state in `fail`, if there is one."""
        self.budget.check()
        both = tuple(meet_regions(self.linear.start, fail))
        reply = self.answered(self.engine.find(both, budget=self.budget))
        return None if reply.state is None else Run((state_of(self.linear.task.network, reply.state),), (), End.FAIL)

    def close(self, fail: Region) -> tuple[Point, Obligation] | None:
        """Block all that leads to `fail` or out of the bounds; a start state that ends the search is returned."""
        for target, reply in self._steps_into(fail):
            failure = self._close(reply, target)
            if failure is not None:
                return failure
        while (reply := self.answered(self.engine.find_leaving(budget=self.budget))).state is not None:
            failure = self._close(reply, None)
            if failure is not None:
                return failure
        return None

    def needed(self, fail: Region) -> list[Box]:
        """Return those blocked boxes that the proof needs: what leads to `fail` or to another one of them; large ones first."""
        boxes = sorted(self.engine.blocked(), key=lambda box: -box.count)
        self.engine.core.unblock_all()
        needed: list[Box] = []

        def need(reply: Reply) -> None:
            # SOUND: all boxes together are closed, so one of them holds the state; the loops below end when the needed ones are.
            assert reply.state is not None
            box = next(box for box in boxes if box.holds(reply.state))
            self.engine.block(box)
            needed.append(box)

        while (reply := self.answered(self.engine.find_leaving(budget=self.budget))).state is not None:
            need(reply)
        for _, reply in self._steps_into(fail):
            need(reply)
        for _, reply in self._steps_into(needed):  # these grow meanwhile
            need(reply)
        return needed

    def _steps_into(self, targets: Sequence[TargetCell]) -> Iterator[tuple[TargetCell, Reply]]:
        """Yield each target that a step may lead into, until none does, one target after the other; all are asked about at once."""
        done = 0
        while done < len(targets):
            more, reply = self.engine.find_first_step(targets[done:], budget=self.budget)
            done += more
            if self.answered(reply).state is not None:
                yield targets[done], reply

    # -- obligations

    def _close(self, reply: Reply, target: Cell | None) -> tuple[Point, Obligation] | None:
        """Block the state found and all that leads to it; a start state among that is returned with its obligation."""
        assert not self.stack
        self.stack.append(self.oblige(reply, target, None))
        while self.stack:
            self.budget.check()
            top = self.stack[-1]
            if self.engine.core.all_blocked(top.box.lower, top.box.upper, FEW_NODES):
                self.stack.pop()
                continue
            start = None if self.past_starts and top.step is not None else self.start_in(top.box)
            if start is not None:
                self.stack.clear()
                return start, top
            waiting = [one.box for one in self.stack]
            reply = self.answered(self.engine.find_step_into(top.box, without_boxes=waiting, budget=self.budget))
            if reply.state is not None:
                self.stack.append(self.oblige(reply, Cell(top.box), top))
                continue
            # SOUND: predecessors of this box are blocked, in the box, or waiting; what waits is blocked before `_close` ends.
            self._block(self.generalize(top.box, waiting[:-1]) if self.generalizes else top.box)
            self.stack.pop()
        return None

    def oblige(self, reply: Reply, target: Cell | None, following: Obligation | None) -> Obligation:
        """Return the obligation of a state: a box around it from which the policy surely takes the same step into the target."""
        assert reply.state is not None
        self.obligations += 1
        box = point_box(reply.state)
        if target is not None and reply.step is not None and reply.answer == Answer.YES and not target.rows:
            lower, upper = self.engine.core.widen(
                reply.state, reply.step, box_data(target.box), self.rng.getrandbits(32)
            )
            box = Box(tuple(lower), tuple(upper))
        return Obligation(box, reply.step, following, reply.answer == Answer.NEAR_TIE)

    def start_in(self, box: Box) -> Point | None:
        """Return a start state in the box, if there is one."""
        cells = [cell for one in self.linear.start if (cell := _inside(one, box)) is not None]
        return self.answered(self.engine.find(cells, budget=self.budget)).state if cells else None

    def may_hold_starts(self, box: Box, known: Sequence[Box] = ()) -> bool:
        """Return whether a start state may be in the box and in none of those that are known to lead to `fail`."""
        cells = [cell for one in self.linear.start if (cell := _inside(one, box)) is not None]
        if not cells:
            return False
        reply = self.engine.find(cells, without_boxes=known, budget=self.budget, nodes=FEW_NODES)
        return reply.answer != Answer.NO

    def answered(self, reply: Reply) -> Reply:
        """Return the reply, or raise LimitReached where it is unknown."""
        if reply.answer == Answer.UNKNOWN:
            raise self.engine.undecided(self.budget)
        return reply

    # -- generalization

    def generalize(self, box: Box, waiting: Sequence[Box]) -> Box:
        """Grow a box without predecessors while it has none and holds no start state."""
        known = [box, *waiting, *self.engine.blocked()] if self.past_starts else []
        return self.grown(box, lambda tried: self._is_closed(tried, waiting, known))

    def grown(self, box: Box, holds: Callable[[Box], bool]) -> Box:
        """Return the box, made larger in one variable after the other while something holds of it."""
        bounds = self.linear.system.bounds
        places = list(range(len(bounds.lower)))
        self.rng.shuffle(places)
        for place in places:
            for low, high in (
                (bounds.lower[place], bounds.upper[place]),
                (bounds.lower[place], box.upper[place]),
                (box.lower[place], bounds.upper[place]),
            ):
                if (low, high) == (box.lower[place], box.upper[place]):
                    continue
                tried = Box(_with(box.lower, place, low), _with(box.upper, place, high))
                if holds(tried):
                    box = tried
                    break
        return box

    def _is_closed(self, box: Box, waiting: Sequence[Box], known: Sequence[Box]) -> bool:
        if self.may_hold_starts(box, known):
            return False
        reply = self.engine.find_step_into(box, without_boxes=[box, *waiting], budget=self.budget, nodes=FEW_NODES)
        return reply.answer == Answer.NO

    def _block(self, box: Box) -> None:
        self.engine.block(box)
        self.blocked += 1
        if self.most_boxes is not None and self.blocked > self.most_boxes:
            raise LimitReached(f"more than {self.most_boxes} boxes would have to be blocked")

    # -- verdicts

    def conclude(self, failure: tuple[Point, Obligation], method: str) -> SafetyResult:
        """Follow the obligations from a start state: an unsafe run, unless a near tie takes one of its steps."""
        point, obligation = failure
        network = self.linear.task.network
        states: list[State] = [state_of(network, point)]
        actions: list[str | None] = []
        one: Obligation | None = obligation
        while one is not None:
            if one.step is None:
                self.semantics.moves(states[-1])  # raises the ModelError
                raise AssertionError(f"no operator leaves the bounds in {self.semantics.show(states[-1])}")
            step = self.engine.steps[one.step]
            if one.near_tie or not self._takes(states[-1], step.output):
                reason = f"near-tie: the choice in state {self.semantics.show(states[-1])} depends on the order of evaluation"
                return Unknown(reason, method, self.figures, tie=states[-1])
            label = step.transition.label
            states.append(state_of(network, self.engine.successor(tuple(map(int, states[-1])), one.step)))
            actions.append(None if label < 0 else network.labels[label])
            one = one.next
        run = Run(tuple(states), tuple(actions), End.FAIL)
        replay_fitted(self.engine.fitted, self.semantics, run)
        return Unsafe(run, method, self.figures)

    def _takes(self, state: State, output: int) -> bool:
        return output < 0 or self.engine.core.chooses([int(x) for x in state], output) == Answer.YES

    @property
    def figures(self) -> Figures:
        """Return how much was done."""
        return {
            **self.engine.figures,
            "obligations": self.obligations,
            "blocked": self.blocked,
            "seconds": round(self.spent(), 6),
        }


def _inside(cell: Cell, box: Box) -> Cell | None:
    return cell_of(cell.box.meet(box), cell.rows, cell.holes)


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _verify(bound: Bound, request: Request) -> SafetyResult:
    return block_backwards(bound.fitted, "ic3", request)


NEEDS = (ONLY_FAIL, STRICT_BOUNDS, READ_OVER_BOXES, PLAIN_INPUTS)
IC3 = Method("ic3", "blocks, box by box, what leads to `fail`", _verify, NEEDS, linear=True)
