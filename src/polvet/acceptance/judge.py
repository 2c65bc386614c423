"""The checks of a gate: faults, %Unsafe, %Goal, the risk and a proof, each passed, failed or unknown; and how runs end.

SOUND: a check passes only on what was decided: all faults of all states the policy reaches, percentages whose whole
interval keeps the threshold. What a sample alone suggests is *unknown*, unless `sampled` says that this is enough.
Without thresholds a policy of which no run reaches the goal does not pass (`acceptance/runs.py`).
Faults say nothing of a start from which no policy surely avoids `fail`: there only the risk, %Unsafe or a proof lets a policy pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from polvet.acceptance.evidence import confirm_analysis
from polvet.acceptance.runs import RunSummary, run_summary
from polvet.budget import Budget, stopwatch
from polvet.confirm.confirmation import about_policy, confirm
from polvet.confirm.outcome import NO_KIND, Confirmation, worst
from polvet.debug.evaluate import Evaluation, evaluate, evaluation_starts
from polvet.debug.faults import FaultAnalysis, all_faults, find_faults
from polvet.debug.possible import find_safe_world
from polvet.errors import InputError, Where
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.kernel.starts import Starts
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.runs import MAX_STEPS, within_steps
from polvet.records.fault_files import Fault
from polvet.records.shape import record_to_json
from polvet.safety.bound import parse_risk
from polvet.safety.decide import Decider
from polvet.verdict import Verdict
from polvet.verify.box_system import Parallelism
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.risk_bound import judge_risk
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
    max_risk: str | float | None = None  # the greatest probability of failing from any start state, read exactly
    proved: bool = False
    sampled: bool = False  # samples are enough where a decision is out of reach
    max_goal_loss: float = 1.0  # points of %Goal below a policy before, where there is one

    def __post_init__(self) -> None:
        for option, value in (("--max-unsafe", self.max_unsafe), ("--min-goal", self.min_goal)):
            if value is not None and not 0 <= value <= 100:
                raise InputError(f"{value} is no percentage.", Where(option), "Give a number from 0 to 100.")
        if self.max_risk is not None:
            parse_risk(self.max_risk, Where("--max-risk"))

    @property
    def unstated(self) -> bool:
        """Return whether there is none."""
        stated = (self.max_faults, self.max_unsafe, self.min_goal, self.max_risk)
        return all(threshold is None for threshold in stated) and not self.proved

    @property
    def says_how_likely(self) -> bool:
        """Return whether one of them bounds how likely runs fail, or from how many starts."""
        return self.max_risk is not None or self.max_unsafe is not None or self.proved

    def with_default(self) -> Thresholds:
        """Return the thresholds with the default filled in."""
        return replace(self, max_faults=0) if self.unstated else self


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many starts and runs are looked at, and what judging may use."""

    starts: int = 1_000
    runs: int = 100
    max_steps: int | None = None  # of runs that count for %Goal; None: as the world allows
    seed: int = 0
    threads: int = 1
    budget: Budget = field(default_factory=lambda: Budget(None, None, MAX_STATES))


class Passing(Enum):
    """How a check came out."""

    PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"


@dataclass(frozen=True, slots=True)
class FaultCount:
    """What the check of faults measures."""

    faults: int
    max_faults: int
    exhaustive: bool


@dataclass(frozen=True, slots=True)
class UnsafeShare:
    """What the check of %Unsafe measures."""

    unsafe_percent: float
    max_unsafe: float


@dataclass(frozen=True, slots=True)
class GoalShare:
    """What the check of %Goal measures."""

    goal_percent: float
    min_goal: float


@dataclass(frozen=True, slots=True)
class GoalLoss:
    """What the check beside a policy before measures, in points of %Goal."""

    goal_percent_before: float
    goal_loss: float
    goal_loss_interval: tuple[float, float]
    max_goal_loss: float
    goal_percent_possible: float | None  # of any safe policy; None: not known, or the check did not fail


@dataclass(frozen=True, slots=True)
class RiskBound:
    """What the check of the risk measures: bounds on the greatest probability of failing."""

    probability_lower: float
    probability_upper: float
    max_risk: str


