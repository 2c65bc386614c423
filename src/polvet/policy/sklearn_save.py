"""Tree ensembles back to the scikit-learn estimator they came from: `predict` chooses as the ensemble does.

A repaired ensemble stays in its own class; its scores are those of `predict_proba`, `decision_function` or `predict`, bit for bit:
trees     trees that a repair added are grown into the leaves of the one tree; its values are the sums, in order
forests   added trees are further estimators, so the mean is over more of them
boosting  added trees are further stages. `learning_rate` becomes 1 and the leaves hold the products, since not every double
          is a product with another learning rate
histogram added trees are further iterations
Leaves of a repaired classifier hold scores: `predict_proba` is no longer between 0 and 1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from polvet.errors import InputError
from polvet.policy.sklearn_trees import BOOSTED, FORESTS, SINGLE
from polvet.policy.trees import AGAIN, MAX_NODES, Tree, TreeEnsemble, float32_thresholds, make_tree

NO_FEATURE = -2  # what scikit-learn writes in leaves


def estimator_of(ensemble: TreeEnsemble) -> Any:
    """Return a copy of the estimator that the ensemble came from, with the ensemble's trees."""
    if ensemble.origin is None or ensemble.origin.kind != "sklearn":
        raise InputError("this ensemble does not come from scikit-learn.", hint="Save it in the format it came from.")
    estimator = copy.deepcopy(ensemble.origin.document)
    kind, trees = type(estimator).__name__, ensemble.trees
    if kind in SINGLE:
        _put(estimator, grown_together(trees))
    elif kind in FORESTS:
        parts = [*estimator.estimators_]
        parts += [copy.deepcopy(parts[0]) for _ in trees[len(parts) :]]
        for part, tree in zip(parts, trees, strict=True):
            _put(part, tree)
        estimator.estimators_, estimator.n_estimators = parts, len(parts)
    elif kind in BOOSTED:
        _put_stages(estimator, trees)
    else:
        _put_iterations(estimator, trees)
    return estimator


def grown_together(trees: Sequence[Tree]) -> Tree:
    """Return one tree whose leaf values are the sums of the trees' leaf values, added in order.

    Splits that the splits above have decided already are left out.
    >>> stump = make_tree(0, [0, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [0, -1, 1])
    >>> both = grown_together([stump, stump])
    >>> both.values[both.left[0]].tolist(), both.values[both.right[0]].tolist()
    ([-2.0], [2.0])
    """
    whole = trees[0]
    for tree in trees[1:]:
        whole = _grafted(whole, tree)
    return whole


def _grafted(lower: Tree, upper: Tree) -> Tree:
    """Return `lower` with `upper` grown into each of its leaves."""
    bounds = [float32_thresholds(tree.threshold, "<=") for tree in (lower, upper)]
    rows: list[tuple[int, float, bool, int, Any]] = []  # feature, threshold, default_left, missing, values
    left: list[int] = []
    right: list[int] = []
    nothing = np.zeros(lower.values.shape[1])
    # (nodes of the two trees, what is known of each feature: above low, at most high; the parent's list of children and place)
    todo: list[tuple[int, int, dict[int, tuple[float, float]], list[int] | None, int]] = [(0, 0, {}, None, 0)]
    while todo:
        below, above, known, children, parent = todo.pop()
        in_lower = lower.feature[below] >= 0
        tree, node, bound = (lower, below, bounds[0]) if in_lower else (upper, above, bounds[1])
        feature, cut = int(tree.feature[node]), float(bound[node])
        low, high = known.get(feature, (-np.inf, np.inf))
        if feature >= 0 and (cut <= low or cut >= high):
            child = int(tree.right[node] if cut <= low else tree.left[node])
            todo.append((child if in_lower else below, above if in_lower else child, known, children, parent))
            continue
        if children is not None:
            children[parent] = len(rows)
        if len(rows) > MAX_NODES:
            raise InputError("the repaired tree is too large.", hint="Repair a forest, or fewer faults.")
        left.append(-1)
        right.append(-1)
        if feature < 0:
            rows.append((-1, 0.0, False, 0, lower.values[below] + upper.values[above]))
            continue
        place = len(rows)
        rows.append(
            (feature, float(tree.threshold[node]), bool(tree.default_left[node]), int(tree.missing[node]), nothing)
        )
        for side, ends, range_ in ((left, tree.left, (low, cut)), (right, tree.right, (cut, high))):
            follow = (int(ends[node]), above) if in_lower else (below, int(ends[node]))
            todo.append((*follow, {**known, feature: range_}, side, place))
    features, thresholds, defaults, missing, values = zip(*rows, strict=True)
    return make_tree(lower.output, features, thresholds, left, right, np.array(values), defaults, np.array(missing))


