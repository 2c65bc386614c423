"""Lexicographic linear rankings for guards of any sort: an edge is removed where its guard bounds the rank.

Source   Alias, Darte, Feautrier, Gonnord, "Multi-dimensional rankings, program termination, and complexity bounds of
         flowchart programs", SAS 2010: one linear function per location, Farkas' lemma, greedily one component of the
         rank after the other. Per-location invariants are the intervals of the tracked multigraph
Differs  all locations of a strongly connected component share lambda, since counters change by constants; then one
         edge more is one column more in `balance`
Cost     per component at most one exact program per edge and set of bounded rows

An edge e is *bounded in* a row (a variable from below, or from above) if that bound holds whenever e is taken. The
rank may use only rows that e is bounded in, but no edge of the component may raise it. Where a node holds exact
values of several variables, their rows count in both directions there, and only there: equalities on variables that
are exact at different nodes are never mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.files import Json
from polvet.policy.finite_memory import Multigraph, Primitive
from polvet.termination.balance import Balanced, Ranked, balance
from polvet.termination.complete import Ranking, components_of, finite_rows, ranking_entry
from polvet.termination.cuts import Cuts
from polvet.termination.walks import Component, RootedWalks, Row, Table


@dataclass(frozen=True, slots=True)
class Stuck:
    """No ranking of this form lowers an edge of this component; it may run for ever, or not."""

    edges: list[int]


@dataclass(slots=True)
class _Part:
    edges: list[int]
    into: list[Json] = field(default_factory=list)


def find_guarded_ranking(graph: Multigraph, *, budget: Budget = UNLIMITED) -> Ranking | Stuck:
    """Return a ranking that proves termination under the guards, or the edges that none of this form lowers."""
    rows = [
        Row(index, sign)
        for index in range(len(graph.fmp.variables))
        for sign in (1, -1)
        if any(is_bounded(edge, Row(index, sign)) for edge in graph.edges)
    ]
    table = Table(graph)
    top: list[Json] = []
    agenda = [_Part(list(range(len(graph.edges))), top)]
    while agenda:
        part = agenda.pop()
        for nodes, inside in components_of(graph, part.edges, table):
            budget.check()
            component = Component(table, nodes, inside, rows)
            outcome = _lower_something(component, budget)
            if outcome is None:
                return Stuck(inside)
            columns, ranked, removable = outcome
            entry, left = ranking_entry(component, columns, ranked, removable)
            part.into.append(entry)
            if left:
                agenda.append(_Part(left, entry["children"]))
    return Ranking(top)


def is_bounded(edge: Primitive, row: Row) -> bool:
    """Return whether the edge is only taken where the row's counter has a bound."""
    return edge.before[row.variable][0 if row.sign > 0 else 1] is not None


def _lower_something(component: Component, budget: Budget) -> tuple[list[int], Ranked, list[bool]] | None:
    """Return rows, a ranking over them and which edges are bounded in them, such that one of these edges is lowered."""
    finite = set(finite_rows(component))
    primitives = [component.graph.edges[edge] for edge in component.edges]
    bounded = [
        frozenset(index for index, row in enumerate(component.rows) if index in finite and is_bounded(edge, row))
        for edge in primitives
    ]
    rooted = RootedWalks(component)
    for rows in sorted(set(bounded), key=lambda rows: (-len(rows), sorted(rows))):
        columns = sorted(rows)
        removable = [rows <= other for other in bounded]
        hopeful = [index for index, able in enumerate(removable) if able]
        ranked = _try(component, rooted, columns, hopeful, budget)
        while not isinstance(ranked, Ranked) and hopeful:
            edge = hopeful.pop()
            ranked = _try(component, rooted, columns, [edge], budget)
            if isinstance(ranked, Balanced):
                # A circulation that lowers none of the rows forbids to lower any of its edges.
                used = {local for walk, _ in ranked.walks for local in walk}
                hopeful = [other for other in hopeful if other not in used]
        if isinstance(ranked, Ranked):
            return columns, ranked, removable
    return None


def _try(
    component: Component, rooted: RootedWalks, columns: Sequence[int], edges: Sequence[int], budget: Budget
) -> Ranked | Balanced | None:
    bonus = np.zeros(len(component.edges), dtype=component.changes.dtype)
    bonus[list(edges)] = 1
    cuts = Cuts(component, rooted, columns, bonus)
    outcome = balance(cuts, [0] * len(columns) + [1], stop_early=False, budget=budget)
    return outcome if isinstance(outcome, Ranked | Balanced) else None
