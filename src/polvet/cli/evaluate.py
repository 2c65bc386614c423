"""`polvet evaluate TASK POLICY`: %Unsafe and %Goal over start states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polvet.cli.options import Answering, Crowd, MaxSteps, Output, Subject

if TYPE_CHECKING:
    from polvet.debug.evaluate import Evaluation


def evaluate(
    subject: Subject,
    limits: Crowd,
    answering: Answering,
    starts: Annotated[int, typer.Option("--starts", help="At most so many start states.", min=1)] = 1000,
    runs: Annotated[int, typer.Option("--runs", help="Runs per start state for %Goal.", min=1)] = 100,
    exclude: Annotated[
        Path | None, typer.Option("--exclude", help="JSON lines of states or runs whose first states are left out.")
    ] = None,
    max_steps: MaxSteps = 10_000,
    output: Output = None,
) -> int:
    """Evaluate a policy. Example: `polvet evaluate line.toml policy.onnx --starts 1000 -o unsafe-runs.jsonl`."""
    policy = subject.open()
    with answering.watch("evaluate", "evaluating", limits) as within:
        found = policy.evaluate(starts, runs, exclude=exclude, max_steps=max_steps, **within)
    lines = [*_lines(found.source), *subject.lines(policy)]
    if output is not None:
        found.save(output)
        lines.append(f"written     {output} ({found.figures['unsafe_by_search']:,} unsafe runs)")
    return answering.say(found, lines)


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
