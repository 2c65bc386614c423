"""Does a finite-memory policy end? One door to all methods; every verdict's evidence is checked before it is given."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.errors import InputError, LimitReached, did_you_mean
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Variable, dump_fmp, normalise
from polvet.policy.finite_memory.fmp import Atom
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
    most_steps: int | None = 1_000_000,
    budget: Budget = UNLIMITED,
) -> TerminationResult:
    """Return whether every execution of the policy ends, from every valuation, with evidence.

    `auto` decides completely where every guard is upward closed and tries the methods for other guards elsewhere;
    `complete` leaves those out; the sieves are the paper's, and only say *nonterminating* under qualitative semantics.
    """
    if method not in METHODS:
        hint = did_you_mean(method, METHODS) or f"Choose one of: {', '.join(METHODS)}."
        raise InputError(f"no method '{method}'.", "--method", hint)
    try:
        return _run(fmp, method, seed, forests, most_steps, budget)
    except LimitReached as limit:
        return Unknown(str(limit), method, limit=limit.kind)


def is_terminating(fmp: FiniteMemoryPolicy) -> bool:
    """Return whether the policy is proved terminating by the fast complete test: for generate-and-test loops.

    Guards are dropped, so False may also mean that only the guards make the policy end. No certificate is written.
    """
    return not isinstance(find_ranking(normalise(fmp)), Cycle)


def _run(
    fmp: FiniteMemoryPolicy, method: str, seed: int, forests: int, most_steps: int | None, budget: Budget
) -> TerminationResult:
    graph = normalise(fmp, budget=budget)
    size = {"control_states": len(graph.nodes), "edges": len(graph.edges), "variables": len(fmp.variables)}
    match method:
        case "sieve":
            return _judge_sieve(graph, sieve(graph, budget), method, size, budget)
        case "progress-sieve":
            return _judge_sieve(graph, progress_sieve(graph, budget), method, size, budget)
        case "gensieve":
            return _judge_gensieve(graph, seed, forests, most_steps, size, budget)
    effort = Effort()
    found = find_ranking(graph, budget=budget, effort=effort)
    figures: dict[str, Any] = {
        **size,
        "components": effort.components,
        "levels": effort.levels,
        "largest_component": effort.largest,
    }
    if not isinstance(found, Cycle):
        return checked_terminating(
            graph, {"kind": "lex-rank", "components": found.components}, "complete", figures, budget
        )
    certificate = lasso_certificate(graph, found)
    if check_replay(fmp, certificate) is None:
        return Nonterminating(_with_copy(fmp, certificate), "complete", figures)
    if is_upward_closed(fmp):
        raise AssertionError("with upward-closed guards every cycle that sustains replays")
    if method == "complete":
        reason = "without its guards the policy does not end; with them this test cannot tell (try --method auto)"
        return Unknown(reason, method, figures)
    proof, tried, limit = prove_with_guards(fmp, budget=budget, seed=seed)
    figures["tried"] = tried
    if proof is None:
        reason = f"guards other than lower bounds are undecidable; tried: {'; '.join(tried)}"
        if limit is not None:
            return Unknown(f"{reason}; then {limit}", "guards", figures, limit.kind)
        return Unknown(reason, "guards", figures)
    if proof["kind"] == "lex-rank":
        return checked_terminating(graph, proof, "guards", figures, budget)
    return Nonterminating(_with_copy(fmp, proof), "guards", figures)


def checked_terminating(
    graph: Multigraph, certificate: dict[str, Any], method: str, figures: Mapping[str, Any], budget: Budget
) -> Terminating:
    """Return the verdict after the independent checker has accepted its certificate."""
    problem = check_ranking(graph.fmp, certificate, budget)
    if problem is not None:
        raise AssertionError(f"the checker rejects a ranking: {problem}")
    return Terminating(_with_copy(graph.fmp, certificate), method, figures)


def _with_copy(fmp: FiniteMemoryPolicy, certificate: dict[str, Any]) -> dict[str, Any]:
    """Return the certificate with a copy of the policy, so that it can be checked without the file."""
    return {**certificate, "fmp": dump_fmp(fmp)}


def _judge_sieve(
    graph: Multigraph, trace: SieveTrace, method: str, size: Mapping[str, Any], budget: Budget
) -> TerminationResult:
    figures = {
        **size,
        "rounds": len(trace.rounds),
        "removed": [[graph.fmp.edges[graph.edges[e].edge].id for e in removed] for removed in trace.rounds],
        "left": [graph.fmp.edges[graph.edges[e].edge].id for e in trace.left],
    }
    return _judge(graph, trace.proves_termination, method, figures, budget)


def _judge_gensieve(
    graph: Multigraph, seed: int, forests: int, most_steps: int | None, size: Mapping[str, Any], budget: Budget
) -> TerminationResult:
    rng = random.Random(seed)
    last: GenSieveTrace | None = None
    for attempt in range(max(1, forests)):
        budget.check()
        choose = partial(lowest_remaining_height, budget=budget) if attempt == 0 else random_vertex(rng)
        last = gensieve(graph, choose, most_steps=most_steps, budget=budget)
        if last.proves_termination:
            break
    assert last is not None
    figures = {**size, "forests": attempt + 1, "rounds": len(last.rounds), "steps": last.steps}
    figures["trace"] = trace_lines(graph, last)
    figures["trace_rounds"] = trace_rounds(graph, last)
    return _judge(graph, last.proves_termination, "gensieve", figures, budget)


def _judge(
    graph: Multigraph, proved: bool, method: str, figures: Mapping[str, Any], budget: Budget
) -> TerminationResult:
    """Return a sieve's answer as a verdict, with evidence from the complete test, which proves at least as much."""
    qualitative = graph.fmp.semantics == "qualitative" and method != "gensieve"
    if not proved and not qualitative:
        return Unknown(f"{method} cannot prove termination; it is not complete for these semantics", method, figures)
    found = find_ranking(graph, budget=budget)
    if proved:
        if isinstance(found, Cycle):
            raise AssertionError(f"{method} and the complete test contradict each other")
        return checked_terminating(graph, {"kind": "lex-rank", "components": found.components}, method, figures, budget)
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
