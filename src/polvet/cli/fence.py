"""`polvet fence TASK POLICY -o POLICY`: the policy with its exits forbidden, and the proof that it is safe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from polvet.cli.options import Answering, Output, Subject, TimedChance
from polvet.cli.parameters import Option
from polvet.errors import InputError, Where


def fence(
    subject: Subject,
    limits: TimedChance,
    answering: Answering,
    certificate: Annotated[
        Path | None, Option("--certificate", help="Write the proof: an `invariant`, or a `grid`.")
    ] = None,
    output: Output = None,
) -> int:
    """Forbid a policy what may leave the safe region. Example: `polvet fence line.toml policy.json -o fenced.json`."""
    if output is None:
        raise InputError("the fenced policy needs a file.", Where("-o"), "Add -o POLICY.")
    policy = subject.open()
    with answering.watch("fence", "looking for exits", limits) as within:
        result = policy.fence(certificate=certificate, output=output, **within)
    if result.policy is None:
        return answering.say(result)
    figures, names = result.figures, result.figures["variables"]
    units, trees = figures["units_added"], figures["trees_added"]
    lines = [
        f"won         {figures['won_cells']:,} combinations of {', '.join(names)}",
        f"forbidden   {figures['exits']:,} exits from them, by {f'{units:,} gated units' if units else f'{trees:,} trees'}",
        f"written     {output}",
    ]
    if result.written is not None:
        lines.append(f"certificate {certificate}")
    return answering.say(result, lines, changes={"policy": str(output)})
