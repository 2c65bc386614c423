"""The faults of a policy: safe states on its runs where its own action may lead to a state that is not safe any more.

Source   step (B), fault analysis, of Cascioli, Jain, Steinmetz, Davis and Hoffmann, Safety debugging of tree-ensemble
         action policies, 2026. Definition 1 is `_judge`: the state is on a run of the policy, it is safe, and an outcome
         of the chosen action (or of a silent operator beside it) is unsafe. Assumption (b), all faults on a given run are
         found, is `find_faults`; `all_faults` finds all faults there are
Differs  what was proved about one state is kept for all others (`Decider` with sharing), over all runs and calls
Cost     each different state on the runs is decided once, and so is each outcome of the policy's action in safe ones
Limits   states that a limit leaves undecided are counted in `open`; a fault that is reported is always one
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached
from polvet.files import Figures
from polvet.fuzz.packed import PackedRuns
from polvet.kernel.compiled import Words, describe_limit
from polvet.kernel.starts import Starts, is_start_of
from polvet.model.semantics import State
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import Run, raise_what_broke
from polvet.records.fault_files import Fault
from polvet.safety.decide import Decider
from polvet.safety.foresight import is_large, sharpen

UNDECIDED, UNSAFE, SAFE = 0, 1, 2
BLOCK = 1 << 16
FIRST_BLOCK = 1 << 8  # small at first: where a limit comes soon, some states have been judged to the end
QUICK = 0.1  # seconds: blocks that take longer do not grow
NO_FAULT = -1
GRACE = 0.5
"""Seconds for the safe actions of a fault that was found just before the time was over."""


@dataclass(frozen=True, slots=True)
class Blame:
    """How much a fault has to answer for: the runs it lies on, and those on which it comes first."""

    runs: int
    first: int


@dataclass(frozen=True, slots=True, eq=False)
class FaultAnalysis:
    """The faults, each state once, in the order they were met; and the runs on which there is none, with the reason."""

    faults: tuple[Fault, ...]
    blame: tuple[Blame, ...]  # per fault; empty where no runs were given
    first_faults: NDArray[np.int64]  # per run, the number of the first fault on it; NO_FAULT
    unsafe_starts: tuple[State, ...]  # starts of the given runs (or of the task) from which no policy is safe
    never_safe: NDArray[np.int64]  # the runs that never touch the safe region: they cannot have a fault
    open: int  # states that could not be judged
    states: int  # different states on the runs
    safe_states: int
    seconds: float
    exhaustive: bool = False
    near_ties: int = 0
    unjudged: int = 0  # faults whose safe actions a limit left unknown: their list is empty
    limit: LimitReached | None = None

    @property
    def groups(self) -> dict[int, list[int]]:
        """Return the runs by the fault that comes first on them; those without a fault under NO_FAULT."""
        groups: dict[int, list[int]] = {}
        for run, fault in enumerate(self.first_faults.tolist()):
            groups.setdefault(fault, []).append(run)
        return groups

    @property
    def runs_with_fault(self) -> int:
        """Return on how many of the runs there is a fault."""
        return int((self.first_faults != NO_FAULT).sum())

    @property
    def figures(self) -> Figures:
        """Return counts for people and files."""
        return {
            "faults": len(self.faults),
            "states": self.states,
            "safe_states": self.safe_states,
            "open": self.open,
            "unsafe_starts": len(self.unsafe_starts),
            "runs": len(self.first_faults),
            "runs_never_safe": len(self.never_safe),
            "runs_with_fault": self.runs_with_fault,
            "exhaustive": self.exhaustive,
            "near_ties": self.near_ties,
            "unjudged": self.unjudged,
        }


def find_faults(
    bound: Bound, decider: Decider, runs: Iterable[Run] | PackedRuns, *, budget: Budget = UNLIMITED
) -> FaultAnalysis:
    """Return all faults on the given runs of the policy; every state on them is decided.

    The runs are taken to be runs of the policy (`refuse_foreign_runs` checks that). The decider must be of the same task,
    with the algorithm `lazy` and sharing; what it learns is kept for the next call. Of a large model smaller
    games tell it first what is lost and won (`safety/foresight.py`); after that it gives no evidence any more.
    """
    spent = stopwatch()
    packed = runs if isinstance(runs, PackedRuns) else PackedRuns.of(bound, runs)
    if len(packed) and is_large(bound.task):
        sharpen(decider, packed.states, budget=budget)
    judge = _Judge(bound, decider, budget)
    numbers = judge.number(packed.states)
    judge.bisect(numbers, packed)
    judge.judge()
    count = len(packed)
    run_of = np.repeat(np.arange(count), packed.lengths + 1)
    fault_of_state = np.full(len(judge.known), NO_FAULT, dtype=np.int64)
    fault_of_state[judge.faulty] = np.arange(len(judge.faulty))
    on_run = fault_of_state[numbers]
    has_fault = on_run != NO_FAULT
    blamed = np.unique(np.stack([run_of[has_fault], on_run[has_fault]]), axis=1)
    first = np.full(count, NO_FAULT, dtype=np.int64)
    owners, places = np.unique(run_of[has_fault], return_index=True)
    first[owners] = on_run[has_fault][places]
    on_runs = np.bincount(blamed[1], minlength=len(judge.faulty))
    firsts = np.bincount(first[first != NO_FAULT], minlength=len(judge.faulty))
    touched = np.zeros(count, dtype=np.bool_)
    touched[run_of[judge.known[numbers] != UNSAFE]] = True
    starts = numbers[packed.begin[:-1].astype(np.int64)]
    unsafe_starts = np.unique(starts[judge.known[starts] == UNSAFE])
    faults = judge.faults()
    return FaultAnalysis(
        faults=faults,
        blame=tuple(Blame(int(n), int(m)) for n, m in zip(on_runs, firsts, strict=True)),
        first_faults=first,
        unsafe_starts=tuple(judge.unpack(unsafe_starts)),
        never_safe=np.flatnonzero(~touched),
        open=judge.open,
        states=judge.met,
        safe_states=int((judge.known[: judge.met] == SAFE).sum()),
        seconds=spent(),
        unjudged=judge.unjudged,
        limit=judge.limit,
    )


def all_faults(
    bound: Bound, decider: Decider, *, starts: Words | None = None, budget: Budget = UNLIMITED
) -> FaultAnalysis:
    """Return every fault of the policy: all states it reaches from all starts (or the given, packed ones) are judged.

    `exhaustive` says that this was completed: no limit was hit, and no near tie of a network's scores leaves its choice to the
    order of evaluation. Infinitely many starts raise an InputError.
    """
    spent = stopwatch()
    initial = every_start(bound, budget) if starts is None else starts
    space = bound.compiled.explore(initial, stop_at=[FAIL, GOAL], budget=budget, policy=bound.core)
    limit = describe_limit(space, budget)
    if is_large(bound.task):
        sharpen(decider, space.states(0, min(len(space), BLOCK)), budget=budget)
    judge = _Judge(bound, decider, budget)
    for begin in range(0, len(space), BLOCK):
        if begin and judge.stops_before(len(space) - begin):
            initial = initial[:BLOCK]
            break
        judge.number(space.states(begin, min(begin + BLOCK, len(space))))
        judge.judge()
    known = judge.known[judge.number(initial)] if len(initial) else np.zeros(0, dtype=np.uint8)
    faults = judge.faults()
    return FaultAnalysis(
        faults=faults,
        blame=(),
        first_faults=np.zeros(0, dtype=np.int64),
        unsafe_starts=tuple(bound.compiled.unpack(initial[known == UNSAFE])),
        never_safe=np.zeros(0, dtype=np.int64),
        open=judge.open,
        states=len(space),
        safe_states=int((judge.known == SAFE).sum()),
        seconds=spent(),
        exhaustive=limit is None and judge.open == 0 and space.near_ties == 0,
        near_ties=space.near_ties,
        unjudged=judge.unjudged,
        limit=limit or judge.limit,
    )


def nothing_judged(limit: LimitReached) -> FaultAnalysis:
    """Return the analysis that a limit ended before a state was judged."""
    none = np.zeros(0, dtype=np.int64)
    return FaultAnalysis((), (), none, (), none, open=0, states=0, safe_states=0, seconds=0.0, limit=limit)


def every_start(bound: Bound, budget: Budget) -> Words:
    """Return all start states, packed; infinitely many, or more than the budget allows, raise."""
    starts = Starts.of(bound.task, budget)
    if starts.count is None:
        raise InputError("there are infinitely many start states.", hint="Fuzz instead.")
    if budget.states is not None and starts.count > budget.states:
        raise LimitReached(f"limit of {budget.states} states reached by {starts.count} start states", "states")
    return bound.compiled.pack_starts(starts, budget=budget)


def refuse_foreign_runs(bound: Bound, runs: PackedRuns) -> None:
    """Raise an InputError where a run does not start in a start state, or a step is not one the policy takes."""
    members = _core.StateSet(bound.compiled.program.words)
    numbers = members.insert(runs.states).astype(np.int64)
    firsts = runs.begin[:-1].astype(np.int64)
    is_start = is_start_of(bound.task)
    for k, state in enumerate(bound.compiled.unpack(runs.states[firsts])):
        if not is_start(state):
            raise InputError(
                f"run {k} begins in {bound.compiled.semantics.show(state)}, which is no start state.",
                hint="Give runs of this task, or the --start condition they were found with.",
            )
    step_at = np.delete(np.arange(len(numbers)), runs.begin[1:].astype(np.int64) - 1)
    taken = numbers[step_at] << 32 | numbers[step_at + 1]
    allowed = []
    labels = []
    count = len(members)
    for begin in range(0, count, BLOCK):
        steps = policy_steps(bound, members.states(begin, min(begin + BLOCK, count)))
        sources = begin + np.repeat(np.arange(len(steps.label)), np.diff(steps.outcome_start))
        allowed.append(sources << 32 | members.insert(steps.outcomes).astype(np.int64))
        labels.append(steps.label)
    known = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int32)
    right = np.isin(taken, np.concatenate(allowed) if allowed else taken[:0])
    right &= (runs.labels < 0) | (runs.labels == known[numbers[step_at]])
    if not right.all():
        at = int(step_at[int(np.argmin(right))])
        run = int(np.searchsorted(runs.begin, at, side="right")) - 1
        shown = bound.compiled.semantics.show(bound.compiled.unpack(runs.states[at : at + 1])[0])
        raise InputError(
            f"run {run} is no run of this policy: it takes another step in {shown}.",
            hint="Give the policy the runs were made with, or fuzz again.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class PolicySteps:
    """What the policy does in each of some states: how the run ends there, or its label and all outcomes."""

    end: NDArray[np.uint8]
    label: NDArray[np.int32]
    outcome_start: NDArray[np.int64]
    outcomes: Words


def policy_steps(bound: Bound, states: Words) -> PolicySteps:
    """Return the policy's step in each packed state."""
    steps = _core.policy_steps(bound.core, np.ascontiguousarray(states), FAIL, GOAL)
    raise_what_broke(bound, steps["status"], steps["faulty"], steps["fault"], steps["policy_broken"])
    return PolicySteps(steps["end"], steps["label"], steps["outcome_start"].astype(np.int64), steps["outcomes"])


