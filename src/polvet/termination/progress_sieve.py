"""Progress-Sieve: as Sieve, with progress variables towards an upper or a lower bound.

Source   Srivastava, Zilberstein, Gupta, Abbeel, Russell, "Tractability of planning with loops", AAAI 2015, printed as
         Algorithm 1 in "Hierarchical Decompositions and Termination Analysis for Generalized Planning". One round of
         `sieve_rounds` is lines 1 to 5 on all components at once
Differs  the base case "acyclic: terminating" is missing in print; "non-terminating" is only meant for qualitative
         semantics, so the trace just says what is left
Cost     linear per round, at most one round per variable and component
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory import Multigraph
from polvet.termination.components import strong_components
from polvet.termination.decide import judge, size_of
from polvet.termination.method import Method, Request
from polvet.termination.verdicts import TerminationResult
from polvet.termination.walks import Row, best_change, rows_of


@dataclass(frozen=True, slots=True)
class SieveTrace:
    """Which edges (numbers in the graph) each round removed, and the edges on cycles that no round could remove."""

    rounds: tuple[tuple[int, ...], ...]
    left: tuple[int, ...]

    @property
    def proves_termination(self) -> bool:
        """Whether no cycle is left."""
        return not self.left


def progress_sieve(graph: Multigraph, budget: Budget = UNLIMITED) -> SieveTrace:
    """Return the rounds of Progress-Sieve; it proves termination if no cycle is left."""
    return sieve_rounds(graph, rows_of(graph), budget)


def sieve_rounds(graph: Multigraph, rows: Sequence[Row], budget: Budget = UNLIMITED) -> SieveTrace:
    """Remove edges that move a row's counter towards its bound while nothing in their component moves it away."""
    alive = list(range(len(graph.edges)))
    rounds: list[tuple[int, ...]] = []
    while True:
        budget.check()
        alive = _on_cycles(graph, alive)
        home = _homes(graph, alive)
        away: set[tuple[int, int]] = set()
        for edge in alive:
            for index, row in enumerate(rows):
                change = best_change(graph.edges[edge], row)
                if change is None or change > 0:
                    away.add((home[graph.edges[edge].source], index))
        removed = []
        for edge in alive:
            for index, row in enumerate(rows):
                change = best_change(graph.edges[edge], row)
                if change is not None and change < 0 and (home[graph.edges[edge].source], index) not in away:
                    removed.append(edge)
                    break
        if not removed:
            return SieveTrace(tuple(rounds), tuple(alive))
        rounds.append(tuple(removed))
        gone = set(removed)
        alive = [edge for edge in alive if edge not in gone]


def _homes(graph: Multigraph, edges: Sequence[int]) -> dict[int, int]:
    pairs = [(graph.edges[edge].source, graph.edges[edge].target) for edge in edges]
    components = strong_components(sorted({node for pair in pairs for node in pair}), pairs)
    return {node: index for index, component in enumerate(components) for node in component}


def _on_cycles(graph: Multigraph, edges: Sequence[int]) -> list[int]:
    home = _homes(graph, edges)
    return [
        edge
        for edge in edges
        if graph.edges[edge].source in home and home[graph.edges[edge].source] == home.get(graph.edges[edge].target)
    ]


def judge_sieve(graph: Multigraph, trace: SieveTrace, method: str, budget: Budget) -> TerminationResult:
    """Return what the rounds of a sieve say as a verdict with evidence."""
    figures = {
        **size_of(graph),
        "rounds": len(trace.rounds),
        "removed": [[graph.fmp.edges[graph.edges[e].edge].id for e in removed] for removed in trace.rounds],
        "left": [graph.fmp.edges[graph.edges[e].edge].id for e in trace.left],
    }
    return judge(graph, trace.proves_termination, method, figures, budget)


def _terminates(graph: Multigraph, request: Request) -> TerminationResult:
    return judge_sieve(graph, progress_sieve(graph, request.budget), "progress-sieve", request.budget)


PROGRESS_SIEVE = Method(
    "progress-sieve",
    "the same towards upper and lower bounds",
    "for qualitative semantics",
    _terminates,
)
