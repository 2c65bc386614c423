"""ONNX graphs of every shape: what exporters write is read, and onnxruntime computes within the stated enclosure."""

import json

import numpy as np
import pytest

from polvet.errors import InputError, Where
from polvet.policy import load_policy, near_ties, possible_choices, rounding_bounds, save_policy
from polvet.policy.networks import Network
from polvet.policy.onnx_file import network_from_onnx, read_onnx
from polvet.policy.unit_graph import UnitGraph
from tests.conftest import BENCHMARKS
from tests.policy.graphs import random_graph

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FOLDER = BENCHMARKS / "onnx-policies"
REFUSED = {"ppo_float16": "float16"}
ORDERLESS = {"many_activations"}  # thirteen layers: the bound is wider than any margin
INDEX = json.loads((FOLDER / "index.json").read_text()) if (FOLDER / "index.json").exists() else []
RNG = np.random.default_rng(7)


def session_of(data):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["name"])
def test_what_real_exporters_write_is_read_or_refused_by_name(entry):
    path = FOLDER / entry["file"]
    if entry["name"] in REFUSED:
        with pytest.raises(InputError, match=REFUSED[entry["name"]]):
            load_policy(path)
        return
    read = read_onnx(path.read_bytes(), Where(str(path)))
    recorded = np.load(FOLDER / entry["data"])
    rows = recorded["inputs"].astype(np.float32).reshape(len(recorded["inputs"]), -1)
    scores, bounds = read.policy.scores(rows), rounding_bounds(read.policy, rows)
    theirs = recorded[f"output:{read.output}"]
    if "ArgMax" in read.dropped:
        choices = theirs.reshape(-1)
    else:
        expected = scores.astype(np.float64)
        if "Softmax" in read.dropped:
            expected = np.exp(expected - expected.max(axis=1, keepdims=True))
            expected /= expected.sum(axis=1, keepdims=True)
        assert (np.abs(theirs - expected) <= bounds).all()
        choices = theirs.argmax(axis=1)
    ties = near_ties(read.policy, rows)
    assert np.array_equal(read.policy.choose(rows)[~ties], choices[~ties])
    assert possible_choices(read.policy, rows)[np.arange(len(rows)), choices].all()
    assert ties.mean() < 0.02 or entry["name"] in ORDERLESS


def test_the_actors_output_is_found_or_named():
    entry = next((entry for entry in INDEX if entry["name"] == "ppo_actor_critic"), None)
    if entry is None:
        pytest.skip("the exported policies are not here")
    path = FOLDER / entry["file"]
    assert len(load_policy(path).outputs) == 4
    assert read_onnx(path.read_bytes(), Where("p")).other_outputs == ("22",)
    assert len(load_policy(path, output="22").outputs) == 1
    with pytest.raises(InputError, match="no output 'logits'"):
        load_policy(path, output="logits")


