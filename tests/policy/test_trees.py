"""Tree ensembles built by hand: the kernel against its slow twin on random trees, and the checks of their shape."""

import pickle

import numpy as np
import pytest

from polvet import _core
from polvet.errors import InputError
from polvet.policy import TreeEnsemble
from polvet.policy.trees import VECTOR, collapsed, float32_thresholds, make_tree, reference_scores

RNG = np.random.default_rng(13)


def random_tree(output, inputs, width, *, depth, thresholds):
    """A random tree with nodes in random order, so that children stand anywhere."""
    nodes = [(-1, 0.0, -1, -1)]
    open_nodes = [(0, 0)]
    while open_nodes:
        index, level = open_nodes.pop()
        if level < depth and (level == 0 or RNG.random() < 0.8):
            left, right = len(nodes), len(nodes) + 1
            nodes += [(-1, 0.0, -1, -1)] * 2
            nodes[index] = (int(RNG.integers(inputs)), float(RNG.choice(thresholds)), left, right)
            open_nodes += [(left, level + 1), (right, level + 1)]
    place = np.concatenate([[0], 1 + RNG.permutation(len(nodes) - 1)])
    feature, threshold, left, right = (np.zeros(len(nodes)) for _ in range(4))
    for index, node in enumerate(nodes):
        feature[place[index]], threshold[place[index]] = node[0], node[1]
        left[place[index]] = place[node[2]] if node[2] >= 0 else -1
        right[place[index]] = place[node[3]] if node[3] >= 0 else -1
    values = RNG.normal(size=(len(nodes), width))
    missing = RNG.integers(0, 3, len(nodes))
    return make_tree(output, feature, threshold, left, right, values, RNG.random(len(nodes)) < 0.5, missing)


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("arithmetic", ["float32", "float64"])
@pytest.mark.parametrize("depth", [0, 1, 4, 9, 22])
def test_the_kernel_equals_its_slow_twin_on_random_trees(comparison, arithmetic, depth):
    thresholds = np.array([-1.0, 0.0, 0.1, 0.5, 1.0, 2.0, 1e300, np.inf])
    for divisor in (0.0, 3.0):
        trees = [random_tree(int(RNG.integers(3)), 4, 1, depth=min(depth, 9), thresholds=thresholds) for _ in range(7)]
        trees += [random_tree(VECTOR, 4, 3, depth=min(depth, 9), thresholds=thresholds) for _ in range(2)]
        if depth > 16:
            trees.append(chain(depth))
        base = tuple(RNG.normal(size=3))
        ensemble = TreeEnsemble(tuple("abcd"), tuple("xyz"), tuple(trees), base, comparison, arithmetic, divisor)
        rows = RNG.choice([-1, 0, 0.1, 0.5, 1, 2, 3, np.nan, 1e-36, np.inf], size=(75, 4)).astype(np.float32)
        found = ensemble.scores(rows)
        assert found.dtype == np.dtype(arithmetic)
        assert np.array_equal(found, reference_scores(ensemble, rows))
        assert np.array_equal(ensemble.choose(rows), reference_scores(ensemble, rows).argmax(axis=1))
        leaves = ensemble.leaf_nodes(rows)
        for t, tree in enumerate(ensemble.trees):
            assert (tree.feature[leaves[:, t]] == -1).all()
        kept = np.array([tree.values[leaves[0, t]].sum() for t, tree in enumerate(ensemble.trees)])
        assert np.allclose(ensemble.scores(rows[:1]).sum() * (divisor or 1), sum(base) + kept.sum(), atol=1e-4)


@pytest.mark.parametrize("output", [0, VECTOR])
def test_collapsed_trees_score_the_same_and_every_split_decides_something(output):
    width = 3 if output == VECTOR else 1
    rows = RNG.choice([-1, 0, 0.1, 0.5, 1, 2, 3, np.nan], size=(300, 4)).astype(np.float32)
    for depth in (0, 1, 4, 9):
        tree = random_tree(output, 4, width, depth=depth, thresholds=np.array([-1.0, 0.0, 0.1, 1.0, 2.0]))
        tree = tree.with_values(RNG.integers(0, 2, tree.values.shape))
        less = collapsed(tree)
        one, other = (TreeEnsemble(tuple("abcd"), tuple("xyz"), (t,), (0.0, 0.0, 0.0)) for t in (tree, less))
        assert np.array_equal(one.scores(rows), other.scores(rows))
        for node in np.flatnonzero(less.feature >= 0).tolist():
            left, right = less.left[node], less.right[node]
            if less.feature[left] < 0 and less.feature[right] < 0:
                assert (less.values[left] != less.values[right]).any()


