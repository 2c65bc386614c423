"""Malformed and hostile ONNX files: each is refused by one line that names the place, quickly and without much memory."""

import os

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.policy import load_policy

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F = np.float32
W = np.arange(6, dtype=F).reshape(2, 3)
N = helper.make_node


def gemm(x="x", y="y"):
    return N("MatMul", [x, "w"], [y])


def model(nodes, *, elem=TensorProto.FLOAT, shape=("n", 2), opset=17, out="y", raw=(), change=None, **constants):
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", elem, list(shape))],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], [*tensors, *raw],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    if change is not None:
        change(made)
    return made.SerializeToString()


def tensor(dims, kind=TensorProto.FLOAT, **external):
    made = onnx.TensorProto(name="w", data_type=kind, dims=dims)
    if not external:
        made.raw_data = W.tobytes()
        return made
    made.data_location = TensorProto.EXTERNAL
    for key, value in {"offset": "0", "length": "24", **external}.items():
        entry = made.external_data.add()
        entry.key, entry.value = key, value
    return made


def outside(location, **other):
    return model([gemm()], raw=[tensor([2, 3], location=location, **other)])


def redefine(made):
    body = [N("Neg", ["a"], ["b"])]
    made.functions.append(helper.make_function("", "Relu", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))


def branch(operator):
    return helper.make_graph(
        [N(operator, ["x"], ["q"])], "b", [], [helper.make_tensor_value_info("q", TensorProto.FLOAT, None)]
    )


