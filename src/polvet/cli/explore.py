"""`polvet explore TASK`: every reachable state, counted."""

from __future__ import annotations

from typing import Any

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Mode, Output, PolicyOption, TimeLimit
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    MaxStates,
    OutOfBounds,
    Start,
    TaskFile,
    task_options,
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explore")(explore)


def explore(
    task: TaskFile,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    policy: PolicyOption = None,
    mode: Mode = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Count reachable states; goal and fail states are left, too. Example: `polvet explore brp.jani --constants N=16,MAX=2`."""
    from polvet.kernel.compiled import Compiled, describe_limit
    from polvet.kernel.starts import Starts
    from polvet.policy.compiled import bind_policy
    from polvet.sources import load_task

    spent = stopwatch()
    loaded = load_task(task, task_options(constants, start, out_of_bounds=out_of_bounds, mode=mode, domain=domain))
    fitted = None
    if policy is not None:
        from polvet.policy.binding import load_fitted

        fitted = load_fitted(loaded, policy)
        loaded = fitted.task
    compiled = Compiled(loaded.network)
    with watching("explore", "exploring", log_json) as progress:
        budget = budget_of(time_limit, memory_limit, max_states, progress)
        initial = None
        if start is not None or (str(task).endswith(".toml") and loaded.start is not None):
            initial = compiled.pack_starts(Starts.of(loaded, budget), budget=budget)
        exploring = stopwatch()
        bound = None if fitted is None else bind_policy(fitted, compiled).core
        space = compiled.explore(initial, budget=budget, policy=bound)
    seconds = exploring()
    limit = describe_limit(space, budget)
    states = len(space)
    figures: dict[str, Any] = {
        "states": states, "transitions": space.transitions, "deadlocks": space.deadlocks, "choices": space.choices,
        "operators": space.moves, "initial": len(space.initial), "explore_seconds": round(seconds, 6),
        "bytes_per_state": round(space.bytes / max(1, states), 2), "words_per_state": compiled.program.words,
    }  # fmt: skip
    rate = states / seconds if seconds else 0.0
    lines = [
        f"states       {states:,} ({len(space.initial):,} initial)",
        f"choices      {space.choices:,} (state, label) pairs; {space.moves:,} operators",
        f"transitions  {space.transitions:,}",
        f"deadlocks    {space.deadlocks:,}",
        f"speed        {seconds:.3f} s, {rate:,.0f} states/s, {figures['bytes_per_state']} bytes per state",
    ]
    if fitted is not None:
        figures |= {"stuck": space.stuck, "near_ties": space.near_ties, "policy": fitted.describe()}
        lines += [
            f"policy       {policy} ({fitted.task.reading.mode}); inputs named by the {fitted.inputs_from}, "
            f"outputs by the {fitted.outputs_from}",
            f"stuck        {space.stuck:,}; near ties {space.near_ties:,}",
        ]
    if output is not None:
        _write_states(compiled, space, output)
        lines.append(f"written      {output}")
    verdict, code = ("explored", ExitCode.DONE) if limit is None else ("unknown", ExitCode.UNKNOWN)
    reason = None if limit is None else said(limit)
    return Answer(verdict, code, spent(), figures, lines, reason).show(as_json=json)


def _write_states(compiled: Any, space: Any, output: Any) -> None:
    """Write every state as one line of JSON."""
    from json import dumps

    from polvet.files import write_whole
    from polvet.model.task import state_to_names

    lines = []
    for begin in range(0, len(space), 65536):
        for state in compiled.unpack(space.states(begin, begin + 65536)):
            lines.append(dumps(state_to_names(compiled.network, state), ensure_ascii=False) + "\n")
    write_whole(output, "".join(lines))