def _put(estimator: Any, tree: Tree) -> None:
    """Give a tree estimator the tree; impurities and counts stay where the shape is the same, others are 0 and 1."""
    old = estimator.tree_
    state = old.__getstate__()
    kind, arguments = old.__reduce__()[:2]
    leaf = tree.feature < 0
    count = len(leaf)
    fresh = np.zeros(count, dtype=state["nodes"].dtype)
    fresh["n_node_samples"], fresh["weighted_n_node_samples"] = 1, 1.0
    if np.array_equal(state["nodes"]["left_child"], tree.left):
        fresh = state["nodes"].copy()
    fresh["left_child"], fresh["right_child"] = np.where(leaf, -1, tree.left), np.where(leaf, -1, tree.right)
    fresh["feature"] = np.where(leaf, NO_FEATURE, tree.feature)
    fresh["threshold"] = np.where(leaf, float(NO_FEATURE), tree.threshold)
    if "missing_go_to_left" in fresh.dtype.names:
        fresh["missing_go_to_left"] = tree.default_left
    elif tree.default_left.any():
        raise InputError("this version of scikit-learn has no missing values in trees.", hint=AGAIN)
    values = np.zeros((count, *state["values"].shape[1:]))
    values.reshape(count, -1)[:] = tree.values
    splitter = kind(*arguments)
    splitter.__setstate__({"max_depth": _depth(tree), "node_count": count, "nodes": fresh, "values": values})
    estimator.tree_ = splitter


def _put_stages(estimator: Any, trees: Sequence[Tree]) -> None:
    stages = estimator.estimators_
    width = stages.shape[1]
    count = len(trees) // width
    if count * width != len(trees):
        raise AssertionError("trees are added in whole rounds")
    grown = np.empty((count, width), dtype=object)
    grown[: len(stages)] = stages
    for place in np.ndindex(count, width):
        if place[0] >= len(stages):
            grown[place] = copy.deepcopy(stages[0, place[1]])
        _put(grown[place], trees[place[0] * width + place[1]])
    estimator.estimators_, estimator.learning_rate = grown, 1.0
    estimator.n_estimators = estimator.n_estimators_ = count
    estimator.train_score_ = np.resize(estimator.train_score_, count)


def _put_iterations(estimator: Any, trees: Sequence[Tree]) -> None:
    old = estimator._predictors
    width = len(old[0])
    if len(trees) % width:
        raise AssertionError("trees are added in whole rounds")
    parts = [part for iteration in old for part in iteration]
    parts += [copy.deepcopy(parts[0]) for _ in trees[len(parts) :]]
    for part, tree in zip(parts, trees, strict=True):
        leaf = tree.feature < 0
        nodes = np.zeros(len(leaf), dtype=part.nodes.dtype)
        nodes["count"], nodes["gain"] = 1, -1.0
        if np.array_equal(np.where(part.nodes["is_leaf"], -1, part.nodes["left"].astype(np.int64)), tree.left):
            nodes = part.nodes.copy()
        nodes["is_leaf"], nodes["depth"] = leaf, _depths(tree)
        nodes["feature_idx"] = np.where(leaf, 0, tree.feature)
        nodes["num_threshold"] = np.where(leaf, 0.0, tree.threshold)
        nodes["missing_go_to_left"] = tree.default_left
        nodes["left"], nodes["right"] = np.where(leaf, 0, tree.left), np.where(leaf, 0, tree.right)
        nodes["value"] = np.where(leaf, tree.values[:, 0], nodes["value"])
        part.nodes = nodes
    estimator._predictors = [parts[first : first + width] for first in range(0, len(parts), width)]
    estimator.max_iter = max(int(estimator.max_iter), len(estimator._predictors))


def _depths(tree: Tree) -> list[int]:
    depths = [0] * len(tree.feature)
    order = [0]
    for node in order:
        if tree.feature[node] >= 0:
            for child in (int(tree.left[node]), int(tree.right[node])):
                depths[child] = depths[node] + 1
                order.append(child)
    return depths


def _depth(tree: Tree) -> int:
    return max(_depths(tree))