ON = np.array(True)
HOT = {"elem": TensorProto.INT64, "shape": ("n",), "v": F([0, 1])}
CASES = {
    # numbers kept elsewhere
    "outside: parent": (outside("../w.data"), "Only a file beside the model"),
    "outside: absolute": (outside("/etc/passwd"), "Only a file beside the model"),
    "outside: folder": (outside("deep/w.data"), "Only a file beside the model"),
    "outside: nothing": (outside(""), "Only a file beside the model"),
    "outside: link": (outside("link.data"), "does not fit its place"),
    "outside: gone": (outside("gone.data"), "cannot be read"),
    "outside: beyond": (outside("w.data", offset="999"), "ends inside"),
    "outside: before": (outside("w.data", offset="-4"), "does not fit"),
    "outside: huge": (outside("w.data", length=str(2**60)), "does not fit"),
    "outside: words": (outside("w.data", offset="two"), "cannot be read"),
    # graphs that are none
    "cycle": (model([N("Add", ["x", "z"], ["y"]), N("Relu", ["y"], ["z"])]), "'z', which is not known"),
    "cycle of one": (model([N("Add", ["x", "y"], ["y"])]), "'y', which is not known"),
    "missing weights": (model([gemm()]), "'w', which is not known"),
    "weights twice": (model([gemm()], w=W, raw=[numpy_helper.from_array(2 * W, "w")]), "there twice"),
    "made twice": (model([gemm(), gemm()], w=W), "'y' is made twice"),
    "no input": (model([gemm()], w=W, change=lambda m: m.graph.ClearField("input")), "depends on 0 inputs"),
    "no output": (model([gemm()], w=W, change=lambda m: m.graph.ClearField("output")), "not clear"),
    "two inputs": (
        model([N("Add", ["x", "z"], ["y"])],
              change=lambda m: m.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 2]))),
        "depends on 2 inputs"),
    "constant output": (model([N("Relu", ["x"], ["h"])], y=F([1, 2])), "depends on 0 inputs"),
    "own operator": (model([gemm(y="h"), N("Relu", ["h"], ["y"])], w=W, change=redefine), "defines the operator 'Relu'"),
    "two opsets": (model([gemm()], w=W, change=lambda m: m.opset_import.append(helper.make_opsetid("", 9))), "opsets 17, 9"),
    "no opset": (model([gemm()], w=W, change=lambda m: m.ClearField("opset_import")), "opset 1;"),
    "branches": (model([N("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))], c=ON),
                 r"depends on 0 inputs|\(If\)"),
    # sizes
    "huge tensor": (model([gemm()], raw=[tensor([2**40, 2**40])]), "too large"),
    "negative size": (model([gemm()], raw=[tensor([-1, 3])]), "shape"),
    "no size": (model([gemm()], raw=[tensor([2, 0])]), "damaged"),
    "wrong size": (model([gemm()], raw=[tensor([2, 4])]), "damaged"),
    "huge input": (model([N("Tanh", ["x"], ["y"])], shape=("n", 2**40)), "make no sense"),
    "huge depth": (model([N("OneHot", ["x", "d", "v"], ["y"])], d=np.array(2**62), **HOT), "the depth"),
    "huge split": (model([N("Split", ["x"], ["y"], axis=1, num_outputs=2**60)], opset=18), "where it splits"),
    "doubling": (model([N("Concat", [f"r{k}" if k else "x"] * 2, [f"r{k + 1}" if k < 39 else "y"], axis=1) for k in range(40)]),
                 "makes 8388608 values"),
    "spreading": (model([N("Add", ["x", "a"], ["h"]), N("Add", ["h", "b"], ["y"])], a=np.ones((1, 3000, 1), F),
                        b=np.ones((1, 3000, 1, 1), F)), "too large|makes|more than"),
    "huge shape": (model([N("Reshape", ["x", "s"], ["y"])], s=np.array([2**40, -1])), "cannot be read"),
    # numbers
    "NaN": (model([gemm()], w=W * F("nan")), "weight nan"),
    "infinite": (model([gemm(y="h"), N("Add", ["h", "b"], ["y"])], w=W, b=F([np.inf, 0, 0])), "bias inf"),
    "NaN slope": (model([N("LeakyRelu", ["x"], ["y"], alpha=float("nan"))]), "not a number"),
    "NaN depth": (model([N("OneHot", ["x", "d", "v"], ["y"])], d=F("nan"), **HOT), "cannot be read"),
    "negative variance": (model([N("BatchNormalization", ["x", "a", "a", "a", "v"], ["y"])], a=np.ones(2, F), v=-np.ones(2, F)),
                          "variance"),
    # types
    **{f"{kind} weights": (model([gemm()], w=W.astype(kind)), f"has {kind} numbers")
       for kind in ("int64", "uint8", "bool", "float16", "complex64")},
    "bfloat16 weights": (model([gemm()], raw=[helper.make_tensor("w", TensorProto.BFLOAT16, [2, 3], [1.0] * 6)]), "bfloat16"),
    "texts for weights": (model([gemm()], raw=[helper.make_tensor("w", TensorProto.STRING, [2], [b"a", b"b"])]), "numbers"),
    "unknown type": (model([gemm()], raw=[tensor([2, 3], kind=99)]), "damaged"),
    "float16 input": (model([gemm()], w=W, elem=TensorProto.FLOAT16), "is float16"),
    "text input": (model([gemm()], w=W, elem=TensorProto.STRING), "of type 8"),
    "text axis": (model([gemm(y="h"), N("Softmax", ["h"], ["y"], axis="one")], w=W), "cannot be read"),
    "list of axes": (model([gemm(y="h"), N("Concat", ["h", "h"], ["y"], axis=[1, 2])], w=W), "cannot be read"),
    "text slope": (model([N("LeakyRelu", ["x"], ["y"], alpha="x")]), "cannot be read"),
    "no such axis": (model([N("Transpose", ["x"], ["y"], perm=[0, 5])]), "cannot be read"),
    "index beyond": (model([N("Gather", ["x", "i"], ["y"], axis=1)], i=np.array([7])), "cannot be read"),
    "no step": (model([N("Slice", ["x", "a", "b", "c", "d"], ["y"])], a=np.array([0]), b=np.array([2]), c=np.array([1]),
                      d=np.array([0])), "cannot be read"),
    # what is no function of one row
    "rows cut": (model([N("Slice", ["x", "a", "b", "c"], ["h"]), gemm("h")], w=W, a=np.array([0]), b=np.array([1]),
                       c=np.array([0])), "cuts the rows"),
    "random": (model([N("Dropout", ["x", "r", "t"], ["y"])], r=F(0.5), t=ON), "training mode"),
    "batch statistics": (model([N("BatchNormalization", ["x", "a", "a", "a", "a"], ["y"], training_mode=1)], a=np.ones(2, F)),
                         "training mode"),
    "LSTM": (model([N("LSTM", ["x", "w", "w"], ["y"], hidden_size=3)], w=W), "has a memory"),
    "GRU": (model([N("GRU", ["x", "w", "w"], ["y"], hidden_size=3)], w=W), "has a memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused_by_one_line_with_its_place(name, tmp_path):
    data, words = CASES[name]
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    for place in (tmp_path, folder, folder / "deep"):
        (place / "w.data").write_bytes(W.tobytes())
    os.symlink(tmp_path / "w.data", folder / "link.data")
    (folder / "net.onnx").write_bytes(data)
    with pytest.raises(InputError, match=words) as caught:
        load_policy(folder / "net.onnx")
    message = str(caught.value)
    assert message.startswith(str(folder / "net.onnx"))
    assert "\n" not in message
    assert len(message) < 600
