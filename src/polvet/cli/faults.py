"""`polvet faults TASK POLICY [--runs RUNS] -o FAULTS`: safe states where the policy's action may lead out of safety."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.cli.options import Answering, Crowd, MaxSteps, Output, Subject, Workers

if TYPE_CHECKING:
    from polvet.debug.faults import FaultAnalysis
    from polvet.policy.compiled import Bound

SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Alone(Crowd):
    """One thread, where nothing else is said."""

    workers: Workers = "1"


def faults(
    subject: Subject,
    limits: Alone,
    answering: Answering,
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
    output: Output = None,
) -> int:
    """Find the faults of a policy. Example: `polvet faults line.toml policy.json -o faults.json`."""
    from polvet.files import write_whole

    policy = subject.open()
    with answering.watch("faults", "analysing", limits) as within:
        found = policy.faults(runs=runs, budget=tries, max_steps=max_steps, **within)
    bound, _, analysis = found.source
    lines = [*_lines(bound, analysis, found.figures["how"]), *subject.lines(policy)]
    changes: dict[str, Any] = {}
    if explain is not None:
        told = found.explain(explain)
        lines += [f"fault {explain}", *told.lines()]
        changes["explanation"] = told.to_json()
    if certificates is not None and found.faults:
        changes["certificates"] = []
        for word, certificate in found.prove(within=within["within"]).items():
            path = certificates / f"{word}.json"
            write_whole(path, json.dumps(certificate, ensure_ascii=False) + "\n")
            changes["certificates"].append(str(path))
            lines.append(f"written      {path}")
    if output is not None:
        changes["faults"] = str(found.save(output))
        lines.append(f"written      {output}")
    return answering.say(found, lines, changes=changes, without=() if output is None else ("first_faults",))


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
