"""PlaJA's .nnet networks and MoGym's JSON networks, on the authors' own files where these are at hand."""

import json

import numpy as np
import pytest

from polvet.errors import InputError, Where
from polvet.policy import load_policy, save_policy
from polvet.policy.mogym import network_from_mogym
from polvet.policy.networks import network_of
from polvet.policy.nnet import network_from_nnet
from tests.conftest import BENCHMARKS

PLAJA = BENCHMARKS / "plaja-tests"
MOGYM = BENCHMARKS / "mogym-policies"
needs_plaja = pytest.mark.skipif(not PLAJA.is_dir(), reason="the PlaJA files are not here")
needs_mogym = pytest.mark.skipif(not MOGYM.is_dir(), reason="the MoGym files are not here")
RNG = np.random.default_rng(1)

TEXT = """// a comment
2,2,1,3,
2,3,1,
0,
0,0,
1,1,
0,0,0,
1,1,1,
1,2,
3,4,
5,6,
0.5,
-0.5,
0,
1,1,1,
2,
"""


def test_a_small_text_is_read_line_by_line():
    network = network_from_nnet(TEXT, Where("t.nnet"))
    assert network.layers[0].weights.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert network.layers[0].bias.tolist() == [0.5, -0.5, 0]
    assert network.layers[1].bias.tolist() == [2]
    assert network.scores(np.array([[1, 1]], dtype=np.float32)).tolist() == [[3.5 + 6.5 + 11 + 2]]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2,2,1,3,", "2,9,1,3,", "header says 9 inputs"),
        ("2,3,1,", "2,3,", "t.nnet:3: the layer sizes: 3 numbers are needed"),
        ("5,6,", "5,x,", r"t.nnet:11: weights of layer 0, neuron 2: .* not a number"),
        ("5,6,", "5,nan,", "layer 0 has the weight nan"),
        ("0,0,0,\n", "0,1,0,\n", "means are not all 0"),
        ("1,1,1,\n1,2", "1,2,1,\n1,2", "ranges are not all 1"),
        ("1,1,1,\n2,", "1,1,", "truncated|numbers are needed"),
        ("2,\n", "2,\n7,\n", "more data"),
        ("2,2,1,3,", "999999999,2,1,3,", "at most 10000"),
        ("2,3,1,", "2,1e9,1,", "weights; at most"),
    ],
)
def test_a_damaged_text_names_its_line(old, new, words):
    head, found, tail = TEXT.rpartition(old) if old == "2,\n" else TEXT.partition(old)
    assert found
    with pytest.raises(InputError, match=words):
        network_from_nnet(head + new + tail, Where("t.nnet"))


def test_every_truncation_at_a_line_is_an_input_error():
    lines = TEXT.splitlines(keepends=True)
    for count in range(len(lines)):
        with pytest.raises(InputError):
            network_from_nnet("".join(lines[:count]), Where("t.nnet"))


def test_a_saved_nnet_reads_back_exactly_with_its_names(tmp_path):
    network = network_of(
        [(RNG.normal(size=(5, 3)), RNG.normal(size=5)), (RNG.normal(size=(2, 5)) * 1e-30, RNG.normal(size=2))],
        ["x", "A[2]", "car.location"],
        ["go", "stop"],
    )
    save_policy(network, tmp_path / "n.nnet")
    for name in ("n.nnet", "n.jani2nnet"):
        again = load_policy(tmp_path / name)
        assert (again.inputs, again.outputs) == (network.inputs, network.outputs)
        for old, new in zip(network.layers, again.layers, strict=True):
            assert np.array_equal(old.weights, new.weights)
            assert np.array_equal(old.bias, new.bias)


@needs_plaja
def test_plajas_networks_are_read_with_their_interfaces():
    path = PLAJA / "rddps22/blocksworld/networks/learned_cost05_non_terminal/blocksworld_4_3_16_16.jani2nnet"
    network = load_policy(path)
    assert len(network.inputs) == 14
    assert network.outputs[0] == "choose_table"
    assert [layer.weights.shape for layer in network.layers] == [(16, 14), (16, 16), (5, 16)]
    assert network.layers[0].weights[0, 0] == np.float32(-4.80611229)
    interfaces = [p for p in sorted(PLAJA.rglob("*.jani2nnet")) if p.with_suffix(".nnet").is_file()]
    assert len(interfaces) >= 5
    for path in interfaces:
        assert load_policy(path).inputs == load_policy(path.with_suffix(".nnet")).inputs


