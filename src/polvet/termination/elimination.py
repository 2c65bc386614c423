"""Directed elimination forests: which vertex to take out of each component, and of what is left of it, and so on.

Source   "Hierarchical Decompositions and Termination Analysis for Generalized Planning", Definition 6 (after
         McNaughton 1969 and Gruber 2012). `Tree` is a node <G, v> of the forest with its children
Differs  a component is a set of vertices *and* edges of a multigraph
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polvet.budget import UNLIMITED, Budget
from polvet.termination.components import strong_components

Ends = Sequence[tuple[int, int]]
"""Source and target of every edge of the graph."""
Chooser = Callable[[list[int], list[int], Ends], int]
"""Picks the elimination point of a component from its vertices, given its edges."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A node <G, v> of a directed elimination forest: vertices and edges of G, the elimination point v, children."""

    vertices: tuple[int, ...]
    edges: tuple[int, ...]
    point: int
    children: tuple[Tree, ...]

    height: int = 1  # the number of levels


def elimination_forest(
    edges: Sequence[int], ends: Ends, choose: Chooser, spend: Callable[[int], None] = lambda amount: None
) -> tuple[Tree, ...]:
    """Return one elimination tree for every component of the graph that these edges make.

    `spend` hears how many edges each component has, so that a budget can end the work. Deep trees are no danger: the
    components are listed first, parents before children, and put together afterwards.
    """
    outcome: list[tuple[list[int], list[int], int, int]] = []  # vertices, edges, elimination point, parent
    agenda = [(list(edges), -1)]
    while agenda:
        here, parent = agenda.pop()
        for component in strong_components(sorted({v for e in here for v in ends[e]}), [ends[e] for e in here]):
            members = set(component)
            inside = [edge for edge in here if ends[edge][0] in members and ends[edge][1] in members]
            spend(len(inside))
            point = choose(sorted(component), inside, ends)
            agenda.append(([edge for edge in inside if point not in ends[edge]], len(outcome)))
            outcome.append((sorted(component), inside, point, parent))
    children: list[list[Tree]] = [[] for _ in range(len(outcome) + 1)]  # the last list holds the roots
    for index in range(len(outcome) - 1, -1, -1):
        vertices, inside, point, parent = outcome[index]
        below = tuple(reversed(children[index]))
        height = 1 + max((child.height for child in below), default=0)
        children[parent].append(Tree(tuple(vertices), tuple(inside), point, below, height))
    return tuple(reversed(children[-1]))


def first_vertex(vertices: list[int], edges: list[int], ends: Ends) -> int:
    """Choose the first vertex."""
    return vertices[0]


def random_vertex(rng: random.Random) -> Chooser:
    """Return a chooser that picks at random, as the paper's implementation does."""
    return lambda vertices, edges, ends: rng.choice(vertices)


def lowest_remaining_height(vertices: list[int], edges: list[int], ends: Ends, *, budget: Budget = UNLIMITED) -> int:
    """Choose the vertex whose removal leaves the smallest largest component; ties go to the busiest vertex.

    A heuristic for trees of small height (finding the smallest is NP-complete).
    """

    def key(vertex: int) -> tuple[int, int, int]:
        budget.check()
        rest = [ends[edge] for edge in edges if vertex not in ends[edge]]
        sizes = [len(component) for component in strong_components([v for v in vertices if v != vertex], rest)]
        degree = sum(vertex in ends[edge] for edge in edges)
        return max(sizes, default=0), -degree, vertex

    return min(vertices, key=key)
