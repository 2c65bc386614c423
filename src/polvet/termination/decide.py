"""Does a finite-memory policy end? One door to all methods; every verdict's evidence is checked before it is given."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from polvet.errors import InputError, LimitReached, did_you_mean
from polvet.evidence.lasso import check_replay
from polvet.evidence.lex_rank import check_ranking
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Variable, dump_fmp, normalise
from polvet.policy.finite_memory.fmp import Atom
from polvet.termination.balance import Tick
from polvet.termination.complete import Cycle, Effort, find_ranking
from polvet.termination.elimination import lowest_remaining_height, random_vertex
from polvet.termination.gensieve import GenSieveTrace, gensieve
from polvet.termination.guards import prove_with_guards
from polvet.termination.lasso import lasso_certificate
from polvet.termination.progress_sieve import SieveTrace, progress_sieve
from polvet.termination.sieve import sieve
from polvet.termination.trace import trace_lines, trace_rounds
from polvet.termination.verdicts import Nonterminating, Terminating, TerminationResult, Unknown

METHODS = ("auto", "complete", "sieve", "progress-sieve", "gensieve")


def terminates(
    fmp: FiniteMemoryPolicy,
    *,
    method: str = "auto",
    seed: int = 0,
    forests: int = 20,
    budget: int | None = 1_000_000,
    time_limit: float | None = None,
) -> TerminationResult:
    """Return whether every execution of the policy ends, from every valuation, with evidence.

    `auto` decides completely where every guard is upward closed and tries the methods for other guards elsewhere;
    `complete` leaves those out; the sieves are the paper's, and only say *nonterminating* under qualitative semantics.
    """
    if method not in METHODS:
        hint = did_you_mean(method, METHODS) or f"Choose one of: {', '.join(METHODS)}."
        raise InputError(f"no method '{method}'.", "--method", hint)
    try:
        return _run(fmp, method, seed, forests, budget, deadline_tick(time_limit))
    except LimitReached as limit:
        return Unknown(str(limit), method)


def is_terminating(fmp: FiniteMemoryPolicy) -> bool:
    """Return whether the policy is proved terminating by the fast complete test: for generate-and-test loops.

    Guards are dropped, so False may also mean that only the guards make the policy end. No certificate is written.
    """
    return not isinstance(find_ranking(normalise(fmp)), Cycle)


def deadline_tick(time_limit: float | None) -> Tick:
    """Return a function that raises LimitReached once the time is over."""
    if time_limit is None:
        return lambda: None
    end = time.monotonic() + time_limit

    def tick() -> None:
        if time.monotonic() > end:
            raise LimitReached(f"the time limit of {time_limit:g} s was reached", "--time-limit")

    return tick


def _run(
    fmp: FiniteMemoryPolicy, method: str, seed: int, forests: int, budget: int | None, tick: Tick
) -> TerminationResult:
    graph = normalise(fmp)
    size = {"control_states": len(graph.nodes), "edges": len(graph.edges), "variables": len(fmp.variables)}
    match method:
        case "sieve":
            return _judge_sieve(graph, sieve(graph), method, size, tick)
        case "progress-sieve":
            return _judge_sieve(graph, progress_sieve(graph), method, size, tick)
        case "gensieve":
            return _judge_gensieve(graph, seed, forests, budget, size, tick)
    effort = Effort()
    found = find_ranking(graph, tick=tick, effort=effort)
    figures: dict[str, Any] = {
        **size,
        "components": effort.components,
        "levels": effort.levels,
        "largest_component": effort.largest,
    }
    if not isinstance(found, Cycle):
        return checked_terminating(graph, {"kind": "lex-rank", "components": found.components}, "complete", figures)
    certificate = lasso_certificate(graph, found)
    if check_replay(fmp, certificate) is None:
        return Nonterminating(_with_copy(fmp, certificate), "complete", figures)
    if is_upward_closed(fmp):
        raise AssertionError("with upward-closed guards every cycle that sustains replays")
    if method == "complete":
        reason = "without its guards the policy does not end; with them this test cannot tell (try --method auto)"
        return Unknown(reason, method, figures)
    proof, tried = prove_with_guards(fmp, tick=tick, seed=seed)
    figures["tried"] = tried
    if proof is None:
        return Unknown(f"guards other than lower bounds are undecidable; tried: {'; '.join(tried)}", "guards", figures)
    if proof["kind"] == "lex-rank":
        return checked_terminating(graph, proof, "guards", figures)
    return Nonterminating(_with_copy(fmp, proof), "guards", figures)


def checked_terminating(
    graph: Multigraph, certificate: dict[str, Any], method: str, figures: Mapping[str, Any]
) -> Terminating:
    """Return the verdict after the independent checker has accepted its certificate."""
    problem = check_ranking(graph.fmp, certificate)
    if problem is not None:
        raise AssertionError(f"the checker rejects a ranking: {problem}")
    return Terminating(_with_copy(graph.fmp, certificate), method, figures)


def _with_copy(fmp: FiniteMemoryPolicy, certificate: dict[str, Any]) -> dict[str, Any]:
    """Return the certificate with a copy of the policy, so that it can be checked without the file."""
    return {**certificate, "fmp": dump_fmp(fmp)}


def _judge_sieve(
    graph: Multigraph, trace: SieveTrace, method: str, size: Mapping[str, Any], tick: Tick
) -> TerminationResult:
    figures = {
        **size,
        "rounds": len(trace.rounds),
        "removed": [[graph.fmp.edges[graph.edges[e].edge].id for e in removed] for removed in trace.rounds],
        "left": [graph.fmp.edges[graph.edges[e].edge].id for e in trace.left],
    }
    return _judge(graph, trace.proves_termination, method, figures, tick)


def _judge_gensieve(
    graph: Multigraph, seed: int, forests: int, budget: int | None, size: Mapping[str, Any], tick: Tick
) -> TerminationResult:
    rng = random.Random(seed)
    last: GenSieveTrace | None = None
    for attempt in range(max(1, forests)):
        tick()
        last = gensieve(graph, lowest_remaining_height if attempt == 0 else random_vertex(rng), budget=budget)
        if last.proves_termination:
            break
    assert last is not None
    figures = {**size, "forests": attempt + 1, "rounds": len(last.rounds), "steps": last.steps}
    figures["trace"] = trace_lines(graph, last)
    figures["trace_rounds"] = trace_rounds(graph, last)
    return _judge(graph, last.proves_termination, "gensieve", figures, tick)


def _judge(graph: Multigraph, proved: bool, method: str, figures: Mapping[str, Any], tick: Tick) -> TerminationResult:
    """Return a sieve's answer as a verdict, with evidence from the complete test, which proves at least as much."""
    qualitative = graph.fmp.semantics == "qualitative" and method != "gensieve"
    if not proved and not qualitative:
        return Unknown(f"{method} cannot prove termination; it is not complete for these semantics", method, figures)
    found = find_ranking(graph, tick=tick)
    if proved:
        if isinstance(found, Cycle):
            raise AssertionError(f"{method} and the complete test contradict each other")
        return checked_terminating(graph, {"kind": "lex-rank", "components": found.components}, method, figures)
    if isinstance(found, Cycle):
        certificate = lasso_certificate(graph, found)
        if check_replay(graph.fmp, certificate) is None:
            return Nonterminating(_with_copy(graph.fmp, certificate), method, figures)
    return Unknown(
        f"{method} finds a cycle without progress, but no execution that follows it for ever", method, figures
    )


def is_upward_closed(fmp: FiniteMemoryPolicy) -> bool:
    """Return whether larger distances from the bounds never close an edge, so that the complete test is exact."""
    by_name = {variable.name: variable for variable in fmp.variables}
    if any(variable.lower is not None and variable.upper is not None for variable in fmp.variables):
        return False
    return all(
        _keeps_open(atom, by_name[atom.variable]) for edge in fmp.edges for atoms in edge.guard for atom in atoms
    )


def _keeps_open(atom: Atom, variable: Variable) -> bool:
    if variable.lower is not None:
        return atom.operator in (">=", ">") or (atom.operator == "!=" and atom.value <= variable.lower)
    if variable.upper is not None:
        return atom.operator in ("<=", "<") or (atom.operator == "!=" and atom.value >= variable.upper)
    return False
