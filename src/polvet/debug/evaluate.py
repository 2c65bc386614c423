"""How good a policy is: the share of start states from which it is unsafe, and the share of runs that reach the goal.

%Unsafe   start states from which some run of the policy reaches `fail`, decided by exhaustive search (`policy/runs.py`);
          where a limit stops the search, the start's simulated runs decide: one that fails makes it unsafe, otherwise
          it stays open and widens the interval.
%Goal     runs of at most `max_steps` steps (absent: as the world allows) that end in `goal`: exactly, where each start has one run
          or the policy's Markov chain is small (`goal_chance.py`); else the share among `runs` simulated ones of each start.
Source    Vinzent and others on policy predicate abstraction, and the paper on safety debugging, use these two figures
Differs   the share is exact over the given starts where the search closes; intervals hold for every sample size
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from polvet.budget import UNLIMITED, Budget
from polvet.debug.confidence import binomial_interval, mean_interval
from polvet.debug.goal_chance import goal_chances
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.kernel.starts import Starts
from polvet.model.expressions import FALSE
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.compiled import Bound
from polvet.policy.runs import Batch, End, Inspection, Judgement, longest, simulate
from polvet.workers.protocol import Crew
from polvet.workers.simulation import simulate_by

RUNS_PER_START = 100
SEARCH_SHARE = 0.6
"""Part of the time for the exhaustive search; the rest is for the runs."""
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class StartSample:
    """Start states to evaluate on; `complete`: they are all there are. `method` says how they were drawn."""

    states: tuple[State, ...]
    complete: bool
    total: int | None  # how many start states the task has; None: infinitely many
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The two figures as shares between 0 and 1, each with an interval that holds with 95% confidence."""

    starts: StartSample
    judgements: tuple[Judgement, ...]
    sampled_unsafe: int  # starts that only a simulated run showed unsafe
    open: int  # starts that neither search nor runs decided
    unsafe: float
    unsafe_interval: Interval
    goal: float
    goal_interval: Interval
    batch: Batch
    inspection: Inspection
    limit: LimitReached | None = None
    ends: dict[str, int] = field(default_factory=dict)
    certain: bool = False  # each start has exactly one run
    solved: bool = False  # %Goal is that of the policy's Markov chain, not of simulated runs
    unsolved: LimitReached | None = None  # of time, where it cut that short
    max_steps: int = 0  # of a run that counts for %Goal

    @property
    def goal_is_exact(self) -> bool:
        """Whether %Goal over these starts is no estimate."""
        return self.certain or self.solved

    @property
    def run_length(self) -> float | None:
        """Return the mean number of steps of simulated runs that reach the goal; None where none does."""
        lengths = self.batch.lengths[self.batch.ends == End.GOAL]
        return float(lengths.mean()) if len(lengths) else None

    @property
    def unsafe_starts(self) -> list[State]:
        """Return the starts from which the search found `fail`."""
        return self._judged(Judgement.UNSAFE)

    @property
    def near_tie_starts(self) -> list[State]:
        """Return the starts where only a near tie of the network's scores leads to `fail`."""
        return self._judged(Judgement.NEAR_TIE)

    def _judged(self, wanted: Judgement) -> list[State]:
        return [
            state for state, judgement in zip(self.starts.states, self.judgements, strict=True) if judgement is wanted
        ]


def evaluation_starts(
    task: Task, count: int, seed: int, *, exclude: Collection[State] = (), budget: Budget = UNLIMITED
) -> StartSample:
    """Return `count` different start states drawn uniformly, or all where there are no more; none of `exclude`."""
    starts = Starts.of(task, budget)
    taken = frozenset(exclude)
    if starts.count is not None and starts.count <= count + len(taken):
        left = [state for state in starts.states(budget=budget) if state not in taken]
        complete = len(left) == starts.count
        if len(left) > count:
            left = random.Random(seed).sample(left, count)
            complete = False
        return StartSample(tuple(left), complete, starts.count, "all" if complete else "all that are left")
    wanted = count + len(taken) if starts.count is not None else count
    drawn = starts.sample(wanted, random.Random(seed), distinct=starts.count is not None, budget=budget)
    kept = [state for state in drawn if state not in taken][:count]
    return StartSample(tuple(kept), False, starts.count, f"uniform ({starts.method})")


