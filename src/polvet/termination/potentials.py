"""Potentials, or cycles that forbid them: exact longest walks by Bellman and Ford.

For integer weights w on edges, either there is a potential p with w + p(target) - p(source) <= 0 on every edge, or a
cycle of positive weight exists. Both answers are exact. The compiled search does it where machine integers suffice;
`find_potential_at_once` relaxes all edges in one array operation on integers of any size; `find_potential` is the plain twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.termination.walks import SAFE, Component, Matrix

Cycles = list[list[int]]
AT_A_TIME = 20_000_000
"""Edges that the compiled search may relax between two looks at the clock."""


def potential_or_cycles(
    component: Component, weights: Matrix, budget: Budget = UNLIMITED
) -> tuple[list[int] | None, Cycles]:
    """Return a potential and no cycles, or None and some cycles of positive weight, each a list of edge indices."""
    size = len(component.nodes)
    largest = max(abs(int(weights.max())), abs(int(weights.min()))) if len(weights) else 0
    # The compiled search looks for cycles once a sweep: values stay below a few walks through every node.
    if largest * (16 * size + 16) >= SAFE:
        return find_potential_at_once(size, component.sources, component.targets, weights, budget)
    search = component.longest_walks
    start: Matrix | None = np.zeros(size, dtype=np.int64)
    exact = np.ascontiguousarray(weights, dtype=np.int64)
    while True:
        outcome = search.search_whole(exact, 1 + AT_A_TIME // (len(exact) + 1), start)
        if isinstance(outcome, np.ndarray):
            return (-outcome).tolist(), []
        if outcome is not None:
            return None, [cycle.tolist() for cycle in outcome]
        budget.check()
        start = None


def find_potential(
    size: int, sources: Sequence[int], targets: Sequence[int], weights: Sequence[int]
) -> tuple[list[int] | None, Cycles]:
    """Return what `potential_or_cycles` does, edge by edge.

    >>> find_potential(2, [0, 1], [1, 0], [3, -3])
    ([0, -3], [])
    >>> find_potential(2, [0, 1], [1, 0], [3, -2])
    (None, [[0, 1]])
    """
    longest = [0] * size
    parent = [-1] * size
    triples = list(zip(sources, targets, weights, strict=True))
    for passed in range(size + 1):
        changed = False
        for index, (source, target, weight) in enumerate(triples):
            if longest[source] + weight > longest[target]:
                longest[target] = longest[source] + weight
                parent[target] = index
                changed = True
        if not changed:
            return [-value for value in longest], []
        if passed % 4 == 3 or passed == size:
            cycles = _parent_cycles(size, parent, sources)
            positive = [cycle for cycle in cycles if sum(weights[edge] for edge in cycle) > 0]
            if positive:
                return None, positive
    raise AssertionError("after `size` passes a change needs a positive cycle")


def find_potential_at_once(
    size: int, sources: Matrix, targets: Matrix, weights: Matrix, budget: Budget = UNLIMITED
) -> tuple[list[int] | None, Cycles]:
    """Return what `potential_or_cycles` does, relaxing all edges at once."""
    largest = max(map(abs, map(int, weights)), default=0)
    kind: Any = np.int64 if largest * (size + 2) < SAFE else object
    source = np.asarray(sources, dtype=np.int64)
    target = np.asarray(targets, dtype=np.int64)
    order = np.argsort(target, kind="stable")
    back = source.tolist()
    source, target = source[order], target[order]
    weight = np.asarray(weights, dtype=kind)[order]
    heads, starts = np.unique(target, return_index=True)
    lengths = np.diff(np.append(starts, len(target)))
    longest = np.zeros(size, dtype=kind)
    parent = np.full(size, -1, dtype=np.int64)
    check_at = 8
    for passed in range(1, size + 2):
        budget.check()
        reach = longest[source] + weight
        best = np.maximum.reduceat(reach, starts)
        better = best > longest[heads]
        if not better.any():
            return [-int(value) for value in longest], []
        longest[heads[better]] = best[better]
        attained = np.flatnonzero(np.repeat(better, lengths) & (reach == np.repeat(best, lengths)))
        parent[target[attained]] = order[attained]
        if passed == check_at or passed == size + 1:
            check_at *= 2
            cycles = _parent_cycles(size, parent.tolist(), back)
            positive = [cycle for cycle in cycles if sum(int(weights[edge]) for edge in cycle) > 0]
            if positive:
                return None, positive
    raise AssertionError("after `size` passes a change needs a positive cycle")


def _parent_cycles(size: int, parent: Sequence[int], sources: Sequence[int]) -> Cycles:
    """Return the cycles of the graph in which every node points back over its parent edge."""
    mark = [0] * size
    cycles = []
    for start in range(size):
        if mark[start]:
            continue
        trail = []
        node = start
        while mark[node] == 0:
            mark[node] = start + 1
            trail.append(node)
            if parent[node] < 0:
                break
            node = sources[parent[node]]
        else:
            if mark[node] == start + 1:
                cycle = []
                last = node
                while True:
                    cycle.append(parent[node])
                    node = sources[parent[node]]
                    if node == last:
                        break
                cycles.append(cycle[::-1])
    return cycles