class _Judge:
    """Judges states met on runs. States are numbered as they come; outcomes beside the runs get numbers too."""

    def __init__(self, bound: Bound, decider: Decider, budget: Budget) -> None:
        self.bound, self.decider, self.budget = bound, decider, budget
        self.members = _core.StateSet(bound.compiled.program.words)
        self.known: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self.faulty: list[int] = []
        self.actions: dict[int, str] = {}
        self.unsafe_outcomes: dict[int, tuple[State, ...]] = {}
        self.judged: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.pending: list[NDArray[np.int64]] = []
        self.open = self.met = self.unjudged = 0
        self.limit: LimitReached | None = None

    def number(self, states: Words) -> NDArray[np.int64]:
        """Return the numbers of the states, and remember to judge those that are new."""
        numbers = self._insert(states)
        _, places = np.unique(numbers, return_index=True)
        fresh = numbers[np.sort(places)]
        fresh = fresh[~self.judged[fresh]]
        self.pending.append(fresh)
        self.judged[fresh] = True
        self.met = int(self.judged.sum())
        return numbers

    def _insert(self, states: Words) -> NDArray[np.int64]:
        numbers = self.members.insert(np.ascontiguousarray(states)).astype(np.int64)
        more = len(self.members) - len(self.known)
        self.known = np.concatenate([self.known, np.zeros(more, dtype=np.uint8)])
        self.judged = np.concatenate([self.judged, np.zeros(more, dtype=np.bool_)])
        return numbers

    def judge(self) -> None:
        """Judge all states met since the last call."""
        fresh = np.concatenate(self.pending) if self.pending else np.zeros(0, dtype=np.int64)
        self.pending = []
        begin, size = 0, FIRST_BLOCK
        while begin < len(fresh):
            if begin and self.stops_before(len(fresh) - begin):
                return
            took = stopwatch(self.budget.clock)
            self._judge(fresh[begin : begin + size])
            begin, size = begin + size, min(2 * size if took() < QUICK else size, BLOCK)

    def stops_before(self, states: int) -> bool:
        """Return whether the time is over, so that these many states stay open."""
        if self.budget.is_over():
            self.limit = self.limit or self.budget.reached("time")
            self.open += states
        return self.budget.is_over()

    def bisect(self, numbers: NDArray[np.int64], runs: PackedRuns) -> None:
        """Find the last safe state of runs whose every step has one outcome: log(length) states are decided, not all.

        SOUND: where the policy's step has one outcome, a state before a safe one is safe (take that step first), so a state after
        an unsafe one is unsafe: the safe states are a first part of the run.
        """
        first, last = runs.begin[:-1].astype(np.int64), runs.begin[1:].astype(np.int64) - 1
        fails = self.bound.compiled.machine.holds(FAIL, np.ascontiguousarray(runs.states[last])).astype(np.bool_)
        plain = self._have_one_outcome(numbers, runs) & fails
        first, last = first[plain], last[plain]
        low, high = first - 1, last.copy()  # the state at `low` is safe (or before the run), the one at `high` unsafe
        while (open_ := np.flatnonzero(high - low > 1)).size:
            middle = (low[open_] + high[open_]) // 2
            fresh = np.unique(numbers[middle])
            fresh = fresh[self.known[fresh] == UNDECIDED]
            self._decide(fresh, self._states(fresh))
            verdicts = self.known[numbers[middle]]
            if (verdicts == UNDECIDED).any():
                return  # a limit: what is open is judged state by state, as far as that goes
            low[open_[verdicts == SAFE]] = middle[verdicts == SAFE]
            high[open_[verdicts == UNSAFE]] = middle[verdicts == UNSAFE]
        for begin, safe, end in zip(first.tolist(), low.tolist(), last.tolist(), strict=True):
            self.known[numbers[begin : safe + 1]] = SAFE
            self.known[numbers[safe + 1 : end + 1]] = UNSAFE

    def _have_one_outcome(self, numbers: NDArray[np.int64], runs: PackedRuns) -> NDArray[np.bool_]:
        """Which runs go through states only in which the policy's step has a single outcome."""
        met = np.unique(numbers)
        single = np.zeros(int(met.max(initial=-1)) + 1, dtype=np.bool_)
        for begin in range(0, len(met), FIRST_BLOCK):
            if self.budget.is_over():
                return np.zeros(len(runs), dtype=np.bool_)
            part = met[begin : begin + FIRST_BLOCK]
            single[part] = np.diff(policy_steps(self.bound, self._states(part)).outcome_start) <= 1
        starts = runs.begin[:-1].astype(np.int64)
        return np.logical_and.reduceat(single[numbers], starts) if len(starts) else np.zeros(0, dtype=np.bool_)

    def _judge(self, numbers: NDArray[np.int64]) -> None:
        words = self._states(numbers)
        open_ = self.known[numbers] == UNDECIDED
        self._decide(numbers[open_], np.ascontiguousarray(words[open_]))
        self.open += int((self.known[numbers] == UNDECIDED).sum())
        safe = self.known[numbers] == SAFE
        numbers, words = numbers[safe], words[safe]
        steps = policy_steps(self.bound, words)
        outcomes = self._insert(steps.outcomes)
        fresh = np.unique(outcomes[self.known[outcomes] == UNDECIDED])
        self._decide(fresh, self._states(fresh))
        sources = np.repeat(np.arange(len(numbers)), np.diff(steps.outcome_start))
        unsafe = self.known[outcomes] == UNSAFE
        bad = np.zeros(len(numbers), dtype=np.bool_)
        bad[sources[unsafe]] = True
        unclear = np.zeros(len(numbers), dtype=np.bool_)
        unclear[sources[self.known[outcomes] == UNDECIDED]] = True
        self.open += int((unclear & ~bad).sum())
        for k in np.flatnonzero(bad).tolist():
            # SOUND: the state is safe and an outcome of the chosen action is not; with only silent operators enabled, the
            # state would be as unsafe as its outcome, so a fault always has a label.
            number, label = int(numbers[k]), self.bound.label(int(steps.label[k]))
            assert label is not None
            place = slice(int(steps.outcome_start[k]), int(steps.outcome_start[k + 1]))
            self.faulty.append(number)
            self.actions[number] = label
            self.unsafe_outcomes[number] = tuple(self.bound.compiled.unpack(steps.outcomes[place][unsafe[place]]))

    def _decide(self, numbers: NDArray[np.int64], words: Words) -> None:
        if len(numbers):
            self.known[numbers] = self.decider.known_packed(words, budget=self.budget)
            self.limit = self.limit or self.decider.stopped

    def _states(self, numbers: NDArray[np.int64]) -> Words:
        if not len(numbers):
            return np.zeros((0, self.bound.compiled.program.words), dtype=np.uint64)
        low, high = int(numbers.min()), int(numbers.max()) + 1
        return np.ascontiguousarray(self.members.states(low, high)[numbers - low])

    def unpack(self, numbers: NDArray[np.int64]) -> Iterator[State]:
        """Yield the states of these numbers."""
        yield from self.bound.compiled.unpack(self._states(numbers))

    def faults(self) -> tuple[Fault, ...]:
        """Return the faults found, in the order they were met, with the actions that would have been safe."""
        numbers = np.array(self.faulty, dtype=np.int64)
        within = self.budget if self.budget.left() > GRACE else replace(self.budget, seconds=GRACE)
        safe = (
            one
            for begin in range(0, len(numbers), FIRST_BLOCK)
            for one in self._safe_actions(numbers[begin:][:FIRST_BLOCK], within)
        )
        return tuple(
            Fault(state, self.actions[number], labels, self.unsafe_outcomes[number])
            for number, state, labels in zip(self.faulty, self.unpack(numbers), safe, strict=True)
        )

    def _safe_actions(self, numbers: NDArray[np.int64], budget: Budget) -> list[tuple[str, ...]]:
        """Return the safe actions in each state; none where a limit came first (a safe state has at least one)."""
        try:
            judged = self.decider.judge_actions_packed(self._states(numbers), budget=budget)
        except LimitReached as limit:
            self.limit, judged = limit, [None] * len(numbers)
        self.limit = self.limit or self.decider.stopped
        self.unjudged += judged.count(None)
        return [tuple(label for label, safe in one or () if safe and label is not None) for one in judged]
