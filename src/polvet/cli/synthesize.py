"""`polvet synthesize`: a policy of a qualitative numeric planning problem that surely ends in the goal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from polvet.cli.options import Answering, MemoryLimit, Seed, Timed


@dataclass(frozen=True, kw_only=True)
class SearchLimits(Timed):
    """How long, how many megabytes, and the seed."""

    memory_limit: MemoryLimit = None
    seed: Seed = 0


def synthesize(
    problem: Annotated[Path, typer.Argument(metavar="PROBLEM", help="A qualitative numeric planning problem: .qnp.")],
    limits: SearchLimits,
    answering: Answering,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="A partial plan: rules to be followed wherever they are open.")
    ] = None,
    memory: Annotated[int, typer.Option("--memory", min=1, help="The most memory states a policy may have.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the policy here, as rules/1.")] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Write the certificate here.")] = None,
) -> int:
    """Search a policy of a qualitative problem that surely ends in the goal. Example: `polvet synthesize problem.qnp -o plan.json`.

    solved (0): the policy and a ranking of it, which the checker has accepted. impossible (10): there is none with so much memory.
    unknown (20): a limit was reached.
    """
    from polvet.front.synthesizing import Solved
    from polvet.front.synthesizing import synthesize as search

    with answering.watch("synthesize", "looking for a policy", limits) as within:
        result = search(problem, policy=policy, memory=memory, output=output, certificate=certificate, **within)
    lines = [f"  {problem}: {', '.join(f'{name} {value}' for name, value in result.figures.items())}"]
    if isinstance(result, Solved):
        for rule in result.policy["rules"]:
            before, after = (f"[{rule[key]}] " if key in rule else "" for key in ("memory", "next"))
            lines.append(f"  {before}{rule['when']} -> {after}{rule['action']}")
        lines += [] if result.policy_file is None else [f"  policy: {result.policy_file}"]
        lines += [] if result.written is None else [f"  certificate (solves): {result.written}"]
    return answering.say(result, lines)
