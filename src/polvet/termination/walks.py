"""A strongly connected part of a multigraph with its counters, and closed walks through one root that cover it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polvet._core import LongestWalks, breadth_first
from polvet.policy.finite_memory import Multigraph, Primitive

Matrix = np.ndarray[Any, Any]
SAFE = 2**62


@dataclass(frozen=True, slots=True)
class Row:
    """A counter that must not fall for ever: the variable itself (sign 1) or its mirror image (sign -1)."""

    variable: int
    sign: int


def rows_of(graph: Multigraph) -> list[Row]:
    """Return one row per bound of a variable; variables without bounds give none."""
    rows = []
    for index, variable in enumerate(graph.fmp.variables):
        if variable.lower is not None:
            rows.append(Row(index, 1))
        if variable.upper is not None:
            rows.append(Row(index, -1))
    return rows


def best_change(edge: Primitive, row: Row) -> int | None:
    """Return how far the edge can move the row's counter away from its bound; None if there is no limit."""
    effect = edge.effects[row.variable]
    if row.sign > 0:
        return effect.high
    return None if effect.low is None else -effect.low


def dot(matrix: Matrix, vector: Sequence[int]) -> Matrix:
    """Return the exact product: machine integers where they suffice, else Python's."""
    if matrix.dtype != object and matrix.size:
        if int(np.abs(matrix).max()) * (sum(map(abs, vector)) + 1) < SAFE:
            return matrix @ np.asarray(vector, dtype=np.int64)
        matrix = matrix.astype(object)
    return matrix @ np.asarray(vector, dtype=object) if matrix.shape[1] else np.zeros(len(matrix), dtype=np.int64)


class Table:
    """The ends and the effects of all primitive edges as arrays, read once; an edge's effects stand side by side."""

    def __init__(self, graph: Multigraph) -> None:
        self.graph = graph
        count = len(graph.edges)
        self.sources = np.fromiter((edge.source for edge in graph.edges), np.int64, count)
        self.targets = np.fromiter((edge.target for edge in graph.edges), np.int64, count)
        place = {variable.name: index for index, variable in enumerate(graph.fmp.variables)}
        named = [[tuple(place[name] for name in choice.effects) for choice in e.choices] for e in graph.fmp.edges]
        touched = [named[edge.edge][edge.choice] for edge in graph.edges]
        sizes = np.fromiter(map(len, touched), np.int64, count)
        self._first = np.concatenate([[0], np.cumsum(sizes)])
        total = int(self._first[-1])
        self._variable = np.fromiter((index for line in touched for index in line), np.int64, total)
        amounts = [edge.effects[index] for edge, line in zip(graph.edges, touched, strict=True) for index in line]
        self._high, self._high_endless = _ends([effect.high for effect in amounts])
        self._low, self._low_endless = _ends([None if effect.low is None else -effect.low for effect in amounts])

    def changes(self, edges: Matrix, rows: Sequence[Row]) -> tuple[Matrix, Matrix]:
        """Return the best change of every row over each edge, 0 where there is no limit, and where that is."""
        counts = self._first[edges + 1] - self._first[edges]
        line = np.repeat(np.arange(len(edges)), counts)
        entry = np.arange(len(line)) + np.repeat(self._first[edges] - (np.cumsum(counts) - counts), counts)
        shape = len(edges), len(rows)
        kind: Any = object if object in (self._high.dtype, self._low.dtype) else np.int64
        changes, endless = np.zeros(shape, dtype=kind), np.zeros(shape, dtype=np.int64)
        for sign, amounts, limitless in ((1, self._high, self._high_endless), (-1, self._low, self._low_endless)):
            column = np.full(len(self.graph.fmp.variables) + 1, -1)
            for number, row in enumerate(rows):
                if row.sign == sign:
                    column[row.variable] = number
            where = column[self._variable[entry]]
            used = where >= 0
            changes[line[used], where[used]] = amounts[entry[used]]
            endless[line[used], where[used]] = limitless[entry[used]]
        return changes, endless


def _ends(values: list[int | None]) -> tuple[Matrix, Matrix]:
    limitless = np.fromiter((value is None for value in values), bool, len(values))
    known = [value or 0 for value in values]
    kind: Any = np.int64 if all(-SAFE < value < SAFE for value in known) else object
    return np.array(known, dtype=kind), limitless