@pytest.mark.parametrize("seed", range(60))
def test_saved_graphs_compute_the_same_in_onnxruntime_within_the_bound(seed, tmp_path):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, ["x", "y", "z"], ["a", "b", "c", "d"])
    save_policy(graph, tmp_path / "net.onnx")
    rows = rng.integers(-7, 9, size=(300, 3)).astype(np.float32)
    theirs = session_of(str(tmp_path / "net.onnx")).run(None, {"inputs": rows})[0]
    scores, bounds = graph.scores(rows).astype(np.float64), rounding_bounds(graph, rows)
    if isinstance(graph, UnitGraph) and graph.softmax:
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    assert (np.abs(theirs - scores) <= bounds).all()
    assert possible_choices(graph, rows)[np.arange(len(rows)), theirs.argmax(axis=1)].all()
    again = load_policy(tmp_path / "net.onnx")
    assert (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
    assert (np.abs(again.scores(rows) - graph.scores(rows)) <= bounds).all()
    if isinstance(graph, UnitGraph):
        assert set(again.unit_names) == set(graph.unit_names)


# -- one operator at a time, against onnxruntime


def model(nodes, constants, *, shape=("batch", 4), opset=17, outputs=("y",), elem=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", elem, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made.SerializeToString()


def node(operator, inputs, *outputs, **attributes):
    return helper.make_node(operator, inputs, list(outputs or ("y",)), **attributes)


F = np.float32
W = RNG.normal(size=(4, 6)).astype(F)
C = {
    "w": W, "b": RNG.normal(size=6).astype(F), "row": RNG.normal(size=4).astype(F), "low": F(-0.7), "high": F(1.2),
    "two": F(2), "third": F(1 / 3), "i": np.array([2, 0, 3]), "axes": np.array([1]), "shape": np.array([-1, 2, 2]),
    "flat": np.array([0, -1]), "s": np.array([1]), "e": np.array([4]), "sizes": np.array([1, 3]),
    "var": np.abs(RNG.normal(size=4)).astype(F) + F(0.1), "mean": RNG.normal(size=4).astype(F),
    "scale": RNG.normal(size=4).astype(F),
}  # fmt: skip
ONE = {
    "add": [node("Add", ["x", "row"])], "sub": [node("Sub", ["row", "x"])], "mul": [node("Mul", ["x", "third"])],
    "div": [node("Div", ["x", "third"])], "inverse": [node("Exp", ["x"], "e1"), node("Div", ["row", "e1"])],
    "gemm": [node("Gemm", ["x", "w", "b"], alpha=0.3, beta=0.7)], "neg": [node("Neg", ["x"])],
    "linear-linear": [node("MatMul", ["x", "w"], "h"), node("Add", ["h", "b"], "g"), node("Mul", ["g", "third"])],
    "batch-norm": [node("BatchNormalization", ["x", "scale", "row", "mean", "var"], epsilon=1e-3)],
    "layer-norm": [node("LayerNormalization", ["x", "scale", "row"], axis=-1)],
    "relu": [node("Relu", ["x"])], "leaky": [node("LeakyRelu", ["x"])], "prelu": [node("PRelu", ["x", "row"])],
    "clip": [node("Clip", ["x", "low", "high"])], "clip-above": [node("Clip", ["x", "", "high"])],
    "min": [node("Min", ["x", "row"])], "max": [node("Max", ["low", "x"])], "hard": [node("HardSigmoid", ["x"])],
    "elu": [node("Elu", ["x"], alpha=0.5)], "selu": [node("Selu", ["x"])], "celu": [node("Celu", ["x"])],
    "softplus": [node("Softplus", ["x"])], "softsign": [node("Softsign", ["x"])], "tanh": [node("Tanh", ["x"])],
    "sigmoid": [node("Sigmoid", ["x"])], "erf": [node("Erf", ["x"])], "exp": [node("Exp", ["x"])], "abs": [node("Abs", ["x"])],
    "hard-swish": [node("HardSwish", ["x"])], "square": [node("Pow", ["x", "two"])],
    "silu": [node("Sigmoid", ["x"], "g"), node("Mul", ["g", "x"])], "product": [node("Tanh", ["x"], "t"), node("Mul", ["t", "x"])],
    "residual": [node("Tanh", ["x"], "t"), node("Add", ["t", "x"])], "sum": [node("ReduceSum", ["x", "axes"])],
    "dueling": [node("ReduceMean", ["x"], "m", axes=[1]), node("Sub", ["x", "m"])],
    "concat": [node("Tanh", ["x"], "t"), node("Concat", ["x", "t"], axis=1)],
    "gather": [node("Gather", ["x", "i"], axis=1)], "slice": [node("Slice", ["x", "s", "e", "axes"])],
    "split": [node("Split", ["x", "sizes"], "p", "q", axis=1), node("Concat", ["q", "p"], axis=1)],
    "reshape": [node("Reshape", ["x", "shape"], "r"), node("Transpose", ["r"], "t", perm=[0, 2, 1]), node("Flatten", ["t"])],
    "unsqueeze": [node("Unsqueeze", ["x", "axes"], "u"), node("Squeeze", ["u", "axes"])],
    "shape": [node("Shape", ["x"], "n"), node("Reshape", ["x", "n"], "r"), node("Identity", ["r"])],
    "dropout": [node("Dropout", ["x"])], "log-softmax": [node("LogSoftmax", ["x"], axis=-1)],
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_an_operator_is_what_onnxruntime_computes(name):
    data = model(ONE[name], C)
    policy = network_from_onnx(data, Where("net.onnx"))
    rows = np.concatenate([RNG.normal(size=(300, 4)) * 3, RNG.integers(-9, 9, size=(200, 4))]).astype(np.float32)
    theirs = np.stack([session_of(data).run(None, {"x": row[None]})[0].reshape(-1) for row in rows[:3]])
    theirs = np.concatenate([theirs, session_of(data).run(None, {"x": rows[3:]})[0].reshape(len(rows) - 3, -1)])
    scores, bounds = policy.scores(rows).astype(np.float64), rounding_bounds(policy, rows)
    if name == "log-softmax":
        scores = scores - scores.max(axis=1, keepdims=True)
        scores = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    assert (np.abs(theirs - scores) <= bounds).all()
    if name in ("add", "relu", "clip", "gather", "slice", "split", "reshape", "abs", "neg"):
        assert np.array_equal(theirs, scores)


@pytest.mark.parametrize("opset", [9, 11, 13, 15, 18, 21])
def test_many_opsets_are_read(opset):
    nodes = [node("Gemm", ["x", "w", "b"], "h"), node("Tanh", ["h"], "t"), node("Softmax", ["t"], axis=1)]
    assert network_from_onnx(model(nodes, C, opset=opset), Where("net.onnx")).softmax


def test_very_old_and_unknown_opsets_are_refused():
    for opset in (5, 99):
        with pytest.raises(InputError, match=f"the opset {opset}"):
            network_from_onnx(model([node("Tanh", ["x"])], {}, opset=opset), Where("net.onnx"))


def test_whole_inputs_are_told_apart_one_hot_and_by_embedding():
    table = RNG.normal(size=(5, 3)).astype(F)
    rows = np.arange(5, dtype=np.float32)[:, None]
    one_hot = [node("OneHot", ["x", "depth", "values"], "h", axis=-1), node("MatMul", ["h", "table"])]
    looked_up = [node("Gather", ["table", "x"], axis=0)]
    for nodes in (one_hot, looked_up):
        constants = {"depth": np.array(5), "values": np.array([0, 1], dtype=F), "table": table}
        data = model(nodes, constants, shape=("batch",), elem=TensorProto.INT64)
        policy = network_from_onnx(data, Where("net.onnx"))
        assert np.array_equal(policy.scores(rows), table)
        assert (rounding_bounds(policy, rows) <= 1e-5).all()


def test_branches_that_the_output_does_not_need_are_not_even_read():
    nodes = [
        node("Gemm", ["x", "w", "b"], "h"),
        node("Relu", ["h"], "y"),
        node("Einsum", ["h"], "value", equation="ij->i"),
    ]
    policy = network_from_onnx(model(nodes, C, outputs=("y", "value")), Where("net.onnx"), output="y")
    assert isinstance(policy, Network)


def test_several_outputs_that_fit_are_refused_until_one_is_named():
    nodes = [node("Tanh", ["x"], "p"), node("Sigmoid", ["x"], "q")]
    data = model(nodes, {}, outputs=("p", "q"))
    with pytest.raises(InputError, match='output = "p"'):
        network_from_onnx(data, Where("net.onnx"))
    assert network_from_onnx(data, Where("net.onnx"), output="q").unit_names == ("sigmoid",)


def test_huge_shapes_and_values_that_are_not_numbers_are_refused():
    with pytest.raises(InputError, match="inputs; 1 to"):
        network_from_onnx(model([node("Tanh", ["x"])], {}, shape=("batch", 2**25)), Where("net.onnx"))
    with pytest.raises(InputError, match="sizes make no sense"):
        network_from_onnx(model([node("Tanh", ["x"])], {}, shape=("batch", 2**40)), Where("net.onnx"))
    with pytest.raises(InputError, match="nan"):
        network_from_onnx(
            model([node("Tanh", ["x"], "t"), node("Mul", ["t", "c"])], {"c": F("nan")}), Where("net.onnx")
        )
    with pytest.raises(InputError, match="not a number"):
        network_from_onnx(model([node("Clip", ["x", "c"])], {"c": F("nan")}), Where("net.onnx"))
    with pytest.raises(InputError, match="not a number"):
        network_from_onnx(model([node("PRelu", ["x", "c"])], {"c": F("inf")}), Where("net.onnx"))
    for operator, constant in (("Div", F(3e38)), ("Mul", F(1e-40))):
        with pytest.raises(InputError, match=r"below 2\^-126"):
            network_from_onnx(
                model([node("Tanh", ["x"], "t"), node(operator, ["t", "c"])], {"c": constant}), Where("net.onnx")
            )
    with pytest.raises(InputError, match="inf"):
        network_from_onnx(
            model([node("Tanh", ["x"], "t"), node("Add", ["t", "c"])], {"c": F("inf")}), Where("net.onnx")
        )


def test_damaged_bytes_give_one_input_error_or_a_policy(tmp_path):
    """Flipped bytes anywhere in a file: it is read, or refused with a place; never another exception."""
    rng = np.random.default_rng(5)
    refused = []
    for seed in range(6):
        save_policy(random_graph(np.random.default_rng(seed), ["x", "y"], ["a", "b"]), tmp_path / "net.onnx")
        whole = bytearray((tmp_path / "net.onnx").read_bytes())
        for _ in range(120):
            data = bytearray(whole)
            for place in rng.integers(0, len(data), size=int(rng.integers(1, 4))):
                data[place] = int(rng.integers(256))
            (tmp_path / "flipped.onnx").write_bytes(data)
            try:
                load_policy(tmp_path / "flipped.onnx")
            except InputError as error:
                refused.append(str(error))
    assert refused
    assert all("flipped.onnx" in message for message in refused)


def test_info_says_what_a_file_holds(tmp_path):
    from polvet.policy.describe import describe_policy, is_policy_file

    nodes = [
        node("Gemm", ["x", "w", "b"], "h"),
        node("Tanh", ["h"], "t"),
        node("Softmax", ["t"], axis=1),
        node("Relu", ["h"], "v"),
    ]
    (tmp_path / "net.onnx").write_bytes(model(nodes, C, outputs=("y", "v")))
    with pytest.raises(InputError, match="not clear"):
        describe_policy(tmp_path / "net.onnx")
    (tmp_path / "net.onnx").write_bytes(model(nodes, C))
    assert is_policy_file(tmp_path / "net.onnx")
    facts = describe_policy(tmp_path / "net.onnx").facts
    assert facts["units"] == "tanh (within 2^-20)"
    assert facts["dropped"].startswith("Softmax")
    assert "near ties" in facts["softmax"]
