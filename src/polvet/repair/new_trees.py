"""Trees that a repair adds: penalty trees, trees that separate conflicting faults, and trees that single out points.

Source   section 5.1 (`penalty_trees.py`), Appendix B (`penalty`), section 5.3 (`separating_shape`; `conflicts` in `demands.py`)
Differs  the pre-check on equal output configurations is exact: it asks for an order of the actions that serves all demands.
         A separating tree stops where every leaf is free of conflicts (the paper: one state per leaf), so it stays small.
         Points of many faults share one tree (`point_shape`), where the paper has a tree for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polvet.policy.protocol import Rows
from polvet.policy.trees import MISSING_NAN, VECTOR, Tree, TreeEnsemble, collapsed, make_tree, siblings_adjacent
from polvet.repair.demands import Demands, Flags, Reals, conflicts

EXACT_INTEGERS = 2**24  # below, float32 knows every integer


@dataclass(slots=True)
class Shape:
    """A tree in the making: splits and numbered leaves."""

    comparison: str
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    def leaf(self) -> int:
        """Add a leaf and return its number."""
        return self._node(-1, 0.0)

    def split(self, feature: int, threshold: float) -> int:
        """Add a split whose children are still missing and return its number."""
        return self._node(feature, threshold)

    def _node(self, feature: int, threshold: float) -> int:
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.left.append(-1)
        self.right.append(-1)
        return len(self.feature) - 1

    def below(self, value: float) -> float:
        """Return the threshold that sends float32 values < `value` left and the others right."""
        return value if self.comparison == "<" else float(np.nextafter(np.float32(value), np.float32(-np.inf)))

    def tree(self, output: int, values: Reals) -> Tree:
        """Return the tree with these values per node ([nodes] or [nodes, outputs])."""
        tree = make_tree(output, self.feature, self.threshold, self.left, self.right, values, None, MISSING_NAN)
        return siblings_adjacent(tree)


def next_value(value: float, integer: bool) -> float:
    """Return the least value above that an input can have: the next integer, or the next float32.

    >>> next_value(3.0, True), next_value(1.0, False) > 1.0
    (4.0, True)
    """
    if integer and abs(value) < EXACT_INTEGERS:
        return value + 1.0
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


def point_shape(rows: Rows, integers: Sequence[bool], comparison: str) -> tuple[Shape, list[int]]:
    """Return a tree shape with one leaf for each of the (different) rows that nothing else reaches, and these leaves.

    An inner part halves the rows by their values; below, each row is checked against input after input: not below its value
    (a), and below the next value (b), unless a split above has said so already.
    """
    shape = Shape(comparison)
    own = [-1] * len(rows)
    todo: list[tuple[npt.NDArray[np.intp], frozenset[int], frozenset[int], Callable[[int], None]]] = []
    todo.append((np.arange(len(rows)), frozenset(), frozenset(), lambda node: None))
    while todo:
        who, low, high, attach = todo.pop()
        if len(who) > 1:
            feature, value = _halving(rows[who])
            node = shape.split(feature, shape.below(value))
            attach(node)
            under = rows[who, feature] < value
            least = float(rows[who[~under], feature].min())
            tight = bool((rows[who[~under], feature] == least).all())  # then `value` is the lower end of all of them
            last = float(rows[who[under], feature].max())
            closed = bool((rows[who[under], feature] == last).all()) and next_value(last, integers[feature]) == value
            upper = high | {feature} if closed else high - {feature}
            todo.append((who[under], low, upper, _left_of(shape, node)))
            lower = low | {feature} if tight else low - {feature}
            todo.append((who[~under], lower, high, _right_of(shape, node)))
            continue
        row = rows[who[0]]
        for feature, value in enumerate(row.tolist()):
            if feature not in low:
                node = shape.split(feature, shape.below(value))
                attach(node)
                shape.left[node] = shape.leaf()
                attach = _right_of(shape, node)
            if feature not in high:
                node = shape.split(feature, shape.below(next_value(value, integers[feature])))
                attach(node)
                shape.right[node] = shape.leaf()
                attach = _left_of(shape, node)
        own[who[0]] = shape.leaf()
        attach(own[who[0]])
    return shape, own


def _left_of(shape: Shape, node: int) -> Callable[[int], None]:
    return lambda child: shape.left.__setitem__(node, child)


def _right_of(shape: Shape, node: int) -> Callable[[int], None]:
    return lambda child: shape.right.__setitem__(node, child)


def _halving(rows: Rows) -> tuple[int, float]:
    """Return the input and the value that split the rows most evenly into those below it and the others."""
    best = (-1, 0, 0.0)
    for feature in range(rows.shape[1]):
        values, counts = np.unique(rows[:, feature], return_counts=True)
        if len(values) > 1:
            below = np.cumsum(counts)[:-1]
            balance = np.minimum(below, len(rows) - below)
            k = int(balance.argmax())
            if balance[k] > best[0]:
                best = (int(balance[k]), feature, float(values[k + 1]))
    if best[0] < 0:
        raise AssertionError("rows that are all equal cannot be split")
    return best[1], best[2]


def penalty(ensemble: TreeEnsemble) -> float:
    """Return a number below (least possible score - greatest possible score): Appendix B, with a little room for rounding."""
    spread = 1.0 + (max(ensemble.base) - min(ensemble.base))
    for tree in ensemble.trees:
        values = tree.values[tree.leaves]
        if tree.output == VECTOR:
            spread += float(values.max() - values.min())
        else:  # the outputs without this tree get nothing from it
            spread += max(float(values.max()), 0.0) - min(float(values.min()), 0.0)
    return -1.01 * spread * (ensemble.divisor or 1.0)


def separating_shape(
    demands: Demands,
    groups: npt.NDArray[np.intp],
    wish: npt.NDArray[np.intp],
    comparison: str,
    met: Flags | None = None,
) -> tuple[Shape, npt.NDArray[np.intp]]:
    """Return a tree shape in whose leaves no two demands of one group are in conflict, and the leaf of each demand.

    `wish` is the action each demand would take; splits make wishes purer (Gini). Equal rows stay together. With `met`, leaves
    all of whose demands are met already may hold any.
    """

    def is_torn(who: npt.NDArray[np.intp]) -> bool:
        if met is not None and met[who].all():
            return False
        return len(conflicts(demands.pick(who), groups[who])) > 0

    return _grow(demands.rows, wish, is_torn, comparison)


def pure_shape(rows: Rows, kinds: npt.NDArray[np.intp], comparison: str) -> tuple[Shape, npt.NDArray[np.intp]]:
    """Return a tree shape in whose leaves all rows are of one kind, and the leaf of each row."""
    return _grow(rows, kinds, lambda who: bool((kinds[who] != kinds[who[0]]).any()), comparison)


def _grow(
    rows: Rows, wish: npt.NDArray[np.intp], is_torn: Callable[[npt.NDArray[np.intp]], bool], comparison: str
) -> tuple[Shape, npt.NDArray[np.intp]]:
    """Split rows, wishes as pure as can be, until no part is torn."""
    shape = Shape(comparison)
    leaf_of = np.full(len(rows), -1, dtype=np.intp)
    todo: list[tuple[npt.NDArray[np.intp], Callable[[int], None]]] = [(np.arange(len(rows)), lambda node: None)]
    while todo:
        who, attach = todo.pop()
        split = _purest(rows[who], wish[who]) if is_torn(who) else None
        if split is None:
            leaf_of[who] = node = shape.leaf()
            attach(node)
            continue
        feature, value = split
        node = shape.split(feature, shape.below(value))
        attach(node)
        under = rows[who, feature] < value
        todo.append((who[under], _left_of(shape, node)))
        todo.append((who[~under], _right_of(shape, node)))
    return shape, leaf_of


def _purest(rows: Rows, wish: npt.NDArray[np.intp]) -> tuple[int, float] | None:
    """Return the split with the least Gini impurity of the wishes, the evenest among equals; None if all rows are equal."""
    kinds, code = np.unique(wish, return_inverse=True)
    hot = np.zeros((len(rows), len(kinds)))
    hot[np.arange(len(rows)), code] = 1.0
    total = hot.sum(axis=0)
    best: tuple[float, int, float] | None = None
    for feature in range(rows.shape[1]):
        order = np.argsort(rows[:, feature], kind="stable")
        values = rows[order, feature]
        cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
        if not len(cuts):
            continue
        left = np.cumsum(hot[order], axis=0)[cuts - 1]
        right = total - left
        size = cuts.astype(np.float64)
        purity = (left**2).sum(axis=1) / size + (right**2).sum(axis=1) / (len(rows) - size)
        value = purity + 1e-9 * np.minimum(size, len(rows) - size)
        k = int(value.argmax())
        if best is None or value[k] > best[0] + 1e-12:
            best = float(value[k]), feature, float(values[cuts[k]])
    return None if best is None else (best[1], best[2])


def wishes(ensemble: TreeEnsemble, demands: Demands) -> npt.NDArray[np.intp]:
    """Return the best target of each demand."""
    scores = np.where(demands.targets, ensemble.scores(demands.rows).astype(np.float64), -np.inf)
    return np.asarray(scores.argmax(axis=1))


def round_of_trees(ensemble: TreeEnsemble, shape: Shape, values: Reals | None = None) -> list[Tree]:
    """Return the shape as trees that may follow the ensemble's: one with vectors in its leaves, or one for each output.

    `values` [nodes, outputs] are the leaf values; without, all are 0 and no score changes.
    """
    table = np.zeros((len(shape.feature), len(ensemble.outputs))) if values is None else values
    if any(tree.output == VECTOR for tree in ensemble.trees):
        return [shape.tree(VECTOR, table)]
    return [shape.tree(output, table[:, output]) for output in moving_outputs(ensemble)]


def moving_outputs(ensemble: TreeEnsemble) -> list[int]:
    """Return the outputs that trees may add to: a binary classifier's first one is constant."""
    if len(ensemble.outputs) == 2 and ensemble.trees and all(tree.output == 1 for tree in ensemble.trees):
        return [1]
    return list(range(len(ensemble.outputs)))


def without_idle_trees(ensemble: TreeEnsemble, original: int) -> TreeEnsemble:
    """Return the ensemble without added trees and splits that do nothing; where rounds must be whole, empty leaves remain."""
    trees = list(ensemble.trees[:original])
    added = ensemble.trees[original:]
    size = len(moving_outputs(ensemble)) if ensemble.in_rounds else 1
    for first in range(0, len(added), size):
        part = added[first : first + size]
        idle = [not tree.values[tree.leaves].any() for tree in part]
        if not all(idle):
            trees += [_empty(tree) if nothing else collapsed(tree) for tree, nothing in zip(part, idle, strict=True)]
    return ensemble.with_trees(trees)


def _empty(tree: Tree) -> Tree:
    return make_tree(tree.output, [-1], [0.0], [-1], [-1], np.zeros((1, tree.values.shape[1])), None, MISSING_NAN)
