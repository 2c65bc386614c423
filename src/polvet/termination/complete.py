"""The complete test: with upward-closed guards, decide termination from every valuation, with a certificate.

Source   Kosaraju & Sullivan, STOC 1988: a vector addition system with states runs for ever from some valuation iff
         some reachable strongly connected subgraph has a circulation with full support and net effect >= 0.
         `find_ranking` is the recursion into strongly connected components, `_find_walks` the circulation,
         and `polvet.termination.balance` decides between the two
Differs  weights instead of flows are the unknowns (see `balance`); intervals count with their best end; a counter
         that an edge of the component can raise without limit drops out of the component, which under
         qualitative semantics is exactly Progress-Sieve; upper bounds are mirrored
Cost     polynomial but for the simplex method
Limits   a variable bounded on both sides is relaxed to net change 0: sound for *terminating*; a lasso is only
         claimed if it replays
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from polvet._core import strong_components
from polvet.budget import UNLIMITED, Budget
from polvet.files import Json
from polvet.policy.finite_memory import Multigraph, portable
from polvet.termination.balance import Balanced, Ranked, Sustained, balance
from polvet.termination.cuts import Cuts
from polvet.termination.walks import SAFE, Component, Matrix, RootedWalks, Row, Table, dot, rows_of


@dataclass(frozen=True, slots=True)
class Ranking:
    """The forest of a `lex-rank` certificate."""

    components: list[Json]


@dataclass(frozen=True, slots=True)
class Cycle:
    """Closed walks of primitive edges through connected nodes, each with how often; together they sustain."""

    component: Component
    walks: list[tuple[list[int], int]]  # local edges of the component; the first walk starts at the root or anywhere


@dataclass(slots=True)
class Effort:
    """What a test did: components examined, and the deepest level of the ranking."""

    components: int = 0
    levels: int = 0
    largest: int = 0


@dataclass(slots=True)
class _Part:
    edges: list[int]
    into: list[Json]
    level: int = field(default=1)


RowsFor = Callable[[Sequence[int]], list[Row]]
"""Which counters matter in a component, given its nodes."""


def find_ranking(
    graph: Multigraph,
    *,
    edges: Sequence[int] | None = None,
    rows_for: RowsFor | None = None,
    budget: Budget = UNLIMITED,
    effort: Effort | None = None,
) -> Ranking | Cycle:
    """Return a ranking that proves termination, or a cycle that no ranking can lower.

    `edges` restricts the graph; `rows_for` says which counters matter where (default: every bound everywhere).
    """
    effort = effort or Effort()
    rows, table = rows_of(graph), Table(graph)
    top: list[Json] = []
    agenda = [_Part(list(range(len(graph.edges)) if edges is None else edges), top)]
    while agenda:
        part = agenda.pop()
        for nodes, inside in components_of(graph, part.edges, table):
            budget.check()
            effort.components += 1
            effort.levels = max(effort.levels, part.level)
            effort.largest = max(effort.largest, len(nodes))
            component = Component(table, nodes, inside, rows_for(nodes) if rows_for else rows)
            outcome = _examine(component, budget)
            if isinstance(outcome, Cycle):
                return outcome
            entry, left = ranking_entry(component, finite_rows(component), outcome)
            part.into.append(entry)
            if left:
                agenda.append(_Part(left, entry["children"], part.level + 1))
    return Ranking(top)


def components_of(
    graph: Multigraph, edges: Sequence[int], table: Table | None = None
) -> list[tuple[list[int], list[int]]]:
    """Return nodes and edges of the strongly connected components that the edges make, successors first."""
    table = table or Table(graph)
    chosen = np.asarray(edges, dtype=np.int64)
    nodes, ends = np.unique(
        np.concatenate([table.sources[chosen], table.targets[chosen]]), return_inverse=True
    )  # in numbers of their own, so that small parts of large graphs cost little
    sources, targets = np.ascontiguousarray(ends[: len(chosen)]), np.ascontiguousarray(ends[len(chosen) :])
    owner = strong_components(len(nodes), sources, targets)
    inside = np.flatnonzero((owner[sources] >= 0) & (owner[sources] == owner[targets]))
    members = np.flatnonzero(owner >= 0)
    return list(
        zip(_grouped(owner[members], nodes[members]), _grouped(owner[sources[inside]], chosen[inside]), strict=True)
    )


def _grouped(groups: Matrix, values: Matrix) -> list[list[int]]:
    """Return the values of group 0, of group 1, and so on, each in its order; no group is empty."""
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    return [part.tolist() for part in np.split(values[order], ends)] if len(values) else []


def finite_rows(component: Component) -> list[int]:
    """Return the rows that no edge of the component can raise without limit."""
    return [int(row) for row in np.flatnonzero(component.endless.sum(axis=0) == 0)]


def _examine(component: Component, budget: Budget) -> Ranked | Cycle:
    rooted = RootedWalks(component)
    sustained = ((rooted.effects >= 0) | (rooted.endless > 0)).all(axis=1)
    if sustained.any():
        candidates = np.flatnonzero(sustained)
        shortest = int(candidates[np.argmin(rooted.lengths[candidates])])
        return Cycle(component, [(rooted.walk(shortest), 1)])
    columns = finite_rows(component)
    # The walks through every edge, one after the other: whatever lowers none of them lowers no edge at all.
    everything = [int(value) for value in rooted.effects[:, columns].sum(axis=0)]
    cuts = Cuts(component, rooted, columns)
    outcome = balance(cuts, [-value for value in everything], budget=budget)
    if isinstance(outcome, Ranked):
        return outcome
    if isinstance(outcome, Sustained):
        return Cycle(component, [(outcome.walk, 1)])
    return _find_walks(cuts, budget)


def _find_walks(cuts: Cuts, budget: Budget) -> Cycle:
    """Return few connected closed walks that sustain, in a component where no ranking lowers anything.

    A base of rooted walks (one for each endless row, at least one) is balanced by further walks; as long as one of
    them does not touch the base, a rooted walk to it joins the base. The base grows, so this ends.
    """
    component, rooted, columns = cuts.component, cuts.rooted, cuts.columns
    base: list[int] = []
    for row in range(len(component.rows)):
        if row not in columns:
            able = np.flatnonzero(component.endless[:, row])
            base.append(int(able[np.argmin(rooted.lengths[able])]))
    if not base:
        base.append(int(np.argmin(rooted.lengths)))
    while True:
        base = list(dict.fromkeys(base))
        target = [int(value) for value in rooted.effects[np.ix_(base, columns)].sum(axis=0)]
        outcome = balance(cuts, [-value for value in target], budget=budget)
        if isinstance(outcome, Sustained):
            return Cycle(component, [(outcome.walk, 1)])
        assert isinstance(outcome, Balanced), "a component that nothing lowers has a circulation through every edge"
        walks = [(rooted.walk(edge), outcome.scale) for edge in base]
        touched = {int(component.sources[edge]) for walk, _ in walks for edge in walk}
        loose = None
        for walk, _ in outcome.walks:
            if touched.isdisjoint(int(component.sources[edge]) for edge in walk):
                loose = walk[0]
                break
        if loose is None:
            return Cycle(component, [*walks, *outcome.walks])
        base.append(loose)


def ranking_entry(
    component: Component, columns: Sequence[int], outcome: Ranked, removable: Sequence[bool] | None = None
) -> tuple[Json, list[int]]:
    """Return the component's entry in the certificate and the edges (of the graph) that are left."""
    graph = component.graph
    by_variable: dict[int, int] = {}
    for column, weight in zip(columns, outcome.weights, strict=False):
        row: Row = component.rows[column]
        by_variable[row.variable] = by_variable.get(row.variable, 0) + row.sign * weight
    entry: Json = {
        "states": [graph.names[node] for node in component.nodes],
        "lambda": {
            variable.name: portable(by_variable.get(index, 0)) for index, variable in enumerate(graph.fmp.variables)
        },
        "potential": {graph.names[n]: portable(outcome.potential[i]) for i, n in enumerate(component.nodes)},
        "children": [],
    }
    best = [0] * len(component.rows)  # weights of the rows whose best change is the largest change of the rank
    for index, row in enumerate(component.rows):
        best[index] = max(0, row.sign * by_variable.get(row.variable, 0))
    change = dot(component.changes, best)
    largest = max(map(abs, outcome.potential), default=0)
    potential = np.array(outcome.potential, dtype=np.int64 if largest < SAFE // 4 else object)
    change = change + (potential[component.targets] - potential[component.sources])
    stays = change == 0
    if removable is not None:
        stays |= ~np.asarray(removable, dtype=bool)
    left = [component.edges[local] for local in np.flatnonzero(stays)]
    return entry, left
