"""The checks of a gate: faults, %Unsafe, %Goal and a proof, each passed, failed or unknown; and how runs end.

SOUND: a check passes only on what was decided: all faults of all states the policy reaches, percentages whose whole
interval keeps the threshold. What a sample alone suggests is *unknown*, unless `sampled` says that this is enough.
Without thresholds a policy of which no run reaches the goal does not pass (`acceptance/runs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from polvet.acceptance.runs import RunsSeen, runs_seen
from polvet.budget import Budget
from polvet.debug.evaluate import Evaluation, evaluate, evaluation_starts
from polvet.debug.faults import all_faults, find_faults
from polvet.debug.possible import find_safe_world
from polvet.errors import InputError, Where
from polvet.fuzz.search import find_unsafe_runs
from polvet.kernel.starts import Starts
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.runs import End
from polvet.records.fault_files import Fault
from polvet.safety.decide import Decider
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unsafe

MAX_STATES = 10_000_000
GOAL_LOSS = "loss"
"""The name of the check beside a policy before."""
ROUNDING = 1e-6
"""Points of %Goal within which exact figures may differ."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a policy must keep; None: not checked. Without any, no fault is allowed and the policy must be of some use."""

    max_faults: int | None = None
    max_unsafe: float | None = None  # percent of the start states
    min_goal: float | None = None  # percent of the runs
    proved: bool = False
    sampled: bool = False  # samples are enough where a decision is out of reach
    max_goal_loss: float = 1.0  # points of %Goal below a policy before, where there is one

    def __post_init__(self) -> None:
        for option, value in (("--max-unsafe", self.max_unsafe), ("--min-goal", self.min_goal)):
            if value is not None and not 0 <= value <= 100:
                raise InputError(f"{value} is no percentage.", Where(option), "Give a number from 0 to 100.")

    @property
    def unstated(self) -> bool:
        """Return whether nothing is asked for."""
        return self.max_faults is None and self.max_unsafe is None and self.min_goal is None and not self.proved

    def asked(self) -> Thresholds:
        """Return the thresholds with the default filled in."""
        return replace(self, max_faults=0) if self.unstated else self


@dataclass(frozen=True, slots=True)
class Means:
    """How much to spend on judging."""

    starts: int = 1_000
    runs: int = 100
    max_steps: int = 10_000
    seed: int = 0
    threads: int = 1
    budget: Budget = field(default_factory=lambda: Budget(None, None, MAX_STATES))


