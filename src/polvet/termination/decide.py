"""Does a finite-memory policy end? One door to all methods; every verdict's evidence is checked before it is given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.choices import AUTO
from polvet.errors import LimitReached
from polvet.files import Figures, Json
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Variable, dump_fmp, normalise
from polvet.policy.finite_memory.fmp import Atom
from polvet.termination.complete import Cycle, Effort, find_ranking
from polvet.termination.forest_file import GivenForest
from polvet.termination.guards import prove_with_guards
from polvet.termination.lasso import lasso_certificate
from polvet.termination.method import Method, Request
from polvet.termination.methods import METHODS
from polvet.termination.verdicts import Nonterminating, Terminating, TerminationResult, Unknown


def terminates(
    fmp: FiniteMemoryPolicy,
    *,
    method: str = AUTO,
    seed: int = 0,
    forests: int = 20,
    most_steps: int | None = 1_000_000,
    budget: Budget = UNLIMITED,
    forest: GivenForest | None = None,
) -> TerminationResult:
    """Return whether every execution of the policy ends, from every valuation, with evidence.

    `auto` decides completely where every guard is upward closed and tries the methods for other guards elsewhere;
    `complete` leaves those out; the sieves are the paper's, and only say *nonterminating* under qualitative semantics.
    """
    METHODS.chosen(method)
    request = Request(seed, forests, most_steps, budget, forest)
    try:
        graph = normalise(fmp, budget=budget)
        return _decide(graph, request, guards=True) if method == AUTO else METHODS[method].run(graph, request)
    except LimitReached as limit:
        return Unknown(str(limit), method, limit=limit.kind)


def is_terminating(fmp: FiniteMemoryPolicy) -> bool:
    """Return whether the policy is proved terminating by the fast complete test: for generate-and-test loops.

    Guards are dropped, so False may also mean that only the guards make the policy end. No certificate is written.
    """
    return not isinstance(find_ranking(normalise(fmp)), Cycle)


def size_of(graph: Multigraph) -> Figures:
    """Return the figures that every test tells."""
    return {"control_states": len(graph.nodes), "edges": len(graph.edges), "variables": len(graph.fmp.variables)}


def _decide(graph: Multigraph, request: Request, *, guards: bool) -> TerminationResult:
    """Return the verdict of the complete test; with guards that it cannot judge, perhaps of the methods for guards."""
    fmp, budget = graph.fmp, request.budget
    effort = Effort()
    outcome = find_ranking(graph, budget=budget, effort=effort)
    figures: Figures = {
        **size_of(graph),
        "components": effort.components,
        "levels": effort.levels,
        "largest_component": effort.largest,
    }
    if not isinstance(outcome, Cycle):
        return checked_terminating(
            graph, {"kind": "lex-rank", "components": outcome.components}, "complete", figures, budget
        )
    certificate = lasso_certificate(graph, outcome)
    if check_replay(fmp, certificate) is None:
        return Nonterminating(_with_copy(fmp, certificate), "complete", figures)
    if is_upward_closed(fmp):
        raise AssertionError("with upward-closed guards every cycle that sustains replays")
    if not guards:
        reason = "without its guards the policy does not end; with them this test cannot tell (try --method auto)"
        return Unknown(reason, "complete", figures)
    proof, tried, limit = prove_with_guards(fmp, budget=budget, seed=request.seed)
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
    graph: Multigraph, certificate: Json, method: str, figures: Mapping[str, Any], budget: Budget
) -> Terminating:
    """Return the verdict after the independent checker has accepted its certificate."""
    problem = check_ranking(graph.fmp, certificate, budget)
    if problem is not None:
        raise AssertionError(f"the checker rejects a ranking: {problem}")
    return Terminating(_with_copy(graph.fmp, certificate), method, figures)


def _with_copy(fmp: FiniteMemoryPolicy, certificate: Json) -> Json:
    """Return the certificate with a copy of the policy, so that it can be checked without the file."""
    return {**certificate, "fmp": dump_fmp(fmp)}


def judge(
    graph: Multigraph, proved: bool, method: str, figures: Mapping[str, Any], budget: Budget
) -> TerminationResult:
    """Return a sieve's answer as a verdict, with evidence from the complete test, which proves at least as much."""
    qualitative = graph.fmp.semantics == "qualitative" and method != "gensieve"
    if not proved and not qualitative:
        return Unknown(f"{method} cannot prove termination; it is not complete for these semantics", method, figures)
    outcome = find_ranking(graph, budget=budget)
    if proved:
        if isinstance(outcome, Cycle):
            raise AssertionError(f"{method} and the complete test contradict each other")
        return checked_terminating(
            graph, {"kind": "lex-rank", "components": outcome.components}, method, figures, budget
        )
    if isinstance(outcome, Cycle):
        certificate = lasso_certificate(graph, outcome)
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


COMPLETE = Method(
    "complete", "the complete test only", "where guards are upward closed", partial(_decide, guards=False)
)
