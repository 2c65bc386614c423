"""`polvet simulate TASK POLICY`: runs of a policy, counted by how they end, told step by step, or written to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, Mode, Output, PolicyFile, Seed, TimeLimit, Workers
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    OutOfBounds,
    Start,
    TaskFile,
    only_state,
    task_options,
    threads_of,
)  # fmt: skip
from polvet.errors import InputError, Where

if TYPE_CHECKING:
    from polvet.model.semantics import State
    from polvet.model.task import Task
    from polvet.policy.binding import Fitted
    from polvet.policy.compiled import Bound
    from polvet.policy.runs import Run

MaxSteps = Annotated[int, typer.Option("--max-steps", help="Stop a run after so many steps.", min=1)]
SHOWN_STEPS = 200


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    task: TaskFile,
    policy: PolicyFile,
    runs: Annotated[int, typer.Option("--runs", help="How many runs.", min=1, max=10**8)] = 1000,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Start here: x=1,y=2 (default: drawn from start).")
    ] = None,
    show: Annotated[int | None, typer.Option("--show", help="Tell the run of this number step by step.", min=0)] = None,
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
    """Simulate a policy. Example: `polvet simulate line.toml policy.onnx --runs 10000 -o runs.jsonl`."""
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.policy.runs import End
    from polvet.policy.runs import simulate as run_all
    from polvet.sources import load_task

    spent = stopwatch()
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    fitted = load_fitted(loaded, policy)
    bound = compile_policy(fitted)
    budget = budget_of(time_limit)
    starts, method = _starts(fitted.task, only_state(state), runs, seed, budget)
    with watching("simulate", "simulating", log_json, unit="runs", known_total=True) as progress:
        simulated = time.process_time()
        batch = run_all(
            bound, bound.compiled.pack(starts), max_steps=max_steps, seed=seed, threads=threads_of(workers, runs),
            budget=budget.told(progress),
        )  # fmt: skip
        cpu = time.process_time() - simulated
    counts = {end.text: batch.count(end) for end in End}
    finished = runs - counts["unfinished"]
    mean = float(batch.lengths[batch.ends != End.UNFINISHED].mean()) if finished else 0.0
    figures: dict[str, Any] = {
        "runs": runs, "ends": {name: count for name, count in counts.items() if count},
        "goal_percent": 100 * counts["goal"] / max(1, finished), "fail_percent": 100 * counts["fail"] / max(1, finished),
        "steps": batch.steps, "mean_length": mean, "start_method": method, "policy": fitted.describe(),
        "steps_per_cpu_second": round(batch.steps / cpu) if cpu > 0 else None,
    }  # fmt: skip
    lines = [
        f"runs         {runs:,} from starts drawn {method}; mean length {mean:.1f}",
        *(f"  {name:10} {count:,} ({100 * count / runs:.2f}%)" for name, count in counts.items() if count),
        *policy_lines(fitted, policy),
    ]
    if show is not None:
        if show >= runs:
            raise InputError(f"there is no run {show}.", Where("--show"), f"Give a number below {runs}.")
        lines += [f"run {show}", *_told(bound, _trace(bound, starts, show, max_steps, seed))]
    if output is not None:
        from polvet.records.run_files import write_runs

        kept = (_trace(bound, starts, k, max_steps, seed) for k in range(runs) if batch.ends[k] != End.UNFINISHED)
        lines.append(f"written      {output} ({write_runs(fitted.task, kept, output):,} runs)")
    reason = None if batch.limit is None else said(batch.limit)
    if counts["fail"]:
        verdict, code = "unsafe", ExitCode.FOUND
    elif reason is not None:
        verdict, code = "unknown", ExitCode.UNKNOWN
    else:
        verdict, code = "simulated", ExitCode.DONE
    return Answer(verdict, code, spent(), figures, lines, reason, seed).show(as_json=json)


def policy_lines(fitted: Fitted, file: Path) -> list[str]:
    """Return what people should know about how the policy was read."""
    lines = [
        f"policy       {file} ({fitted.task.reading.mode}); inputs named by the {fitted.inputs_from}, "
        f"outputs by the {fitted.outputs_from}"
    ]
    if fitted.by_execution:
        from polvet.policy.functions import BY_EXECUTION

        lines.append(f"  {BY_EXECUTION}")
    if fitted.unscored:
        shown = ", ".join(fitted.unscored[:8]) + (", ..." if len(fitted.unscored) > 8 else "")
        lines.append(f"  it has no output for {shown}: it never chooses these")
    return lines


def _starts(task: Task, state: str | None, runs: int, seed: int, budget: Budget) -> tuple[list[State], str]:
    import random

    from polvet.kernel.starts import Starts
    from polvet.records.state_files import parse_state

    if state is not None:
        return [parse_state(task, state, Where("--state"))] * runs, "by you"
    starts = Starts.of(task, budget)
    return starts.sample(runs, random.Random(seed), budget=budget), f"uniformly ({starts.method})"


def _trace(bound: Bound, starts: list[State], run: int, max_steps: int, seed: int) -> Run:
    from polvet.policy.runs import trace

    return trace(bound, starts[run], run, max_steps=max_steps, seed=seed)


def _told(bound: Bound, run: Run) -> list[str]:
    """Return the run as text: the first state in full, then each action with the variables it changes."""
    from polvet.model.semantics import show_value

    variables = bound.task.network.variables
    lines = [f"  {bound.compiled.semantics.show(run.states[0])}"]
    for k, action in enumerate(run.actions[:SHOWN_STEPS]):
        before, after = run.states[k], run.states[k + 1]
        changed = ", ".join(
            f"{v.name}={show_value(v, new)}" for v, old, new in zip(variables, before, after, strict=True) if old != new
        )
        lines.append(f"  {k + 1:4} {action or '(silent)'}: {changed or 'no change'}")
    if len(run.actions) > SHOWN_STEPS:
        lines.append(f"  ... and {len(run.actions) - SHOWN_STEPS:,} more steps")
    return [*lines, f"  end: {run.end.text}"]
