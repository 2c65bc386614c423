"""`polvet gate TASK POLICY --max-faults 0 --min-goal 90`: may this policy be shipped? For continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of
from polvet.cli.options import Json, MemoryLimit, Mode, PolicyFile, Seed, TimeLimit, Workers
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    OutOfBounds,
    Start,
    TaskFile,
    task_options,
    threads_of,
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gate")(gate)


def gate(
    task: TaskFile,
    policy: PolicyFile,
    max_faults: Annotated[
        int | None, typer.Option("--max-faults", help="At most so many faults; 0 without any threshold.", min=0)
    ] = None,
    max_unsafe: Annotated[
        float | None, typer.Option("--max-unsafe", help="At most so many percent of the start states unsafe.")
    ] = None,
    min_goal: Annotated[
        float | None, typer.Option("--min-goal", help="At least so many percent of the runs reach the goal.")
    ] = None,
    before: Annotated[
        Path | None, typer.Option("--before", help="The policy it replaces: %Goal is compared with that one's.")
    ] = None,
    max_goal_loss: Annotated[
        float, typer.Option("--max-goal-loss", help="With --before: %Goal may fall by so many points.", min=0.0)
    ] = 1.0,
    proved: Annotated[bool, typer.Option("--proved", help="The policy must be proved safe.")] = False,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="Samples are enough where a decision is out of reach.")
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Write SARIF 2.1.0.")] = None,
    starts: Annotated[int, typer.Option("--starts", help="At most so many start states.", min=1)] = 1_000,
    runs: Annotated[int, typer.Option("--runs", help="Runs per start state for %Goal.", min=1)] = 100,
    max_steps: Annotated[int, typer.Option("--max-steps", help="The longest run.", min=1)] = 10_000,
    max_states: Annotated[int, typer.Option("--max-states", help="Of an exhaustive search.", min=1)] = 10_000_000,
    mode: Mode = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    workers: Workers = "all",
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Pass (0), fail (10; 11: only the goal is lost) or not know (20). Example: `polvet gate line.toml policy.json --min-goal 90`."""
    from polvet.acceptance.judge import Passing, Sampling, Thresholds, judge
    from polvet.acceptance.junit import dump_junit
    from polvet.acceptance.sarif import dump_sarif
    from polvet.confirm.outcome import told
    from polvet.files import write_whole
    from polvet.sources import load_task

    spent = stopwatch()
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    budget = budget_of(time_limit, memory_limit, max_states)
    thresholds = Thresholds(max_faults, max_unsafe, min_goal, proved, sampled, max_goal_loss)
    judged = judge(
        loaded, policy, thresholds,
        Sampling(starts, runs, max_steps, seed, threads_of(workers, starts), budget), before,
    )  # fmt: skip
    seconds = spent()
    lines = [f"{check.name:8} {check.passing.value:8} {check.says}" for check in judged.checks]
    if judged.runs is not None:
        lines.append(f"runs              {judged.runs.text()}")
    if junit is not None:
        write_whole(junit, dump_junit(judged, loaded, str(policy), seconds))
        lines.append(f"written  {junit} (JUnit)")
    if sarif is not None:
        write_whole(sarif, dump_sarif(judged, loaded, policy))
        lines.append(f"written  {sarif} (SARIF)")
    codes = {Passing.PASSED: ExitCode.DONE, Passing.FAILED: ExitCode.FOUND, Passing.UNKNOWN: ExitCode.UNKNOWN}
    unknown = [check.says for check in judged.checks if check.passing is Passing.UNKNOWN]
    reason = "; ".join(unknown) if judged.passing is Passing.UNKNOWN else None
    if thresholds.unstated and judged.runs is not None and judged.runs.useless is not None:
        reason = judged.runs.useless
    figures = {} if judged.runs is None else judged.runs.figures()
    figures |= {key: value for check in judged.checks for key, value in check.figures.items()}
    more = {
        "checks": [
            {"name": one.name, "passing": one.passing.value, "says": one.says, **told(one.checked)}
            for one in judged.checks
        ]
    }
    code = ExitCode.GOAL_LOST if judged.only_goal_lost else codes[judged.passing]
    answer = Answer(
        judged.passing.value, code, seconds, figures, lines, reason, seed, more=more, checked=judged.checked
    )
    return answer.show(as_json=json)
