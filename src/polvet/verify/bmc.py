"""Bounded model checking by frames of boxes: the shortest unsafe run, or up to which length there is none.

Source   the question: section 8.2 of policy predicate abstraction; frames: N. Een, A. Mishchenko and R. Brayton, Efficient
         implementation of property directed reachability, FMCAD 2011 (`Frames.refute` asks it, `_block_all` blocks, `push` propagates)
Differs  clauses are complements of integer boxes, and a state that leads to `fail` is widened to a box of such states, as in ic3. The
         paper's way, one formula with a copy of the network per step, is verify/unrolling.py.
         Simulation comes first: the shortest unsafe run it meets bounds the lengths that are still to be refuted
Cost     one box for each state that leads to `fail` in a frame, at worst; no copy of the policy
Limits   models and policies that `verify.engine` reads. A length is refuted on the engine's word; where a frame equals the next one
         the policy is safe, with a certificate
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.policy.compiled import Bound
from polvet.symbolic.cells import Box, Cell, Region
from polvet.verify.engine import Answer, Engine, Point, Reply
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.ic3 import FEW_NODES, NEEDS, Blocking, Obligation, what_to_block
from polvet.verify.invariant_file import invariant_certificate
from polvet.verify.method import Method, Request
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe

METHOD = "bmc"
MOST_STEPS = 20


def bounded(most_steps: int = MOST_STEPS) -> Method:
    """Return the method that finds a shortest unsafe run of at most so many steps, or says which length it refuted."""
    words = (
        "blocks, length by length, what leads to `fail`; finds shortest runs, or says up to which length there is none"
    )
    return Method(METHOD, words, partial(_verify, most_steps=most_steps), NEEDS, linear=True)


def _verify(bound: Bound, request: Request, *, most_steps: int) -> SafetyResult:
    known = find_unsafe_run(bound, seed=request.seed, threads=request.parallelism.threads, budget=request.budget)
    longest = most_steps if known is None else min(most_steps, len(known.actions) - 1)
    engine, fail = what_to_block(bound.fitted, request)
    frames = Frames(engine, fail, request.budget, random.Random(request.seed))
    figures: Figures = {"refuted_steps": -1, "simulated_run": None if known is None else len(known.actions)}
    found = _lengths(frames, longest, figures)
    figures |= frames.figures
    if isinstance(found, Unknown) and known is not None:
        return Unsafe(known, METHOD, figures)
    return replace(found, figures=figures)


def _lengths(frames: Frames, longest: int, figures: Figures) -> SafetyResult:
    """Return the verdict after asking for all lengths, and keep in the figures which were refuted."""
    try:
        at_once = frames.failing_start(frames.fail)
        if at_once is not None:
            return Unsafe(at_once, METHOD, figures)
        figures["refuted_steps"] = 0
        for steps in range(1, longest + 1):
            failure = frames.refute(steps)
            if failure is not None:
                return frames.conclude(failure, METHOD)
            figures["refuted_steps"] = steps
            if frames.push():
                return Safe(frames.certificate(), METHOD, figures)
    except LimitReached as limit:
        return Unknown(f"{limit} after refuting {figures['refuted_steps']} steps", METHOD, figures, limit=limit.kind)
    return Unknown(f"no unsafe run of up to {longest} steps; longer ones were not looked for", METHOD, figures)


class Frames(Blocking):
    """Boxes that no run enters within k steps, for each k: those of `frames[k]` and of all later frames."""

    def __init__(self, engine: Engine, fail: Region, budget: Budget, rng: random.Random) -> None:
        super().__init__(engine, budget, rng)
        self.fail = fail
        self.frames: list[list[Box]] = []

    def refute(self, steps: int) -> tuple[Point, Obligation] | None:
        """Return a start state from which so many steps lead into `fail`, or out of the bounds; None where none do.

        All shorter lengths must have been refuted. What leads there is blocked in the frames before.
        """
        self.budget.check()
        self.frames.append([])
        before = steps - 1
        for target in self.fail:
            while (reply := self._step_into(target, before)).state is not None:
                failure = self._block_all(self.oblige(reply, target, None), before)
                if failure is not None:
                    return failure
        while (reply := self._leaving(before)).state is not None:
            failure = self._block_all(self.oblige(reply, None, None), before)
            if failure is not None:
                return failure
        return None

    def push(self) -> bool:
        """Move boxes on to the next frame where nothing before steps into them; whether a frame has become the next one."""
        for k in range(len(self.frames) - 1):
            kept: list[Box] = []
            for box in self.frames[k]:
                (self.frames[k + 1] if self._is_unreached(box, k + 1) else kept).append(box)
            self.frames[k] = kept
            if not kept:
                # SOUND: no step leads from what is outside the later frames' boxes into them, into fail, or out of the bounds.
                return True
        return False

    def certificate(self) -> dict[str, object]:
        """Return the invariant of a frame that equals the next one."""
        k = next(k for k, frame in enumerate(self.frames) if not frame)
        for box in self._outside(k):
            self.engine.block(box)
        return invariant_certificate(
            self.engine.fitted.task, self.engine.fitted.sha256, self.engine.rows, self.needed(self.fail)
        )

    def _outside(self, k: int) -> list[Box]:
        return [box for frame in self.frames[k:] for box in frame]

    def _block_all(self, obligation: Obligation, level: int) -> tuple[Point, Obligation] | None:
        """Block the obligation's box within `level` steps, and all that leads to it; a start state among that is returned."""
        pending = [(obligation, level)]
        while pending:
            self.budget.check()
            top, k = pending[-1]
            inside = self.engine.find([Cell(top.box)], without_boxes=self._outside(k), budget=self.budget)
            if self.answered(inside).state is None:
                pending.pop()
                continue
            start = self.start_in(top.box)
            if start is not None:
                return start, top
            if k > 0:
                reply = self._step_into(top.box, k - 1, top.box)
                if reply.state is not None:
                    pending.append((self.oblige(reply, Cell(top.box), top), k - 1))
                    continue
            self.frames[k].append(self._grown(top.box, k))
            pending.pop()
        return None

    def _step_into(self, target: Cell | Box, k: int, *apart: Box) -> Reply:
        """Return a step from a state that may be reached within k steps into the target."""
        # SOUND: a run first enters the box `apart` from outside it, so its own states need not be asked about.
        without = [*apart, *self._outside(k)]
        return self.answered(self.engine.find_step_into(target, without_boxes=without, budget=self.budget))

    def _leaving(self, k: int) -> Reply:
        return self.answered(self.engine.find_leaving(without_boxes=self._outside(k), budget=self.budget))

    def _is_unreached(self, box: Box, k: int) -> bool:
        """Whether surely nothing that may be reached within k - 1 steps, outside the box, steps into it."""
        reply = self.engine.find_step_into(
            box, without_boxes=[box, *self._outside(k - 1)], budget=self.budget, nodes=FEW_NODES
        )
        return reply.answer == Answer.NO

    def _grown(self, box: Box, k: int) -> Box:
        """Grow a box that is unreached within k steps while it stays so."""
        return self.grown(
            box, lambda tried: not self.may_hold_starts(tried) and (k == 0 or self._is_unreached(tried, k))
        )


BMC = bounded()
