"""A task that somebody else steers, many episodes at once, in the kernel: what environments for training are made of.

A lane's episodes depend on its seed and on the labels taken, and on nothing else: lane k of many, seeded with n, is the one lane
of a task seeded with n. The slow twin is `model/semantics.py`, against which tests compare moves, masks and costs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.errors import InputError, Where, suggest
from polvet.kernel.compiled import Compiled, Words
from polvet.kernel.lower import Reward
from polvet.kernel.starts import Starts
from polvet.model.expressions import Name
from polvet.model.task import Task, state_from_names
from polvet.policy.compiled import lower_inputs
from polvet.policy.inputs import Reader, find_inputs
from polvet.shield.file import Shield
from polvet.shield.guard import Guard

FAIL, GOAL, STUCK, DEADLOCK, LIMIT, RUNNING = range(6)
"""How an episode ends, in the kernel's numbers."""
EVENTS = {"fail": FAIL, "goal": GOAL, "stuck": STUCK, "deadlock": DEADLOCK}
MOST_STARTS = 1_000_000
"""Start states are drawn among all of them where they are at most so many, else among so many drawn once."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a step shows, one row per lane; `last` are the final rows of episodes that another one followed at once."""

    rows: NDArray[np.float32]
    masks: NDArray[np.bool_]
    cost: NDArray[np.float64]
    end: NDArray[np.uint8]
    last: NDArray[np.float32]


class Lanes:
    """So many episodes of a task, steered by the numbers of labels."""

    def __init__(
        self, task: Task, count: int, *, cost: str | None = None, max_steps: int = 1_000, at_once: bool = False
    ) -> None:
        if count < 1 or max_steps < 1:
            raise InputError("there must be at least one lane and one step.", hint="Give positive numbers.")
        network = task.network
        transients = [variable.name for variable in network.scratch]
        if cost is not None and cost not in transients:
            raise InputError(f"no transient variable '{cost}'.", Where("cost"), suggest(cost, transients))
        rewards = [] if cost is None else [Reward(None, network.resolve_step(Name(cost), Where("cost")))]
        self.task, self.count = task, count
        self.compiled = Compiled(network, conditions=[task.fail, task.goal], rewards=rewards)
        self.inputs = tuple(task.reading.inputs or (variable.name for variable in network.variables))
        if task.reading.functions:
            what = "an input of the task's policies is a Python function, which the kernel does not ask."
            raise InputError(what, Where("inputs"), "Write it as an expression.")
        self.columns = find_inputs(network, self.inputs, task.reading.expressions, where=Where("inputs"))
        columns, features = lower_inputs(network, self.columns)
        self.labels = len(network.labels)
        self._lanes = _core.Lanes(
            self.compiled.program, self._starts(), count, self.labels, columns, FAIL, GOAL, max_steps, at_once, features
        )

    def restart(self, seeds: Sequence[int | None] = ()) -> Step:
        """Begin a new episode in every lane; those that are given a seed are seeded with it."""
        for lane, seed in enumerate(seeds):
            if seed is not None:
                self._lanes.seed(lane, seed & 0xFFFF_FFFF_FFFF_FFFF)
        step = self._empty()
        if not self._lanes.restart(step.rows, step.masks.view(np.uint8)):
            self._explain()
        return step

    def step(self, labels: Any) -> Step:
        """Take a label in every lane."""
        numbers = self._numbers(labels)
        step = self._empty()
        if not self._lanes.step(numbers, step.rows, step.masks.view(np.uint8), step.cost, step.end, step.last):
            self._explain()
        return step

    def states(self) -> list[tuple[Any, ...]]:
        """Return where the lanes are."""
        return self.compiled.unpack(self._lanes.states())

    def rows(self) -> NDArray[np.int64]:
        """Return where the lanes are: one number per variable, reals by their bits."""
        return self.compiled.machine.unpack(self._lanes.states())

    def _starts(self) -> Words:
        starts = Starts.of(self.task)
        if starts.count == 0:
            raise InputError("there is no start state.", hint="Give a start condition that some state satisfies.")
        if starts.count is not None and starts.count <= MOST_STARTS:
            return self.compiled.pack_starts(starts)
        return self.compiled.pack(starts.sample(MOST_STARTS // 100, random.Random(0)))

    def _numbers(self, labels: Any) -> NDArray[np.int64]:
        numbers = np.ascontiguousarray(labels, dtype=np.int64).reshape(-1)
        if len(numbers) != self.count or (
            self.labels and (numbers.min(initial=0) < 0 or numbers.max(initial=0) >= self.labels)
        ):
            raise InputError(
                f"{len(numbers)} actions for {self.count} lanes, or one that is no label's number.",
                Where("actions"),
                f"Give each lane a number from 0 to {self.labels - 1}.",
            )
        return numbers

    def _empty(self) -> Step:
        shape = (self.count, len(self.inputs))
        return Step(
            np.zeros(shape, dtype=np.float32),
            np.zeros((self.count, self.labels), dtype=np.bool_),
            np.zeros(self.count),
            np.full(self.count, RUNNING, dtype=np.uint8),
            np.zeros(shape, dtype=np.float32),
        )

    def _explain(self) -> None:
        (state,) = self.compiled.unpack(self._lanes.faulty)
        Reader(self.task.network, self.columns).row(state)  # an input that has no value says so
        self.compiled.explain_fault(state, self._lanes.fault)


class ShieldedLanes(Lanes):
    """Lanes that take allowed labels only: masks hold what is applicable and allowed, forbidden labels are replaced."""

    def __init__(self, task: Task, count: int, *, shield: Shield, **options: Any) -> None:
        super().__init__(task, count, **options)
        shield.refuse_other(task, Where("shield"))
        self.guard = Guard(shield, task.network.labels)
        listed = [dict(zip(shield.variables, key, strict=True)) for key in shield.actions]
        states = [state_from_names(task.network, named, Where("shield")) for named in listed]
        self.guard.number(self.compiled.machine.unpack(self.compiled.pack(states)))
        self._instead = np.zeros(count, dtype=np.int64)
        self._open = np.zeros((count, self.labels), dtype=np.bool_)

    def restart(self, seeds: Sequence[int | None] = ()) -> Step:
        """Begin a new episode in every lane."""
        return self._ruled(super().restart(seeds))

    def step(self, labels: Any) -> Step:
        """Take a label in every lane, or the allowed one that stands in for it."""
        wanted = self._numbers(labels)
        taken = np.where(self._open[np.arange(self.count), wanted], wanted, self._instead)
        self.guard.steps += self.count
        self.guard.replaced += int((taken != wanted).sum())
        return self._ruled(super().step(taken))

    def _ruled(self, step: Step) -> Step:
        self._instead, _ = self.guard.rule_rows(self.rows(), step.masks)
        self._open = step.masks
        return step


def make_lanes(task: Task, count: int, *, shield: Shield | None = None, **options: Any) -> Lanes:
    """Return the lanes of a task, inside the shield where one is given."""
    return Lanes(task, count, **options) if shield is None else ShieldedLanes(task, count, shield=shield, **options)