@needs_plaja
def test_plajas_test_network_decides_by_hand():
    """for_nn_sat: one hidden neuron = x; label1 has score 2 max(0, x), label2... as the four numbers of the file say."""
    network = load_policy(PLAJA / "for_ppa_simple.jani2nnet")
    rows = np.array([[-4], [0], [1], [4]], dtype=np.float32)
    # hidden = max(0, x); label1 = 1 - hidden... weights -1, -0.3, 0 and biases 1, 0.8, 0
    hidden = np.maximum(rows[:, 0], 0)
    expected = np.stack([1 - hidden, 0.8 - 0.3 * hidden, 0 * hidden], axis=1)
    assert np.allclose(network.scores(rows), expected, atol=1e-6)
    assert network.choose(rows).tolist() == [0, 0, 1, 2]
    arrays = load_policy(PLAJA / "for_nn_sat.jani2nnet")
    assert arrays.inputs[:4] == ("satellite.location", "x", "A[0]", "A[1]")


def test_an_interface_that_does_not_fit_its_network_is_refused(tmp_path):
    (tmp_path / "t.nnet").write_text(TEXT)
    interface = {
        "file": "t.nnet",
        "input": [{"automaton": None, "name": "x"}, {"automaton": None, "name": "y"}],
        "elements": [3],
        "output": ["go"],
    }
    path = tmp_path / "t.jani2nnet"
    path.write_text(json.dumps(interface))
    assert load_policy(path).inputs == ("x", "y")
    for change, words in (
        ({"elements": [4]}, "hidden layers"),
        ({"output": ["a", "b"]}, "has 1 outputs, but 2"),
        ({"file": "gone.nnet"}, "no such file"),
        ({"input": [{"automaton": None}]}, r"input\[0\]"),
    ):
        path.write_text(json.dumps(interface | change))
        with pytest.raises(InputError, match=words):
            load_policy(path)


LINEAR = {"kind": "Linear", "inputSize": 2, "outputSize": 1, "hasBiases": True, "weights": [[1.5, -2]], "biases": [3]}


def test_a_mogym_network_is_read():
    document = {"layers": [LINEAR, {"kind": "ReLU"}, {**LINEAR, "inputSize": 1, "weights": [[2]]}]}
    network = network_from_mogym(document, Where("m.json"))
    assert network.scores(np.array([[2, 1]], dtype=np.float32)).tolist() == [[11]]


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([LINEAR, {"kind": "Tanh"}], r"layers\[1\]: the layer kind 'Tanh'"),
        ([LINEAR, LINEAR], "without ReLU"),
        ([LINEAR, {"kind": "ReLU"}], "last layer must be Linear"),
        ([{**LINEAR, "weights": [[1]]}], "1 x 2"),
        ([{**LINEAR, "weights": [[1, "a"]]}], "not every entry is a number"),
        ([{**LINEAR, "biases": [float("nan")]}], "layer 0 has the bias nan"),
        ([{"kind": "ReLU"}], "must follow"),
        ([], "must be a list"),
    ],
)
def test_other_mogym_documents_are_refused(layers, words):
    with pytest.raises(InputError, match=words):
        network_from_mogym({"layers": layers}, Where("m.json"))


@needs_mogym
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cdrive.2/episode_999.json", (7, 45)),
        ("elevators.a-3-3/best.json", (22, 41)),
        ("firewire_dl/best.json", (3, 24)),
        ("racetrack-barto-small/episode_19999.json", (15, 9)),
    ],
)
def test_mogyms_published_networks_are_read(name, shape):
    network = load_policy(MOGYM / name)
    assert (len(network.inputs), len(network.outputs)) == shape
    stored = json.loads((MOGYM / name).read_text())["layers"][0]["weights"]
    assert np.array_equal(network.layers[0].weights, np.array(stored, dtype=np.float32))
    rows = RNG.integers(0, 5, size=(40, shape[0])).astype(np.float32)
    values = rows.astype(np.float64)
    for index, layer in enumerate(network.layers):
        values = values @ layer.weights.T.astype(np.float64) + layer.bias
        values = values if index + 1 == len(network.layers) else np.maximum(values, 0)
    assert np.allclose(network.scores(rows), values, rtol=1e-4, atol=1e-4)
