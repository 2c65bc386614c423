"""Strongly connected components, iteratively: depth never meets Python's recursion limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Pair = tuple[int, int]


def strong_components(nodes: Iterable[int], edges: Sequence[Pair]) -> list[list[int]]:
    """Return the strongly connected components that hold a cycle, successors before predecessors (Tarjan 1972).

    >>> sorted(map(sorted, strong_components(range(4), [(0, 1), (1, 0), (1, 2), (3, 3)])))
    [[0, 1], [3]]
    """
    successors: dict[int, list[int]] = {node: [] for node in nodes}
    loops = set()
    for source, target in edges:
        successors[source].append(target)
        if source == target:
            loops.add(source)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    outcome: list[list[int]] = []
    for root in successors:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        waiting.add(root)
        frames = [(root, iter(successors[root]))]
        while frames:
            node, rest = frames[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    waiting.add(target)
                    frames.append((target, iter(successors[target])))
                    break
                if target in waiting and index[target] < low[node]:
                    low[node] = index[target]
            else:
                frames.pop()
                if frames and low[node] < low[frames[-1][0]]:
                    low[frames[-1][0]] = low[node]
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        waiting.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1 or node in loops:
                        outcome.append(component)
    return outcome