def chain(depth):
    """A tree as deep as it has inner nodes."""
    inner = np.arange(depth)
    feature = np.concatenate([inner % 4, np.full(depth + 1, -1)])
    left = np.concatenate([depth + inner, np.full(depth + 1, -1)])
    right = np.concatenate([np.append(inner[1:], 2 * depth), np.full(depth + 1, -1)])
    return make_tree(0, feature, np.append(inner / 8, np.zeros(depth + 1)), left, right, RNG.normal(size=2 * depth + 1))


def test_a_very_deep_tree_is_walked_without_recursion():
    depth = 60_000
    tree = chain(depth)
    ensemble = TreeEnsemble(tuple("abcd"), ("x",), (tree,), (0.0,))
    rows = np.full((3, 4), depth, dtype=np.float32)
    assert ensemble.leaf_nodes(rows)[0, 0] == 2 * depth


def test_double_thresholds_decide_every_float32_alike():
    doubles = np.concatenate([RNG.normal(size=500), [0.1, 0.3, 1e-46, -1e-46, 1e39, -1e39, 0.0]])
    for comparison in ("<", "<="):
        singles = float32_thresholds(doubles, comparison)
        for shift in (-2, -1, 0, 1, 2):
            with np.errstate(over="ignore"):
                x = doubles.astype(np.float32)
            for _ in range(abs(shift)):
                x = np.nextafter(x, np.float32(np.inf if shift > 0 else -np.inf))
            wide = x.astype(np.float64)
            assert np.array_equal(x < singles if comparison == "<" else x <= singles,
                                  wide < doubles if comparison == "<" else wide <= doubles)  # fmt: skip


STUMP = dict(feature=[0, -1, -1], threshold=[1, 0, 0], left=[1, -1, -1], right=[2, -1, -1], values=[0, 1, 2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"left": [0, -1, -1]}, "two ways or on a cycle"),
        ({"right": [1, -1, -1]}, "two ways or on a cycle"),
        ({"left": [7, -1, -1]}, "node 0 has the child 7"),
        ({"feature": [5, -1, -1]}, "node 0 tests input 5"),
        ({"threshold": [np.nan, 0, 0]}, "node 0 has the threshold nan"),
        ({"values": [0, np.inf, 2]}, "leaf 1 has the value"),
        ({"values": [0, 1e39, 2]}, "leaf 1 has the value"),
        ({"output": 3}, "adds to output 3"),
        ({"output": VECTOR}, "shape"),
        ({"missing": 7}, "missing value 7"),
    ],
)
def test_what_is_not_a_tree_is_refused_with_tree_and_node(change, words):
    tree = make_tree(**{"output": 0, **STUMP, **change})
    with pytest.raises(InputError, match=rf"trees\[1\].*{words}"):
        TreeEnsemble(("x",), ("a", "b"), (make_tree(0, **STUMP), tree), (0.0, 0.0))


def test_base_scores_must_be_finite_and_names_fit():
    with pytest.raises(InputError, match="base scores"):
        TreeEnsemble(("x",), ("a",), (make_tree(0, **STUMP),), (float("nan"),))
    with pytest.raises(InputError, match="1 outputs, but 2"):
        TreeEnsemble(("x",), ("a", "b"), (make_tree(0, **STUMP),), (0.0,))


def test_an_ensemble_without_trees_scores_its_base():
    ensemble = TreeEnsemble(("x",), ("a", "b"), (), (0.5, 0.25))
    assert ensemble.scores(np.zeros((2, 1), dtype=np.float32)).tolist() == [[0.5, 0.25]] * 2


def test_an_ensemble_survives_a_process_boundary():
    ensemble = TreeEnsemble(("x",), ("a",), (make_tree(0, **STUMP),), (0.5,))
    rows = np.array([[0], [3]], dtype=np.float32)
    assert np.array_equal(pickle.loads(pickle.dumps(ensemble)).scores(rows), ensemble.scores(rows))


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("arithmetic", ["float32", "float64"])
def test_masks_and_walks_give_the_same_bits(comparison, arithmetic):
    thresholds = np.array([-3.5, -1.0, 0.0, 0.1, 0.5, 1.0, 2.0, 7.0, 1e30])
    for vectors in (0, 2):
        trees = [random_tree(int(RNG.integers(3)), 4, 1, depth=5, thresholds=thresholds) for _ in range(70)]
        trees += [random_tree(VECTOR, 4, 3, depth=4, thresholds=thresholds) for _ in range(vectors)]
        ensemble = TreeEnsemble(tuple("abcd"), tuple("xyz"), tuple(trees), (0.1, 0.2, 0.3), comparison, arithmetic, 0.0)
        rows = RNG.choice([-4, -3.5, -1, -0.0, 0, 0.1, 0.5, 1, 2, 3, 7, 8, 1e31, np.inf], size=(500, 4)).astype(
            np.float32
        )
        joined = ensemble.scores(rows)
        _core.use_walking_trees(True)
        try:
            walked = ensemble.scores(rows)
        finally:
            _core.use_walking_trees(False)
        assert joined.tobytes() == walked.tobytes()
