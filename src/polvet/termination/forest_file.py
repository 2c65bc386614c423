"""Elimination forests that a user gives, `forest/1`: per round of GenSieve the trees, each an elimination point and its children.

`{"format": "forest/1", "rounds": [[{"point": "q1", "children": [{"point": "q3"}]}, {"point": "q5"}]]}`. A tree without children may
be its point's name alone. A round's trees must be a directed elimination forest of what is left of the plan then: one tree for
each component, one child for each component that its point leaves. Later rounds than those given choose for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, did_you_mean
from polvet.files import parse_json, read_text, refuse_unknown_keys
from polvet.policy.finite_memory import Multigraph
from polvet.termination.elimination import Chooser, Ends, Tree

FORMAT = "forest/1"


@dataclass(frozen=True, slots=True)
class GivenTree:
    """An elimination point, by its control state's name, and the trees of what it leaves."""

    point: str
    children: tuple[GivenTree, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class GivenForest:
    """The trees of each round."""

    rounds: tuple[tuple[GivenTree, ...], ...]
    where: Where


def read_forest(path: str | Path) -> GivenForest:
    """Return the forests of the file, or raise an InputError with the place."""
    where = Where(str(path))
    document = parse_json(read_text(path), where)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"is no forest: 'format' is not '{FORMAT}'.", where.at("format"), f"Write '{FORMAT}'.")
    refuse_unknown_keys(document, ("format", "comment", "rounds"), where)
    rounds = _list(document.get("rounds"), where.at("rounds"))
    return GivenForest(
        tuple(
            tuple(
                _tree(tree, where.at("rounds").at(k).at(i))
                for i, tree in enumerate(_list(trees, where.at("rounds").at(k)))
            )
            for k, trees in enumerate(rounds)
        ),
        where,
    )


def _list(item: Any, where: Where) -> list[Any]:
    if not isinstance(item, list):
        raise InputError("a list of trees is needed here.", where, 'Write [{"point": "q0", "children": []}].')
    return item


def _tree(item: Any, where: Where) -> GivenTree:
    if isinstance(item, str):
        return GivenTree(item, (), where)
    if not isinstance(item, dict) or not isinstance(item.get("point"), str):
        raise InputError("a tree has a 'point', the name of a control state.", where, 'Write {"point": "q0"}.')
    refuse_unknown_keys(item, ("point", "comment", "children"), where)
    below = where.at("children")
    children = tuple(_tree(child, below.at(i)) for i, child in enumerate(_list(item.get("children", []), below)))
    return GivenTree(item["point"], children, where)


def choosers(forest: GivenForest, graph: Multigraph) -> list[Chooser]:
    """Return for each round what chooses the points that the forest names."""
    number = {name: index for index, name in enumerate(graph.names)}
    outcome: list[Chooser] = []
    for index, trees in enumerate(forest.rounds):
        order: dict[int, int] = {}
        agenda = list(reversed(trees))
        while agenda:  # parents first
            tree = agenda.pop()
            if tree.point not in number:
                hint = did_you_mean(tree.point, number) or "Name control states that can be reached."
                raise InputError(f"no control state '{tree.point}'.", tree.where.at("point"), hint)
            order.setdefault(number[tree.point], len(order))
            agenda += reversed(tree.children)

        def choose(
            vertices: list[int], edges: list[int], ends: Ends, order: dict[int, int] = order, index: int = index
        ) -> int:
            named = [vertex for vertex in vertices if vertex in order]
            if not named:
                shown = " ".join(graph.names[vertex] for vertex in vertices[:8])
                raise InputError(
                    f"names no elimination point of the component {shown}.",
                    forest.where.at("rounds").at(index),
                    "Add one.",
                )
            return min(named, key=order.__getitem__)

        outcome.append(choose)
    return outcome


def check_forest(forest: GivenForest, graph: Multigraph, rounds: Sequence[Sequence[Tree]]) -> None:
    """Raise an InputError where a round that is given is no elimination forest of what was left of the plan."""
    if len(forest.rounds) > len(rounds):
        raise InputError(
            f"{len(forest.rounds)} rounds are given, but nothing is left after {len(rounds)}.",
            forest.where.at("rounds"),
            "Remove those behind.",
        )
    for index, trees in enumerate(forest.rounds):
        agenda = [(trees, tuple(rounds[index]), forest.where.at("rounds").at(index))]
        while agenda:
            given, true, where = agenda.pop()
            points = {graph.names[tree.point]: tree for tree in true}
            if sorted(tree.point for tree in given) != sorted(points):
                expected = "; ".join(" ".join(graph.names[v] for v in tree.vertices[:8]) for tree in true) or "none"
                raise InputError(
                    "the trees are not one for each component that is left.",
                    where,
                    f"The components here are: {expected}.",
                )
            agenda += [(tree.children, points[tree.point].children, tree.where.at("children")) for tree in given]
