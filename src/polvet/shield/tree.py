"""A shield as a decision tree: small, readable, and exact on every state that allowed runs reach.

The tree tests one variable at a time (`x <= 3`) and each leaf is a set of allowed actions. It is grown until no leaf is
mixed, so it always agrees with the table; ended runs (fail, goal, nothing applicable) are left out, as nobody asks there.
Differs  from the table in states that no allowed run reaches: the table refuses to answer, a tree answers something.
Cost     one pass over the states per level and variable (greedy, by Gini impurity). Nothing is pruned: size is reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.errors import InputError, Where
from polvet.files import read_json, write_whole
from polvet.shield.file import Shield

FORMAT = "shield-tree/1"
RENEW = "Write the tree again with polvet permit --tree."
Allowed = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Where the variable is at most `value` (false is at most false) go to node `low`, else to `high`."""

    variable: str
    value: float
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class ShieldTree:
    """Nodes in one list, the root first; a leaf is a tuple of allowed actions."""

    nodes: tuple[Split | Allowed, ...]
    head: Mapping[str, Any]  # what the shield's file says: model, bound

    def allowed(self, state: Mapping[str, Any]) -> Allowed:
        """Return the allowed actions of a state that an allowed run reaches and in which it has not ended."""
        node = self.nodes[0]
        while isinstance(node, Split):
            if node.variable not in state:
                raise InputError(f"the state gives no value for {node.variable}.", hint="Give every variable a value.")
            node = self.nodes[node.low if state[node.variable] <= node.value else node.high]
        return node

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return sum(not isinstance(node, Split) for node in self.nodes)

    @property
    def depth(self) -> int:
        """How many tests the longest way to a leaf has."""
        return max(depth for depth, _ in self._walk())

    def _walk(self) -> Iterator[tuple[int, int]]:
        stack = [(0, 0)]
        while stack:
            depth, number = stack.pop()
            yield depth, number
            if isinstance(node := self.nodes[number], Split):
                stack += [(depth + 1, node.high), (depth + 1, node.low)]

    def lines(self) -> list[str]:
        """Return the tree as indented text."""
        prefix: dict[int, str] = {0: ""}
        shown = []
        for depth, number in self._walk():
            node = self.nodes[number]
            if isinstance(node, Split):
                prefix[node.low] = f"{node.variable} <= {node.value:g}: "
                prefix[node.high] = f"{node.variable} > {node.value:g}: "
                text = prefix[number].rstrip()
            else:
                text = prefix[number] + (
                    ", ".join("the world moves" if one is None else one for one in node) or "nothing"
                )
            if text:
                shown.append("  " * max(0, depth - 1) + text)
        return shown

    def save(self, path: str | Path) -> None:
        """Write the tree as one JSON file."""
        nodes = [
            {"variable": node.variable, "at_most": node.value, "low": node.low, "high": node.high}
            if isinstance(node, Split)
            else {"allowed": list(node)}
            for node in self.nodes
        ]
        write_whole(path, json.dumps({**self.head, "format": FORMAT, "nodes": nodes}, ensure_ascii=False) + "\n")


def grow_tree(shield: Shield) -> ShieldTree:
    """Return a tree that allows in every listed state, unless runs end there, exactly what the shield allows.

    >>> from fractions import Fraction
    >>> places = {(k,): (("go", "wait") if k < 3 else ("wait",) if k < 5 else ()) for k in range(6)}
    >>> grow_tree(Shield(("x",), places, {key: Fraction(0) for key in places})).lines()
    ['x <= 2: go, wait', 'x > 2: wait']
    """
    keys = [key for key, allowed in shield.actions.items() if allowed]
    kinds: dict[Allowed, int] = {}
    classes = np.array([kinds.setdefault(shield.actions[key], len(kinds)) for key in keys], dtype=np.int64)
    sets = list(kinds)
    head = {name: shield.document[name] for name in ("model_sha256", "bound", "options") if name in shield.document}
    if not keys:
        return ShieldTree(((),), head)
    values = np.array([[float(value) for value in key] for key in keys])
    nodes: list[Split | Allowed] = [()]
    todo = [(0, np.arange(len(keys)))]
    while todo:
        number, rows = todo.pop()
        here = classes[rows]
        if (here == here[0]).all():
            nodes[number] = sets[here[0]]
            continue
        column, value = _best_split(values[rows], here)
        low = values[rows, column] <= value
        nodes[number] = Split(shield.variables[column], value, len(nodes), len(nodes) + 1)
        nodes += [(), ()]
        todo += [(len(nodes) - 2, rows[low]), (len(nodes) - 1, rows[~low])]
    tree = ShieldTree(tuple(nodes), head)
    for key in keys:  # states differ in some variable, so a tree exists; that this is one is tested, not believed
        if tree.allowed(dict(zip(shield.variables, key, strict=True))) != shield.actions[key]:
            raise RuntimeError("the tree differs from the shield")
    return tree


def _best_split(values: NDArray[np.float64], classes: NDArray[np.int64]) -> tuple[int, float]:
    """Return the variable and the greatest value of its lower side that leave the least impurity."""
    total = np.bincount(classes)
    best: tuple[float, int, float] | None = None
    for column in range(values.shape[1]):
        seen, place = np.unique(values[:, column], return_inverse=True)
        if len(seen) < 2:
            continue
        counts = np.zeros((len(seen), len(total)))
        np.add.at(counts, (place, classes), 1.0)
        low = np.cumsum(counts, axis=0)[:-1]
        high = total - low
        impurity = -(low**2).sum(axis=1) / low.sum(axis=1) - (high**2).sum(axis=1) / high.sum(axis=1)
        k = int(impurity.argmin())
        if best is None or impurity[k] < best[0]:
            best = float(impurity[k]), column, float(seen[k])
    assert best is not None, "two states that allow different actions differ in some variable"
    return best[1], best[2]


def load_tree(path: str | Path) -> ShieldTree:
    """Return the tree in the file; anything malformed is an InputError with its place."""
    document, where = read_json(path), Where(str(path))
    if (
        not isinstance(document, dict)
        or document.get("format") != FORMAT
        or not isinstance(document.get("nodes"), list)
    ):
        raise InputError("is no shield as a tree.", where, f'It needs "format": "{FORMAT}" and "nodes".')
    nodes: list[Split | Allowed] = []
    for place, node in enumerate(document["nodes"]):
        here = where.at("nodes").at(place)
        if isinstance(node, dict) and isinstance(node.get("allowed"), list):
            nodes.append(tuple(node["allowed"]))
            continue
        try:
            split = Split(str(node["variable"]), float(node["at_most"]), int(node["low"]), int(node["high"]))
        except (KeyError, TypeError, ValueError):
            raise InputError("is neither a test nor a leaf.", here, RENEW) from None
        if not (place < split.low < len(document["nodes"]) and place < split.high < len(document["nodes"])):
            raise InputError("leads to a node that is not further down.", here, RENEW)
        nodes.append(split)
    if not nodes:
        raise InputError("has no nodes.", where.at("nodes"), RENEW)
    return ShieldTree(tuple(nodes), {k: v for k, v in document.items() if k not in ("format", "nodes")})
