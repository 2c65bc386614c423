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
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory import Multigraph, portable
from polvet.termination.balance import Balanced, Ranked, Sustained, balance
from polvet.termination.components import strong_components
from polvet.termination.walks import Component, RootedWalks, Row, rows_of


@dataclass(frozen=True, slots=True)
class Ranking:
    """The forest of a `lex-rank` certificate."""

    components: list[dict[str, Any]]


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
    into: list[dict[str, Any]]
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
    rows = rows_of(graph)
    top: list[dict[str, Any]] = []
    agenda = [_Part(list(range(len(graph.edges)) if edges is None else edges), top)]
    while agenda:
        part = agenda.pop()
        for nodes, inside in components_of(graph, part.edges):
            budget.check()
            effort.components += 1
            effort.levels = max(effort.levels, part.level)
            effort.largest = max(effort.largest, len(nodes))
            component = Component(graph, nodes, inside, rows_for(nodes) if rows_for else rows)
            found = _examine(component, budget)
            if isinstance(found, Cycle):
                return found
            entry, left = ranking_entry(component, finite_rows(component), found)
            part.into.append(entry)
            if left:
                agenda.append(_Part(left, entry["children"], part.level + 1))
    return Ranking(top)


def components_of(graph: Multigraph, edges: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return nodes and edges of the strongly connected components that the edges make."""
    pairs = [(graph.edges[edge].source, graph.edges[edge].target) for edge in edges]
    members = strong_components(sorted({node for pair in pairs for node in pair}), pairs)
    owner = {node: index for index, component in enumerate(members) for node in component}
    inside: list[list[int]] = [[] for _ in members]
    for edge, (source, target) in zip(edges, pairs, strict=True):
        home = owner.get(source)
        if home is not None and home == owner.get(target):
            inside[home].append(edge)
    return list(zip(members, inside, strict=True))


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
    found = balance(component, rooted, columns, everything, budget=budget)
    if isinstance(found, Ranked):
        return found
    if isinstance(found, Sustained):
        return Cycle(component, [(found.walk, 1)])
    return _find_walks(component, rooted, columns, budget)


def _find_walks(component: Component, rooted: RootedWalks, columns: list[int], budget: Budget) -> Cycle:
    """Return few connected closed walks that sustain, in a component where no ranking lowers anything.

    A base of rooted walks (one for each endless row, at least one) is balanced by further walks; as long as one of
    them does not touch the base, a rooted walk to it joins the base. The base grows, so this ends.
    """
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
        found = balance(component, rooted, columns, target, budget=budget)
        if isinstance(found, Sustained):
            return Cycle(component, [(found.walk, 1)])
        assert isinstance(found, Balanced), "a component that nothing lowers has a circulation through every edge"
        walks = [(rooted.walk(edge), found.scale) for edge in base]
        touched = {component.sources[edge] for walk, _ in walks for edge in walk}
        loose = None
        for walk, _ in found.walks:
            if touched.isdisjoint(component.sources[edge] for edge in walk):
                loose = walk[0]
                break
        if loose is None:
            return Cycle(component, [*walks, *found.walks])
        base.append(loose)


def ranking_entry(
    component: Component, columns: Sequence[int], found: Ranked, removable: Sequence[bool] | None = None
) -> tuple[dict[str, Any], list[int]]:
    """Return the component's entry in the certificate and the edges (of the graph) that are left."""
    graph = component.graph
    by_variable: dict[int, int] = {}
    for column, weight in zip(columns, found.weights, strict=False):
        row: Row = component.rows[column]
        by_variable[row.variable] = by_variable.get(row.variable, 0) + row.sign * weight
    entry: dict[str, Any] = {
        "states": [graph.names[node] for node in component.nodes],
        "lambda": {
            variable.name: portable(by_variable.get(index, 0)) for index, variable in enumerate(graph.fmp.variables)
        },
        "potential": {graph.names[n]: portable(found.potential[i]) for i, n in enumerate(component.nodes)},
        "children": [],
    }
    left = []
    for local, edge in enumerate(component.edges):
        change = found.potential[component.targets[local]] - found.potential[component.sources[local]]
        for variable, weight in by_variable.items():
            effect = graph.edges[edge].effects[variable]
            amount = effect.high if weight > 0 else effect.low
            if weight and amount is not None:
                change += weight * amount
        if change == 0 or (removable is not None and not removable[local]):
            left.append(edge)
    return entry, left