def disjoint_starts(
    task: Task, wanted: int, seed: int, *, budget: Budget = UNLIMITED
) -> tuple[StartSample, StartSample]:
    """Return start states to debug on and as many others to evaluate on; where the task has too few, all of them for both."""
    debugging = evaluation_starts(task, wanted, seed, budget=budget)
    if debugging.complete or (debugging.total is not None and debugging.total < 2 * wanted):
        every = evaluation_starts(task, 2 * wanted, seed, budget=budget)
        return every, every
    return debugging, evaluation_starts(task, wanted, seed + 1, exclude=debugging.states, budget=budget)


def evaluate(
    bound: Bound,
    starts: StartSample,
    *,
    runs: int = RUNS_PER_START,
    max_steps: int | None = None,
    seed: int = 0,
    threads: int = 1,
    budget: Budget = UNLIMITED,
    crew: Crew | None = None,
) -> Evaluation:
    """Return %Unsafe and %Goal of the policy over the start states; a crew makes the runs, the search stays here."""
    packed, max_steps = bound.compiled.pack(starts.states), longest(bound.task, max_steps)
    inspection = Inspection(bound)
    judgements = tuple(inspection.judge(packed, budget=budget.share(SEARCH_SHARE)))
    certain = inspection.limit is None and inspection.figures["branching"] == 0
    if certain:
        runs = 1  # every state that was met has one outcome: all runs from a start are the same
    if crew is None:
        batch = simulate(
            bound, packed, runs_per_start=runs, max_steps=max_steps, seed=seed, threads=threads, budget=budget
        )
    else:
        batch = simulate_by(crew, packed, runs_per_start=runs, max_steps=max_steps, seed=seed, budget=budget)
    by_start = batch.ends.reshape(len(starts.states), runs)
    failing = (by_start == End.FAIL).any(axis=1)
    unsafe = sampled = undecided = 0
    for judged, seen in zip(judgements, failing.tolist(), strict=True):
        if judged is Judgement.UNSAFE:
            unsafe += 1
        elif judged is not Judgement.SAFE:
            sampled += seen
            undecided += not seen
    share, interval = _unsafe_share(unsafe + sampled, undecided, len(starts.states), starts.complete)
    goal = float((by_start == End.GOAL).mean())
    chances, unsolved = None, None
    if not certain and bound.task.goal != FALSE:
        try:
            chances = goal_chances(bound, packed, max_steps=max_steps, budget=budget)
        except LimitReached as limit:
            unsolved = limit
    if chances is not None:
        goal = sum(chances.mean) / 2
    # All starts: every run is an independent draw. Sampled starts: each start's mean is one.
    goal_interval = mean_interval(goal, by_start.size if starts.complete else len(starts.states))
    if starts.complete and (certain or chances is not None):
        goal_interval = (goal, goal) if chances is None else chances.mean
    ends = {end.text: batch.count(end) for end in End if batch.count(end)}
    return Evaluation(
        starts,
        judgements,
        sampled,
        undecided,
        share,
        interval,
        goal,
        goal_interval,
        batch,
        inspection,
        inspection.limit or batch.limit,
        ends,
        certain,
        chances is not None,
        unsolved,
        max_steps,
    )


def evaluation_figures(evaluation: Evaluation) -> Figures:
    """Return the evaluation as figures for people and files, percentages in points."""
    low, high = evaluation.unsafe_interval
    goal_low, goal_high = evaluation.goal_interval
    return {
        "unsafe_percent": 100 * evaluation.unsafe,
        "unsafe_percent_interval": [100 * low, 100 * high],
        "goal_percent": 100 * evaluation.goal,
        "goal_percent_interval": [100 * goal_low, 100 * goal_high],
        "max_steps": evaluation.max_steps,
        "confidence": 0.95,
        "starts": len(evaluation.starts.states),
        "starts_total": evaluation.starts.total,
        "starts_complete": evaluation.starts.complete,
        "start_method": evaluation.starts.method,
        "unsafe_by_search": len(evaluation.unsafe_starts),
        "unsafe_by_runs": evaluation.sampled_unsafe,
        "certain": evaluation.certain,
        "goal_exact": evaluation.goal_is_exact,
        "run_length": evaluation.run_length,
        "undecided": evaluation.open,
        "near_tie_starts": len(evaluation.near_tie_starts),
        "ends": evaluation.ends,
        "search": evaluation.inspection.figures,
    }


def _unsafe_share(unsafe: int, undecided: int, count: int, complete: bool) -> tuple[float, Interval]:
    share = unsafe / count
    if complete:
        return share, (share, (unsafe + undecided) / count)
    # SOUND: undecided starts count as safe for the lower end and as unsafe for the upper one.
    return share, (binomial_interval(unsafe, count)[0], binomial_interval(unsafe + undecided, count)[1])
