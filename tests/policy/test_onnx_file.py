"""ONNX: what is written runs in onnxruntime, what others export is read, everything else is refused by name."""

import json
from itertools import pairwise

import numpy as np
import pytest

from polvet.errors import InputError, Where
from polvet.policy import load_policy, rounding_bounds, save_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_file import network_from_onnx
from polvet.policy.rounding import possible_choices

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(5)
W1, B1 = RNG.normal(size=(8, 3)).astype(np.float32), RNG.normal(size=8).astype(np.float32)
W2, B2 = RNG.normal(size=(4, 8)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
ROWS = RNG.normal(size=(50, 3)).astype(np.float32)
EXPECTED = network_of([(W1, B1), (W2, B2)]).scores(ROWS)


def model(nodes, constants, *, shape=("batch", 3), output="y", metadata=None, elem=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", elem, list(shape))],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    if metadata:
        helper.set_model_props(made, metadata)
    return made.SerializeToString()


def read(data):
    return network_from_onnx(data, Where("net.onnx"))


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs, [output], name=f"{operator.lower()}_{output}", **attributes)


def test_a_saved_network_gives_the_same_choices_in_onnxruntime_up_to_the_rounding_bound(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    for sizes in [(3, 5), (6, 16, 16, 5), (9, 64, 64, 45), (4, 128, 2)]:
        layers = [(RNG.normal(size=(b, a)), RNG.normal(size=b)) for a, b in pairwise(sizes)]
        network = network_of(layers, [f"v{i}" for i in range(sizes[0])], [f"a{i}" for i in range(sizes[-1])])
        save_policy(network, tmp_path / "net.onnx")
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(tmp_path / "net.onnx", options, providers=["CPUExecutionProvider"])
        rows = RNG.integers(-20, 20, size=(20_000, sizes[0])).astype(np.float32)
        theirs = session.run(None, {"inputs": rows})[0]
        assert (np.abs(theirs - network.scores(rows)) <= rounding_bounds(network, rows)).all()
        possible = possible_choices(network, rows)
        assert possible[np.arange(len(rows)), theirs.argmax(axis=1)].all()
        assert possible[np.arange(len(rows)), network.choose(rows)].all()
        again = load_policy(tmp_path / "net.onnx")
        assert (again.inputs, again.outputs) == (network.inputs, network.outputs)
        assert np.array_equal(again.scores(rows[:99]), network.scores(rows[:99]))


def test_gemm_in_both_orientations_is_read():
    nodes = [
        node("Gemm", ["x", "w1", "b1"], "h", transB=1),
        node("Relu", ["h"], "r"),
        node("Gemm", ["r", "w2", "b2"], "y"),
    ]
    network = read(model(nodes, {"w1": W1, "b1": B1, "w2": W2.T.copy(), "b2": B2}))
    assert np.array_equal(network.scores(ROWS), EXPECTED)


def test_matmul_and_add_in_both_orders_are_read():
    nodes = [
        node("Flatten", ["x"], "f"), node("MatMul", ["f", "w1"], "m"), node("Add", ["b1", "m"], "h"), node("Relu", ["h"], "r"),
        node("Identity", ["r"], "i"), node("MatMul", ["i", "w2"], "n"), node("Add", ["n", "b2"], "y"),
    ]  # fmt: skip
    network = read(model(nodes, {"w1": W1.T.copy(), "b1": B1, "w2": W2.T.copy(), "b2": B2.reshape(1, -1)}))
    assert np.array_equal(network.scores(ROWS), EXPECTED)


def test_constants_are_folded_and_shapes_that_change_nothing_are_accepted():
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=numpy_helper.from_array(np.array([-1, 3]))),
        helper.make_node("Constant", [], ["c1"], value=numpy_helper.from_array(W1.reshape(-1))),
        helper.make_node("Constant", [], ["s1"], value=numpy_helper.from_array(np.array([8, 3]))),
        node("Reshape", ["c1", "s1"], "q1"), node("Transpose", ["q1"], "t1", perm=[1, 0]), node("Identity", ["t1"], "w1"),
        node("Cast", ["x"], "f", to=1), node("Reshape", ["f", "shape"], "z"),
        node("MatMul", ["z", "w1"], "m"), node("Add", ["m", "b1"], "h"), node("Relu", ["h"], "r"),
        node("Gemm", ["r", "w2", "b2"], "y", transB=1),
    ]  # fmt: skip
    network = read(model(nodes, {"b1": B1, "w2": W2, "b2": B2}))
    assert np.array_equal(network.scores(ROWS), EXPECTED)


def test_a_relu_after_the_last_layer_is_kept():
    nodes = [node("Gemm", ["x", "w1", "b1"], "h", transB=1), node("Relu", ["h"], "y")]
    network = read(model(nodes, {"w1": W1, "b1": B1}))
    assert np.array_equal(network.scores(ROWS), np.maximum(network_of([(W1, B1)]).scores(ROWS), 0))


