"""`polvet terminates`: whether a generalized plan (a finite-memory policy) ends, from every valuation."""

from __future__ import annotations

import json as json_text
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from polvet.cli.answer import Answer, ExitCode
from polvet.cli.options import Json, Output, Seed, TimeLimit
from polvet.files import sha256, write_whole
from polvet.policy.finite_memory import FiniteMemoryPolicy, load_fmp
from polvet.termination.decide import terminates as decide
from polvet.termination.verdicts import TerminationResult, Verdict

CODES = {
    Verdict.TERMINATING: ExitCode.DONE,
    Verdict.NONTERMINATING: ExitCode.FOUND,
    Verdict.UNKNOWN: ExitCode.UNKNOWN,
}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("terminates")(terminates)


def terminates(
    fmp: Annotated[Path, typer.Argument(help="A finite-memory policy: fmp/1 JSON, an edge list, or a .qnp problem.")],
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy of a .qnp problem.")] = None,
    method: Annotated[str, typer.Option("--method", help="auto, complete, sieve, progress-sieve, gensieve.")] = "auto",
    forests: Annotated[int, typer.Option("--forests", min=1, help="Elimination forests that GenSieve tries.")] = 20,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Steps of path search in GenSieve.")] = 1_000_000,
    output: Output = None,
    json: Json = False,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
) -> int:
    """Decide whether every execution of a generalized plan ends; the verdict comes with a certificate."""
    start = time.perf_counter()
    plan = load_fmp(fmp, policy=policy)
    result = decide(plan, method=method, seed=seed, forests=forests, budget=budget, time_limit=time_limit)
    return _answer(plan, result, fmp, policy, output, seed, time.perf_counter() - start).show(as_json=json)


def _answer(
    plan: FiniteMemoryPolicy,
    result: TerminationResult,
    task: Path,
    policy: Path | None,
    output: Path | None,
    seed: int,
    seconds: float,
) -> Answer:
    certificate = getattr(result, "certificate", None)
    shown: Any = None
    if certificate is not None:
        shown = {
            "kind": certificate["kind"],
            "claim": result.verdict.value,
            "task_sha256": sha256(task),
            "policy_sha256": sha256(policy) if policy is not None else None,
            **certificate,
        }
        if output is not None:
            write_whole(output, json_text.dumps(shown, ensure_ascii=False, indent=1) + "\n")
            shown = str(output)
    figures = dict(result.figures)
    trace = figures.pop("trace", [])
    lines = [f"  {plan.name}: {', '.join(f'{key} {value}' for key, value in figures.items() if key != 'removed')}"]
    lines += [f"  {line}" for line in trace]
    if output is not None and certificate is not None:
        lines.append(f"  certificate ({certificate['kind']}): {output}")
    return Answer(
        result.verdict.value,
        CODES[result.verdict],
        seconds,
        figures=figures,
        lines=lines,
        reason=getattr(result, "reason", None),
        seed=seed,
        certificate=shown,
        more={"method": result.method, **({"trace": trace} if trace else {})},
    )
