"""The checker's bounds of policies hold in exact arithmetic, where doubles cancel and where float32 adds up in any order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from polvet.check.policy_bounds import NetworkBounds, TreeBounds
from polvet.policy.networks import network_of
from polvet.verify.tree_masks import TreeMasks
from tests.repair.ensembles import random_ensemble

INPUTS = 3


def cancelling_network(rng, *, inputs=INPUTS, layers=2):
    """Return a network whose large weights nearly cancel: what is left is made of their last bits."""
    sizes = [inputs, *[4] * (layers - 1), 3]
    made = []
    for before, after in pairwise(sizes):
        scale = 2.0 ** rng.integers(-10, 20, size=(after, before))
        weights = (rng.normal(size=(after, before)) * scale).astype(np.float32)
        weights[:, 1] = -weights[:, 0] * np.float32(1 + 2.0 ** -int(rng.integers(3, 23)))
        made.append((weights, (rng.normal(size=after) * 2.0 ** rng.integers(-8, 16)).astype(np.float32)))
    return network_of(made, [f"v{k}" for k in range(inputs)], ["a", "b", "c"])


def cascade_network(rng):
    """Return a network of two layers in which, over the first input, a sum of products cancels to its last bits."""
    first = np.zeros((6, INPUTS), dtype=np.float32)
    first[:, 0] = 1 + rng.random(6)
    second = np.zeros((1, 6), dtype=np.float32)
    second[0, :3] = rng.normal(size=3) * 2.0 ** rng.integers(0, 30, size=3)
    for k in range(3, 6):
        rest = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(second[0], first[:, 0], strict=True))
        second[0, k] = np.float32(float(-rest / Fraction(float(first[k, 0]))))
    return network_of([(first, np.zeros(6)), (second, np.zeros(1))], [f"v{k}" for k in range(INPUTS)], ["a"])


def exact_layers(network, point):
    """Yield the exact values before each activation."""
    values = [Fraction(int(x)) for x in point]
    for layer in network.layers:
        values = [
            sum((Fraction(float(w)) * x for w, x in zip(row, values, strict=True)), Fraction(float(b)))
            for row, b in zip(layer.weights, layer.bias, strict=True)
        ]
        yield values
        values = [max(x, Fraction(0)) for x in values]


def float32_scores(network, point, order):
    """Return the scores when each sum is made in float32 in this order of its summands."""
    values = np.array(point, dtype=np.float32)
    for k, layer in enumerate(network.layers):
        totals = []
        for row, bias in zip(layer.weights, layer.bias, strict=True):
            summands = [bias, *(row * values)]
            total = np.float32(0)
            for place in sorted(range(len(summands)), key=lambda i: order[i % len(order)]):
                total = np.float32(total + summands[place])
            totals.append(total)
        values = np.array(totals, dtype=np.float32)
        if k < len(network.layers) - 1:
            values = np.maximum(values, np.float32(0))
    return values


def box_around(rng):
    low = rng.integers(-(2**20), 2**20, size=INPUTS) * int(rng.choice([1, 1, 2**15]))
    return low.astype(np.float64)[None, :], (low + rng.integers(0, 3, size=INPUTS)).astype(np.float64)[None, :]


def points_of(lower, upper):
    return list(product(*(range(int(a), int(b) + 1) for a, b in zip(lower[0], upper[0], strict=True))))


@pytest.mark.parametrize("seed", range(150))
def test_linear_bounds_hold_in_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    network = cascade_network(rng) if seed % 2 else cancelling_network(rng, layers=1 + seed // 2 % 3)
    lower, upper = box_around(rng)
    if seed % 2:
        lower, upper = np.abs(lower), np.abs(lower) + 2
    checked = NetworkBounds(network, range(INPUTS), INPUTS)
    points = points_of(lower, upper)
    ends = [(lower, upper)]
    for depth in range(len(network.layers)):
        form = np.broadcast_to(checked.weights[depth], (1, *checked.weights[depth].shape))
        size, bias = checked.sizes[depth], checked.bias[depth]
        high = checked._greatest(form, size, bias, ends, ())[0][0]
        low = -checked._greatest(-form, size, -bias, ends, ())[0][0]
        for point in points:
            values = list(exact_layers(network, point))[depth]
            assert all(Fraction(float(a)) <= v <= Fraction(float(b)) for a, v, b in zip(low, values, high, strict=True))
        ends.append((low[None, :], high[None, :]))


@pytest.mark.parametrize("seed", range(60))
def test_linear_bounds_with_rows_hold_in_exact_arithmetic(seed):
    rng = np.random.default_rng(1000 + seed)
    network = cancelling_network(rng, layers=1)
    lower, upper = box_around(rng)
    row = rng.integers(-5, 6, size=INPUTS).astype(np.float64)
    points = points_of(lower, upper)
    wanted = sum(int(c) * x for c, x in zip(row, points[int(rng.integers(len(points)))], strict=True))
    inside = [p for p in points if sum(int(c) * x for c, x in zip(row, p, strict=True)) == wanted]
    checked = NetworkBounds(network, range(INPUTS), INPUTS)
    form = np.broadcast_to(checked.weights[0], (1, *checked.weights[0].shape))
    rows = [(row, float(wanted), float(wanted))]
    high = checked._greatest(form, checked.sizes[0], checked.bias[0], [(lower, upper)], rows)[0][0]
    for point in inside:
        values = next(exact_layers(network, point))
        assert all(value <= Fraction(float(bound)) for value, bound in zip(values, high, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_who_surely_loses_loses_in_every_order_of_float32(seed):
    rng = np.random.default_rng(2000 + seed)
    network = cancelling_network(rng, layers=1 + seed % 3)
    lower, upper = box_around(rng)
    beaten = NetworkBounds(network, range(INPUTS), INPUTS).beaten(lower, upper)[0]
    for point in points_of(lower, upper):
        exact = list(exact_layers(network, point))[-1]
        for order in permutations(range(4)):
            scores = float32_scores(network, point, order)
            for output, rival in zip(*np.nonzero(beaten), strict=True):
                assert scores[output] < scores[rival]
                assert exact[output] < exact[rival]


def test_a_variable_that_is_an_input_twice_counts_with_both_weights():
    # The weights cancel, their products' rounding does not: float32 may prefer either output.
    weights = np.array([[1e8, -1e8, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    network = network_of([(weights, np.array([0.0, 0.5], dtype=np.float32))], ["x", "y", "z"], ["a", "b"])
    checked = NetworkBounds(network, [0, 0, 1], 2)
    point = np.array([[3.0, 0.0]])
    assert not checked.beaten(point, point).any()


@pytest.mark.parametrize("kind", ["scalar", "vector", "double"])
@pytest.mark.parametrize("seed", range(40))
def test_tree_bounds_hold_bit_by_bit(kind, seed):
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, kind, rounds=6)
    # Leaves of very different sizes: sums depend on their order, and are never exact.
    scaled = [
        tree.with_values(tree.values * 10.0 ** rng.integers(-8, 9, size=tree.values.shape)) for tree in ensemble.trees
    ]
    ensemble = replace(ensemble, trees=tuple(scaled))
    places = list(range(len(ensemble.inputs)))
    low = rng.integers(0, 4, size=(1, len(places)))
    high = low + rng.integers(0, 3, size=low.shape)
    points = np.array(list(product(*(range(a, b + 1) for a, b in zip(low[0], high[0], strict=True)))))
    scores = ensemble.scores(points.astype(np.float32))
    masks = TreeMasks(ensemble, places)
    for least, most in (
        TreeBounds(ensemble, places).scores(low.astype(np.float64), high.astype(np.float64))[:2],
        masks.scores(masks.ends(low, high)),
    ):
        assert (least[0] <= scores).all()
        assert (scores <= most[0]).all()
