"""A strongly connected part of a multigraph with its counters, and closed walks through one root that cover it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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


class Component:
    """A strongly connected subgraph in its own numbering, with the rows' changes per edge.

    `changes[e, r]` is the best change of row r over edge e, 0 where `endless[e, r]` says that it has no limit.
    """

    def __init__(self, graph: Multigraph, nodes: Sequence[int], edges: Sequence[int], rows: Sequence[Row]) -> None:
        self.graph, self.nodes, self.edges, self.rows = graph, list(nodes), list(edges), list(rows)
        local = {node: index for index, node in enumerate(nodes)}
        primitives = [graph.edges[edge] for edge in edges]
        self.sources = [local[edge.source] for edge in primitives]
        self.targets = [local[edge.target] for edge in primitives]
        changes = [[best_change(edge, row) for row in rows] for edge in primitives]
        largest = max((abs(value) for line in changes for value in line if value is not None), default=0)
        kind: Any = np.int64 if largest * (2 * len(self.nodes) + 2) * (len(edges) + 1) < SAFE else object
        shape = len(edges), len(self.rows)
        self.changes: Matrix = np.array([[v or 0 for v in line] for line in changes], dtype=kind).reshape(shape)
        self.endless: Matrix = np.array([[v is None for v in line] for line in changes], dtype=np.int64).reshape(shape)

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
        self._from_root = _tree(size, sources, targets)
        self._to_root = _tree(size, targets, sources)
        totals = self.sums(np.concatenate([component.changes, component.endless], axis=1))
        rows = len(component.rows)
        self.effects: Matrix = totals[:, :rows]
        self.endless: Matrix = totals[:, rows:]
        depth_out, depth_back = (
            _depths(tree, ends) for tree, ends in ((self._from_root, sources), (self._to_root, targets))
        )
        self.lengths: Matrix = depth_out[sources] + 1 + depth_back[targets]

    def sums(self, weights: Matrix) -> Matrix:
        """Return the sums of the weights (a row per edge) along the closed walk of every edge."""
        sources, targets = self._component.sources, self._component.targets
        size = len(self._component.nodes)
        out = _sums(self._from_root, sources, weights, size)
        back = _sums(self._to_root, targets, weights, size)
        total: Matrix = out[sources] + weights + back[targets]
        return total

    def walk(self, edge: int) -> list[int]:
        """Return the closed walk through the edge, as local edges starting at the root (local node 0)."""
        component = self._component
        before = []
        node = component.sources[edge]
        while (step := self._from_root.get(node, -1)) >= 0:
            before.append(step)
            node = component.sources[step]
        after = []
        node = component.targets[edge]
        while (step := self._to_root.get(node, -1)) >= 0:
            after.append(step)
            node = component.targets[step]
        return [*before[::-1], edge, *after]


def _tree(size: int, sources: Sequence[int], targets: Sequence[int]) -> dict[int, int]:
    """Return node -> the edge that a breadth-first search from node 0 entered it by, in the order of the search."""
    leaving: list[list[int]] = [[] for _ in range(size)]
    for edge, source in enumerate(sources):
        leaving[source].append(edge)
    entered = {0: -1}
    agenda = [0]
    for node in agenda:
        for edge in leaving[node]:
            if targets[edge] not in entered:
                entered[targets[edge]] = edge
                agenda.append(targets[edge])
    return entered


def _sums(tree: dict[int, int], nearer: Sequence[int], weights: Matrix, size: int) -> Matrix:
    sums = np.zeros((size, weights.shape[1]), dtype=weights.dtype)
    for node, edge in tree.items():
        if edge >= 0:
            sums[node] = sums[nearer[edge]] + weights[edge]
    return sums


def _depths(tree: dict[int, int], nearer: Sequence[int]) -> Matrix:
    depths = np.zeros(len(tree), dtype=np.int64)
    for node, edge in tree.items():
        if edge >= 0:
            depths[node] = depths[nearer[edge]] + 1
    return depths