GEMM = node("Gemm", ["x", "w1", "b1"], "h", transB=1)
CONSTANTS = {"w1": W1, "b1": B1, "w2": W2, "b2": B2}
ODD = {
    "three": np.float32(3),
    "shape": np.array([3, 1]),
    "wide": np.ones((4, 8), dtype=np.float32),
    "nothing": np.float32(0),
}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Conv", ["x", "w1"], "y")], r"'conv_y' \(Conv\) is not supported"),
        ([node("LSTM", ["x", "w1", "w2"], "y")], r"'lstm_y' \(LSTM\) has a memory"),
        ([GEMM, node("Softmax", ["h"], "s"), node("Relu", ["s"], "y")], "reads the result of Softmax"),
        ([GEMM, node("ReduceMean", ["h"], "y", axes=[0])], "mixes the rows of a batch"),
        ([GEMM, node("Pow", ["h", "three"], "y")], "exponent 2 only"),
        ([GEMM, node("ArgMax", ["h"], "y", axis=1, select_last_index=1)], "the last of equal scores"),
        ([GEMM, node("Cast", ["h"], "y", to=TensorProto.FLOAT16)], "casts to float16"),
        ([node("Gemm", ["x", "w2", "b2"], "y", transB=1)], "takes 8 values, 3 arrive"),
        ([node("Transpose", ["x"], "y")], "moves the rows of a batch"),
        ([GEMM], "'y' depends on 0 inputs"),
        ([node("Gemm", ["x", "nowhere"], "y")], "'nowhere', which is not known"),
        ([node("Add", ["x", "z"], "y"), node("Relu", ["y"], "z")], "'z', which is not known"),
        ([node("Reshape", ["x", "shape"], "y")], "cannot be read|mixes the rows"),
        ([node("MatMul", ["x"], "y")], "must have the data on the left"),
        ([GEMM, node("Add", ["h", "wide"], "y")], "mixes the rows of a batch|cannot be read"),
        ([GEMM, node("Div", ["h", "nothing"], "y")], "divides by zero"),
        ([helper.make_node("Relu", ["x"], [])], "'y' depends on 0 inputs"),
        ([helper.make_node("Constant", [], ["y"]), GEMM], "'y' depends on 0 inputs"),
        ([helper.make_node("Constant", [], ["c"]), node("Add", ["x", "c"], "y")], "unsupported attributes"),
    ],
)
def test_other_graphs_are_refused_with_the_node_named(nodes, words):
    with pytest.raises(InputError, match=words):
        read(model(nodes, {**CONSTANTS, **ODD}))


def test_weights_that_are_float16_are_refused():
    with pytest.raises(InputError, match="float16 numbers"):
        read(model([node("MatMul", ["x", "w"], "y")], {"w": W1.T.astype(np.float16)}))
    with pytest.raises(InputError, match="'x' is float16"):
        read(model([node("Gemm", ["x", "w1", "b1"], "y", transB=1)], CONSTANTS, elem=TensorProto.FLOAT16))


def test_nan_weights_truncation_and_foreign_bytes_are_input_errors(tmp_path):
    broken = W1.copy()
    broken[2, 1] = np.nan
    good = node("Gemm", ["x", "w", "b1"], "y", transB=1)
    with pytest.raises(InputError, match=r"layer 0 has the weight nan at \[2, 1\]"):
        read(model([good], {"w": broken, "b1": B1}))
    data = model([good], {"w": W1, "b1": B1})
    for cut in range(1, len(data) - 1, 7):
        (tmp_path / "cut.onnx").write_bytes(data[:cut])
        with pytest.raises(InputError):
            load_policy(tmp_path / "cut.onnx")


def test_an_absurd_tensor_is_refused_before_memory_is_asked_for():
    made = onnx.load_model_from_string(model([node("Gemm", ["x", "w1", "b1"], "y", transB=1)], CONSTANTS))
    made.graph.initializer[0].dims[:] = [2**40, 2**20]
    with pytest.raises(InputError, match="'w1' has the shape"):
        read(made.SerializeToString())


def test_names_come_from_the_metadata_and_must_fit():
    nodes = [node("Gemm", ["x", "w1", "b1"], "y", transB=1)]
    names = {"polvet.inputs": json.dumps(["a", "b", "c"])}
    assert read(model(nodes, CONSTANTS, metadata=names)).inputs == ("a", "b", "c")
    with pytest.raises(InputError, match="has 3 inputs, but 1 input names"):
        read(model(nodes, CONSTANTS, metadata={"polvet.inputs": '["a"]'}))
    with pytest.raises(InputError, match="not a JSON list"):
        read(model(nodes, CONSTANTS, metadata={"polvet.inputs": "a,b"}))


def external_model(tmp_path, location):
    made = onnx.load_model_from_string(model([node("Gemm", ["x", "w1", "b1"], "y", transB=1)], CONSTANTS))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(W1.nbytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    return tmp_path / "net.onnx"


def test_weights_in_a_file_beside_the_model_are_read_and_nowhere_else(tmp_path):
    (tmp_path / "net.onnx.data").write_bytes(W1.tobytes())
    network = load_policy(external_model(tmp_path, "net.onnx.data"))
    assert np.array_equal(network.scores(ROWS), network_of([(W1, B1)]).scores(ROWS))
    with pytest.raises(InputError, match="beside the model"):
        load_policy(external_model(tmp_path, "../net.onnx.data"))
    (tmp_path / "net.onnx.data").write_bytes(W1.tobytes()[:-1])
    with pytest.raises(InputError, match="truncated"):
        load_policy(external_model(tmp_path, "net.onnx.data"))
    with pytest.raises(InputError, match="cannot be read"):
        load_policy(external_model(tmp_path, "gone.data"))
