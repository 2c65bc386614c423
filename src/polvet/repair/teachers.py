"""What a policy should have done in the states it met: the labels that a teacher calls right, in each safe state.

`MarginTeacher`   where `fail` bounds a counted variable: all labels that keep the state's margin (`safety/margins.py`)
`SafetyTeacher`   elsewhere: the policy's own label where all its outcomes are safe, else all labels with safe outcomes only;
                  in a small world only labels after which the goal is as likely as it can be (`debug/possible.py`)
A right label is always one whose outcomes are all safe: a policy was found that keeps them so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.debug.faults import policy_steps
from polvet.debug.possible import SafeWorld, find_safe_world
from polvet.errors import LimitReached
from polvet.kernel.compiled import Compiled, Words
from polvet.model.expressions import FALSE
from polvet.model.task import Task
from polvet.policy.compiled import Bound
from polvet.safety.counters import NotCounted
from polvet.safety.decide import SAFE, UNDECIDED, UNSAFE, Decider
from polvet.safety.margins import UNKNOWN, Margins

SLACK = 1e-9
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """Per state, which labels of the network can be taken and which are right; none are where no policy is safe, or runs end."""

    applicable: Flags
    right: Flags
    limit: LimitReached | None = None


class Teacher(Protocol):
    """Whoever knows what is right in a state."""

    name: str

    def teach(self, states: Words, budget: Budget) -> Taught:
        """Return what is right in each packed state; nothing is said about states that a limit leaves open."""
        ...

    def known(self, states: Words, budget: Budget) -> NDArray[np.uint8]:
        """Return for each packed state whether it is SAFE, UNSAFE or UNDECIDED."""
        ...


def find_teacher(task: Task, compiled: Compiled, given: Bound, starts: Words, *, budget: Budget = UNLIMITED) -> Teacher:
    """Return the teacher for the task; `given` is the policy whose safe choices are right where there are no margins."""
    try:
        return MarginTeacher(Margins(task, compiled=compiled))
    except NotCounted as refusal:
        return SafetyTeacher(task, compiled, given, starts, why=refusal.why, budget=budget)


class MarginTeacher:
    """All labels that keep the margin are right."""

    name = "margins"

    def __init__(self, margins: Margins) -> None:
        self.margins = margins

    def teach(self, states: Words, budget: Budget) -> Taught:
        """Return which labels keep the margin of each state."""
        judged = self.margins.judge(states, budget=budget)
        return Taught(judged.applicable, judged.best, self.margins.stopped)

    def known(self, states: Words, budget: Budget) -> NDArray[np.uint8]:
        """Return which states have a margin."""
        margin = self.margins.margins(states, budget=budget)
        return np.where(margin == UNKNOWN, UNDECIDED, np.where(margin < 0, UNSAFE, SAFE)).astype(np.uint8)


class SafetyTeacher:
    """The policy's own label where it is safe, else all safe labels; of these the best ones where the world is small."""

    name = "safety"

    def __init__(
        self, task: Task, compiled: Compiled, given: Bound, starts: Words, *, why: str, budget: Budget = UNLIMITED
    ) -> None:
        self.decider, self.given, self.why = Decider(task, compiled=compiled), given, why
        self._labels = len(task.network.labels)
        world: SafeWorld | str = "there is no goal"
        if task.goal != FALSE:
            world = find_safe_world(self.decider, starts, budget=budget.share(0.2))
        self._world = None if isinstance(world, str) else world
        if self._world is not None:
            worth, after = self._world.worths(budget=budget)
            self._good = self._world.steps.safe & (after >= worth[self._world.steps.state] - SLACK)

    def teach(self, states: Words, budget: Budget) -> Taught:
        """Return which labels are right in each state."""
        applicable = np.zeros((len(states), self._labels), dtype=np.bool_)
        right = np.zeros_like(applicable)
        number = {label: k for k, label in enumerate(self.given.task.network.labels)}
        known = self.decider.known_packed(states, budget=budget) == SAFE
        judged = self.decider.judge_actions_packed(states, budget=budget)
        for k, actions in enumerate(judged):
            for label, safe in actions or ():
                if label is not None and known[k]:
                    applicable[k, number[label]], right[k, number[label]] = True, safe
        if self._world is not None:
            right &= self._best(states, right)
        chosen = policy_steps(self.given, states).label
        own = np.flatnonzero(chosen >= 0)
        own = own[right[own, chosen[own]]]
        right[own] = False
        right[own, chosen[own]] = True
        return Taught(applicable, right, self.decider.stopped)

    def known(self, states: Words, budget: Budget) -> NDArray[np.uint8]:
        """Return what the decider says."""
        return self.decider.known_packed(states, budget=budget)

    def _best(self, states: Words, right: Flags) -> Flags:
        """Return the labels after which the goal is as likely as it can be; all of them in states outside the world."""
        assert self._world is not None
        steps, best = self._world.steps, np.zeros_like(right)
        begin = np.searchsorted(steps.state, np.arange(len(self._world.space) + 1))
        for k, words in enumerate(states):
            place = self._world.space.find(words)
            if place < 0:
                best[k] = True
                continue
            mine = slice(begin[place], begin[place + 1])
            labels = steps.label[mine][self._good[mine]]
            best[k, labels[labels >= 0]] = True
        return best
