"""Lazy abstraction of a policy: abstract states are boxes, and each is cut only where a spurious run passes it.

Source   Henzinger, Jhala, Majumdar, Sutre: Lazy abstraction, POPL 2002: local predicates, what is not affected by a refinement is kept.
         McMillan: Lazy abstraction with interpolants, CAV 2006: what a spurious run teaches is as weak as the proof that it is spurious
         allows. Counterexamples of policies: Vinzent, Sharma, Hoffmann: Neural policy safety verification via predicate abstraction:
         CEGAR, AAAI 2023. `_explore` builds the tree of reached abstract states, `_refute` follows a run into `fail` backwards,
         `_grown` weakens what it teaches, `_cut` refines
Differs  predicates are bounds of variables. They come from the policy and the model, as sides of boxes in which it surely goes on
         towards `fail` (`Blocking.oblige`), grown within the abstract state as long as no step from another reached state enters.
         A backward run goes on wherever a reached state steps into it, not along the abstract run alone, so that a box that was cut out
         is seldom seen again. Abstract steps are asked for only into what is not reached: others teach nothing.
         Abstract states are leaves of one tree, so that looking one up is all there is of covering
Keeps    of an abstract state that is cut: that its steps do not fail and enter nothing unreached holds for its parts, too. Arrivals
         go on with the part that holds their state; only what loses its arrival is asked for again
SOUND    at the end no step of the policy leads from a reached leaf into `fail`, out of the bounds or into a leaf that is not reached, and
         start states are in reached leaves. So leaves that are not reached are the blocked boxes of an invariant
Cost     a question for each reached abstract state and largest part without reached ones, and one for each part that a cut sets free
Limits   as `verify.engine`; invariants are unions of boxes (with the sums that the model conserves), so parities need many
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace

from polvet.budget import stopwatch
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Run
from polvet.symbolic.cells import Box, Cell, Region, meet, meet_regions
from polvet.symbolic.operators import state_of
from polvet.verify.engine import ANYTHING, Answer, Engine, Point, Reply
from polvet.verify.ic3 import FEW_NODES, Blocking, Obligation, what_to_block
from polvet.verify.invariant_file import invariant_certificate
from polvet.verify.local_states import Arrival, LocalState
from polvet.verify.method import Request
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe

Failure = tuple[LocalState, Reply, Cell | None]
"""A reached abstract state, a state in it and its step into `fail`; without a target the step leaves the bounds."""


def abstract_lazily(bound: Bound, request: Request, method: str) -> SafetyResult:
    """Return the verdict of lazy abstraction."""
    engine, fail = what_to_block(bound.fitted, request)
    search = LazyAbstraction(engine, fail, request)
    try:
        return search.run(method)
    except LimitReached as limit:
        return Unknown(limit.limit, method, search.figures, limit=limit.kind)


class LazyAbstraction:
    """The tree of abstract states, and what is still to be asked about them."""

    def __init__(self, engine: Engine, fail: Region, request: Request) -> None:
        self.engine, self.fail, self.budget = engine, fail, request.budget
        self.rng = random.Random(request.seed)
        self.evidence = Blocking(engine, request.budget, self.rng)
        self.root = LocalState(engine.linear.system.bounds)
        self.fresh: deque[LocalState] = deque()  # reached, but not asked where its steps lead
        self.freed: list[
            LocalState
        ] = []  # what was cut off or lost its arrival, in this order: does a step lead there all the same?
        self.followed = 0  # how many of these were asked about
        self.refinements = 0
        self.stays_in_bounds = False
        self.spent = stopwatch()

    def run(self, method: str) -> SafetyResult:
        """Explore, and cut what spurious runs pass, until nothing that is reached fails."""
        linear = self.engine.linear
        reply = self._ask(self.engine.find(tuple(meet_regions(linear.start, self.fail)), budget=self.budget))
        if reply.state is not None:
            return Unsafe(Run((state_of(linear.task.network, reply.state),), (), End.FAIL), method, self.figures)
        self.stays_in_bounds = self.engine.find_leaving(budget=self.budget).answer == Answer.NO
        self.root.holds_starts = True
        self._reach(self.root, None)
        while (failure := self._explore()) is not None:
            found = self._refute(*failure)
            if found is not None:
                return replace(self.evidence.conclude(found, method), figures=self.figures)
            self.refinements += 1
        for part in self.root.unreached():
            self.engine.block(part.box)
        needed = self.evidence.needed(self.fail)
        fitted = self.engine.fitted
        certificate = invariant_certificate(fitted.task, fitted.sha256, self.engine.rows, needed)
        return Safe(certificate, method, {**self.figures, "blocked": len(needed)})

    # -- exploring

    def _explore(self) -> Failure | None:
        """Return a step from a reached abstract state that fails; None where none does and all that is entered is reached."""
        while self.fresh or self.followed < len(self.freed):
            self.budget.check()
            if self.fresh:
                leaf = self.fresh[0]
                if leaf.halves is None and leaf.reached and not leaf.is_closed:
                    if not leaf.is_harmless and (failure := self._failure_in(leaf)) is not None:
                        return failure
                    leaf.is_harmless = True
                    self._follow_out(leaf)
                    leaf.is_closed = True
                self.fresh.popleft()
            else:
                self._follow_in(self.freed[self.followed])
                self.followed += 1
        return None

    def _failure_in(self, leaf: LocalState) -> Failure | None:
        number, reply = self.engine.find_first_step(self.fail, sources=leaf.box, budget=self.budget)
        if self._ask(reply).state is not None:
            return leaf, reply, self.fail[number]
        if self.stays_in_bounds:
            return None
        parts = [
            [part for cell in region if (part := meet(cell, Cell(leaf.box))) is not None]
            for _, region in self.engine.linear.system.leaving
        ]
        questions = [(cells, ANYTHING) for cells in parts if cells]
        for reply in self.engine.find_all(questions, without=self.engine.ended, budget=self.budget, until_yes=True):
            if self._ask(reply).state is not None:
                return leaf, reply, None
        return None

    def _follow_out(self, leaf: LocalState) -> None:
        """Reach all that steps from the leaf enter, as far as it was not asked before."""
        parts = list(
            dict.fromkeys(part for node in self.freed[leaf.asked : self.followed] for part in node.unreached())
        )
        while parts:
            boxes = [part.box for part in parts]
            number, reply = self.engine.find_first_step(boxes, sources=leaf.box, budget=self.budget)
            if self._ask(reply).state is None:
                return
            entered = parts[number]
            self._arrive(leaf, reply)
            parts = [*entered.unreached(), *parts[number + 1 :]]
            parts = [part for part in parts if not part.reached]

    def _follow_in(self, freed: LocalState) -> None:
        """Reach all in a part that steps from reached abstract states enter."""
        parts = list(freed.unreached())
        while parts:
            outside = [part.box for part in self.root.unreached()]
            entered = parts.pop()
            _, reply = self.engine.find_first_step([entered.box], without_boxes=outside, budget=self.budget)
            if (state := self._ask(reply).state) is not None:
                self._arrive(self.root.leaf_of(state), reply)
                parts += entered.unreached()

    def _arrive(self, source: LocalState, reply: Reply) -> None:
        assert reply.state is not None
        assert reply.step is not None
        target = self.root.leaf_of(self.engine.successor(reply.state, reply.step))
        self._reach(target, Arrival(source, reply.state, reply.step))

    def _reach(self, leaf: LocalState, arrival: Arrival | None) -> None:
        assert not leaf.reached
        leaf.mark(True)
        leaf.arrival = arrival
        if arrival is not None:
            arrival.source.leads_to[leaf] = None
        if not leaf.is_closed:
            self.fresh.append(leaf)

    # -- refining

    def _refute(self, leaf: LocalState, reply: Reply, target: Cell | None) -> tuple[Point, Obligation] | None:
        """Follow a failing run backwards until a start state fails, or until nothing that is reached leads there."""
        stack = [self._oblige(leaf, reply, target, None)]
        while stack:
            self.budget.check()
            reached = self.root.reached_in(stack[-1].box)
            if reached is None:
                stack.pop()
                continue
            top = stack[-1] = replace(stack[-1], box=stack[-1].box.meet(reached.box))
            start = self.evidence.start_in(top.box) if reached.holds_starts else None
            if start is not None:
                return start, top
            waiting = [one.box for one in stack]
            reply = self._step_into(reached, top.box, waiting)
            if reply.state is None:
                self._cut(reached, self._grown(reached, top.box, waiting[:-1]))
            else:
                stack.append(self._oblige(self.root.leaf_of(reply.state), reply, Cell(top.box), top))
        return None

    def _oblige(self, leaf: LocalState, reply: Reply, target: Cell | None, following: Obligation | None) -> Obligation:
        obligation = self.evidence.oblige(reply, target, following)
        return replace(obligation, box=obligation.box.meet(leaf.box))

    def _step_into(self, leaf: LocalState, box: Box, waiting: list[Box]) -> Reply:
        """Return a step into a box of the leaf: from where the leaf was reached if there is one, else from anything reached."""
        if leaf.arrival is not None:
            source = leaf.arrival.source.box
            _, reply = self.engine.find_first_step([box], sources=source, without_boxes=waiting, budget=self.budget)
            if self._ask(reply).state is not None:
                return reply
        outside = [*waiting, *(part.box for part in self.root.unreached())]
        _, reply = self.engine.find_first_step([box], without_boxes=outside, budget=self.budget)
        return self._ask(reply)

    def _grown(self, leaf: LocalState, box: Box, waiting: list[Box]) -> Box:
        """Grow a box that nothing reached enters, as far as that stays so and it holds no start state."""
        places = list(range(len(box.lower)))
        self.rng.shuffle(places)
        outside = [*waiting, *(part.box for part in self.root.unreached())]
        for place in places:
            least, most = leaf.box.lower[place], leaf.box.upper[place]
            for low, high in ((least, most), (box.lower[place], most), (least, box.upper[place])):
                if low == box.lower[place] and high == box.upper[place]:
                    continue
                tried = Box(_with(box.lower, place, low), _with(box.upper, place, high))
                if leaf.holds_starts and self.evidence.may_hold_starts(tried):
                    continue
                _, reply = self.engine.find_first_step(
                    [tried], without_boxes=[tried, *outside], budget=self.budget, nodes=FEW_NODES
                )
                if reply.answer == Answer.NO:
                    box = tried
                    break
        return box

    def _cut(self, leaf: LocalState, box: Box) -> None:
        """Cut the box out of a reached leaf; its parts keep what is known, and what loses its arrival is asked for again."""
        arrival, leads_to = leaf.arrival, leaf.leads_to
        if box.contains(leaf.box):  # it was reached from a box that waits to be cut out
            return self._lose(leaf)
        leaf.mark(False)
        self._forget_arrival(leaf)
        cut_out = leaf.cut_out(box)
        for part in leaf.leaves():
            part.is_harmless, part.is_closed = leaf.is_harmless, leaf.is_closed
            part.asked = self.followed if leaf.is_closed else leaf.asked
            if leaf.holds_starts and part is not cut_out:
                part.holds_starts = self.evidence.start_in(part.box) is not None
            if part.holds_starts:
                self._reach(part, None)
        if arrival is not None:
            entered = leaf.leaf_of(self.engine.successor(arrival.state, arrival.step))
            if entered is not cut_out:
                self._reach(entered, arrival)
        for other in list(leads_to):
            assert other.arrival is not None
            other.arrival.source = part = leaf.leaf_of(other.arrival.state)
            part.leads_to[other] = None
            if not part.reached:
                self._lose(other)
        self._free(leaf)

    def _lose(self, leaf: LocalState) -> None:
        """Take a leaf, and what was reached through it alone, out of what is reached."""
        waiting = [leaf]
        while waiting:
            lost = waiting.pop()
            waiting += lost.leads_to
            lost.mark(False)
            self._forget_arrival(lost)
            self._free(lost)

    def _free(self, node: LocalState) -> None:
        for part in node.unreached():
            for leaf in part.leaves():
                if leaf.is_closed:  # of what is set free while it is not reached it is not asked
                    leaf.asked, leaf.is_closed = self.followed, False
            self.freed.append(part)

    @staticmethod
    def _forget_arrival(leaf: LocalState) -> None:
        if leaf.arrival is not None:
            leaf.arrival.source.leads_to.pop(leaf, None)
            leaf.arrival = None

    def _ask(self, reply: Reply) -> Reply:
        return self.evidence.answered(reply)

    @property
    def figures(self) -> Figures:
        """Return how much was done."""
        leaves = list(self.root.leaves())
        return {
            **self.engine.figures,
            "refinements": self.refinements,
            "abstract_states": sum(leaf.reached for leaf in leaves),
            "boxes": len(leaves),
            "seconds": round(self.spent(), 6),
        }


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])
