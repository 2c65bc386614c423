"""The rounding bound against exact arithmetic: random orders, fused or not, never leave it; exact scores have none."""

import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from polvet.policy import CallablePolicy, load_policy, near_ties, rounding_bounds, save_policy
from polvet.policy.networks import Network, network_of
from polvet.policy.rounding import possible_choices

RNG = np.random.default_rng(3)


def nearest(value: Fraction) -> Fraction:
    """The float32 nearest to an exact number (normal range), ties to even."""
    if value == 0:
        return Fraction(0)
    exponent = 0
    size = abs(value)
    while size >= 2**24:
        size /= 2
        exponent += 1
    while size < 2**23:
        size *= 2
        exponent -= 1
    whole = round(size)  # Python rounds halves to even
    return (1 if value > 0 else -1) * whole * Fraction(2) ** exponent


def any_order(network, row, rng):
    """Scores in a random order: random association, random place of the bias, each product fused or rounded."""
    values = [Fraction(float(value)) for value in row]
    for index, layer in enumerate(network.layers):
        following = []
        for weights, bias in zip(layer.weights.tolist(), layer.bias.tolist(), strict=True):
            parts = [(Fraction(bias), True)]
            parts += [(Fraction(w) * v, False) for w, v in zip(weights, values, strict=True)]  # False: not rounded yet
            while len(parts) > 1:
                first = parts.pop(rng.integers(len(parts)))
                second = parts.pop(rng.integers(len(parts)))
                fuse = rng.random() < 0.5  # one of two operands may stay an exact product
                left = first[0] if first[1] or fuse else nearest(first[0])
                right = second[0] if second[1] or (fuse and first[1]) else nearest(second[0])
                parts.append((nearest(left + right), True))
            total = parts[0][0] if parts[0][1] else nearest(parts[0][0])
            following.append(total if index + 1 == len(network.layers) else max(total, Fraction(0)))
        values = following
    return values


def test_the_float32_of_the_oracle_is_numpys():
    for value in RNG.normal(size=200) * 10.0 ** RNG.integers(-20, 20, 200):
        assert nearest(Fraction(float(value))) == Fraction(float(np.float32(value)))


@pytest.mark.parametrize("sizes", [(4, 3), (5, 8, 3), (3, 6, 6, 4)])
@pytest.mark.parametrize("kind", ["normal", "cancelling", "wide"])
def test_no_evaluation_order_leaves_the_bound(sizes, kind):
    doubtful = 0
    for _ in range(12):
        layers = []
        for a, b in pairwise(sizes):
            weights = RNG.normal(size=(b, a))
            if kind == "wide":
                weights *= 10.0 ** RNG.integers(-3, 4, size=weights.shape)
            layers.append((weights, RNG.normal(size=b)))
        network = network_of(layers)
        row = RNG.integers(-30, 30, size=(1, sizes[0])).astype(np.float32)
        if kind == "cancelling":  # the first layer's sums nearly cancel: the bound must rest on magnitudes
            row[0] = 1e6 + RNG.integers(0, 3, size=sizes[0])
        scores = network.scores(row)[0]
        bounds = rounding_bounds(network, row)[0]
        doubtful += (bounds > 0).sum()
        for _ in range(6):
            for other, score, bound in zip(any_order(network, row[0], RNG), scores, bounds, strict=True):
                assert abs(other - Fraction(float(score))) <= Fraction(float(bound))
    assert doubtful > 12


def test_some_order_really_differs_from_the_reference():
    network = network_of([(RNG.normal(size=(6, 20)), RNG.normal(size=6))])
    row = RNG.normal(size=(1, 20)).astype(np.float32)
    scores = [Fraction(float(score)) for score in network.scores(row)[0]]
    assert any(any_order(network, row[0], RNG) != scores for _ in range(10))


def test_dyadic_weights_and_integers_have_the_bound_zero_and_every_order_agrees():
    for _ in range(10):
        layers = [
            (RNG.integers(-16, 17, size=(7, 5)) / 8, RNG.integers(-8, 9, size=7) / 4),
            (RNG.integers(-16, 17, size=(3, 7)) / 8, RNG.integers(-8, 9, size=3) / 4),
        ]
        network = network_of(layers)
        row = RNG.integers(-50, 50, size=(1, 5)).astype(np.float32)
        assert (rounding_bounds(network, row) == 0).all()
        expected = [Fraction(float(score)) for score in network.scores(row)[0]]
        for _ in range(4):
            assert any_order(network, row[0], RNG) == expected


def test_exactness_ends_where_the_sum_needs_more_than_24_bits():
    network = network_of([([[1.0, 1.0]], [0.0])])
    inside = np.array([[2.0**23, 2.0**23 - 1]], dtype=np.float32)
    outside = np.array([[2.0**24, 1.0]], dtype=np.float32)
    assert rounding_bounds(network, inside)[0, 0] == 0
    bound = rounding_bounds(network, outside)[0, 0]
    assert Fraction(float(bound)) >= abs(Fraction(2**24 + 1) - Fraction(float(network.scores(outside)[0, 0])))
    assert bound > 0


