"""`polvet terminates`: whether a generalized plan (a finite-memory policy) ends, from every valuation.

The engines are imported when the command runs, so that `polvet certify`, in the same program, never loads them.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, stopwatch
from polvet.choices import listed
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, raised, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Output, Seed, TimeLimit
from polvet.cli.progress import watching
from polvet.errors import InputError, LimitReached, Where
from polvet.files import read_text, write_whole
from polvet.policy.finite_memory import FiniteMemoryPolicy, dump_fmp, load_fmp, to_graphviz, to_mermaid
from polvet.policy.finite_memory.draw import edge_label
from polvet.policy.finite_memory.goal import parse_goal
from polvet.policy.finite_memory.its import parse_its
from polvet.policy.finite_memory.load import is_its
from polvet.policy.finite_memory.qnp import dead_ends, parse_qnp
from polvet.system import memory_limited
from polvet.termination.methods import METHODS

if TYPE_CHECKING:
    from polvet.confirm.outcome import Confirmation
    from polvet.termination.bound import Bound
    from polvet.termination.verdicts import TerminationResult
    from polvet.termination.why import Blocking

CODES = {"terminating": ExitCode.DONE, "nonterminating": ExitCode.FOUND, "unknown": ExitCode.UNKNOWN}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("terminates")(terminates)


def terminates(
    fmp: Annotated[Path, typer.Argument(help="A finite-memory policy: fmp/1 JSON, an edge list, or a .qnp problem.")],
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy of a .qnp problem.")] = None,
    method: Annotated[str, typer.Option("--method", help=f"{listed(METHODS.words)}.")] = "auto",
    forests: Annotated[int, typer.Option("--forests", min=1, help="Elimination forests that GenSieve tries.")] = 20,
    goal: Annotated[
        str | None, typer.Option("--goal", help="Must every execution end here? state == q2 && x == 0")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="List a smallest set of edges that blocks a proof.")] = False,
    bound: Annotated[bool, typer.Option("--bound", help="Say how the longest run grows with the values.")] = False,
    draw: Annotated[Path | None, typer.Option("--draw", help="Write a picture: .dot (Graphviz) or .mmd.")] = None,
    export: Annotated[Path | None, typer.Option("--export", help="Write the policy as fmp/1 JSON.")] = None,
    steps: Annotated[int, typer.Option("--budget", min=1, help="Steps of path search in GenSieve.")] = 1_000_000,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    workers: Annotated[str, typer.Option("--workers", help="Read for all commands; one process is enough here.")] = "1",
) -> int:
    """Decide whether every execution of a generalized plan ends; the verdict comes with a certificate.

    Example: `polvet terminates plan.json -o certificate.json`.
    """
    from polvet.termination.certificates import confirmed
    from polvet.termination.decide import terminates as decide
    from polvet.termination.its import its_terminates
    from polvet.termination.why import find_blocking_edges

    spent, budget = stopwatch(), budget_of(time_limit, memory_limit)
    text = read_text(fmp)
    if goal is not None and (policy is not None or is_its(text)):
        hint = "A .qnp problem's own goal already stops its policy; ask without --goal."
        raise InputError(
            "--goal is for finite-memory policies, not for .qnp problems or transition systems.", hint=hint
        )
    with memory_limited(memory_limit), watching("terminates", "looking for a proof", log_json) as meter:
        plan = load_fmp(fmp, policy=policy, budget=budget)
        if meter is not None:
            meter.tell(control_states=len(plan.control_states), edges=len(plan.edges))
        if is_its(text):
            result = its_terminates(parse_its(text, Where(str(fmp))), budget)
        else:
            result = decide(plan, method=method, seed=seed, forests=forests, most_steps=steps, budget=budget)
        verdict, code, proof, reason = _with_goal(plan, result, goal, budget)
        certificate, checked = confirmed(
            verdict, proof, fmp, policy, found=spent(), budget=budget, output=output
        )  # fmt: skip
    more: dict[str, Any] = {}
    lines: list[str] = []
    if policy is not None:
        stuck = dead_ends(parse_qnp(text, Where(str(fmp))), plan)
        more["solves"] = verdict == "terminating" and not stuck
        more["dead_ends"] = stuck
        lines.append(f"  dead ends outside the goal: {', '.join(stuck) or 'none'}")
    if why:
        try:
            blocking = find_blocking_edges(plan, budget)
            more["why"] = None if blocking is None else {"edges": list(blocking.edges), "smallest": blocking.smallest}
            lines += _why_lines(plan, blocking, result)
        except LimitReached as limit:
            lines.append(f"  edges that block a proof: not found, {said(limit)}")
    if bound:
        growth = _growth(plan, budget)
        more["longest_run"] = {"relation": growth.relation, "exponent": growth.exponent, "reason": growth.reason}
        lines.append(f"  longest run from values up to n: {growth}")
    if draw is not None:
        write_whole(draw, to_mermaid(plan) if draw.suffix == ".mmd" else to_graphviz(plan))
    if export is not None:
        write_whole(export, json_text.dumps(dump_fmp(plan), ensure_ascii=False, indent=1) + "\n")
    answer = _answer(
        plan, result, output, seed, spent(),
        verdict=verdict, code=code, certificate=certificate, reason=reason, more=more, more_lines=lines, checked=checked,
    )  # fmt: skip
    return answer.show(as_json=json)


def _growth(plan: FiniteMemoryPolicy, budget: Budget) -> Bound:
    from polvet.termination.bound import Bound, longest_run

    try:
        return longest_run(plan, budget=budget)
    except LimitReached as limit:
        return Bound("unknown", reason=said(limit))


def _why_lines(plan: FiniteMemoryPolicy, blocking: Blocking | None, result: TerminationResult) -> list[str]:
    if blocking is None:
        stopped = result.verdict.value == "unknown"
        return [
            f"  nothing blocks the complete test; {result.method} is weaker" if stopped else "  nothing blocks a proof"
        ]
    kind = "the smallest set" if blocking.smallest else "none of them can be left out"
    lines = [f"  edges that run for ever on their own ({kind}):"]
    for identity in blocking.edges:
        edge = plan.edge(identity)
        if edge is not None:
            lines.append(f"    {identity}: {edge.source} -> {edge.target}  {edge_label(edge)}")
    return lines


def _with_goal(
    plan: FiniteMemoryPolicy, result: TerminationResult, text: str | None, budget: Budget
) -> tuple[str, ExitCode, Mapping[str, Any] | None, str | None]:
    """Return verdict, exit code, certificate and reason; with a goal a terminating policy must also end in it."""
    from polvet.termination.goal import Missed, Undecided, check_goal
    from polvet.termination.verdicts import Nonterminating, Unknown

    certificate = None if isinstance(result, Unknown) else result.certificate
    reason = raised(result.reason, result.limit) if isinstance(result, Unknown) else None
    goal = None if text is None else parse_goal(text, plan)
    if goal is None or isinstance(result, Nonterminating):
        return result.verdict.value, CODES[result.verdict.value], certificate, reason
    try:
        found = check_goal(plan, goal, budget)
    except LimitReached as limit:
        return (
            "unknown",
            ExitCode.UNKNOWN,
            None,
            f"{result.verdict.value}; where it stops was not decided: {said(limit)}",
        )
    if isinstance(found, Missed):
        missed = {**found.certificate, "fmp": dump_fmp(plan)}
        return "goal-missed", ExitCode.FOUND, missed, "an execution stops outside the goal"
    if isinstance(found, Undecided):
        reason = f"{result.verdict.value}; whether it stops in '{found.state}' with {found.valuation} was not decided"
        return "unknown", ExitCode.UNKNOWN, None, reason
    if isinstance(result, Unknown) or certificate is None:
        return "unknown", ExitCode.UNKNOWN, None, f"it can only stop in the goal, but: {reason}"
    return (
        "goal-reaching",
        ExitCode.DONE,
        {**certificate, "kind": "goal-reaching", "goal": goal.text, "reach": found.tracked},
        None,
    )


def _answer(
    plan: FiniteMemoryPolicy,
    result: TerminationResult,
    output: Path | None,
    seed: int,
    seconds: float,
    *,
    verdict: str,
    code: ExitCode,
    certificate: Mapping[str, Any] | None,
    reason: str | None,
    more: Mapping[str, Any],
    more_lines: list[str],
    checked: Confirmation | None,
) -> Answer:
    shown: Any = certificate
    if output is not None and certificate is not None:
        write_whole(output, json_text.dumps(certificate, ensure_ascii=False) + "\n")
        shown = str(output)
    figures = dict(result.figures)
    trace = figures.pop("trace", [])
    rounds = figures.pop("trace_rounds", [])
    lines = [
        f"  {plan.name}: {', '.join(f'{key} {value}' for key, value in figures.items() if not isinstance(value, list))}"
    ]
    lines += [f"  {line}" for line in trace] + more_lines
    if output is not None and certificate is not None:
        lines.append(f"  certificate ({certificate['kind']}): {output}")
    return Answer(
        verdict,
        code,
        seconds,
        figures=figures,
        lines=lines,
        reason=reason,
        seed=seed,
        certificate=shown,
        more={"method": result.method, **({"trace": trace, "trace_rounds": rounds} if trace else {}), **more},
        checked=checked,
    )
