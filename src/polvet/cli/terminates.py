"""`polvet terminates`: whether a generalized plan (a finite-memory policy) ends, from every valuation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polvet.choices import listed
from polvet.cli.options import Answering, Output, PlanLimits
from polvet.cli.parameters import Argument, Option
from polvet.termination.methods import METHODS

if TYPE_CHECKING:
    from polvet.policy.finite_memory import FiniteMemoryPolicy


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What else is asked about the plan."""

    goal: Annotated[str | None, Option("--goal", help="Must every execution end here? state == q2 && x == 0")] = None
    start: Annotated[str | None, Option("--start", help="Only executions from here: state == q0 && x <= 9")] = None
    halting: Annotated[bool, Option("--halting", help="List where executions can stop.")] = False
    why: Annotated[bool, Option("--why", help="List a smallest set of edges that blocks a proof.")] = False
    bound: Annotated[bool, Option("--bound", help="Say how the longest run grows with the values.")] = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a proof is looked for."""

    policy: Annotated[Path | None, Option("--policy", help="The policy of a .qnp problem.")] = None
    method: Annotated[str, Option("--method", help=f"{listed(METHODS.words)}.")] = "auto"
    forests: Annotated[int, Option("--forests", min=1, help="Elimination forests that GenSieve tries.")] = 20
    forest: Annotated[
        Path | None, Option("--forest", help="An elimination forest for GenSieve (forest/1), instead of its own.")
    ] = None
    budget: Annotated[int, Option("--budget", min=1, help="Steps of path search in GenSieve.")] = 1_000_000


@dataclass(frozen=True, kw_only=True)
class PlanFiles:
    """Where the plan is drawn, and written."""

    draw: Annotated[Path | None, Option("--draw", help="Write a picture: .svg, .dot (Graphviz), .mmd (Mermaid).")] = (
        None
    )
    export: Annotated[Path | None, Option("--export", help="Write the policy as fmp/1 JSON.")] = None


def terminates(
    fmp: Annotated[
        Path, Argument(help="A plan: fmp/1 JSON, an edge list, a sketch, a .qnp problem, or a transition system.")
    ],
    limits: PlanLimits,
    answering: Answering,
    questions: Questions,
    search: Search,
    files: PlanFiles,
    output: Output = None,
    workers: Annotated[str, Option("--workers", help="Read for all commands; one process is enough here.")] = "1",
) -> int:
    """Decide whether every execution of a generalized plan ends: also of a sketch, a .qnp policy, an integer transition system.

    Example: `polvet terminates plan.json -o certificate.json`. terminating (0) comes with a ranking, nonterminating (10) with a run that
    never ends; both are checked. unknown (20) names the limit, or what was tried.
    """
    from polvet.files import write_whole
    from polvet.front.plans import terminates as decide
    from polvet.policy.finite_memory import dump_fmp, load_fmp

    with answering.watch("terminates", "looking for a proof", limits) as within:
        result = decide(fmp, output=output, **asdict(search), **asdict(questions), **within)
    if result.source is None:  # the limit came while the plan was read
        return answering.say(result)
    plan, _ = result.source
    if files.draw is not None:
        write_whole(files.draw, _picture(plan, files.draw, result))
    if files.export is not None:
        whole = load_fmp(fmp, policy=search.policy)  # a sketch is shown over some of its features, and written over all
        write_whole(files.export, json.dumps(dump_fmp(whole), ensure_ascii=False, indent=1) + "\n")
    counts = (f"{key} {value}" for key, value in result.figures.items() if not isinstance(value, list))
    lines = [f"  {plan.name}: {', '.join(counts)}", *(f"  {line}" for line in result.more.get("trace", []))]
    lines += _further(plan, result.more, result.word, result.method)
    if output is not None and result.certificate is not None:
        lines.append(f"  certificate ({result.certificate['kind']}): {output}")
    return answering.say(result, lines)


def _picture(plan: FiniteMemoryPolicy, file: Path, result: Any) -> str:
    """Return the plan as the file's ending says; as SVG with the lasso, or the rounds of the proof."""
    from polvet.errors import InputError, Where
    from polvet.policy.finite_memory import to_graphviz, to_mermaid

    kinds = {".dot": to_graphviz, ".gv": to_graphviz, ".mmd": to_mermaid}
    if file.suffix in kinds:
        return kinds[file.suffix](plan)
    if file.suffix != ".svg":
        raise InputError(f"'{file}' has no known ending.", Where("draw"), "Write .svg, .dot or .mmd.")
    from polvet.report.rounds import MAX_EDGES, MAX_NODES, can_draw, plan_svg
    from polvet.report.termination import marks_of, rounds_of

    if not can_draw(plan):
        most = f"at most {MAX_NODES} control states and {MAX_EDGES} edges are drawn."
        raise InputError(most, Where("draw"), "Write .dot, and lay it out with Graphviz.")
    certificate = dict(result.certificate or {})
    if result.more.get("trace_rounds"):
        certificate["rounds"] = result.more["trace_rounds"]
    return plan_svg(plan, marks_of(plan, certificate), rounds_of(plan, certificate))


def _further(plan: FiniteMemoryPolicy, more: Any, word: str, method: str) -> list[str]:
    from polvet.termination.bound import LongestRun

    lines = []
    if "dead_ends" in more:
        lines.append(f"  dead ends outside the goal: {', '.join(more['dead_ends']) or 'none'}")
    if "halting_reason" in more:
        lines.append(f"  where executions can stop: not found, {more['halting_reason']}")
    elif "halting" in more:
        lines += ["  where executions can stop:", *(f"    {case}" for case in more["halting"] or ["nowhere"])]
    if "why" in more:
        lines += _why_lines(plan, more["why"], stopped=word == "unknown", method=method)
    if "longest_run" in more:
        lines.append(f"  longest run from values up to n: {LongestRun(**more['longest_run'])}")
    return lines


def _why_lines(plan: FiniteMemoryPolicy, blocking: Any, *, stopped: bool, method: str) -> list[str]:
    from polvet.policy.finite_memory.draw import edge_label

    if blocking is None:
        return [f"  nothing blocks the complete test; {method} is weaker" if stopped else "  nothing blocks a proof"]
    if blocking["edges"] is None:
        return [f"  edges that block a proof: not found, {blocking['reason']}"]
    kind = "the smallest set" if blocking["smallest"] else "none of them can be left out"
    lines = [f"  edges that run for ever on their own ({kind}):"]
    for identity in blocking["edges"]:
        edge = plan.edge(identity)
        if edge is not None:
            lines.append(f"    {identity}: {edge.source} -> {edge.target}  {edge_label(edge)}")
    return lines