class Component:
    """A strongly connected subgraph in its own numbering, with the rows' changes per edge.

    `changes[e, r]` is the best change of row r over edge e, 0 where `endless[e, r]` says that it has no limit.
    """

    def __init__(self, table: Table, nodes: Sequence[int], edges: Sequence[int], rows: Sequence[Row]) -> None:
        self.graph, self.nodes, self.edges, self.rows = table.graph, list(nodes), list(edges), list(rows)
        chosen = np.asarray(edges, dtype=np.int64)
        order = np.argsort(np.asarray(nodes, dtype=np.int64))
        sorted_nodes = np.asarray(nodes, dtype=np.int64)[order]
        self.sources: Matrix = order[np.searchsorted(sorted_nodes, table.sources[chosen])]
        self.targets: Matrix = order[np.searchsorted(sorted_nodes, table.targets[chosen])]
        changes, self.endless = table.changes(chosen, rows)
        largest = max(abs(int(changes.max())), abs(int(changes.min()))) if changes.size else 0
        # Sums over a walk, and over the walks of all edges, must not overflow.
        kind: Any = np.int64 if largest * (2 * len(self.nodes) + 2) * (len(self.edges) + 1) < SAFE else object
        self.changes: Matrix = changes.astype(kind)

    @cached_property
    def longest_walks(self) -> LongestWalks:
        """The compiled search over this component's edges."""
        return LongestWalks(len(self.nodes), self.sources, self.targets)

    def effect(self, walk: Sequence[int]) -> list[int]:
        """Return the sum of changes along a walk of local edges, leaving endless amounts out."""
        return [int(value) for value in self.changes[list(walk)].sum(axis=0)]

    def sustains(self, walk: Sequence[int]) -> bool:
        """Return whether repeating the closed walk lowers no counter in the long run."""
        edges = list(walk)
        return bool(((self.changes[edges].sum(axis=0) >= 0) | (self.endless[edges].sum(axis=0) > 0)).all())


class RootedWalks:
    """For every edge the closed walk root -> edge -> root along breadth-first trees, and all their effects at once."""

    def __init__(self, component: Component) -> None:
        self._component = component
        size = len(component.nodes)
        sources, targets = component.sources, component.targets
        self._out = _Tree(size, sources, targets)
        self._back = _Tree(size, targets, sources)
        totals = self.sums(np.concatenate([component.changes, component.endless], axis=1))
        rows = len(component.rows)
        self.effects: Matrix = totals[:, :rows]
        self.endless: Matrix = totals[:, rows:]
        self.lengths: Matrix = self._out.depths[sources] + 1 + self._back.depths[targets]

    def sums(self, weights: Matrix) -> Matrix:
        """Return the sums of the weights (a row per edge) along the closed walk of every edge."""
        sources, targets = self._component.sources, self._component.targets
        total: Matrix = self._out.sums(weights)[sources] + weights + self._back.sums(weights)[targets]
        return total

    def walk(self, edge: int) -> list[int]:
        """Return the closed walk through the edge, as local edges starting at the root (local node 0)."""
        component = self._component
        before = self._out.path(int(component.sources[edge]))
        return [*before[::-1], edge, *self._back.path(int(component.targets[edge]))]


class _Tree:
    """A breadth-first tree from local node 0 along the edges, which lead from `nearer` to `farther`."""

    def __init__(self, size: int, nearer: Matrix, farther: Matrix) -> None:
        order, self._entered = breadth_first(size, nearer, farther)
        self._nearer = nearer
        self.depths: Matrix = np.zeros(size, dtype=np.int64)
        depths, entered, ends = self.depths.tolist(), self._entered.tolist(), nearer.tolist()
        for node in order.tolist()[1:]:
            depths[node] = depths[ends[entered[node]]] + 1
        self.depths[:] = depths
        # Nodes of one depth follow one another in the order: their sums are one array operation.
        self._layers = np.split(order, np.flatnonzero(np.diff(self.depths[order])) + 1)[1:]

    def sums(self, weights: Matrix) -> Matrix:
        """Return for every node the sum of the weights on its path from the root."""
        sums = np.zeros((len(self.depths), weights.shape[1]), dtype=weights.dtype)
        for layer in self._layers:
            edges = self._entered[layer]
            sums[layer] = sums[self._nearer[edges]] + weights[edges]
        return sums

    def path(self, node: int) -> list[int]:
        """Return the edges between the node and the root, the node's own first."""
        edges = []
        while (step := int(self._entered[node])) >= 0:
            edges.append(step)
            node = int(self._nearer[step])
        return edges
