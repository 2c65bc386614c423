"""Why a plan ends, round by round, as pictures: what each round removes, its elimination forest and the quotient graphs.

A round is what GenSieve did (`trace_rounds`, as `polvet terminates --json` tells it), or a level of a ranking: the edges that lower the
rank there are taken finitely often, and gone in the next. `plan_svg` is one SVG file with the plan, or with all rounds below each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polvet.policy.finite_memory import Edge, EdgeId, FiniteMemoryPolicy
from polvet.policy.finite_memory.draw import action_label, edge_label
from polvet.report.graph import ARROWS, Arc, Drawing, box, graph_drawing, half_width
from polvet.report.markup import text

MAX_NODES, MAX_EDGES = 60, 200
"""Of plans that are drawn."""
MAX_LETTERS = 16
"""Of a control state's name in a picture."""
MAX_QUOTIENTS = 4
"""That are drawn of one round."""
GAP, HEAD = 24.0, 30.0
LEVEL, LEAF = 74.0, 18.0
STYLE = (
    "svg{background:#fff;font-family:system-ui,sans-serif}.node rect{fill:#fff;stroke:#59636e;stroke-width:1.5}"
    ".node text,.head{fill:#1f2328;font-size:13px}.head{font-weight:600}.edge path{fill:none;stroke:#59636e;stroke-width:1.4}"
    ".edge text{font-size:11.5px;fill:#59636e;paint-order:stroke;stroke:#fff;stroke-width:4px}.arrow{fill:#59636e}"
    ".edge.prefix path{stroke:#0a58ca;stroke-width:2.6;stroke-dasharray:7 4}.arrow.prefix{fill:#0a58ca}"
    ".edge.cycle path,.edge.removed path{stroke:#b42318;stroke-width:3}.arrow.cycle,.arrow.removed{fill:#b42318}"
    ".edge.removed path{stroke-dasharray:7 4}.edge.falls path{stroke:#1a7f37;stroke-width:2.8}.arrow.falls{fill:#1a7f37}"
    ".edge.gone path{stroke:#d8dee4}.edge.gone text{fill:#b6bec8}.arrow.gone{fill:#d8dee4}"
    ".node.initial rect{stroke-width:3.5}.node.point rect{stroke:#0a58ca;stroke-width:3}"
)
"""Colours of a file of its own; in a page they come from its style sheet, which says the same."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of an elimination forest: its control states, the point, and its parent's number."""

    states: tuple[str, ...]
    point: str
    parent: int | None


@dataclass(frozen=True, slots=True)
class Round:
    """What is left at the start of a round, what it removes, its forest (one list of nodes a tree), and a word on it."""

    alive: frozenset[EdgeId]
    removed: frozenset[EdgeId]
    trees: tuple[tuple[TreeNode, ...], ...]
    note: str


