"""Bounds of tree scores over boxes are those of all states in them; cuts divide the boxes they are made for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from polvet.check.policy_bounds import TreeBounds
from polvet.policy.trees import MISSING_NAN, MISSING_ZERO, VECTOR, TreeEnsemble, make_tree
from polvet.verify.tree_masks import TreeMasks, fits

OUTPUTS, LOW, HIGH = 3, -3, 4


def random_tree(rng, features, output, missing, whole):
    """A tree grown by splitting random leaves; a threshold may be met exactly, lie between integers, or be beyond all."""
    feature, threshold, left, right = [-1], [0.0], [-1], [-1]
    for _ in range(rng.integers(0, 12)):
        leaf = int(rng.choice([k for k, f in enumerate(feature) if f < 0]))
        feature[leaf] = int(rng.integers(features))
        threshold[leaf] = float(rng.integers(LOW - 1, HIGH + 2)) + (
            0.0 if whole else float(rng.choice([0.0, 0.25, 0.5]))
        )
        left[leaf], right[leaf] = len(feature), len(feature) + 1
        feature += [-1, -1]
        threshold += [0.0, 0.0]
        left += [-1, -1]
        right += [-1, -1]
    count = len(feature)
    values = rng.normal(size=(count, OUTPUTS if output == VECTOR else 1))
    return make_tree(output, feature, threshold, left, right, values, rng.random(count) < 0.5, missing)


def random_ensemble(rng, variables, missing):
    features = int(rng.integers(1, variables + 1))
    places = [int(p) for p in rng.permutation(variables)[:features]]
    vector, whole = rng.random() < 0.3, rng.random() < 0.5
    trees = tuple(
        random_tree(rng, features, VECTOR if vector else int(rng.integers(OUTPUTS)), missing, whole)
        for _ in range(rng.integers(1, 8))
    )
    names = tuple(f"x{k}" for k in range(features))
    ensemble = TreeEnsemble(
        names, ("a", "b", "c"), trees, tuple(rng.normal(size=OUTPUTS).tolist()), "<" if rng.random() < 0.5 else "<=",
        "float32" if rng.random() < 0.5 else "float64", 3.0 if rng.random() < 0.3 else 0.0,
    )  # fmt: skip
    return ensemble, places


def random_boxes(rng, variables, count):
    ends = np.sort(rng.integers(LOW, HIGH + 1, size=(2, count, variables)), axis=0)
    return ends[0], ends[1]


@pytest.mark.parametrize("missing", [MISSING_NAN, MISSING_ZERO])
@pytest.mark.parametrize("seed", range(60))
def test_scores_of_all_states_are_within_bounds(seed, missing):
    rng = np.random.default_rng(seed)
    ensemble, places = random_ensemble(rng, 3, missing)
    assert fits(ensemble)
    masks = TreeMasks(ensemble, places)
    lower, upper = random_boxes(rng, 3, 12)
    low, high = masks.scores(masks.ends(lower, upper))
    other_low, other_high, _ = TreeBounds(ensemble, places).scores(lower.astype(float), upper.astype(float))
    if missing != MISSING_ZERO:  # there, intervals are widened; else paths that contradict themselves are known here
        assert (low >= other_low).all()
        assert (high <= other_high).all()
    for k in range(len(lower)):
        points = np.array(list(product(*(range(a, b + 1) for a, b in zip(lower[k], upper[k], strict=True)))))
        scores = ensemble.scores(points[:, places].astype(np.float32))
        assert (low[k] <= scores.min(axis=0)).all()
        assert (scores.max(axis=0) <= high[k]).all()
        if len(points) == 1 and missing != MISSING_ZERO:
            assert np.array_equal(low[k], scores[0])
            assert np.array_equal(high[k], scores[0])


@pytest.mark.parametrize("seed", range(60))
def test_outputs_that_lose_are_never_chosen(seed):
    rng = np.random.default_rng(seed)
    ensemble, places = random_ensemble(rng, 3, MISSING_NAN)
    masks = TreeMasks(ensemble, places)
    lower, upper = random_boxes(rng, 3, 12)
    low, high = masks.scores(masks.ends(lower, upper))
    for output in range(OUTPUTS):
        rivals = [k for k in range(OUTPUTS) if k != output]
        losers = masks.losers(output, rivals, low, high)
        for k in np.flatnonzero(losers.any(axis=1)):
            points = np.array(list(product(*(range(a, b + 1) for a, b in zip(lower[k], upper[k], strict=True)))))
            assert (ensemble.choose(points[:, places].astype(np.float32)) != output).all()


@pytest.mark.parametrize("seed", range(60))
def test_cutting_goes_on_until_scores_are_known(seed):
    """Where thresholds are integers, what no cut divides has one score."""
    rng = np.random.default_rng(seed)
    ensemble, places = random_ensemble(rng, 3, MISSING_NAN)
    masks = TreeMasks(ensemble, places)
    lower, upper = random_boxes(rng, 3, 20)
    ends = masks.ends(lower, upper)
    variable, value = masks.cuts(0, np.ones(20, dtype=np.int64), lower, upper, ends)
    low, high = masks.scores(ends)
    whole = all((tree.threshold == np.floor(tree.threshold)).all() for tree in ensemble.trees)
    for k in range(20):
        if variable[k] >= 0:
            assert lower[k, variable[k]] <= value[k] < upper[k, variable[k]]
        elif whole:
            assert np.array_equal(low[k, :2], high[k, :2])


def test_an_ensemble_of_single_leaves_has_no_cuts():
    leaf = make_tree(1, [-1], [0.0], [-1], [-1], [2.0])
    masks = TreeMasks(TreeEnsemble(("x",), ("a", "b"), (leaf,), (0.0, 0.5)), [0])
    lower, upper = np.array([[0], [1]]), np.array([[3], [1]])
    ends = masks.ends(lower, upper)
    low, high = masks.scores(ends)
    assert low.tolist() == high.tolist() == [[0.0, 2.5], [0.0, 2.5]]
    assert masks.cuts(0, np.array([1, 1]), lower, upper, ends)[0].tolist() == [-1, -1]
