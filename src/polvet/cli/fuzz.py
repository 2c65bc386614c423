"""`polvet fuzz TASK POLICY -o RUNS`: unsafe runs of a policy, shrunk; stopped and gone on with as often as one likes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, Mode, Output, PolicyFile, Seed, TimeLimit, Workers
from polvet.cli.progress import Meter, watching
from polvet.cli.simulate import MaxSteps, policy_lines
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    OutOfBounds,
    Start,
    TaskFile,
    crew_of,
    is_cluster,
    task_options,
    threads_of,
)  # fmt: skip

if TYPE_CHECKING:
    from polvet.fuzz.rounds import Campaign
    from polvet.policy.compiled import Bound

MANY = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fuzz")(fuzz)


def fuzz(
    task: TaskFile,
    policy: PolicyFile,
    runs: Annotated[int, typer.Option("--runs", help="Try about so many runs.", min=1)] = 20_000,
    unsafe_runs: Annotated[
        int, typer.Option("--unsafe-runs", help="Stop when so many unsafe runs are found.", min=1)
    ] = 10_000,
    tries: Annotated[int, typer.Option("--tries", help="Runs from each start state.", min=1)] = 4,
    round_starts: Annotated[int, typer.Option("--round", help="Start states per round.", min=2)] = 512,
    stop_when: Annotated[
        str | None, typer.Option("--stop-when", help="A rule in the place of --runs: 'width<0.01'.")
    ] = None,
    unbiased: Annotated[
        bool, typer.Option("--unbiased", help="Draw outcomes and starts as they come, without leaning to fail.")
    ] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Keep the runs as they were found, not shrunk.")] = False,
    max_steps: MaxSteps = 10_000,
    mode: Mode = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    time_limit: TimeLimit = None,
    workers: Workers = "all",
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Find unsafe runs. Example: `polvet fuzz line.toml policy.json -o unsafe.jsonl`; the same command resumes."""
    from polvet.fuzz.anytime import parse_stop_rule
    from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, run_campaign
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.records.run_files import write_runs
    from polvet.sources import load_task

    spent = stopwatch()
    rule = None if stop_when is None else parse_stop_rule(stop_when)
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    fitted = load_fitted(loaded, policy)
    bound = compile_policy(fitted)
    options = RoundOptions(seed, round_starts, tries, max_steps, not unbiased)
    budget = budget_of(time_limit)
    threads = 1 if is_cluster(workers) else threads_of(workers, MANY)
    fuzzer = Fuzzer(bound, options, threads=threads, budget=budget)
    journal = None if output is None else journal_of(output)
    crews = crew_of(workers, loaded, policy=policy)
    with crews as crew, watching("fuzz", "fuzzing", log_json, unit="runs") as meter:
        campaign = run_campaign(
            fuzzer, Target(runs, unsafe_runs, rule), journal=journal, crew=crew,
            budget=budget, identity=_identity(bound, out_of_bounds),
            on_round=None if meter is None else partial(_tell, meter, runs if rule is None else None),
        )  # fmt: skip
    kept, shrunk_lines, shrunk_figures = (campaign.runs, [], {}) if whole else _shrunk(bound, campaign, budget)
    figures, lines = _figures(campaign), _lines(campaign)
    figures |= {**shrunk_figures, "policy": fitted.describe()}
    lines += [*shrunk_lines, *policy_lines(fitted, policy)]
    if output is not None:
        lines.append(f"written      {output} ({write_runs(fitted.task, kept, output):,} runs)")
    reason = None if campaign.limit is None else said(campaign.limit)
    if campaign.runs:
        verdict, code = "unsafe", ExitCode.FOUND
    elif reason is not None:
        verdict, code = "unknown", ExitCode.UNKNOWN
    else:
        verdict, code = "fuzzed", ExitCode.DONE
    more = {"runs": None if output is None else str(output), "stopped_by": campaign.stopped_by}
    return Answer(verdict, code, spent(), figures, lines, reason, seed, more=more).show(as_json=json)


def _tell(meter: Meter, budget: int | None, campaign: Campaign) -> None:
    low, high = campaign.unsafe.interval
    if budget is not None:
        meter.tell(of=max(budget, campaign.tried))
    meter.tell(
        runs=campaign.tried, rounds=campaign.rounds, unsafe_runs=len(campaign.runs), lower=100 * low, upper=100 * high
    )


def journal_of(output: Path) -> Path:
    """Return where a campaign that writes this file keeps its rounds."""
    return output.with_name(output.name + ".journal")


def _identity(bound: Bound, out_of_bounds: str) -> dict[str, Any]:
    from polvet.model.infix import dump_expression

    task = bound.task
    return {
        "task_sha256": task.sha256, "policy_sha256": bound.fitted.sha256, "mode": task.reading.mode,
        "constants": {name: str(value) for name, value in task.network.constants.items()},
        "start": None if task.start is None else dump_expression(task.start), "fail": dump_expression(task.fail),
        "goal": dump_expression(task.goal), "out_of_bounds": out_of_bounds,
    }  # fmt: skip


def _shrunk(bound: Bound, campaign: Campaign, budget: Budget) -> tuple[list[Any], list[str], dict[str, Any]]:
    from polvet.fuzz.shrink import shrink_all

    if not campaign.runs:
        return [], [], {}
    found = shrink_all(bound, campaign.runs, budget=budget)
    before = sum(len(run.actions) for run in campaign.runs) / len(campaign.runs)
    after = sum(len(run.actions) for run in found) / len(found)
    different = list({(run.states, run.actions): run for run in found}.values())
    line = f"shrunk       mean length {before:.1f} -> {after:.1f} steps; {len(different):,} different runs are left"
    return different, [line], {"mean_length": before, "mean_length_shrunk": after, "shrunk_runs": len(different)}


def _figures(campaign: Campaign) -> dict[str, Any]:
    return {
        "runs": campaign.tried, "unsafe_runs": len(campaign.runs), "rounds": campaign.rounds, "steps": campaign.steps,
        "ends": dict(campaign.ends), "starts_drawn": campaign.unsafe.draws,
        "unsafe_percent": 100 * campaign.unsafe.mean,
        "unsafe_percent_interval": [100 * end for end in campaign.unsafe.interval],
        "goal_percent": 100 * campaign.goal.mean,
        "goal_percent_interval": [100 * end for end in campaign.goal.interval],
        "confidence": campaign.unsafe.confidence,
    }  # fmt: skip


def _lines(campaign: Campaign) -> list[str]:
    low, high = campaign.unsafe.interval
    goal_low, goal_high = campaign.goal.interval
    ends = ", ".join(f"{count:,} {name}" for name, count in campaign.ends.items())
    return [
        f"unsafe runs  {len(campaign.runs):,} different ones among {campaign.tried:,} runs ({ends})",
        f"unsafe found {100 * campaign.unsafe.mean:.2f}% of {campaign.unsafe.draws:,} uniformly drawn starts "
        f"(95% at all times: {100 * low:.2f} to {100 * high:.2f})",
        f"goal reached {100 * campaign.goal.mean:.2f}% of plain runs from them (95% at all times: "
        f"{100 * goal_low:.2f} to {100 * goal_high:.2f})",
        f"stopped      {campaign.stopped_by or campaign.limit} after {campaign.rounds:,} rounds",
    ]
