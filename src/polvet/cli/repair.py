"""`polvet repair TASK POLICY --faults FAULTS -o POLICY`: the policy changed where it is at fault, and as little else as can be."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from polvet.choices import explained, listed
from polvet.cli.limits import limit_sentence
from polvet.cli.options import Answering, Output, Subject, TimedChance
from polvet.cli.parameters import Option
from polvet.cli.printable import say
from polvet.repair.methods import METHODS, MODES, SOLVERS

if TYPE_CHECKING:
    from polvet.front.policy import Policy
    from polvet.records.fault_files import FaultList
    from polvet.repair.library import Agreement
    from polvet.repair.repair import Repaired

RepairMode = Annotated[str, Option("--repair-mode", help=explained(MODES))]


@dataclass(frozen=True, kw_only=True)
class Patient(Subject):
    """The policy to be repaired; `--reading` is another name of `--mode` here."""

    mode: Annotated[
        str | None, Option("--mode", "--reading", help="filtered or raw, in the place of what task.toml says.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """How the policy is changed, and what of it should stay."""

    method: Annotated[
        str,
        Option("--method", help=f"{listed(METHODS.words)}; each is for trees, networks, or tables and rules."),
    ] = "auto"
    repair_mode: RepairMode = "safe"
    keep: Annotated[
        Path | None,
        Option("--keep", help="Runs (those that reach the goal count) or states whose actions should stay."),
    ] = None
    keep_runs: Annotated[int, Option("--keep-runs", help="Without --keep: simulate so many runs for it.", min=0)] = 200
    max_goal_loss: Annotated[
        float,
        Option("--max-goal-loss", help="Percent of the kept states whose action may change.", min=0, max=100),
    ] = 1.0
    solver: Annotated[
        str, Option("--solver", help=f"Who solves the big-M program: {listed(SOLVERS)} (extra `scip`).")
    ] = "highs"


def repair(
    subject: Patient,
    limits: TimedChance,
    answering: Answering,
    faults: Annotated[Path, Option("--faults", help="The faults to fix, as `polvet faults` writes them.")],
    way: Way,
    certificate: Annotated[Path | None, Option("--certificate", help="Write a `repair` certificate.")] = None,
    output: Output = None,
) -> int:
    """Repair a policy. Example: `polvet repair line.toml policy.json --faults faults.json -o repaired.json`."""
    if subject.mode in MODES:  # values of --repair-mode, which are none of --mode's own
        subject, way = replace(subject, mode=None), replace(way, repair_mode=str(subject.mode))
    policy = subject.open()
    _warn(policy, policy.listed(faults), faults)
    with answering.watch("repair", "keeping what reaches the goal", limits) as within:
        better = policy.repair(faults, **asdict(way), certificate=certificate, output=output, **within)
    result = better.repaired
    assert result is not None
    repaired, agreement, _ = result.source
    if result.not_kept is not None:
        say(f"polvet: no runs are kept: {limit_sentence(result.not_kept)}.", sys.stderr)
    lines = _lines(repaired, agreement)
    if output is not None:
        lines.append(f"written     {output}")
    if certificate is not None:
        lines.append(f"certificate {certificate}")
    return answering.say(result, lines, changes={} if output is None else {"policy": str(output)})


def _warn(policy: Policy, listed: FaultList, file: Path) -> None:
    """Say on stderr that the faults are another task's or another policy's: they may be meant all the same."""
    for mine, theirs, what in (
        (policy.task.digest, listed.task_sha256, "task"),
        (policy.digest, listed.policy_sha256, "policy"),
    ):
        if theirs is not None and mine is not None and mine != theirs:
            say(f"polvet: {file}: the faults were found in another {what}.", sys.stderr)


def _lines(repaired: Repaired, agreement: Agreement) -> list[str]:
    faults = f"faults      {len(repaired.fixed):,} fixed, {len(repaired.left):,} left"
    gap = (
        ""
        if repaired.gap is None
        else f"; no repair of these numbers is below {repaired.bound:.6g} (gap {100 * repaired.gap:.2f}%)"
    )
    lines = [faults, f"change      {repaired.objective:.6g} in all ({repaired.method}, mode {repaired.mode}){gap}"]
    lines += [f"  left: {reason}" for reason in sorted({left.reason for left in repaired.left})]
    if repaired.trees_added or repaired.units_added:
        lines.append(f"added       {repaired.trees_added:,} trees, {repaired.units_added:,} units")
    kept = repaired.retention
    lines.append(f"kept        {kept.states - kept.changed:,} of {kept.states:,} states of runs that reached the goal")
    if agreement.library is not None:
        lines.append(f"library     {agreement.library} confirms {agreement.confirmed:,} fixed faults")
    return lines
