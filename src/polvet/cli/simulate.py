"""`polvet simulate TASK POLICY`: runs of a policy, counted by how they end, told step by step, or written to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from polvet.cli.options import Answering, OneState, Output, RunSteps, Subject, TimedCrowd, named_state
from polvet.cli.parameters import Option

if TYPE_CHECKING:
    from polvet.policy.compiled import Bound
    from polvet.policy.runs import Run

SHOWN_STEPS = 200


def simulate(
    subject: Subject,
    limits: TimedCrowd,
    answering: Answering,
    runs: Annotated[int, Option("--runs", help="How many runs.", min=1, max=10**8)] = 1000,
    state: OneState = None,
    show: Annotated[int | None, Option("--show", help="Tell the run of this number step by step.", min=0)] = None,
    max_steps: RunSteps = None,
    output: Output = None,
) -> int:
    """Simulate a policy. Example: `polvet simulate line.toml policy.onnx --runs 10000 -o runs.jsonl`."""
    from polvet.policy.runs import within_steps

    policy = subject.open()
    first = named_state(policy.task, state)
    with answering.watch("simulate", "simulating", limits, unit="runs", known_total=True) as within:
        simulation = policy.simulate(runs, state=first, max_steps=max_steps, **within)
    figures = simulation.figures
    lines = [
        f"runs         {runs:,}{within_steps(figures['max_steps'])} from starts drawn {figures['start_method']}; "
        f"mean length {figures['mean_length']:.1f}",
        *(f"  {name:10} {count:,} ({100 * count / runs:.2f}%)" for name, count in simulation.ends.items()),
        *subject.lines(policy),
    ]
    if show is not None:
        lines += [f"run {show}", *_run_lines(policy.bound, simulation.source.run(show))]
    if output is not None:
        lines.append(f"written      {output} ({simulation.source.write(output):,} runs)")
    return answering.say(simulation, lines)


def _run_lines(bound: Bound, run: Run) -> list[str]:
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
