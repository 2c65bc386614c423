"""What torch's two exporters write today, in old and new opsets, and graphs as tf2onnx and skl2onnx write them: as onnxruntime computes."""

import logging
import warnings

import numpy as np
import pytest

from polvet.errors import Where
from polvet.policy import near_ties, possible_choices, rounding_bounds
from polvet.policy.onnx_file import read_onnx

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

torch.set_num_threads(1)
F = np.float32


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.value, self.advantage = nn.Linear(5, 12), nn.Linear(12, 1), nn.Linear(12, 4)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        advantage = self.advantage(hidden)
        return self.value(hidden) + advantage - advantage.mean(dim=1, keepdim=True)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second, self.last = (
            nn.Linear(5, 16),
            nn.LayerNorm(16),
            nn.Linear(16, 16),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        x = (x - 2.5) / 3.7
        hidden = nn.functional.gelu(self.norm(self.first(x)))
        return self.last(hidden + nn.functional.silu(self.second(hidden)))


class Parts(nn.Module):
    """Columns cut out, treated apart and joined; two heads, of which the first is the actor's."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.last, self.critic = (
            nn.Linear(2, 8),
            nn.Linear(3, 8),
            nn.Linear(16, 4),
            nn.Linear(16, 1),
        )

    def forward(self, x):
        joined = torch.cat(
            [nn.functional.elu(self.left(x[:, :2])), nn.functional.softplus(self.right(x[:, 2:]))], dim=1
        )
        return torch.softmax(self.last(joined), dim=1), self.critic(joined)


MODULES = {
    "actor": lambda: nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)),
    "batch norm": lambda: nn.Sequential(
        nn.Linear(5, 12), nn.BatchNorm1d(12), nn.ReLU6(), nn.Linear(12, 12), nn.Hardswish(), nn.Dropout(), nn.Linear(12, 4)
    ),
    "units": lambda: nn.Sequential(
        nn.Linear(5, 12), nn.LeakyReLU(0.1), nn.Linear(12, 12), nn.Mish(), nn.Linear(12, 12), nn.SELU(), nn.Linear(12, 4), nn.Hardtanh()
    ),
    "dueling": Dueling,
    "residual": Residual,
    "parts": Parts,
}  # fmt: skip
ROWS = np.concatenate([
    np.random.default_rng(0).normal(size=(150, 5)) * 2, np.random.default_rng(1).integers(-3, 8, (150, 5))
]).astype(F)  # fmt: skip


def exported(module, path, opset, dynamo):
    names = {"input_names": ["x"], "opset_version": opset}
    names |= {"dynamic_shapes": ({0: "n"},)} if dynamo else {"dynamic_axes": {"x": {0: "n"}}}
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, (torch.zeros(3, 5),), path, dynamo=dynamo, **names, **({"verbose": False} if dynamo else {})
            )
    finally:
        logging.disable(logging.NOTSET)
    return path.read_bytes()


def agrees(data, path=None, rows=ROWS, close=0.05):
    """Whether onnxruntime, asked with rows together and alone, is within the bounds, and chooses what is possible."""
    read = read_onnx(data, Where(str(path or "net.onnx")))
    session = ort.InferenceSession(path or data, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    scores, bounds = read.policy.scores(rows).astype(np.float64), rounding_bounds(read.policy, rows)
    if "Softmax" in read.dropped:
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    possible = possible_choices(read.policy, rows)
    for batch in (len(rows), 1, 7):
        parts = [session.run([read.output], {name: rows[k : k + batch]})[0] for k in range(0, len(rows), batch)]
        theirs = np.concatenate(parts)
        assert (np.abs(theirs - scores) <= bounds).all()
        assert possible[np.arange(len(rows)), theirs.argmax(axis=1)].all()
    assert near_ties(read.policy, rows).mean() < close
    return read


@pytest.mark.parametrize("opset", [11, 14, 17, 20])
@pytest.mark.parametrize("name", MODULES)
def test_what_the_older_exporter_writes_is_read(name, opset, tmp_path):
    torch.manual_seed(3)
    agrees(exported(MODULES[name]().eval(), tmp_path / "m.onnx", opset, dynamo=False), close=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "opset"), [(name, opset) for name in MODULES for opset in (18, 21)])
def test_what_the_newer_exporter_writes_is_read(name, opset, tmp_path):
    pytest.importorskip("onnxscript")
    torch.manual_seed(3)
    data = exported(MODULES[name]().eval(), tmp_path / "m.onnx", opset, dynamo=True)
    agrees(data, tmp_path / "m.onnx", close=0.2)


def model(nodes, constants, outputs=(("y", 1, None),), opset=13):
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(operator, list(given), list(made), **more) for operator, given, made, more in nodes], "g",
        [helper.make_tensor_value_info("x", 1, ["n", 5])], [helper.make_tensor_value_info(*one) for one in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 1)]
    )
    made.ir_version = 7
    return made.SerializeToString()


def weights():
    rng = np.random.default_rng(4)
    return {
        "w1": rng.normal(size=(5, 8)).astype(F), "b1": rng.normal(size=8).astype(F), "w2": rng.normal(size=(8, 4)).astype(F),
        "b2": rng.normal(size=4).astype(F),
    }  # fmt: skip


def test_a_graph_as_tf2onnx_writes_it_is_read():
    """MatMul and Add for Dense, LeakyRelu, a reshape by Shape, Slice and Concat, Squeeze with axes, Max for relu, Softmax."""
    nodes = [
        ("Shape", ["x"], ["s"], {}), ("Slice", ["s", "zero", "one"], ["rows"], {}), ("Concat", ["rows", "five"], ["to"], {"axis": 0}),
        ("Reshape", ["x", "to"], ["flat"], {}), ("MatMul", ["flat", "w1"], ["m1"], {}), ("Add", ["m1", "b1"], ["h1"], {}),
        ("Max", ["h1", "nothing"], ["r1"], {}), ("Unsqueeze", ["r1", "one"], ["u"], {}), ("Squeeze", ["u", "one"], ["q"], {}),
        ("Identity", ["q"], ["i"], {}), ("MatMul", ["i", "w2"], ["m2"], {}), ("Add", ["m2", "b2"], ["h2"], {}),
        ("Softmax", ["h2"], ["y"], {"axis": -1}),
    ]  # fmt: skip
    given = {"zero": np.array([0]), "one": np.array([1]), "five": np.array([5]), "nothing": F(0)}
    read = agrees(model(nodes, weights() | given))
    assert read.dropped == ("Softmax",)


def test_a_classifier_as_skl2onnx_writes_it_is_read():
    """A label output first, made of the probabilities by ArgMax and a table of classes, then the probabilities."""
    nodes = [
        ("Cast", ["x"], ["c"], {"to": 1}), ("MatMul", ["c", "w1"], ["m1"], {}), ("Add", ["m1", "b1"], ["h1"], {}),
        ("Tanh", ["h1"], ["t1"], {}), ("MatMul", ["t1", "w2"], ["m2"], {}), ("Add", ["m2", "b2"], ["h2"], {}),
        ("Softmax", ["h2"], ["probabilities"], {"axis": 1}), ("ArgMax", ["probabilities"], ["best"], {"axis": 1, "keepdims": 0}),
        ("Gather", ["classes", "best"], ["label"], {}),
    ]  # fmt: skip
    outputs = (("label", 7, ["n"]), ("probabilities", 1, ["n", 4]))
    read = agrees(model(nodes, weights() | {"classes": np.array([3, 5, 7, 9])}, outputs))
    assert read.output == "probabilities"
    assert read.other_outputs == ("label",)
