"""Tree ensembles: sums of leaf values in tree order, in the arithmetic of the library they come from.

For every output: acc = base; for each tree in order: acc = fl(acc + leaf); at the end acc / divisor where the ensemble
averages. XGBoost: float32, `x < threshold` goes left. LightGBM, scikit-learn: float64, `x <= threshold` goes left, a row
is float32 first. Binary classifiers have two outputs: the first keeps its base score, all trees add to the second.
`reference_scores` is the slow twin of the kernel `_core.Trees`.
Cost     depth comparisons per tree and row
Limits   numerical splits; finite leaves
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import polvet._core as _core
from polvet.errors import InputError, Where
from polvet.policy.protocol import (
    Choices,
    Mask,
    Rows,
    Scores,
    checked_choices,
    checked_mask,
    checked_names,
    checked_rows,
)

AGAIN = "The file is damaged: save the ensemble again."

MAX_NODES = 32 * 1024 * 1024
VECTOR = -1
"""The `output` of a tree whose leaves hold one value per output."""
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
"""What counts as missing at a node: nothing (NaN is read as 0), zero and NaN, or NaN."""
LIGHTGBM_ZERO = np.float32(1e-35)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree in arrays over its nodes, node 0 being the root; `feature` is -1 in leaves.

    `values` is [nodes, 1], or [nodes, outputs] where `output` is VECTOR; only the rows of leaves matter.
    """

    output: int
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    default_left: npt.NDArray[np.bool_]
    missing: npt.NDArray[np.uint8]
    values: npt.NDArray[np.float64]

    def with_values(self, values: npt.ArrayLike) -> Tree:
        """Return the same tree with other leaf values."""
        made = np.array(values, dtype=np.float64).reshape(self.values.shape)
        return replace(self, values=made)

    @property
    def leaves(self) -> npt.NDArray[np.intp]:
        """The indices of the leaves."""
        return np.flatnonzero(self.feature < 0)


