"""`polvet synthesize`: a policy that surely ends in the goal, of a qualitative numeric planning problem, or of rules or edges."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from polvet.cli.options import Answering, PlanLimits
from polvet.cli.parameters import Argument, Option


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What must stay, and where a choice of rules or edges shall end."""

    policy: Annotated[
        Path | None, Option("--policy", help="A partial plan: rules to be followed wherever they are open.")
    ] = None
    goal: Annotated[
        str | None, Option("--goal", help="Choose rules or edges whose executions all end here: n = 0, !holding.")
    ] = None
    start: Annotated[str | None, Option("--start", help="With --goal: only executions from here count.")] = None


def synthesize(
    problem: Annotated[
        Path, Argument(metavar="PROBLEM", help="A .qnp problem; with --goal a sketch or a plan to choose from.")
    ],
    limits: PlanLimits,
    answering: Answering,
    wish: Wish,
    output: Annotated[Path | None, Option("--output", "-o", help="Write the policy here, as rules/1.")] = None,
    certificate: Annotated[Path | None, Option("--certificate", help="Write the certificate here.")] = None,
) -> int:
    """Search a policy of a qualitative problem that surely ends in the goal. Example: `polvet synthesize problem.qnp -o plan.json`.

    With --goal, choose rules of a sketch, or edges of a plan, that do: `polvet synthesize rules.txt --goal "n = 0" -o sketch.txt`.

    solved (0): the policy and a ranking of it, which the checker has accepted. impossible (10): there is none, with memory or without.
    unknown (20): a limit was reached.
    """
    from polvet.front.synthesizing import Solved
    from polvet.front.synthesizing import synthesize as search

    with answering.watch("synthesize", "looking for a policy", limits) as within:
        result = search(problem, output=output, certificate=certificate, **asdict(wish), **within)
    lines = [f"  {problem}: {', '.join(f'{name} {value}' for name, value in result.figures.items())}"]
    if isinstance(result, Solved):
        for rule in result.policy.get("rules", []):
            if isinstance(rule, str):
                lines.append(f"  {rule}")
                continue
            lines.append(f"  {rule['when']} -> {rule['action']}")
        lines += [f"  {edge['id']}: {edge['from']} -> {edge['to']}" for edge in result.policy.get("edges", [])]
        lines += [] if result.policy_file is None else [f"  policy: {result.policy_file}"]
        kind = (result.certificate or {}).get("kind")
        lines += [] if result.written is None else [f"  certificate ({kind}): {result.written}"]
    return answering.say(result, lines)
