"""`polvet evaluate TASK POLICY`: %Unsafe and %Goal over start states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from polvet.cli.options import Answering, Crowd, Output, RunSteps, Subject
from polvet.cli.parameters import Option

if TYPE_CHECKING:
    from polvet.debug.evaluate import Evaluation


def evaluate(
    subject: Subject,
    limits: Crowd,
    answering: Answering,
    starts: Annotated[int, Option("--starts", help="At most so many start states.", min=1)] = 1000,
    runs: Annotated[int, Option("--runs", help="Runs per start state for %Goal.", min=1)] = 100,
    exclude: Annotated[
        Path | None, Option("--exclude", help="JSON lines of states or runs whose first states are left out.")
    ] = None,
    max_steps: RunSteps = None,
    output: Output = None,
) -> int:
    """Evaluate a policy. Example: `polvet evaluate line.toml policy.onnx --starts 1000 -o unsafe-runs.jsonl`."""
    policy = subject.open()
    with answering.watch("evaluate", "evaluating", limits) as within:
        evaluation = policy.evaluate(starts, runs, exclude=exclude, max_steps=max_steps, **within)
    lines = [*_lines(evaluation.source), *subject.lines(policy)]
    if output is not None:
        evaluation.save(output)
        lines.append(f"written     {output} ({evaluation.figures['unsafe_by_search']:,} unsafe runs)")
    return answering.say(evaluation, lines)


def _lines(evaluation: Evaluation) -> list[str]:
    from polvet.policy.runs import within_steps

    low, high = evaluation.unsafe_interval
    count = len(evaluation.starts.states)
    of = "" if evaluation.starts.total is None else f" of {evaluation.starts.total:,}"
    how = "decided by exhaustive search"
    if evaluation.open or evaluation.sampled_unsafe:
        how = f"{evaluation.open + evaluation.sampled_unsafe:,} starts beyond the search, their runs sampled"
    exact = (
        "exactly"
        if evaluation.starts.complete and not evaluation.open
        else f"95% interval {100 * low:.2f} to {100 * high:.2f}"
    )
    search, steps = evaluation.inspection.figures, within_steps(evaluation.max_steps)
    return [
        f"%Unsafe     {100 * evaluation.unsafe:.2f}{' in any number of steps' * bool(steps)} ({exact}; {how})",
        f"%Goal       {100 * evaluation.goal:.2f}{steps} ({_goal_sureness(evaluation)})",
        f"starts      {count:,}{of}, {evaluation.starts.method}",
        f"runs        {', '.join(f'{amount:,} {name}' for name, amount in evaluation.ends.items())}",
        f"search      {search['states']:,} states, {search['transitions']:,} transitions, {search['near_ties']:,} near ties",
    ]


def _goal_sureness(evaluation: Evaluation) -> str:
    low, high = evaluation.goal_interval
    how = f"{evaluation.batch.runs_per_start:,} runs per start"
    if evaluation.certain:
        how = "every outcome is certain: one run per start"
    elif evaluation.solved:
        how = "the policy's Markov chain is solved"
    exact = evaluation.starts.complete and evaluation.goal_is_exact
    return f"exactly; {how}" if exact else f"95% interval {100 * low:.2f} to {100 * high:.2f}; {how}"