@dataclass(frozen=True, slots=True)
class Origin:
    """What an ensemble was read from (a parsed file, an estimator), so that saving keeps what polvet does not use.

    `rounds`: the library stores one tree per output in each round, so trees are added in whole rounds.
    """

    kind: str  # "xgboost", "lightgbm", "sklearn", or the name of another package's format
    document: Any = field(repr=False)
    rounds: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TreeEnsemble:
    """Trees as a policy. `divisor` 0 means no averaging; `base` is the score of each output before the first tree.

    An ensemble that averages divides by the number of its trees, also after a repair has added some (`with_trees`).
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    trees: tuple[Tree, ...]
    base: tuple[float, ...]
    comparison: Literal["<", "<="] = "<"
    arithmetic: Literal["float32", "float64"] = "float32"
    divisor: float = 0.0
    origin: Origin | None = None
    kernel: _core.Trees = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", checked_names(self.inputs, len(self.inputs), "input"))
        object.__setattr__(self, "outputs", checked_names(self.outputs, len(self.base), "output"))
        if self.arithmetic == "float32":  # what is computed with is what is stored and saved
            object.__setattr__(self, "trees", tuple(_rounded(tree) for tree in self.trees))
            object.__setattr__(self, "base", tuple(_to_float32(np.array(self.base, dtype=np.float64)).tolist()))
        check_trees(self, None)
        object.__setattr__(self, "kernel", _compiled(self))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.inputs, self.outputs, self.trees, self.base, self.comparison, self.arithmetic, self.divisor)
        return TreeEnsemble, (*fields, self.origin)

    def scores(self, rows: Rows) -> Scores:
        """Return the scores [n, outputs], in float32 or float64 as `arithmetic` says."""
        rows = checked_rows(self, rows)
        result: Scores = self.kernel.scores32(rows) if self.arithmetic == "float32" else self.kernel.scores64(rows)
        return result

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""
        rows = checked_rows(self, rows)
        return checked_choices(self, self.kernel.choose(rows, checked_mask(self, rows, applicable)), rows)

    def leaf_nodes(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Return [n, trees]: the leaf (its index in the tree) that each row reaches in each tree."""
        starts: npt.NDArray[np.int32] = self.kernel.leaves(checked_rows(self, rows))
        widths = np.array([tree.values.shape[1] for tree in self.trees], dtype=np.int64)
        sizes = np.array([tree.values.size for tree in self.trees], dtype=np.int64)
        first = np.cumsum(sizes) - sizes
        return ((starts - first) // widths).astype(np.int32)

    def with_names(self, inputs: Sequence[str], outputs: Sequence[str]) -> TreeEnsemble:
        """Return the same ensemble under other names."""
        return replace(self, inputs=tuple(inputs), outputs=tuple(outputs))

    def with_trees(self, trees: Sequence[Tree]) -> TreeEnsemble:
        """Return the ensemble with other trees, as a repair makes it."""
        return replace(self, trees=tuple(trees), divisor=float(len(trees)) if self.divisor else 0.0)

    @property
    def in_rounds(self) -> bool:
        """Whether trees are added in whole rounds, one for each output that moves."""
        return self.origin is not None and self.origin.rounds


def make_tree(
    output: int,
    feature: npt.ArrayLike,
    threshold: npt.ArrayLike,
    left: npt.ArrayLike,
    right: npt.ArrayLike,
    values: npt.ArrayLike,
    default_left: npt.ArrayLike | None = None,
    missing: npt.ArrayLike | int = MISSING_NAN,
) -> Tree:
    """Return a tree with its arrays in the right types; `values` may be flat where leaves are scalars.

    >>> stump = make_tree(0, [0, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [0, -1, 1])
    >>> TreeEnsemble(("x",), ("a",), (stump,), (0.0,)).scores(np.array([[0.5]], dtype=np.float32))
    array([[1.]], dtype=float32)
    """
    features = np.asarray(feature, dtype=np.int32)
    count = len(features)
    table = np.asarray(values, dtype=np.float64)
    return Tree(
        output,
        features,
        np.asarray(threshold, dtype=np.float64),
        np.asarray(left, dtype=np.int32),
        np.asarray(right, dtype=np.int32),
        np.zeros(count, dtype=np.bool_) if default_left is None else np.asarray(default_left, dtype=np.bool_),
        np.broadcast_to(np.asarray(missing, dtype=np.uint8), (count,)).copy(),
        table.reshape(count, -1),
    )


def siblings_adjacent(tree: Tree) -> Tree:
    """Return the tree with its nodes numbered so that a right child follows its left sibling, as XGBoost takes for granted.

    >>> turned = siblings_adjacent(make_tree(0, [0, -1, -1], [0.5, 0, 0], [2, -1, -1], [1, -1, -1], [0, 1, -1]))
    >>> turned.left.tolist(), turned.right.tolist(), turned.values.ravel().tolist()
    ([1, -1, -1], [2, -1, -1], [0.0, -1.0, 1.0])
    """
    inner = tree.feature >= 0
    if (tree.right[inner] == tree.left[inner] + 1).all():
        return tree
    order = [0]
    for node in order:
        if inner[node]:
            order += [int(tree.left[node]), int(tree.right[node])]
    number = np.zeros(len(inner), dtype=np.int32)
    number[order] = np.arange(len(order))
    splits = inner[order]
    return Tree(
        tree.output,
        tree.feature[order],
        tree.threshold[order],
        np.where(splits, number[tree.left[order]], -1),
        np.where(splits, number[tree.right[order]], -1),
        tree.default_left[order],
        tree.missing[order],
        tree.values[order],
    )


def collapsed(tree: Tree) -> Tree:
    """Return the tree without the splits that decide nothing: all leaves below them have the same values.

    >>> stump = collapsed(make_tree(0, [0, 1, -1, -1, -1], [5, 3, 0, 0, 0], [1, 3, -1, -1, -1], [2, 4, -1, -1, -1], [0, 0, 7, 1, 1]))
    >>> stump.feature.tolist(), stump.values.ravel().tolist()
    ([0, -1, -1], [0.0, 1.0, 7.0])
    """
    flat, values = tree.feature < 0, tree.values.copy()
    order = [0]  # parents before children
    for node in order:
        if not flat[node]:
            order += [int(tree.left[node]), int(tree.right[node])]
    for node in reversed(order):
        left, right = int(tree.left[node]), int(tree.right[node])
        if not flat[node] and flat[left] and flat[right] and (values[left] == values[right]).all():
            flat[node], values[node] = True, values[left]
    kept = [0]
    for node in kept:
        if not flat[node]:
            kept += [int(tree.left[node]), int(tree.right[node])]
    number = np.full(len(flat), -1, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    ends = flat[kept]
    return Tree(
        tree.output,
        np.where(ends, -1, tree.feature[kept]),
        np.where(ends, 0.0, tree.threshold[kept]),
        np.where(ends, -1, number[tree.left[kept]]),
        np.where(ends, -1, number[tree.right[kept]]),
        tree.default_left[kept],
        tree.missing[kept],
        np.where(ends[:, None], values[kept], 0.0),
    )


def check_trees(ensemble: TreeEnsemble, where: Where | None) -> None:
    """Raise an InputError unless every tree is a tree over existing inputs with thresholds and finite leaves."""
    if sum(len(tree.feature) for tree in ensemble.trees) > MAX_NODES:
        raise InputError(f"the ensemble has more than {MAX_NODES} nodes.", where, "Use fewer or smaller trees.")
    if not all(np.isfinite(value) for value in ensemble.base):
        raise InputError(f"the base scores {list(ensemble.base)} are not all finite.", where, AGAIN)
    for index, tree in enumerate(ensemble.trees):
        check_tree(tree, index, len(ensemble.inputs), len(ensemble.outputs), where)


def check_tree(tree: Tree, index: int, inputs: int, outputs: int, where: Where | None) -> None:
    """Raise an InputError naming tree and node unless the arrays describe one tree (no cycle, nothing shared)."""
    place = (where or Where("tree ensemble")).at("trees").at(index)
    count = len(tree.feature)
    width = outputs if tree.output == VECTOR else 1
    if count == 0:
        raise InputError("the tree has no nodes.", place, AGAIN)
    if tree.values.shape != (count, width):
        raise InputError(f"the leaf values have the shape {tree.values.shape}, not ({count}, {width}).", place, AGAIN)
    if any(len(array) != count for array in (tree.threshold, tree.left, tree.right, tree.default_left, tree.missing)):
        raise InputError("the arrays of the tree differ in length.", place, AGAIN)
    if not (tree.output == VECTOR or 0 <= tree.output < outputs):
        raise InputError(f"the tree adds to output {tree.output}; there are {outputs}.", place, AGAIN)
    if tree.missing.max() > MISSING_NAN:
        raise InputError(f"the kind of missing value {tree.missing.max()} is unknown.", place, AGAIN)
    inner = tree.feature >= 0
    if (tree.feature >= inputs).any():
        node = int(np.argmax(tree.feature >= inputs))
        raise InputError(f"node {node} tests input {tree.feature[node]}; there are {inputs} inputs.", place, AGAIN)
    # An infinite threshold is sound: such a split tells missing values from all others.
    if np.isnan(tree.threshold[inner]).any():
        node = int(np.flatnonzero(inner)[np.argmax(np.isnan(tree.threshold[inner]))])
        raise InputError(f"node {node} has the threshold {tree.threshold[node]}.", place, "It must be a number.")
    if not np.isfinite(tree.values[~inner]).all():
        broken = ~np.isfinite(tree.values[~inner]).all(axis=1)
        node = int(np.flatnonzero(~inner)[np.argmax(broken)])
        raise InputError(f"leaf {node} has the value {tree.values[node].tolist()}.", place, "It must be finite.")
    for side in (tree.left, tree.right):
        outside = inner & ((side < 0) | (side >= count))
        if outside.any():
            node = int(np.argmax(outside))
            raise InputError(f"node {node} has the child {side[node]}; there are {count} nodes.", place, AGAIN)
    seen = np.zeros(count, dtype=np.bool_)
    level = np.array([0])
    while len(level):
        # SOUND: a node met twice, in one level or in two, closes a cycle or is shared; then a walk is not a tree's.
        if seen[level].any() or len(np.unique(level)) < len(level):
            raise InputError("a node is reached on two ways or on a cycle.", place, "The file is damaged.")
        seen[level] = True
        parents = level[inner[level]]
        level = np.concatenate([tree.left[parents], tree.right[parents]])


def float32_thresholds(threshold: npt.NDArray[np.float64], comparison: str) -> npt.NDArray[np.float32]:
    """Return float32 thresholds that decide every float32 value as the float64 ones do.

    SOUND: for float32 x, x <= t iff x <= (t rounded down), and x < t iff x < (t rounded up).
    >>> bool(float32_thresholds(np.array([0.1]), "<=")[0] <= 0.1)
    True
    """
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32)
        if comparison == "<=":
            neighbour = np.nextafter(rounded, np.float32(-np.inf))
            return np.where(rounded.astype(np.float64) > threshold, neighbour, rounded)
        neighbour = np.nextafter(rounded, np.float32(np.inf))
        return np.where(rounded.astype(np.float64) < threshold, neighbour, rounded)


def _to_float32(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):  # too large becomes infinite and is refused by check_trees
        return array.astype(np.float32).astype(np.float64)


def _rounded(tree: Tree) -> Tree:
    return replace(tree, threshold=_to_float32(tree.threshold), values=_to_float32(tree.values))


def _compiled(ensemble: TreeEnsemble) -> _core.Trees:
    """Return the kernel of the ensemble: all trees in one set of arrays, every node with room for its values."""
    sizes = np.array([len(tree.feature) for tree in ensemble.trees], dtype=np.int64)
    first = (np.cumsum(sizes) - sizes).astype(np.int32)
    spans = np.array([tree.values.size for tree in ensemble.trees], dtype=np.int64)
    start = np.cumsum(spans) - spans
    if spans.sum() > np.iinfo(np.int32).max:
        raise InputError(
            f"the ensemble has {spans.sum()} leaf values; at most {np.iinfo(np.int32).max} are read.",
            hint="Use fewer or smaller trees.",
        )

    def concatenation(arrays: list[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
        return np.ascontiguousarray(np.concatenate(arrays) if arrays else np.zeros(0), dtype=kind)

    trees = ensemble.trees
    return _core.Trees(
        len(ensemble.inputs),
        first,
        np.array([tree.output for tree in trees], dtype=np.int32),
        concatenation([tree.feature for tree in trees], np.int32),
        float32_thresholds(concatenation([tree.threshold for tree in trees], np.float64), ensemble.comparison),
        concatenation([tree.left + shift for tree, shift in zip(trees, first, strict=True)], np.int32),
        concatenation([tree.right + shift for tree, shift in zip(trees, first, strict=True)], np.int32),
        concatenation([tree.default_left.astype(np.uint8) | (tree.missing << 1) for tree in trees], np.uint8),
        concatenation(
            [s + np.arange(len(t.feature)) * t.values.shape[1] for t, s in zip(trees, start, strict=True)], np.int32
        ),
        concatenation([tree.values.reshape(-1) for tree in trees], np.float64),
        np.array(ensemble.base, dtype=np.float64),
        ensemble.divisor,
        ensemble.arithmetic == "float64",
        ensemble.comparison == "<",
    )


def reference_scores(ensemble: TreeEnsemble, rows: Rows) -> Scores:
    """Return the scores by the definition above, row by row: the slow twin of the kernel."""
    real: Any = np.float32 if ensemble.arithmetic == "float32" else np.float64
    rows = checked_rows(ensemble, rows)
    result = np.empty((len(rows), len(ensemble.outputs)), dtype=real)
    for index, row in enumerate(rows):
        acc = np.array(ensemble.base, dtype=real)
        for tree in ensemble.trees:
            leaf = tree.values[_leaf_of(tree, row, ensemble.comparison)].astype(real)
            if tree.output == VECTOR:
                acc = acc + leaf
            else:
                acc[tree.output] = acc[tree.output] + leaf[0]
        result[index] = acc / real(ensemble.divisor) if ensemble.divisor else acc
    return result


def _leaf_of(tree: Tree, row: npt.NDArray[np.float32], comparison: str) -> int:
    node = 0
    while tree.feature[node] >= 0:
        value, kind = row[tree.feature[node]], tree.missing[node]
        if np.isnan(value) and kind != MISSING_NAN:
            value = np.float32(0)
        absent = np.isnan(value) if kind == MISSING_NAN else kind == MISSING_ZERO and abs(value) <= LIGHTGBM_ZERO
        exact, bound = float(value), float(tree.threshold[node])
        left = tree.default_left[node] if absent else (exact < bound if comparison == "<" else exact <= bound)
        node = int(tree.left[node] if left else tree.right[node])
    return node
