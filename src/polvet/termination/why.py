"""Why a proof of termination fails: a smallest set of edges that already runs for ever on its own.

Every such set must lose an edge, or change one, before the policy can be proved; edges outside of it do not matter for
it. The set is first shrunk edge by edge until no edge can be left out; on small graphs Z3 then looks for one with
fewer edges, and the complete test confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory import EdgeId, FiniteMemoryPolicy, Multigraph, normalise
from polvet.solvers.smt import Question, Term, at_most, either, every, implies, integer, real, total, truth
from polvet.termination.complete import Cycle, components_of, find_ranking
from polvet.termination.walks import best_change, rows_of

MAX_EDGES = 150
SECONDS = 5.0
"""The longest that Z3 may look for one smaller set."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """Edges that run for ever on their own; `smallest` if no smaller set of edges does, else only minimal."""

    edges: tuple[EdgeId, ...]
    smallest: bool


def find_blocking_edges(fmp: FiniteMemoryPolicy, budget: Budget = UNLIMITED) -> Blocking | None:
    """Return a smallest set of edges that prevents a proof without guards, or None if nothing does."""
    graph = normalise(fmp, budget=budget)
    outcome = find_ranking(graph, budget=budget)
    if not isinstance(outcome, Cycle):
        return None
    component = outcome.component
    core = sorted({component.edges[edge] for walk, _ in outcome.walks for edge in walk})
    for edge in list(core):
        rest = [other for other in core if other != edge]
        if isinstance(find_ranking(graph, edges=rest, budget=budget), Cycle):
            core = rest
    smaller, proved = _find_smaller(graph, len(core), budget)
    if smaller is not None and isinstance(find_ranking(graph, edges=smaller, budget=budget), Cycle):
        core = smaller
    return Blocking(tuple(dict.fromkeys(fmp.edges[graph.edges[edge].edge].id for edge in core)), proved)


def _find_smaller(graph: Multigraph, size: int, budget: Budget) -> tuple[list[int] | None, bool]:
    """Return fewer edges that carry a connected circulation lowering nothing, and whether no set is smaller still."""
    if size <= 1:
        return None, True
    parts = components_of(graph, range(len(graph.edges)))
    if sum(len(edges) for _, edges in parts) > MAX_EDGES:
        return None, False
    best: list[int] | None = None
    for nodes, edges in parts:
        while True:
            goal = (len(best) if best is not None else size) - 1
            budget.check()
            question = Question(budget, SECONDS)
            flow = {edge: real(f"f{edge}") for edge in edges}
            level = {node: integer(f"level{node}") for node in nodes}
            roots = {node: truth(f"root{node}") for node in nodes}
            question.add(*[value >= 0 for value in flow.values()], total(flow.values()) >= 1)
            question.add(at_most(1, roots.values()), at_most(goal, [value > 0 for value in flow.values()]))
            for node in nodes:
                into = [edge for edge in edges if graph.edges[edge].target == node]
                out = [edge for edge in edges if graph.edges[edge].source == node]
                question.add(total(flow[edge] for edge in into) == total(flow[edge] for edge in out))
                nearer = [every((flow[e] > 0, level[graph.edges[e].source] < level[node])) for e in into]
                used = either(flow[edge] > 0 for edge in out)
                question.add(implies(used, either([roots[node], *nearer])))
            _add_rows(question, graph, edges, flow)
            answer = question.ask()
            if answer == "unknown":
                return best, False
            if answer == "unsat":
                break
            values = question.values()
            best = [edge for edge, value in flow.items() if values.holds(value > 0)]
    return best, True


def _add_rows(question: Question, graph: Multigraph, edges: Sequence[int], flow: dict[int, Term]) -> None:
    """Demand that no row falls, unless an edge that raises it without limit is used."""
    for row in rows_of(graph):
        changes = {edge: best_change(graph.edges[edge], row) for edge in edges}
        endless = [flow[edge] > 0 for edge, change in changes.items() if change is None]
        net = total((change or 0) * flow[edge] for edge, change in changes.items())
        question.add(either([net >= 0, *endless]))
