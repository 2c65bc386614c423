"""`polvet evaluate TASK POLICY`: %Unsafe and %Goal over start states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Mode, Output, PolicyFile, Seed, TimeLimit, Workers
from polvet.cli.progress import watching
from polvet.cli.simulate import MaxSteps, policy_lines
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    MaxStates,
    OutOfBounds,
    Start,
    TaskFile,
    crew_of,
    is_cluster,
    task_options,
    threads_of,
)  # fmt: skip

if TYPE_CHECKING:
    from polvet.debug.evaluate import Evaluation
    from polvet.model.task import Task

DEFAULT_STATES = 20_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    task: TaskFile,
    policy: PolicyFile,
    starts: Annotated[int, typer.Option("--starts", help="At most so many start states.", min=1)] = 1000,
    runs: Annotated[int, typer.Option("--runs", help="Runs per start state for %Goal.", min=1)] = 100,
    exclude: Annotated[
        Path | None, typer.Option("--exclude", help="JSON lines of states or runs whose first states are left out.")
    ] = None,
    max_steps: MaxSteps = 10_000,
    mode: Mode = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    workers: Workers = "all",
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Evaluate a policy. Example: `polvet evaluate line.toml policy.onnx --starts 1000 -o unsafe-runs.jsonl`."""
    from polvet.debug.evaluate import evaluate as evaluate_policy
    from polvet.debug.evaluate import evaluation_figures, evaluation_starts
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.sources import load_task

    spent = stopwatch()
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    fitted = load_fitted(loaded, policy)
    bound = compile_policy(fitted)
    budget = budget_of(time_limit, memory_limit, max_states or DEFAULT_STATES)
    sample = evaluation_starts(fitted.task, starts, seed, exclude=_excluded(fitted.task, exclude), budget=budget)
    threads = 1 if is_cluster(workers) else threads_of(workers, starts)
    crews = crew_of(workers, loaded, policy=policy)
    with crews as crew, watching("evaluate", "evaluating", log_json) as progress:
        found = evaluate_policy(
            bound, sample, runs=runs, max_steps=max_steps, seed=seed, threads=threads, crew=crew,
            budget=budget.told(progress),
        )  # fmt: skip
    figures = evaluation_figures(found) | {"policy": fitted.describe()}
    lines = [*_lines(found), *policy_lines(fitted, policy)]
    if output is not None:
        from polvet.records.run_files import write_runs

        count = write_runs(fitted.task, map(found.inspection.witness, found.unsafe_starts), output)
        lines.append(f"written     {output} ({count:,} unsafe runs)")
    verdict, code, reason = _verdict(found)
    return Answer(verdict, code, spent(), figures, lines, reason, seed).show(as_json=json)


def _excluded(task: Task, file: Path | None) -> set[Any]:
    if file is None:
        return set()
    from polvet.records.state_files import iter_first_states

    return set(iter_first_states(task, file))


def _lines(found: Evaluation) -> list[str]:
    low, high = found.unsafe_interval
    count = len(found.starts.states)
    of = "" if found.starts.total is None else f" of {found.starts.total:,}"
    how = "decided by exhaustive search"
    if found.open or found.sampled_unsafe:
        how = f"{found.open + found.sampled_unsafe:,} starts beyond the search, their runs sampled"
    exact = (
        "exactly" if found.starts.complete and not found.open else f"95% interval {100 * low:.2f} to {100 * high:.2f}"
    )
    search = found.inspection.figures
    return [
        f"%Unsafe     {100 * found.unsafe:.2f} ({exact}; {how})",
        f"%Goal       {100 * found.goal:.2f} ({_goal_sureness(found)})",
        f"starts      {count:,}{of}, {found.starts.method}",
        f"runs        {', '.join(f'{amount:,} {name}' for name, amount in found.ends.items())}",
        f"search      {search['states']:,} states, {search['transitions']:,} transitions, {search['near_ties']:,} near ties",
    ]


def _goal_sureness(found: Evaluation) -> str:
    low, high = found.goal_interval
    how = f"{found.batch.runs_per_start:,} runs per start"
    if found.certain:
        how = "every outcome is certain: one run per start"
    elif found.solved:
        how = "the policy's Markov chain is solved"
    exact = found.starts.complete and found.goal_is_exact
    return f"exactly; {how}" if exact else f"95% interval {100 * low:.2f} to {100 * high:.2f}; {how}"


def _verdict(found: Evaluation) -> tuple[str, ExitCode, str | None]:
    reason = None if found.limit is None else said(found.limit)
    if found.unsafe > 0:
        return "unsafe", ExitCode.FOUND, reason
    if found.near_tie_starts:
        start = found.near_tie_starts[0]
        _, tie = found.inspection.doubtful_witness(start)
        shown = "" if tie is None else found.inspection.bound.compiled.semantics.show(tie)
        return "unknown", ExitCode.UNKNOWN, f"near-tie in state {shown}"
    if found.open or reason is not None:
        return "unknown", ExitCode.UNKNOWN, reason
    return ("safe" if found.starts.complete else "evaluated"), ExitCode.DONE, None
