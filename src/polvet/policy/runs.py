"""Runs of a bound policy: simulated in batches, told step by step, or searched exhaustively for `fail`.

A run of number r depends on (seed, r) and its start alone: neither threads nor batches change it (Philox counters).
In a simulated step one operator is drawn uniformly among the enabled ones of the chosen label and the silent ones, then one
of its outcomes by probability. Searching (`Inspection`) follows every outcome of all of them, and where a network's top
scores are nearer than rounding can tell, every choice that some float32 evaluation order makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.kernel.compiled import Words, limit_of
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.compiled import FAIL, GOAL, Bound

MAX_STEPS = 10_000


def longest(task: Task, max_steps: int | None) -> int:
    """Return how many steps a run may have: as is asked, else as the world allows, else MAX_STEPS."""
    return max_steps or task.max_steps or MAX_STEPS


def within_steps(max_steps: int) -> str:
    """Return what is said beside a share of runs that a limit on their steps may lower; nothing at the common one."""
    return "" if max_steps == MAX_STEPS else f" within {max_steps:,} step{'s' * (max_steps != 1)}"


class End(IntEnum):
    """How a run ended; UNFINISHED where a limit of time stopped the simulation, LOOP where it can never end any more."""

    FAIL = 0
    GOAL = 1
    STUCK = 2
    DEADLOCK = 3
    LIMIT = 4
    UNFINISHED = 5
    LOOP = 6

    @property
    def text(self) -> str:
        """Return the word that run files use."""
        return self.name.lower()


class Judgement(IntEnum):
    """What exhaustive search says about a start state under the policy."""

    OPEN = 0
    SAFE = 1
    NEAR_TIE = 2
    UNSAFE = 3


@dataclass(frozen=True, slots=True)
class Run:
    """A run in full: states s0 .. sn and the labels of the operators that moved (None: silent)."""

    states: tuple[State, ...]
    actions: tuple[str | None, ...]
    end: End


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """How simulated runs ended: one entry per run, `runs_per_start` runs of each start together."""

    ends: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    last: Words
    steps: int
    runs_per_start: int
    limit: LimitReached | None = None

    def count(self, end: End) -> int:
        """Return how many runs ended so."""
        return int((self.ends == end).sum())


def simulate(
    bound: Bound,
    starts: Words,
    *,
    runs_per_start: int = 1,
    max_steps: int = MAX_STEPS,
    seed: int = 0,
    first_run: int = 0,
    threads: int = 1,
    budget: Budget = UNLIMITED,
) -> Batch:
    """Return how runs from packed start states end; run k * runs_per_start + i starts in starts[k]."""
    batch = _core.simulate(
        bound.core,
        starts,
        FAIL,
        GOAL,
        runs_per_start,
        max_steps,
        seed,
        first_run,
        threads,
        budget.left(),
        budget.on_progress,
    )
    raise_what_broke(bound, batch["status"], batch["faulty"], batch["fault"], batch["policy_broken"])
    limit = limit_of(batch["status"], budget)
    return Batch(batch["end"], batch["length"], batch["last"], batch["steps"], runs_per_start, limit)


def trace(bound: Bound, start: State, run: int, *, max_steps: int = MAX_STEPS, seed: int = 0) -> Run:
    """Return run number `run` from the start state, exactly as `simulate` makes it."""
    trace = _core.trace(bound.core, bound.compiled.pack([start]), FAIL, GOAL, run, max_steps, seed)
    raise_what_broke(bound, trace["status"], trace["faulty"], trace["fault"], trace["policy_broken"])
    actions = tuple(bound.label(number) for number in trace["labels"].tolist())
    return Run(tuple(bound.compiled.unpack(trace["states"])), actions, End(trace["end"]))


def raise_what_broke(bound: Bound, status: _core.Status, faulty: Words, fault: _core.Fault, by_policy: bool) -> None:
    """Raise the error of a kernel that stopped because the model or the policy broke a rule, or on Ctrl-C."""
    if status == _core.Status.INTERRUPTED:
        raise KeyboardInterrupt
    if status == _core.Status.FAULT:
        bound.explain(bound.compiled.unpack(faulty)[0], fault, by_policy)


class Inspection:
    """Exhaustive reachability under the policy; what is learnt from one start is kept for the next."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self._core = _core.Inspector(bound.core, FAIL, GOAL)
        self.limit: LimitReached | None = None

    def judge(self, starts: Words, *, budget: Budget = UNLIMITED) -> list[Judgement]:
        """Return the judgement on each packed start; OPEN where a limit came first (`limit` says which)."""
        return [Judgement(code) for code in self._codes(starts, budget).tolist()]

    def unsafe(self, starts: Words, *, budget: Budget = UNLIMITED) -> list[int]:
        """Return the places of the packed starts that are judged UNSAFE; they may be millions."""
        return np.flatnonzero(self._codes(starts, budget) == Judgement.UNSAFE).tolist()

    def _codes(self, starts: Words, budget: Budget) -> NDArray[np.uint8]:
        codes = self._core.inspect(starts, budget.left(), budget.most_bytes, budget.most_states, budget.on_progress)
        core = self._core
        raise_what_broke(self.bound, core.status, core.faulty, core.fault, core.policy_broken)
        self.limit = limit_of(core.status, budget)
        return codes

    def witness(self, start: State) -> Run:
        """Return a run of the policy from an unsafe start to `fail` (from a NEAR_TIE start: of some evaluation order)."""
        return self.doubtful_witness(start)[0]

    def doubtful_witness(self, start: State) -> tuple[Run, State | None]:
        """Return the run and the first state on it where only a near tie takes its action, if there is one."""
        words, labels, tie = self._core.witness(self.bound.compiled.pack([start]))
        states = tuple(self.bound.compiled.unpack(words))
        actions = tuple(self.bound.label(number) for number in labels.tolist())
        return Run(states, actions, End.FAIL), states[tie] if tie >= 0 else None

    @property
    def figures(self) -> Figures:
        """Return how much was searched."""
        return {**search_figures(self._core, self._core.states), "branching": self._core.branching}


def search_figures(search: _core.Inspector | _core.Reachability, states: int) -> Figures:
    """Return how much a search over a policy's runs has seen."""
    fail, goal, stuck, deadlock = search.ends
    return {
        "states": states,
        "expanded": search.expanded,
        "transitions": search.transitions,
        "near_ties": search.near_ties,
        "fail_states": fail,
        "goal_states": goal,
        "stuck_states": stuck,
        "deadlocks": deadlock,
        "bytes": search.bytes,
    }
