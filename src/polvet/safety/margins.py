"""Margins: how much a state has to spare, and which of its labels keep it.

Where `fail` bounds a counted variable (`safety/counters.py`), the margin of a state is by how much the bound could be tightened
with the state still being safe: c - 1 - v - need for `fail = v >= c`, the *need* being the least growth of v that some policy
keeps to on all runs. The need does not depend on v, so that one search answers for every bound (src/_core/decide/need.h).
Elsewhere there is nothing to tighten: the margin of a safe state is 0.
Differs  with `toward_goal` the search begins with what runs to the goal cost at least (`safety/journeys.py`), which saves most of
         it. Margins are exact where every run that is safe for ever ends in the goal; elsewhere states have at least the margin
         that is told (a policy that keeps it was found), and perhaps a greater one
Limits   `NotCounted` names what stands in the way; a limit leaves margins at UNKNOWN
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.kernel.compiled import Compiled, Words, limit_of
from polvet.model.task import Task
from polvet.safety.counters import Counter, find_counter
from polvet.safety.decide import FAIL, GOAL, compile_task
from polvet.safety.journeys import find_journeys
from polvet.system import resident_bytes

UNSAFE_MARGIN, UNKNOWN = -1, -(2**31)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Margins of states (-1: not safe; UNKNOWN: a limit came first), and which labels of safe ones can be taken and keep them."""

    margin: NDArray[np.int32]
    applicable: NDArray[np.bool_]  # [states, labels of the network]
    best: NDArray[np.bool_]


class Margins:
    """Answers questions about the margins of one task, and remembers what it found."""

    def __init__(self, task: Task, *, toward_goal: bool = True, compiled: Compiled | None = None) -> None:
        counted = find_counter(task)
        self.task, self.counter = task, counted.counter
        self.journeys = find_journeys(counted) if toward_goal else []
        self.compiled = compiled or compile_task(task)
        self.stopped: LimitReached | None = None  # why the last call left some states open
        self._core = _core.MarginSearch(
            self.compiled.program,
            FAIL,
            GOAL,
            self.counter.variable,
            self.counter.falls,
            self.counter.ceiling,
            [(journey.variable, journey.costs.tolist()) for journey in self.journeys],
        )

    def margins(self, states: Words, *, budget: Budget = UNLIMITED) -> NDArray[np.int32]:
        """Return the margin of each packed state."""
        return self._ask(states, 0, budget).margin

    def judge(self, states: Words, *, budget: Budget = UNLIMITED) -> Judged:
        """Return the margin of each packed state with the labels that keep it."""
        return self._ask(states, len(self.task.network.labels), budget)

    @property
    def known_states(self) -> int:
        """Return how many states without the counter are remembered."""
        return self._core.known_states

    def _ask(self, states: Words, labels: int, budget: Budget) -> Judged:
        margin, told = self._core.ask(
            np.ascontiguousarray(states),
            labels,
            budget.left(),
            self._room(budget),
            budget.most_states,
            budget.on_progress,
        )
        self.stopped = None
        match self._core.status:
            case _core.Status.FAULT:
                self.compiled.explain_fault(self.compiled.unpack(self._core.faulty)[0], self._core.fault)
            case _core.Status.INTERRUPTED:
                raise KeyboardInterrupt
            case _core.Status.DONE:
                pass
            case status:
                self.stopped = limit_of(status, budget)
        return Judged(margin, told > 0, told == 2)

    def _room(self, budget: Budget) -> int:
        if budget.megabytes is None:
            return 2**63
        others = resident_bytes() - self._core.held_bytes
        return max(2**20, (budget.megabytes * 2**20 - max(0, others)) // 2)


__all__ = ["UNKNOWN", "UNSAFE_MARGIN", "Counter", "Judged", "Margins"]
