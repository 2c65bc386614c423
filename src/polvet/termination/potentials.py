"""Potentials, or cycles that forbid them: exact longest walks by Bellman and Ford.

For integer weights w on edges, either there is a potential p with w + p(target) - p(source) <= 0 on every edge, or a
cycle of positive weight exists. Both answers are exact; `find_potential` is the plain twin, `find_potential_at_once`
relaxes all edges in one array operation and is used above a few hundred edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget

Cycles = list[list[int]]
SMALL = 400
"""Up to this many edges the plain loop is faster than arrays."""


def potential_or_cycles(
    size: int, sources: Sequence[int], targets: Sequence[int], weights: Sequence[int], budget: Budget = UNLIMITED
) -> tuple[list[int] | None, Cycles]:
    """Return a potential and no cycles, or None and some cycles of positive weight, each a list of edge indices."""
    if len(sources) <= SMALL:
        return find_potential(size, sources, targets, weights)
    return find_potential_at_once(size, sources, targets, weights, budget)


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
    size: int, sources: Sequence[int], targets: Sequence[int], weights: Sequence[int], budget: Budget = UNLIMITED
) -> tuple[list[int] | None, Cycles]:
    """Return what `potential_or_cycles` does, relaxing all edges at once."""
    largest = max(map(abs, map(int, weights)), default=0)
    kind: Any = np.int64 if largest * (size + 2) < 2**62 else object
    source = np.asarray(sources, dtype=np.int64)
    target = np.asarray(targets, dtype=np.int64)
    order = np.argsort(target, kind="stable")
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
            cycles = _parent_cycles(size, parent.tolist(), sources)
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
