"""`polvet compare TASK OLD NEW`: where two policies differ, and which differences removed or added a fault."""

from __future__ import annotations

import json as json_format
import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Mode, Output, Seed, TimeLimit
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    MaxStates,
    OutOfBounds,
    Start,
    TaskFile,
    task_options,
)  # fmt: skip

if TYPE_CHECKING:
    from polvet.model.task import Task
    from polvet.repair.compare import Comparison, Difference

SHOWN = 5
DEFAULT_STATES = 5_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(
    task: TaskFile,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The policy before.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The policy after.")],
    starts: Annotated[
        int | None, typer.Option("--starts", help="So many random start states; without: all of them.", min=1)
    ] = None,
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
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Compare two policies. Example: `polvet compare line.toml policy.json repaired.json -o differences.jsonl`."""
    from polvet.kernel.starts import Starts
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.repair.compare import compare as compare_policies
    from polvet.sources import load_task

    spent = stopwatch()
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    before, after = load_fitted(loaded, old), load_fitted(loaded, new)
    bound = compile_policy(before)
    budget = budget_of(time_limit, memory_limit, max_states or DEFAULT_STATES)
    drawn = None
    if starts is not None:
        sample = Starts.of(before.task, budget).sample(starts, random.Random(seed), budget=budget)
        drawn = list(dict.fromkeys(sample))
    with watching("compare", "comparing", log_json) as progress:
        found = compare_policies(
            before, after, starts=drawn, compiled=bound.compiled,
            budget=budget.told(progress),
        )  # fmt: skip
    lines = _lines(before.task, found)
    if output is not None:
        from polvet.files import write_whole

        rows = [json_format.dumps(_to_json(before.task, item), ensure_ascii=False) + "\n" for item in found.differences]
        write_whole(output, "".join(rows))
        lines.append(f"written     {output} ({len(rows):,} differences)")
    verdict, code = _verdict(found)
    reason = None if found.limit is None else said(found.limit)
    return Answer(verdict, code, spent(), _figures(found), lines, reason, seed).show(as_json=json)


def _figures(found: Comparison) -> dict[str, Any]:
    from polvet.repair.compare import Effect

    effects = {effect.value.replace(" ", "_"): found.count(effect) for effect in Effect}
    return {
        "states": found.states, "reached_by_old": found.reached_by_old, "reached_by_new": found.reached_by_new,
        "differences": len(found.differences), "faults_removed": effects["fault_removed"],
        "faults_added": effects["fault_added"], "effects": effects,
    }  # fmt: skip


def _lines(task: Task, found: Comparison) -> list[str]:
    from polvet.model.semantics import Semantics
    from polvet.repair.compare import Effect

    lines = [
        f"states      {found.states:,} ({found.reached_by_old:,} reached by the old policy, {found.reached_by_new:,} by the new)",
        f"differences {len(found.differences):,}",
        *(f"  {effect.value:14} {found.count(effect):,}" for effect in Effect if found.count(effect)),
    ]
    show = Semantics(task.network).show
    for effect in (Effect.ADDED, Effect.REMOVED):
        some = [item for item in found.differences if item.effect is effect][:SHOWN]
        lines += [f"{effect.value}: {item.old} -> {item.new} in {show(item.state)}" for item in some]
    return lines


def _to_json(task: Task, item: Difference) -> dict[str, Any]:
    from polvet.records.state_json import state_to_json

    return {
        "state": state_to_json(task, item.state), "old": item.old, "new": item.new,
        "reached_by_old": item.reached_by_old, "reached_by_new": item.reached_by_new, "effect": item.effect.value,
    }  # fmt: skip


def _verdict(found: Comparison) -> tuple[str, ExitCode]:
    from polvet.repair.compare import Effect

    if found.count(Effect.ADDED):
        return "faults added", ExitCode.FOUND
    if found.limit is not None:
        return "unknown", ExitCode.UNKNOWN
    return ("different" if found.differences else "equal"), ExitCode.DONE
