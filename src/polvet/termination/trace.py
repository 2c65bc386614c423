"""GenSieve's rounds as the paper draws them: per round the elimination forest, then the removed edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polvet.files import Json
from polvet.policy.finite_memory import EdgeId, Multigraph
from polvet.termination.elimination import Tree

if TYPE_CHECKING:
    from polvet.termination.gensieve import GenSieveTrace, Turn


def trace_lines(graph: Multigraph, trace: GenSieveTrace) -> list[str]:
    """Return the rounds as text: `<vertices; elimination point> [children]`, then what the turn did."""
    lines = []
    for number, turns in enumerate(trace.rounds, start=1):
        for turn in turns:
            lines.append(f"round {number}: {_tree_text(graph, turn.tree)}")
            if turn.removed:
                ids = ", ".join(map(str, _ids(graph, turn)))
                lines.append(f"  removed edges {ids} (they lower {', '.join(turn.variables)})")
            else:
                proved = "every path lowers a variable that none raises"
                lines.append(f"  {proved}" if turn.proved else "  no edge can be removed")
    return lines


def trace_rounds(graph: Multigraph, trace: GenSieveTrace) -> list[list[Json]]:
    """Return the rounds as data: per component the forest's nodes with their parents, and the removed edges."""
    return [
        [
            {
                "forest": _tree_nodes(graph, turn.tree),
                "proved": turn.proved,
                "variables": list(turn.variables),
                "removed": _ids(graph, turn),
            }
            for turn in turns
        ]
        for turns in trace.rounds
    ]


def _ids(graph: Multigraph, turn: Turn) -> list[EdgeId]:
    return [graph.fmp.edges[graph.edges[edge].edge].id for edge in turn.removed]


def _tree_nodes(graph: Multigraph, tree: Tree) -> list[Json]:
    nodes: list[Json] = []
    agenda: list[tuple[Tree, int | None]] = [(tree, None)]
    while agenda:
        node, parent = agenda.pop()
        agenda += [(child, len(nodes)) for child in reversed(node.children)]
        names = [graph.names[vertex] for vertex in node.vertices]
        nodes.append({"states": names, "point": graph.names[node.point], "parent": parent})
    return nodes


def _tree_text(graph: Multigraph, tree: Tree) -> str:
    parts: list[str] = []
    agenda: list[Tree | str] = [tree]
    while agenda:
        item = agenda.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        names = " ".join(graph.names[vertex] for vertex in item.vertices)
        parts.append(f"<{names}; {graph.names[item.point]}>")
        for child in reversed(item.children):
            agenda += ["]", child, " ["]
    return "".join(parts)
