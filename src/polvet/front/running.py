"""Runs of a policy, as people ask for them: simulated, evaluated over start states, and searched for unsafe ones."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import InputError, Where
from polvet.files import is_stream
from polvet.front.limits import Work
from polvet.front.result import Run, why
from polvet.front.results import Evaluation, Fuzzing, Simulation

if TYPE_CHECKING:
    from polvet.front.policy import Policy
    from polvet.fuzz.rounds import RoundOptions, Target
    from polvet.model.semantics import State
    from polvet.policy.runs import Batch
    from polvet.policy.runs import Run as EngineRun


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Simulated runs, which are made again one by one when they are looked at."""

    policy: Policy
    starts: Sequence[State]
    batch: Batch
    max_steps: int
    seed: int

    def run(self, number: int) -> EngineRun:
        """Return the run of that number."""
        from polvet.policy.runs import trace

        if not 0 <= number < len(self.starts):
            raise InputError(f"there is no run {number}.", Where("show"), f"Give a number below {len(self.starts)}.")
        return trace(self.policy.bound, self.starts[number], number, max_steps=self.max_steps, seed=self.seed)

    def ended(self) -> Iterator[EngineRun]:
        """Yield the runs that ended."""
        from polvet.policy.runs import End

        return (self.run(k) for k in range(len(self.starts)) if self.batch.ends[k] != End.UNFINISHED)

    def runs(self) -> Iterator[Run]:
        """Yield the runs that ended, by names."""
        return map(self.policy.named, self.ended())

    def write(self, path: str | Path) -> int:
        """Write the runs that ended, one line of JSON each, and return how many there are."""
        from polvet.records.run_files import write_runs

        return write_runs(self.policy.fitted.task, self.ended(), path)


def simulate_policy(
    policy: Policy, runs: int, states: list[State] | None, max_steps: int | None, work: Work
) -> Simulation:
    """Return so many runs of the policy from the states, or from start states drawn uniformly."""
    from polvet.kernel.starts import Starts
    from polvet.policy.runs import End, longest, simulate

    bound = policy.bound
    max_steps = longest(bound.task, max_steps)
    if states is not None:
        starts, method = states * runs, "by you"
    else:
        known = Starts.of(bound.task, work.budget)
        starts, method = (
            known.sample(runs, random.Random(work.chance), budget=work.budget),
            f"uniformly ({known.method})",
        )
    begun = time.process_time()
    batch = simulate(
        bound,
        bound.compiled.pack(starts),
        max_steps=max_steps,
        seed=work.chance,
        threads=work.threads(runs),
        budget=work.budget,
    )
    cpu = time.process_time() - begun
    counts = {end.text: batch.count(end) for end in End}
    finished = runs - counts["unfinished"]
    figures = {
        "runs": runs,
        "ends": {name: count for name, count in counts.items() if count},
        "goal_percent": 100 * counts["goal"] / max(1, finished),
        "fail_percent": 100 * counts["fail"] / max(1, finished),
        "max_steps": max_steps,
        "steps": batch.steps,
        "mean_length": float(batch.lengths[batch.ends != End.UNFINISHED].mean()) if finished else 0.0,
        "start_method": method,
        "policy": policy.fitted.describe(),
        "steps_per_cpu_second": round(batch.steps / cpu) if cpu > 0 else None,
    }
    simulation = Simulated(policy, starts, batch, max_steps, work.chance)
    return Simulation(figures=figures, source=simulation, **why(batch.limit), **work.account())


def evaluate_policy(
    policy: Policy, starts: int, runs: int, exclude: str | Path | None, max_steps: int | None, work: Work
) -> Evaluation:
    """Return %Unsafe and %Goal over start states; first states of the file `exclude` are left out."""
    from polvet.debug.evaluate import evaluate, evaluation_figures, evaluation_starts
    from polvet.records.state_files import iter_first_states

    bound = policy.bound
    excluded = set() if exclude is None else set(iter_first_states(bound.task, exclude))
    sample = evaluation_starts(bound.task, starts, work.chance, exclude=excluded, budget=work.budget)
    with work.crew(policy.task.model_task, policy.file) as crew:
        evaluation = evaluate(
            bound,
            sample,
            runs=runs,
            max_steps=max_steps,
            seed=work.chance,
            budget=work.budget,
            crew=crew,
            threads=1 if work.is_cluster else work.threads(starts),
        )
    reason = why(evaluation.limit)
    if evaluation.unsafe == 0 and evaluation.near_tie_starts:
        _, tie = evaluation.inspection.doubtful_witness(evaluation.near_tie_starts[0])
        reason = {"reason": f"near-tie in state {'' if tie is None else bound.compiled.semantics.show(tie)}"}
    figures = evaluation_figures(evaluation) | {"policy": policy.fitted.describe()}
    return Evaluation(figures=figures, source=evaluation, **reason, **work.account())


def fuzz_policy(
    policy: Policy, target: Target, options: RoundOptions, work: Work, *, shrink: bool, output: Path | None
) -> Fuzzing:
    """Return unsafe runs of the policy; with `output` written there, where the same call goes on."""
    from polvet.fuzz.rounds import Fuzzer, identity_of, journal_of, run_campaign
    from polvet.fuzz.shrink import shrink_different
    from polvet.records.run_files import write_runs

    bound = policy.bound
    budget = work.budget.told(None)
    fuzzer = Fuzzer(bound, options, threads=1 if work.is_cluster else work.threads(), budget=budget)

    def tell(so_far: Any) -> None:
        low, high = so_far.unsafe.interval
        known = {} if target.rule is not None else {"of": max(target.runs, so_far.tried)}
        counts = {"runs": so_far.tried, "rounds": so_far.rounds, "unsafe_runs": len(so_far.runs)}
        work.tell(**known, **counts, lower=100 * low, upper=100 * high)

    with work.crew(policy.task.model_task, policy.file) as crew:
        campaign = run_campaign(
            fuzzer,
            target,
            crew=crew,
            budget=budget,
            identity=identity_of(bound),
            journal=None if output is None or is_stream(output) else journal_of(output),
            on_round=tell,
        )
    kept, shrunk = shrink_different(bound, campaign.runs, budget=budget) if shrink else (campaign.runs, {})
    if output is not None:
        write_runs(bound.task, kept, output)
    figures = {**campaign.figures, **shrunk, "policy": policy.fitted.describe()}
    named = tuple(map(policy.named, kept))
    return Fuzzing(figures=figures, source=campaign, runs=named, **why(campaign.limit), **work.account())
