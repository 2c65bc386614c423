"""`polvet faults TASK POLICY [--runs RUNS] -o FAULTS`: safe states where the policy's action may lead out of safety."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, stopwatch
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
    task_options,
    threads_of,
)  # fmt: skip
from polvet.errors import InputError, Where

if TYPE_CHECKING:
    from polvet.debug.faults import FaultAnalysis
    from polvet.model.task import Task
    from polvet.policy.compiled import Bound
    from polvet.safety.decide import Decider

MANY = 1_000_000
DEFAULT_STATES = 20_000_000
SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("faults")(faults)


def faults(
    task: TaskFile,
    policy: PolicyFile,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Look on these runs only (default: all states the policy reaches).")
    ] = None,
    explain: Annotated[int | None, typer.Option("--explain", help="Explain the fault of this number.", min=0)] = None,
    certificates: Annotated[
        Path | None,
        typer.Option("--certificates", help="A folder for safe.json (the faulty states) and unsafe.json (outcomes)."),
    ] = None,
    tries: Annotated[
        int, typer.Option("--budget", help="Runs to try where not all states can be searched.", min=1)
    ] = 100_000,
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
    workers: Workers = "1",
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Find the faults of a policy. Example: `polvet faults line.toml policy.json -o faults.json`."""
    from polvet.debug.everywhere import find_everywhere
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.records.fault_files import FaultList, fault_to_json, write_faults
    from polvet.safety.decide import Decider
    from polvet.sources import load_task

    spent = stopwatch()
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    fitted = load_fitted(loaded, policy)
    bound = compile_policy(fitted)
    threads = threads_of(workers, MANY)
    decider = Decider(fitted.task, threads=threads)
    with watching("faults", "analysing", log_json) as progress:
        budget = budget_of(time_limit, memory_limit, max_states or DEFAULT_STATES, progress)
        if runs is not None:
            found, how = _on_runs(bound, decider, runs, budget), f"on the runs of {runs}"
        else:
            found, how = find_everywhere(
                bound, decider, budget=budget, tries=tries, max_steps=max_steps, seed=seed, threads=threads
            )
    lines = _lines(bound, found, how)
    figures = {**found.figures, "how": how, "policy": fitted.describe()}
    lines += policy_lines(fitted, policy)
    more: dict[str, Any] = {"faults": None if output is None else str(output)}
    if explain is not None:
        from polvet.debug.explain import explain_fault

        if explain >= len(found.faults):
            raise InputError(f"there is no fault {explain}.", Where("--explain"), f"There are {len(found.faults)}.")
        told = explain_fault(bound, decider, found.faults[explain])
        lines += [f"fault {explain}", *told.lines()]
        more["explanation"] = told.to_json()
    if certificates is not None and found.faults:
        more["certificates"] = _prove(fitted.task, found, budget, certificates)
        lines += [f"written      {path}" for path in more["certificates"]]
    if output is not None:
        listed = FaultList(found.faults, fitted.task.sha256, fitted.sha256, found.exhaustive)
        write_faults(fitted.task, listed, output)
        lines.append(f"written      {output}")
    else:
        more["first_faults"] = [fault_to_json(fitted.task, fault) for fault in found.faults[:SHOWN]]
    verdict, code, reason = _verdict(found)
    return Answer(verdict, code, spent(), figures, lines, reason, seed, more=more).show(as_json=json)


def _on_runs(bound: Bound, decider: Decider, file: Path, budget: Budget) -> FaultAnalysis:
    from polvet.debug.faults import find_faults, refuse_foreign_runs
    from polvet.fuzz.packed import PackedRuns
    from polvet.records.run_files import iter_runs

    packed = PackedRuns.of(bound, iter_runs(bound.task, file))
    refuse_foreign_runs(bound, packed)
    return find_faults(bound, decider, packed, budget=budget)


def _prove(task: Task, found: FaultAnalysis, budget: Budget, folder: Path) -> list[str]:
    """Write why the faulty states are safe and why an outcome of each is not; `polvet certify` checks both."""
    import json

    from polvet.files import write_whole
    from polvet.safety.certificates import prove
    from polvet.safety.decide import Decider, Verdict

    prover = Decider(task)
    written = []
    for verdict, states in (
        (Verdict.SAFE, [fault.state for fault in found.faults]),
        (Verdict.UNSAFE, [fault.unsafe_outcomes[0] for fault in found.faults]),
    ):
        path = folder / f"{verdict.value}.json"
        folder.mkdir(parents=True, exist_ok=True)
        certificate = prove(prover, states, verdict, budget=budget)
        write_whole(path, json.dumps(certificate, ensure_ascii=False) + "\n")
        written.append(str(path))
    return written


def _lines(bound: Bound, found: FaultAnalysis, how: str) -> list[str]:
    show = bound.compiled.semantics.show
    lines = [
        f"faults       {len(found.faults):,} {how}" + ("; there are no others" if found.exhaustive else ""),
        f"states       {found.states:,} met, {found.safe_states:,} safe, {found.open:,} undecided",
    ]
    for number, fault in enumerate(found.faults[:SHOWN]):
        blame = f", first on {found.blame[number].first:,} runs" if found.blame else ""
        instead = " or ".join(fault.safe_actions[:4]) or "no single action"
        lines.append(f"  {number:4} {show(fault.state)}: {fault.action} (safe: {instead}{blame})")
    if len(found.faults) > SHOWN:
        lines.append(f"  ... and {len(found.faults) - SHOWN:,} more")
    if len(found.never_safe):
        lines.append(
            f"no fault     on {len(found.never_safe):,} runs: they never touch the safe region, their starts are unsafe"
        )
    if found.unsafe_starts:
        first = show(found.unsafe_starts[0])
        lines.append(f"unsafe start {len(found.unsafe_starts):,} starts from which no policy is safe, such as {first}")
    return lines


def _verdict(found: FaultAnalysis) -> tuple[str, ExitCode, str | None]:
    reason = None if found.limit is None else said(found.limit)
    if found.faults:
        return "faults", ExitCode.FOUND, reason
    if reason is not None:
        return "unknown", ExitCode.UNKNOWN, reason
    if found.near_ties:
        return "unknown", ExitCode.UNKNOWN, f"near-tie in {found.near_ties} states"
    return "no faults", ExitCode.DONE, None
