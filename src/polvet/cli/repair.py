"""`polvet repair TASK POLICY --faults FAULTS -o POLICY`: the policy changed where it is at fault, and as little else as can be."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polvet.budget import Budget, stopwatch
from polvet.choices import explained, listed, one_of
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, Output, PolicyFile, Seed, TimeLimit
from polvet.cli.printable import say
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    OutOfBounds,
    Start,
    TaskFile,
    task_options,
)  # fmt: skip
from polvet.errors import InputError, LimitReached, Where
from polvet.repair.methods import METHODS, MODES, SOLVERS

if TYPE_CHECKING:
    from polvet.model.semantics import State
    from polvet.model.task import Task
    from polvet.policy.binding import Fitted
    from polvet.policy.compiled import Bound
    from polvet.records.fault_files import FaultList
    from polvet.repair.library import Agreement
    from polvet.repair.repair import Repaired


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("repair")(repair)


def repair(
    task: TaskFile,
    policy: PolicyFile,
    faults: Annotated[Path, typer.Option("--faults", help="The faults to fix, as `polvet faults` writes them.")],
    method: Annotated[
        str,
        typer.Option("--method", help=f"{listed(METHODS.words)}; each is for trees, networks, or tables and rules."),
    ] = "auto",
    mode: Annotated[str, typer.Option("--mode", help=explained(MODES))] = "safe",
    keep: Annotated[
        Path | None,
        typer.Option("--keep", help="Runs (those that reach the goal count) or states whose actions should stay."),
    ] = None,
    keep_runs: Annotated[
        int, typer.Option("--keep-runs", help="Without --keep: simulate so many runs for it.", min=0)
    ] = 200,
    max_goal_loss: Annotated[
        float,
        typer.Option("--max-goal-loss", help="Percent of the kept states whose action may change.", min=0, max=100),
    ] = 1.0,
    solver: Annotated[
        str, typer.Option("--solver", help=f"Who solves the big-M program: {listed(SOLVERS)} (extra `scip`).")
    ] = "highs",
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Write a `repair` certificate.")] = None,
    reading: Annotated[
        str | None, typer.Option("--reading", help="filtered or raw, in the place of what task.toml says.")
    ] = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Repair a policy. Example: `polvet repair line.toml policy.json --faults faults.json -o repaired.json`."""
    from polvet.model.task import MODES as READINGS
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.records.fault_files import read_faults
    from polvet.repair.confirmed import confirm_repair
    from polvet.repair.library import repair_checked, repair_figures
    from polvet.repair.repair import Options
    from polvet.sources import load_task

    spent = stopwatch()
    budget = budget_of(time_limit)
    if certificate is not None and output is None:
        raise InputError("a certificate speaks about a policy's file.", Where("--certificate"), "Add -o POLICY.")
    if reading is not None:
        one_of(reading, READINGS, "--reading")
    options = task_options(constants, start, fail, goal, out_of_bounds, reading, domain=domain)
    fitted = load_fitted(load_task(task, options), policy)
    listed = read_faults(fitted.task, faults)
    _warn(fitted, listed, faults)
    bound = compile_policy(fitted)
    how = Options(method, mode, max_goal_loss=max_goal_loss / 100, seed=seed, solver=solver)
    with watching("repair", "keeping what reaches the goal", log_json) as meter:
        kept = _kept(bound, keep, keep_runs, seed, budget)
        if meter is not None:
            meter.tell("repairing", faults=len(listed.faults), kept_states=len(kept))
        made, agreement = repair_checked(
            fitted, listed.faults, replace(how, keep=kept), budget=budget, compiled=bound.compiled
        )
        if meter is not None:
            meter.tell(fixed=len(made.fixed), left=len(made.left), objective=made.objective)
    lines = _lines(made, agreement)
    if output is not None:
        from polvet.policy.save import save_policy

        save_policy(made.policy, output)
        lines.append(f"written     {output}")
    document, checked = confirm_repair(fitted, made, output, found=spent(), budget=budget, output=certificate or output)
    if certificate is not None:
        from polvet.files import write_whole

        write_whole(certificate, json_format.dumps(document, ensure_ascii=False) + "\n")
        lines.append(f"certificate {certificate}")
    verdict, code = ("faults remain", ExitCode.FOUND) if made.left else ("repaired", ExitCode.DONE)
    reason = None if made.limit is None else said(made.limit)
    shown = None if certificate is None else str(certificate)
    more = {"policy": None if output is None else str(output)}
    return Answer(
        verdict, code, spent(), repair_figures(made, agreement), lines, reason, seed, shown, more, checked
    ).show(as_json=json)  # fmt: skip


def _warn(fitted: Fitted, listed: FaultList, file: Path) -> None:
    """Say on stderr that the faults are another task's or another policy's: they may be meant all the same."""
    for mine, theirs, what in (
        (fitted.task.sha256, listed.task_sha256, "task"),
        (fitted.sha256, listed.policy_sha256, "policy"),
    ):
        if theirs is not None and mine is not None and mine != theirs:
            say(f"polvet: {file}: the faults were found in another {what}.", sys.stderr)


def _kept(bound: Bound, keep: Path | None, runs: int, seed: int, budget: Budget) -> list[State]:
    from polvet.repair.keep import goal_states

    if keep is not None:
        return list(_states_of(bound.task, keep))
    try:
        return goal_states(bound, runs, seed=seed, budget=budget) if runs else []
    except LimitReached as limit:  # a repair without them is one, too
        say(f"polvet: no runs are kept: {said(limit)}.", sys.stderr)
        return []


def _states_of(task: Task, file: Path) -> list[State]:
    from polvet.files import read_text
    from polvet.policy.runs import End
    from polvet.records.run_files import iter_runs
    from polvet.records.state_files import iter_states

    first = next((line for line in read_text(file).splitlines() if line.strip()), "")
    if '"states"' in first and '"end"' in first:
        return [state for run in iter_runs(task, file) if run.end is End.GOAL for state in run.states[:-1]]
    return list(iter_states(task, file))


def _lines(made: Repaired, agreement: Agreement) -> list[str]:
    faults = f"faults      {len(made.fixed):,} fixed, {len(made.left):,} left"
    gap = (
        ""
        if made.gap is None
        else f"; no repair of these numbers is below {made.bound:.6g} (gap {100 * made.gap:.2f}%)"
    )
    lines = [faults, f"change      {made.objective:.6g} in all ({made.method}, mode {made.mode}){gap}"]
    lines += [f"  left: {reason}" for reason in sorted({left.reason for left in made.left})]
    if made.trees_added or made.units_added:
        lines.append(f"added       {made.trees_added:,} trees, {made.units_added:,} units")
    kept = made.retention
    lines.append(f"kept        {kept.states - kept.changed:,} of {kept.states:,} states of runs that reached the goal")
    if agreement.library is not None:
        lines.append(f"library     {agreement.library} confirms {agreement.confirmed:,} fixed faults")
    return lines