@dataclass(frozen=True, slots=True)
class ProofAttempt:
    """What the check of a proof tells."""

    verdict: str
    method: str


Measure = FaultCount | UnsafeShare | GoalShare | GoalLoss | RiskBound | ProofAttempt


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, how it came out, and what was measured, in words and as numbers."""

    name: str
    passing: Passing
    says: str
    measure: Measure | None = None
    checked: Confirmation | None = None  # None: it is a measurement, or unknown, and has no certificate

    @property
    def figures(self) -> Mapping[str, Any]:
        """Return the numbers as a JSON object."""
        return {} if self.measure is None else record_to_json(self.measure)


@dataclass(frozen=True, slots=True)
class GateResult:
    """All checks of a policy; `faults` are those that were met, `runs` how its runs end."""

    checks: tuple[Check, ...]
    faults: tuple[Fault, ...] = ()
    runs: RunSummary | None = None

    @property
    def only_goal_lost(self) -> bool:
        """Whether all is well but that the goal is reached less often than before."""
        failed = {check.name for check in self.checks if check.passing is Passing.FAILED}
        return failed == {GOAL_LOSS} and all(check.passing is not Passing.UNKNOWN for check in self.checks)

    @property
    def checked(self) -> Confirmation | None:
        """Return what became of the evidence: the first that was not checked, if there is one."""
        return worst(*(check.checked for check in self.checks))

    @property
    def passing(self) -> Passing:
        """Return the worst of the checks: a failure beats an unknown."""
        outcomes = {check.passing for check in self.checks}
        worst = (Passing.FAILED, Passing.UNKNOWN)
        return next((one for one in worst if one in outcomes), Passing.PASSED)


def judge(
    task: Task,
    policy: str | Path,
    thresholds: Thresholds,
    sampling: Sampling | None = None,
    before: str | Path | None = None,
) -> GateResult:
    """Return how the policy in the file fares, also beside the one `before` where there is one."""
    earlier = None if before is None else compile_policy(load_fitted(task, before))
    return judge_bound(
        compile_policy(load_fitted(task, policy)), thresholds, sampling or Sampling(), earlier, Path(policy)
    )


def judge_bound(
    bound: Bound, thresholds: Thresholds, sampling: Sampling, before: Bound | None = None, file: Path | None = None
) -> GateResult:
    """Return how a policy that is ready to run, and was read from the file, fares; the time limit is for all checks together."""
    limits = thresholds.with_default()
    checks: list[Check] = []
    faults: tuple[Fault, ...] = ()
    analysis: FaultAnalysis | None = None
    spent = stopwatch()

    if limits.max_faults is not None:
        check, analysis = _faults(bound, limits.max_faults, limits.sampled, sampling)
        faults = analysis.faults
        checks.append(check)
    seconds = spent()
    proof = [_risk(bound, limits.max_risk, sampling, file)] if limits.max_risk is not None else []
    proof += [_proof(bound, sampling, file)] if limits.proved else []
    evaluation = _evaluation(bound, sampling)
    runs = run_summary(bound, evaluation)
    if not limits.says_how_likely and (analysis is None or analysis.faults):
        runs = replace(runs, unsaid="how likely runs fail: --max-risk bounds it")
    if not limits.says_how_likely and analysis is not None and analysis.unsafe_starts:
        proof.append(_unstated_risk(bound, analysis, sampling))
    checks += _percentages(evaluation, limits)
    if thresholds.unstated:
        checks += _use(runs)
    if before is not None:
        checks.append(_goal_loss(bound, evaluation, _evaluation(before, sampling), limits, sampling))
    if analysis is not None and (analysis.exhaustive or checks[0].passing is Passing.FAILED):
        # Last, so that no other check lacks the time.
        checked = confirm_analysis(
            bound, file, analysis, seconds=seconds, budget=sampling.budget, threads=sampling.threads
        )
        checks[0] = replace(checks[0], checked=checked)
    return GateResult((*checks, *proof), faults, runs)


def _use(runs: RunSummary) -> list[Check]:
    """What keeps a policy without faults from passing where no threshold was stated."""
    if runs.useless is not None:
        return [Check("goal", Passing.FAILED, f"{runs.useless}; --min-goal 0 says that this is wanted")]
    if runs.cut is not None and not runs.reaches_goal:
        return [Check("goal", Passing.UNKNOWN, f"no run has reached the goal so far; {runs.cut}")]
    return []


def _goal_loss(bound: Bound, now: Evaluation, before: Evaluation, limits: Thresholds, sampling: Sampling) -> Check:
    """Whether the goal is still reached about as often as by the policy before, from the same start states."""
    low = 100 * (before.goal_interval[0] - now.goal_interval[1])
    high = 100 * (before.goal_interval[1] - now.goal_interval[0])
    loss = 100 * (before.goal - now.goal)
    passing = _against(low - ROUNDING, loss - ROUNDING, high - ROUNDING, limits.max_goal_loss, limits.sampled)
    if now.batch.limit is not None or before.batch.limit is not None:
        passing = Passing.UNKNOWN
    most = f"{limits.max_goal_loss:g} point" + ("" if limits.max_goal_loss == 1 else "s")
    says = f"%Goal{within_steps(now.max_steps)} {100 * before.goal:.2f} -> {100 * now.goal:.2f}, a loss of at most {most} allowed"
    possible = _best_possible(bound, now, sampling) if passing is Passing.FAILED else None
    if possible is not None:
        says += f"; best possible for a safe policy {possible:.2f}"
    return Check(
        GOAL_LOSS, passing, says, GoalLoss(100 * before.goal, loss, (low, high), limits.max_goal_loss, possible)
    )


def _best_possible(bound: Bound, evaluation: Evaluation, sampling: Sampling) -> float | None:
    """The best %Goal of any safe policy from the same start states, where the world is small enough to tell."""
    world = find_safe_world(Decider(bound.task), bound.compiled.pack(evaluation.starts.states), budget=sampling.budget)
    best = world if isinstance(world, str) else world.best(budget=sampling.budget)
    return None if isinstance(best, str) else 100 * best.mean[1]


def _faults(bound: Bound, most: int, sampled: bool, sampling: Sampling) -> tuple[Check, FaultAnalysis]:
    decider = Decider(bound.task, threads=sampling.threads)
    count = Starts.of(bound.task, sampling.budget).count
    if count is None or (sampling.budget.states is not None and count > sampling.budget.states):
        why = f"there are {'infinitely many' if count is None else f'{count:,}'} start states; {sampling.starts:,} were tried"
        starts = evaluation_starts(bound.task, sampling.starts, sampling.seed, budget=sampling.budget)
        search = Search(sampling.seed, max_steps=sampling.max_steps or MAX_STEPS, threads=sampling.threads)
        packed = bound.compiled.pack(starts.states)
        fuzzed = find_unsafe_runs(bound, packed, search, budget=sampling.budget)
        analysis = find_faults(bound, decider, fuzzed.runs, budget=sampling.budget)
    else:
        analysis = all_faults(bound, decider, budget=sampling.budget)
        why = "near ties or undecided states remain" if analysis.limit is None else str(analysis.limit)
    count = len(analysis.faults)
    measure = FaultCount(count, most, analysis.exhaustive)
    if count > most:
        says = f"{_faults_word(count)} found, at most {most} allowed"
        return Check("faults", Passing.FAILED, says, measure), analysis
    if analysis.exhaustive:
        says = f"{_faults_word(count)} in all {analysis.states:,} states the policy reaches, at most {most} allowed"
        return Check("faults", Passing.PASSED, says, measure), analysis
    says = f"{_faults_word(count)} found so far, at most {most} allowed; not exhaustive: {why}"
    return Check("faults", Passing.PASSED if sampled else Passing.UNKNOWN, says, measure), analysis


def _faults_word(count: int) -> str:
    return "1 fault" if count == 1 else f"{count:,} faults"


def _evaluation(bound: Bound, sampling: Sampling) -> Evaluation:
    starts = evaluation_starts(bound.task, sampling.starts, sampling.seed, budget=sampling.budget)
    return evaluate(
        bound,
        starts,
        runs=sampling.runs,
        max_steps=sampling.max_steps,
        seed=sampling.seed,
        threads=sampling.threads,
        budget=sampling.budget,
    )


def _percentages(evaluation: Evaluation, limits: Thresholds) -> list[Check]:
    starts = evaluation.starts
    over = f"{len(starts.states):,} start states{'' if starts.complete else ' (a sample)'}"
    if evaluation.batch.limit is not None:
        over += f", cut short: {evaluation.batch.limit}"
    checks = []
    if limits.max_unsafe is not None:
        complete = starts.complete and not evaluation.open and not evaluation.near_tie_starts
        unsafe = 100 * evaluation.unsafe
        ends = (evaluation.unsafe, evaluation.unsafe) if complete else evaluation.unsafe_interval
        low, high = (100 * end for end in ends)
        passing = _against(low, unsafe, high, limits.max_unsafe, limits.sampled)
        says = f"%Unsafe {unsafe:.2f} [{low:.2f}, {high:.2f}] over {over}, at most {limits.max_unsafe:g} allowed"
        checks.append(Check("unsafe", passing, says, UnsafeShare(unsafe, limits.max_unsafe)))
    if limits.min_goal is not None:
        goal = 100 * evaluation.goal
        low, high = (100 * end for end in evaluation.goal_interval)
        passing = _against(-high, -goal, -low, -limits.min_goal, limits.sampled)
        steps = within_steps(evaluation.max_steps)
        says = f"%Goal{steps} {goal:.2f} [{low:.2f}, {high:.2f}] over {over}, at least {limits.min_goal:g} wanted"
        checks.append(Check("goal", passing, says, GoalShare(goal, limits.min_goal)))
    if evaluation.batch.limit is None:
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


def _risk(bound: Bound, most: str | float, sampling: Sampling, file: Path | None) -> Check:
    spent, allowed = stopwatch(), parse_risk(most, Where("--max-risk"))
    risk = judge_risk(
        bound, allowed, budget=sampling.budget, seed=sampling.seed, parallelism=Parallelism(sampling.threads)
    )
    figures = risk.figures
    measure = RiskBound(figures["probability_lower"], figures["probability_upper"], str(allowed))
    if risk.verdict is Verdict.UNKNOWN:
        return Check("risk", Passing.UNKNOWN, f"{risk.says}; {risk.reason}", measure)
    about = about_policy(bound.task, file, bound.fitted.sha256)
    kind, certificate = f"{risk.verdict.value} risk", risk.certificate
    checked = confirm(kind, certificate, about, found=spent(), budget=sampling.budget) if certificate else NO_KIND
    passing = Passing.PASSED if risk.verdict is Verdict.SAFE else Passing.FAILED
    return Check("risk", passing, risk.says, measure, checked)


def _unstated_risk(bound: Bound, analysis: FaultAnalysis, sampling: Sampling) -> Check:
    """What keeps a policy from passing by its faults where failing cannot surely be avoided: nobody bounded the risk."""
    says = f"no policy surely avoids failing from {len(analysis.unsafe_starts):,} of the start states, about which faults say nothing"
    if not bound.task.avoid.names:
        risk = judge_risk(bound, Fraction(0), budget=sampling.budget.share(0.3), seed=sampling.seed)
        says += f"; the policy {risk.says.partition(',')[0]}"
    return Check("risk", Passing.UNKNOWN, f"{says}: state what is allowed by --max-risk, or --max-unsafe")


def _proof(bound: Bound, sampling: Sampling, file: Path | None) -> Check:
    spent = stopwatch()
    result = verify(bound, budget=sampling.budget, seed=sampling.seed, threads=sampling.threads)
    measure = ProofAttempt(result.verdict.value, result.method)
    checked = confirm(
        f"{result.verdict.value} policy",
        certificate_of(bound, result, sampling.budget),
        about_policy(bound.task, file, bound.fitted.sha256),
        found=spent(),
        budget=sampling.budget,
    )
    match result:
        case Safe():
            return Check("proof", Passing.PASSED, f"proved safe ({result.method})", measure, checked)
        case Unsafe(run):
            steps = len(run.actions)
            says = f"a run of {steps} steps ends in {run.end.text}"
            return Check("proof", Passing.FAILED, says, measure, checked)
        case _:
            return Check("proof", Passing.UNKNOWN, result.reason, measure)
