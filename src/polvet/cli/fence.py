"""`polvet fence TASK POLICY -o POLICY`: the policy with its exits forbidden, and the proof that it is safe."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of
from polvet.cli.options import Json, LogJson, Output, PolicyFile, Seed, TimeLimit
from polvet.cli.progress import watching
from polvet.cli.tasks import Constants, Fail, Goal, Start, TaskFile, task_options
from polvet.errors import InputError, Where

if TYPE_CHECKING:
    from polvet.policy.compiled import Bound
    from polvet.repair.repair import Repaired
    from polvet.safety.exits import Exits


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fence")(fence)


def fence(
    task: TaskFile,
    policy: PolicyFile,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Write the proof: an `invariant`.")] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="filtered or raw, in the place of what task.toml says.")
    ] = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Forbid a policy what may leave the safe region. Example: `polvet fence line.toml policy.json -o fenced.json`."""
    from polvet.files import write_whole
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.policy.save import save_policy
    from polvet.sources import load_task
    from polvet.verify.certificates import certificate_of
    from polvet.verify.portfolio import verify
    from polvet.verify.verdicts import Safe, Unknown

    spent = stopwatch()
    if output is None:
        raise InputError("the fenced policy needs a file.", Where("-o"), "Add -o POLICY.")
    loaded = load_task(task, task_options(constants, start, fail, goal, mode=mode))
    bound = compile_policy(load_fitted(loaded, policy))

    def answer(
        verdict: str, code: ExitCode, lines: list[str], figures: dict[str, Any], reason: str | None = None
    ) -> int:
        shown = None if certificate is None or verdict != "safe" else str(certificate)
        more = {"policy": str(output) if figures else None}
        return Answer(verdict, code, spent(), figures, lines, reason, seed, shown, more).show(as_json=json)

    with watching("fence", "looking for exits", log_json) as meter:
        budget = budget_of(time_limit, progress=meter)
        exits, made = _fenced(bound, budget)
        if not isinstance(made, str):
            save_policy(made.policy, output)
            fenced = compile_policy(load_fitted(loaded, output))
            if meter is not None:
                meter.tell("proving")
            found = verify(fenced, method="projection", budget=budget, seed=seed)
    if exits is None or isinstance(made, str):
        return answer("unknown", ExitCode.UNKNOWN, [], {}, str(made))
    names = [bound.task.network.variables[k].name for k in exits.variables]
    figures = {
        "exits": int(exits.labels.sum()), "won_cells": len(exits.cells), "variables": names, "trees_added": made.trees_added,
        "units_added": made.units_added,
    }  # fmt: skip
    means = f"{made.units_added:,} gated units" if made.units_added else f"{made.trees_added:,} trees"
    lines = [
        f"won         {len(exits.cells):,} combinations of {', '.join(names)}",
        f"forbidden   {figures['exits']:,} exits from them, by {means}",
        f"written     {output}",
    ]
    if not isinstance(found, Safe):
        reason = found.reason if isinstance(found, Unknown) else "the fenced policy is not safe"
        return answer("unknown", ExitCode.UNKNOWN, lines, figures, reason)
    if certificate is not None:
        document = certificate_of(fenced, found, budget)
        write_whole(certificate, json_format.dumps(document, ensure_ascii=False) + "\n")
        lines.append(f"certificate {certificate}")
    return answer("safe", ExitCode.DONE, lines, figures)


def _fenced(bound: Bound, budget: Budget) -> tuple[Exits | None, Repaired | str]:
    """Return the exits and the fenced policy, or why there is none."""
    from polvet.repair.fence import fence as add_fence
    from polvet.safety.exits import find_exits
    from polvet.symbolic.linear import NotLinear

    try:
        exits = find_exits(bound.fitted.task, budget=budget)
    except NotLinear as refusal:
        return None, refusal.why
    return exits, add_fence(bound.fitted, exits, [], bound.compiled)
