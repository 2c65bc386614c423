"""Networks: the kernel against its slow twin and against a neuron-by-neuron evaluation in plain Python floats."""

import pickle
import struct
from itertools import pairwise

import numpy as np
import pytest

import polvet._core as _core
from polvet.errors import InputError
from polvet.policy import Layer, Network, has_positional_names, renamed
from polvet.policy.networks import network_of, reference_scores

RNG = np.random.default_rng(11)


def random_network(sizes, scale=1.0):
    layers = [
        (RNG.normal(scale=scale, size=(b, a)).astype(np.float32), RNG.normal(size=b).astype(np.float32))
        for a, b in pairwise(sizes)
    ]
    return network_of(layers)


def single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def by_hand(network, row):
    """One row by the written definition: products and sums of doubles, each rounded to float32 (which is exact here)."""
    values = [float(value) for value in row]
    for index, layer in enumerate(network.layers):
        following = []
        for weights, bias in zip(layer.weights.tolist(), layer.bias.tolist(), strict=True):
            acc = bias
            for weight, value in zip(weights, values, strict=True):
                acc = single(acc + single(weight * value))
            following.append(acc if index + 1 == len(network.layers) or acc > 0 else 0.0)
        values = following
    return values


@pytest.mark.parametrize(
    "sizes", [(3, 2), (1, 1), (7, 64, 64, 45), (14, 16, 16, 5), (5, 33, 9, 17), (40, 128, 3), (9, 70, 8)]
)
def test_the_kernel_has_the_bits_of_the_written_definition(sizes):
    network = random_network(sizes)
    rows = RNG.normal(scale=3, size=(23, sizes[0])).astype(np.float32)
    scores = network.scores(rows)
    assert np.array_equal(scores.view(np.uint32), reference_scores(network, rows).view(np.uint32))
    for row, expected in zip(rows[:5], scores[:5], strict=True):
        assert by_hand(network, row) == expected.tolist()


def test_avx2_and_portable_code_give_the_same_bits():
    network = random_network((13, 64, 64, 11))
    rows = RNG.normal(size=(1001, 13)).astype(np.float32)
    fast = network.scores(rows)
    _core.use_portable_network_kernel(True)
    try:
        portable = network.scores(rows)
    finally:
        _core.use_portable_network_kernel(False)
    assert np.array_equal(fast.view(np.uint32), portable.view(np.uint32))


def test_a_row_has_the_same_scores_alone_and_in_every_company():
    network = random_network((6, 32, 4))
    rows = RNG.normal(size=(11, 6)).astype(np.float32)
    together = network.scores(rows)
    for count in range(1, 11):
        assert np.array_equal(network.scores(rows[:count]), together[:count])


def test_choice_is_filtered_or_raw_with_ties_to_the_lowest_index():
    network = network_of([([[1.0], [1.0], [0.0]], [0.0, 0.0, 5.0])], ["x"], ["a", "b", "c"])
    rows = np.array([[1], [7]], dtype=np.float32)
    assert network.choose(rows).tolist() == [2, 0]
    assert network.choose(rows, np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)).tolist() == [0, 1]
    assert network.choose(rows, np.zeros((2, 3), dtype=bool)).tolist() == [-1, -1]


def test_no_rows_have_no_scores():
    network = random_network((3, 4, 2))
    assert network.scores(np.zeros((0, 3), dtype=np.float32)).shape == (0, 2)
    assert network.choose(np.zeros((0, 3), dtype=np.float32)).shape == (0,)


def test_a_score_that_overflows_to_nan_is_reported_with_its_inputs():
    network = network_of([([[3e38], [3e38]], [0, 0]), ([[1.0, -1.0]], [0])], ["speed"], ["go"])
    with pytest.raises(InputError, match="speed=1000"):
        network.choose(np.array([[1.0], [1000.0]], dtype=np.float32))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([([[1, float("nan")]], [0])], r"layer 0 has the weight nan at \[0, 1\]"),
        ([([[1, 2]], [float("inf")])], r"layer 0 has the bias inf at \[0\]"),
        ([([[1, 1e39]], [0])], "layer 0 has the weight inf"),
        ([([[1, 2]], [0]), ([[1, 2]], [0])], "layer 1 takes 2 values, layer 0 gives 1"),
        ([([[1, 2]], [0, 1])], "layer 0 has 1 neurons but a bias"),
        ([], "no layers"),
        ([(np.zeros((0, 2)), np.zeros(0))], "not outputs x inputs"),
    ],
)
def test_broken_layers_are_named(layers, words):
    with pytest.raises(InputError, match=words):
        network_of(layers)


def test_names_must_fit_and_be_different():
    layer = Layer(np.ones((2, 1), dtype=np.float32), np.zeros(2, dtype=np.float32))
    with pytest.raises(InputError, match="has 2 outputs, but 1 output names"):
        Network(("x",), ("a",), (layer,))
    with pytest.raises(InputError, match="'a' stands twice"):
        Network(("x",), ("a", "a"), (layer,))


def test_rows_of_the_wrong_width_name_the_inputs():
    network = network_of([([[1, 2]], [0])], ["x", "y"], ["a"])
    with pytest.raises(InputError, match="x, y"):
        network.scores(np.zeros((3, 3), dtype=np.float32))
    with pytest.raises(InputError, match="mask"):
        network.choose(np.zeros((3, 2), dtype=np.float32), np.ones((3, 2), dtype=bool))


def test_a_network_without_names_has_positions_until_it_is_renamed():
    network = network_of([([[1, 2]], [0])])
    assert has_positional_names(network.inputs)
    assert renamed(network, ["x", "y"]).inputs == ("x", "y")


def test_a_network_survives_a_process_boundary():
    network = random_network((4, 8, 3))
    rows = RNG.normal(size=(5, 4)).astype(np.float32)
    assert np.array_equal(pickle.loads(pickle.dumps(network)).scores(rows), network.scores(rows))