def rounds_of_trace(plan: FiniteMemoryPolicy, trace: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[Round, ...]:
    """Return GenSieve's rounds."""
    alive = frozenset(edge.id for edge in plan.edges)
    rounds = []
    for turns in trace:
        removed = frozenset(identity for turn in turns for identity in turn["removed"])
        trees = tuple(
            tuple(TreeNode(tuple(n["states"]), n["point"], n["parent"]) for n in turn["forest"]) for turn in turns
        )
        lowered = sorted({name for turn in turns for name in turn["variables"]})
        note = (
            f"dashed edges lower {', '.join(lowered)}, which no path raises: they are removed"
            if removed
            else "every path lowers a variable that none raises"
            if all(turn["proved"] for turn in turns)
            else "no edge can be removed"
        )
        # Edges outside the components of the round lie on no cycle any more.
        inside = {state: k for k, tree in enumerate(trees) for state in tree[0].states}
        alive = frozenset(
            edge.id
            for edge in plan.edges
            if edge.id in alive and edge.source in inside and inside[edge.source] == inside.get(edge.target)
        )
        rounds.append(Round(alive, removed, trees, note))
        alive -= removed
    return tuple(rounds)


def rounds_of_ranking(
    plan: FiniteMemoryPolicy, components: Sequence[Mapping[str, Any]], falling: Any
) -> tuple[Round, ...]:
    """Return the levels of a ranking; `falling(component)` names the edges that always lower its rank."""
    rounds: list[Round] = []
    level = list(components)
    while level:
        inside = {state: k for k, entry in enumerate(level) for state in entry["states"]}
        gone = frozenset().union(*(one.removed for one in rounds))
        alive = frozenset(
            edge.id
            for edge in plan.edges
            if edge.id not in gone and edge.source in inside and inside[edge.source] == inside.get(edge.target)
        )
        removed = frozenset(identity for entry in level for identity in falling(entry)) & alive
        formulas = [_formula(entry) for entry in level]
        note = f"dashed edges lower the rank {'; '.join(formulas[:3])}{' …' if len(formulas) > 3 else ''}"
        rounds.append(Round(alive, removed, (), note))
        level = [child for entry in level for child in entry.get("children", [])]
    return tuple(rounds)


def _formula(entry: Mapping[str, Any]) -> str:
    parts = [f"{value}·{name}" if value != 1 else name for name, value in entry.get("lambda", {}).items() if value]
    return (" + ".join(parts) or "of the control state").replace("+ -", "- ")


def can_draw(plan: FiniteMemoryPolicy) -> bool:
    """Return whether the plan is small enough for a picture."""
    return len(plan.control_states) <= MAX_NODES and len(plan.edges) <= MAX_EDGES


def round_drawing(plan: FiniteMemoryPolicy, one: Round, number: int) -> Drawing:
    """Return the round: the plan with what is gone and what goes, beside it the forest and the quotient graphs."""
    marks = {
        edge.id: "removed" if edge.id in one.removed else "" if edge.id in one.alive else "gone" for edge in plan.edges
    }
    called = short_names(plan)
    parts = [(f"round {number}: {one.note}", plan_drawing(plan, marks))]
    if one.trees:
        parts.append(("elimination forest (states; point)", forest_drawing(one.trees, called)))
    for tree in one.trees:
        for index, node in enumerate(tree):
            children = [child for child in tree if child.parent == index]
            if children and len(parts) < 2 + MAX_QUOTIENTS:
                parts.append((f"quotient by what {called[node.point]} leaves", _quotient(plan, one, node, children)))
    return _in_row(parts)


def short_names(plan: FiniteMemoryPolicy) -> dict[str, str]:
    """Return how control states are called in pictures: by their number where a name is too long for its box."""
    if all(len(name) <= MAX_LETTERS for name in plan.control_states):
        return {name: name for name in plan.control_states}
    return {name: str(k) for k, name in enumerate(plan.control_states, start=1)}


def _arc(edge: Edge, source: int, target: int, sort: str) -> Arc:
    return Arc(source, target, edge_label(edge), sort, action_label(edge))


def plan_drawing(plan: FiniteMemoryPolicy, marks: Mapping[EdgeId, str]) -> Drawing:
    """Return the plan's graph; `marks` are the classes of its edges."""
    number = {name: k for k, name in enumerate(plan.control_states)}
    arcs = [_arc(e, number[e.source], number[e.target], marks.get(e.id, "")) for e in plan.edges]
    names = list(short_names(plan).values())
    return graph_drawing(names, [number[name] for name in plan.initial], arcs, plan.control_states)


def forest_drawing(trees: Sequence[Sequence[TreeNode]], called: Mapping[str, str]) -> Drawing:
    """Return the forest: each node above its children, with its control states, as they are `called`, and its point."""
    boxes, lines = [], []
    left = GAP
    depth = 0
    for tree in trees:
        names = [f"{' '.join(called[one] for one in node.states)}; {called[node.point]}" for node in tree]
        widths = [2 * half_width(name[:28]) for name in names]
        children: dict[int, list[int]] = {}
        for index, node in enumerate(tree):
            if node.parent is not None:
                children.setdefault(node.parent, []).append(index)
        middle: dict[int, float] = {}
        level = {0: 0}
        for index in range(1, len(tree)):
            level[index] = level[tree[index].parent or 0] + 1
        for index in reversed(range(len(tree))):  # children stand behind their parents: leaves from right to left
            if index not in children:
                middle[index] = -1.0
        for index in range(len(tree)):
            if middle.get(index) == -1.0:
                middle[index] = left + widths[index] / 2
                left += widths[index] + LEAF
        for index in reversed(range(len(tree))):
            if index in children:
                middle[index] = sum(middle[child] for child in children[index]) / len(children[index])
        left = max([left, *(middle[index] + widths[index] / 2 + LEAF for index in range(len(tree)))])
        for index, name in enumerate(names):
            x, y = max(middle[index], widths[index] / 2 + 4), 40 + LEVEL * level[index]
            boxes.append(box(name, x, y, "node point" if index in children else "node", 28))
            parent = tree[index].parent
            if parent is not None:
                lines.append(
                    f'<g class="edge"><path d="M{middle[parent]:.1f} {y - LEVEL + 17:.1f} L{x:.1f} {y - 17:.1f}"/></g>'
                )
            depth = max(depth, level[index])
        left += LEAF
    return Drawing(left + GAP, 80 + LEVEL * depth, "".join([*lines, *boxes]))


def _quotient(plan: FiniteMemoryPolicy, one: Round, node: TreeNode, children: Iterable[TreeNode]) -> Drawing:
    """Return the graph of the node's component in which every child is one vertex."""
    called = short_names(plan)
    shrunk = {
        state: f"c: {' '.join(called[one] for one in child.states)}" for child in children for state in child.states
    }
    home = {state: shrunk.get(state, called[state]) for state in node.states}
    names = list(dict.fromkeys(home.values()))
    number = {name: k for k, name in enumerate(names)}
    arcs = []
    for edge in plan.edges:
        if edge.id in one.alive and edge.source in node.states and edge.target in node.states:
            source, target = home[edge.source], home[edge.target]
            if source != target or edge.source not in shrunk:
                sort = "removed" if edge.id in one.removed else ""
                arcs.append(_arc(edge, number[source], number[target], sort))
    return graph_drawing(names, [number[home[node.point]]], arcs)


def _in_row(parts: Sequence[tuple[str, Drawing]]) -> Drawing:
    """Return drawings beside each other, each under its words."""
    x, height, bodies = 0.0, 0.0, []
    for words, drawing in parts:
        width = max(drawing.width, 7.2 * len(words) + GAP)
        bodies.append(
            f'<text class="head" x="{x + 8:.0f}" y="20">{text(words)}</text>{drawing.svg(words, x=x, y=HEAD)}'
        )
        x += width + GAP
        height = max(height, drawing.height + HEAD)
    return Drawing(x, height, "".join(bodies))


def plan_svg(plan: FiniteMemoryPolicy, marks: Mapping[EdgeId, str], rounds: Sequence[Round]) -> str:
    """Return one SVG file: the rounds below each other, or, where there are none, the plan."""
    drawings = [round_drawing(plan, one, k) for k, one in enumerate(rounds, start=1)] or [plan_drawing(plan, marks)]
    y, bodies = 0.0, []
    for drawing in drawings:
        bodies.append(drawing.svg(plan.name, x=0, y=y))
        y += drawing.height + GAP
    whole = Drawing(max(drawing.width for drawing in drawings), y, ARROWS + "".join(bodies))
    return whole.svg(f"{plan.name}: {len(plan.control_states)} control states", STYLE) + "\n"
