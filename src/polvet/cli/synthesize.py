"""`polvet synthesize`: a policy that surely ends in the goal, of a qualitative numeric planning problem, or of rules or edges."""

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
    problem: Annotated[
        Path, typer.Argument(metavar="PROBLEM", help="A .qnp problem; with --goal a sketch or a plan to choose from.")
    ],
    limits: SearchLimits,
    answering: Answering,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="A partial plan: rules to be followed wherever they are open.")
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", help="Choose rules or edges whose executions all end here: n = 0, !holding.")
    ] = None,
    start: Annotated[str | None, typer.Option("--start", help="With --goal: only executions from here count.")] = None,
    memory: Annotated[int, typer.Option("--memory", min=1, help="The most memory states a policy may have.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the policy here, as rules/1.")] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Write the certificate here.")] = None,
) -> int:
    """Search a policy of a qualitative problem that surely ends in the goal. Example: `polvet synthesize problem.qnp -o plan.json`.

    With --goal, choose rules of a sketch, or edges of a plan, that do: `polvet synthesize rules.txt --goal "n = 0" -o sketch.txt`.

    solved (0): the policy and a ranking of it, which the checker has accepted. impossible (10): there is none with so much memory.
    unknown (20): a limit was reached.
    """
    from polvet.front.synthesizing import Solved
    from polvet.front.synthesizing import synthesize as search

    with answering.watch("synthesize", "looking for a policy", limits) as within:
        found = search(
            problem,
            policy=policy,
            goal=goal,
            start=start,
            memory=memory,
            output=output,
            certificate=certificate,
            **within,
        )
    lines = [f"  {problem}: {', '.join(f'{name} {value}' for name, value in found.figures.items())}"]
    if isinstance(found, Solved):
        for rule in found.policy.get("rules", []):
            if isinstance(rule, str):
                lines.append(f"  {rule}")
                continue
            before, after = (f"[{rule[key]}] " if key in rule else "" for key in ("memory", "next"))
            lines.append(f"  {before}{rule['when']} -> {after}{rule['action']}")
        lines += [f"  {edge['id']}: {edge['from']} -> {edge['to']}" for edge in found.policy.get("edges", [])]
        lines += [] if found.policy_file is None else [f"  policy: {found.policy_file}"]
        kind = (found.certificate or {}).get("kind")
        lines += [] if found.written is None else [f"  certificate ({kind}): {found.written}"]
    return answering.say(found, lines)