class Passing(Enum):
    """How a check came out."""

    PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, how it came out, and what was measured, in words."""

    name: str
    passing: Passing
    says: str
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """All checks of a policy; `faults` are those that were found, `runs` how its runs end."""

    checks: tuple[Check, ...]
    faults: tuple[Fault, ...] = ()
    runs: RunsSeen | None = None

    @property
    def only_goal_lost(self) -> bool:
        """Whether all is well but that the goal is reached less often than before."""
        failed = {check.name for check in self.checks if check.passing is Passing.FAILED}
        return failed == {GOAL_LOSS} and all(check.passing is not Passing.UNKNOWN for check in self.checks)

    @property
    def passing(self) -> Passing:
        """Return the worst of the checks: a failure beats an unknown."""
        found = {check.passing for check in self.checks}
        worst = (Passing.FAILED, Passing.UNKNOWN)
        return next((one for one in worst if one in found), Passing.PASSED)


def judge(
    task: Task,
    policy: str | Path,
    thresholds: Thresholds,
    means: Means | None = None,
    before: str | Path | None = None,
) -> Judged:
    """Return how the policy in the file fares, also beside the one `before` where there is one."""
    earlier = None if before is None else compile_policy(load_fitted(task, before))
    return judge_bound(compile_policy(load_fitted(task, policy)), thresholds, means or Means(), earlier)


def judge_bound(bound: Bound, thresholds: Thresholds, means: Means, before: Bound | None = None) -> Judged:
    """Return how a policy that is ready to run fares; the time limit is for all checks together."""
    asked = thresholds.asked()
    checks: list[Check] = []
    faults: tuple[Fault, ...] = ()

    if asked.max_faults is not None:
        check, faults = _faults(bound, asked.max_faults, asked.sampled, means)
        checks.append(check)
    proof = [_proof(bound, means)] if asked.proved else []
    found = _evaluation(bound, means)
    seen = runs_seen(bound, found, means.max_steps)
    checks += _percentages(found, asked)
    if thresholds.unstated:
        checks += _use(seen)
    if before is not None:
        checks.append(_goal_loss(bound, found, _evaluation(before, means), asked, means))
    return Judged((*checks, *proof), faults, seen)


def _use(seen: RunsSeen) -> list[Check]:
    """What keeps a policy without faults from passing where no threshold was stated."""
    if seen.useless is not None:
        return [Check("goal", Passing.FAILED, f"{seen.useless}; --min-goal 0 says that this is wanted")]
    if seen.cut is not None and not seen.reaches_goal:
        return [Check("goal", Passing.UNKNOWN, f"no run has reached the goal so far; {seen.cut}")]
    return []


def _goal_loss(bound: Bound, found: Evaluation, before: Evaluation, asked: Thresholds, means: Means) -> Check:
    """Whether the goal is still reached about as often as by the policy before, from the same start states."""
    low = 100 * (before.goal_interval[0] - found.goal_interval[1])
    high = 100 * (before.goal_interval[1] - found.goal_interval[0])
    loss = 100 * (before.goal - found.goal)
    passing = _against(low - ROUNDING, loss - ROUNDING, high - ROUNDING, asked.max_goal_loss, asked.sampled)
    if found.batch.limit is not None or before.batch.limit is not None:
        passing = Passing.UNKNOWN
    says = f"%Goal {100 * before.goal:.2f} -> {100 * found.goal:.2f}, a loss of at most {asked.max_goal_loss:g} points allowed"
    figures: dict[str, Any] = {
        "goal_percent_before": 100 * before.goal, "goal_loss": loss, "goal_loss_interval": [low, high],
        "max_goal_loss": asked.max_goal_loss,
    }  # fmt: skip
    if passing is not Passing.FAILED:
        return Check(GOAL_LOSS, passing, says, figures)
    world = find_safe_world(Decider(bound.task), bound.compiled.pack(found.starts.states), budget=means.budget)
    best = world if isinstance(world, str) else world.best(budget=means.budget)
    if isinstance(best, str):
        return Check(GOAL_LOSS, passing, says, figures | {"goal_percent_possible": None})
    possible = 100 * best.mean[1]
    says += f"; best possible for a safe policy {possible:.2f}"
    return Check(GOAL_LOSS, passing, says, figures | {"goal_percent_possible": possible})


def _faults(bound: Bound, most: int, sampled: bool, means: Means) -> tuple[Check, tuple[Fault, ...]]:
    decider = Decider(bound.task, threads=means.threads)
    count = Starts.of(bound.task, means.budget).count
    if count is None or (means.budget.states is not None and count > means.budget.states):
        why = f"there are {'infinitely many' if count is None else f'{count:,}'} start states; {means.starts:,} were tried"
        starts = evaluation_starts(bound.task, means.starts, means.seed, budget=means.budget)
        fuzzed = find_unsafe_runs(
            bound, bound.compiled.pack(starts.states), seed=means.seed, max_steps=means.max_steps,
            threads=means.threads, budget=means.budget,
        )  # fmt: skip
        found = find_faults(bound, decider, fuzzed.runs, budget=means.budget)
    else:
        found = all_faults(bound, decider, budget=means.budget)
        why = "near ties or undecided states remain" if found.limit is None else str(found.limit)
    count = len(found.faults)
    figures = {"faults": count, "max_faults": most, "exhaustive": found.exhaustive}
    if count > most:
        return Check(
            "faults", Passing.FAILED, f"{_faults_word(count)} found, at most {most} allowed", figures
        ), found.faults
    if found.exhaustive:
        says = f"{_faults_word(count)} in all {found.states:,} states the policy reaches, at most {most} allowed"
        return Check("faults", Passing.PASSED, says, figures), found.faults
    says = f"{_faults_word(count)} found so far, at most {most} allowed; not exhaustive: {why}"
    return Check("faults", Passing.PASSED if sampled else Passing.UNKNOWN, says, figures), found.faults


def _faults_word(count: int) -> str:
    return "1 fault" if count == 1 else f"{count:,} faults"


def _evaluation(bound: Bound, means: Means) -> Evaluation:
    starts = evaluation_starts(bound.task, means.starts, means.seed, budget=means.budget)
    return evaluate(
        bound, starts, runs=means.runs, max_steps=means.max_steps, seed=means.seed, threads=means.threads,
        budget=means.budget,
    )  # fmt: skip


def _percentages(found: Evaluation, asked: Thresholds) -> list[Check]:
    starts = found.starts
    over = f"{len(starts.states):,} start states{'' if starts.complete else ' (a sample)'}"
    if found.batch.limit is not None:
        over += f", cut short: {found.batch.limit}"
    complete = starts.complete and not found.open and not found.near_tie_starts
    checks = []
    if asked.max_unsafe is not None:
        low, high = (found.unsafe, found.unsafe) if complete else found.unsafe_interval
        passing = _against(100 * low, 100 * found.unsafe, 100 * high, asked.max_unsafe, asked.sampled)
        says = f"%Unsafe {100 * found.unsafe:.2f} [{100 * low:.2f}, {100 * high:.2f}] over {over}, at most {asked.max_unsafe:g} allowed"
        checks.append(
            Check("unsafe", passing, says, {"unsafe_percent": 100 * found.unsafe, "max_unsafe": asked.max_unsafe})
        )
    if asked.min_goal is not None:
        low, high = found.goal_interval
        passing = _against(-100 * high, -100 * found.goal, -100 * low, -asked.min_goal, asked.sampled)
        says = f"%Goal {100 * found.goal:.2f} [{100 * low:.2f}, {100 * high:.2f}] over {over}, at least {asked.min_goal:g} wanted"
        checks.append(Check("goal", passing, says, {"goal_percent": 100 * found.goal, "min_goal": asked.min_goal}))
    if found.batch.limit is None:
        return checks
    return [one if one.passing is Passing.FAILED else replace(one, passing=Passing.UNKNOWN) for one in checks]


def _against(low: float, middle: float, high: float, most: float, sampled: bool) -> Passing:
    """Compare an interval with the most that is allowed.

    >>> [_against(1, 2, 3, most, False).value for most in (0.5, 2, 3)], _against(1, 2, 3, 2, True).value
    (['failed', 'unknown', 'passed'], 'passed')
    """
    if high <= most:
        return Passing.PASSED
    if low > most:
        return Passing.FAILED
    if sampled:
        return Passing.PASSED if middle <= most else Passing.FAILED
    return Passing.UNKNOWN


def _proof(bound: Bound, means: Means) -> Check:
    found = verify(bound, budget=means.budget, seed=means.seed, threads=means.threads)
    figures = {"verdict": found.verdict.value, "method": found.method}
    match found:
        case Safe():
            return Check("proof", Passing.PASSED, f"proved safe ({found.method})", figures)
        case Unsafe(run):
            steps = len(run.actions)
            return Check("proof", Passing.FAILED, f"a run of {steps} steps ends in {End.FAIL.text}", figures)
        case _:
            return Check("proof", Passing.UNKNOWN, found.reason, figures)