def test_a_product_below_the_least_float32_is_not_called_exact():
    network = network_of([([[2.0**-100]], [0.0])])
    assert rounding_bounds(network, np.array([[2.0**-60]], dtype=np.float32))[0, 0] > 0
    assert rounding_bounds(network, np.array([[1.0]], dtype=np.float32))[0, 0] == 0


def test_an_order_that_may_overflow_has_an_infinite_bound():
    network = network_of([([[3e38, -3e38]], [0.0])])
    assert np.isinf(rounding_bounds(network, np.array([[1.0, 1.0]], dtype=np.float32))[0, 0])


def test_zero_inputs_and_weights_add_no_rounding():
    network = network_of([([[0.1, 0.3, 0.0]], [0.0])])
    assert rounding_bounds(network, np.array([[1.0, 0.0, 0.7]], dtype=np.float32))[0, 0] == 0
    assert rounding_bounds(network, np.array([[0.0, 0.0, 0.0]], dtype=np.float32))[0, 0] == 0


def test_a_dead_neuron_far_below_zero_passes_no_doubt_on():
    network = network_of([([[0.1, 0.2]], [-1000.0]), ([[0.3]], [0.5])])
    assert rounding_bounds(network, np.array([[1.0, 1.0]], dtype=np.float32))[0, 0] == 0


@pytest.mark.parametrize("sizes", [(4, 3), (6, 16, 4), (9, 32, 32, 5)])
def test_the_coarse_bound_is_above_the_fine_one_and_changes_no_answer(sizes):
    rng = np.random.default_rng(11)
    layers = [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(sizes)]
    weights, bias = layers[-1]
    weights[1] = weights[0] * (1 + 2.0**-22)  # two outputs that nearly tie everywhere
    bias[1] = bias[0]
    network = network_of(layers)
    rows = rng.integers(-40, 40, size=(2000, sizes[0])).astype(np.float32)
    rows[:50] *= np.float32(1e20)
    fine = rounding_bounds(network, rows)
    coarse = np.array([network.kernel.coarse_bound(float(np.abs(row).max())) for row in rows])
    assert (fine <= coarse[:, None]).all()
    for mask in (None, rng.random((2000, sizes[-1])) < 0.6):
        possible = possible_choices(network, rows, mask).sum(axis=1)
        ties = near_ties(network, rows, mask)
        assert np.array_equal(ties, possible > 1)
        assert ties.any()
        assert not ties.all()


def test_an_exact_tie_is_a_tie_and_a_near_tie_leaves_both_choices():
    exact = network_of([([[1.0], [1.0]], [0.0, 0.0])])
    row = np.array([[3.0]], dtype=np.float32)
    assert possible_choices(exact, row).tolist() == [[True, False]]
    assert not near_ties(exact, row)[0]
    rough = network_of([([[0.1, 0.2], [0.2, 0.1]], [0.0, 0.0])])
    tie = np.array([[1.1, 1.1]], dtype=np.float32)
    assert possible_choices(rough, tie).tolist() == [[True, True]]
    assert near_ties(rough, tie).tolist() == [True]
    assert not near_ties(rough, tie, np.array([[False, True]]))[0]
    assert near_ties(rough, np.array([[1.1, 9.0]], dtype=np.float32)).tolist() == [False]


def test_what_has_one_evaluation_order_has_no_bound():
    policy = CallablePolicy(("x",), ("a", "b"), lambda state: "b")
    rows = np.zeros((3, 1), dtype=np.float32)
    assert (rounding_bounds(policy, rows) == 0).all()
    assert possible_choices(policy, rows).tolist() == [[False, True]] * 3


def test_a_softmax_behind_a_chain_widens_the_bounds_and_is_kept_in_files(tmp_path):
    pytest.importorskip("onnx")
    layers = [([[1.0], [1.0]], [0.0, 2.0**-21])]
    row = np.array([[3.0]], dtype=np.float32)
    assert possible_choices(network_of(layers), row).tolist() == [[False, True]]
    softened = network_of(layers, ["x"], ["a", "b"], softmax=True)
    assert possible_choices(softened, row).tolist() == [[True, True]]
    assert near_ties(softened, row).all()
    assert (rounding_bounds(softened, row) <= softened.kernel.coarse_bound(3.0)).all()
    save_policy(softened, tmp_path / "net.onnx")
    again = load_policy(tmp_path / "net.onnx")
    assert isinstance(again, Network)
    assert again.softmax
    assert again.with_names(["y"], ["c", "d"]).softmax
    assert pickle.loads(pickle.dumps(again)).softmax
