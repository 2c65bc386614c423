"""Networks as ONNX files: a chain of layers as Gemm and Relu nodes; of a graph of units, one value per node.

Columns of a graph are gathered where a node does not read one value as a whole.
Reading the file again gives a graph with the same scores. Operators are of opset 18 (20 with GELU by tanh), so that most
onnxruntimes read them. GELU is written as erf, Mish as softplus and tanh, SiLU as sigmoid: the reader puts them together again.
"""

from __future__ import annotations

import json
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet import __version__
from polvet.errors import InputError
from polvet.files import write_whole
from polvet.policy.networks import Network
from polvet.policy.onnx_call import FLOAT
from polvet.policy.onnx_tensors import onnx_package
from polvet.policy.onnx_units import SIMPLE
from polvet.policy.unit_graph import Affine, Columns, Product, Unit, UnitGraph

OPERATORS = {unit: operator for operator, unit in SIMPLE.items() if operator != "Mish"}  # written in parts


def save_onnx(network: Network | UnitGraph, path: str | Path) -> None:
    """Write the network as an ONNX file with its names in the metadata; a chain as Gemm and Relu nodes."""
    onnx = onnx_package()
    helper = onnx.helper
    if isinstance(network, UnitGraph):
        written = GraphWriter(onnx, network)
        nodes, constants, opset = written.nodes, written.constants, written.opset
    else:
        nodes, constants, opset = *_chain_nodes(onnx, network), 13
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("inputs", FLOAT, ["batch", len(network.inputs)])],
        [helper.make_tensor_value_info("scores", FLOAT, ["batch", len(network.outputs)])],
        constants,
    )
    model = helper.make_model(
        graph, producer_name="polvet", producer_version=__version__, opset_imports=[helper.make_opsetid("", opset)]
    )
    model.ir_version = 8
    names = {"polvet.inputs": json.dumps(network.inputs), "polvet.outputs": json.dumps(network.outputs)}
    helper.set_model_props(model, names)
    write_whole(path, model.SerializeToString())


def _chain_nodes(onnx: Any, network: Network) -> tuple[list[Any], list[Any]]:
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    nodes, constants = [], []
    value = "inputs"
    for index, layer in enumerate(network.layers):
        last = index + 1 == len(network.layers)
        constants.append(numpy_helper.from_array(layer.weights, f"weights{index}"))
        constants.append(numpy_helper.from_array(layer.bias, f"bias{index}"))
        target = ("logits" if network.softmax else "scores") if last else f"affine{index}"
        operands = [value, f"weights{index}", f"bias{index}"]
        nodes.append(helper.make_node("Gemm", operands, [target], name=f"layer{index}", transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [target], [f"hidden{index}"], name=f"relu{index}"))
            value = f"hidden{index}"
    if network.softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], ["scores"], name="softmax", axis=-1))
    return nodes, constants


class GraphWriter:
    """Nodes and constants of the file, as they are written."""

    def __init__(self, onnx: Any, graph: UnitGraph) -> None:
        self.onnx, self.graph = onnx, graph
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.values: list[str] = ["inputs"]  # the name of each node's value, the inputs first
        sizes = [len(graph.inputs), *(node.size for node in graph.nodes)]
        self.begins = np.concatenate([[0], np.cumsum(sizes)])
        self.made = 0
        self.opset = 18
        for node in graph.nodes:
            match node:
                case Affine():
                    self.values.append(self._affine(node))
                case Unit():
                    self.values.append(self._unit(node))
                case Product():
                    self.values.append(self._node("Mul", [self._read(node.left), self._read(node.right)]))
        scores = self._read(graph.score_columns)
        self._node(
            "Softmax" if graph.softmax else "Identity", [scores], "scores", **({"axis": -1} if graph.softmax else {})
        )

    def _node(self, operator: str, operands: list[str], name: str | None = None, **attributes: Any) -> str:
        self.made += 1
        result = name or f"v{self.made}"
        self.nodes.append(self.onnx.helper.make_node(operator, operands, [result], name=f"n{self.made}", **attributes))
        return result

    def _constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array, dtype=dtype), name))
        return name

    def _read(self, columns: Columns) -> str:
        """Return a value [batch, columns] with these columns in order."""
        owners = [int(owner) for owner in np.searchsorted(self.begins, columns, side="right") - 1]
        used = sorted(set(owners))
        if len(used) == 1:
            whole = self.values[used[0]]
            begin, end = self.begins[used[0]], self.begins[used[0] + 1]
            if np.array_equal(columns, np.arange(begin, end)):
                return whole
            places = columns - begin
        else:
            whole = self._node("Concat", [self.values[owner] for owner in used], axis=1)
            starts = np.concatenate([[0], np.cumsum([self.begins[o + 1] - self.begins[o] for o in used])])
            at = {owner: int(start) for owner, start in zip(used, starts, strict=False)}
            places = np.array([at[o] + c - self.begins[o] for o, c in zip(owners, columns.tolist(), strict=True)])
        return self._node("Gather", [whole, self._constant(places, np.int64)], axis=1)

    def _affine(self, node: Affine) -> str:
        if node.is_shared:
            operands = [self._read(node.columns), self._constant(node.weights), self._constant(node.bias)]
            return self._node("Gemm", operands, transB=1)
        total: str | None = None
        for k in range(node.weights.shape[1]):
            part, weights = self._read(node.columns[:, k]), node.weights[:, k]
            if not (weights == 1).all():
                part = self._node("Mul", [part, self._constant(weights)])
            total = part if total is None else self._node("Add", [total, part])
        assert total is not None
        return self._node("Add", [total, self._constant(node.bias)]) if node.bias.any() else total

    def _unit(self, node: Unit) -> str:
        x = self._read(node.columns)
        match node.name:
            case name if name in OPERATORS:
                return self._node(OPERATORS[name], [x])
            case "clip":
                return self._clip(node, x)
            case "leaky":
                return self._node("PRelu", [x, self._constant(node.a)])
            case "silu":
                return self._node("Mul", [x, self._node("Sigmoid", [x])])
            case "mish":
                return self._node("Mul", [x, self._node("Tanh", [self._node("Softplus", [x])])])
            case "gelu":
                inner = self._node("Erf", [self._node("Mul", [x, self._constant(1 / sqrt(2))])])
                doubled = self._node("Mul", [x, self._node("Add", [inner, self._constant(1.0)])])
                return self._node("Mul", [doubled, self._constant(0.5)])
            case "gelu_tanh":
                self.opset = 20
                return self._node("Gelu", [x], approximate="tanh")
            case "square":
                return self._node("Mul", [x, x])
            case "elu" if len(set(node.a.tolist())) == 1 and len(set(node.b.tolist())) == 1:
                return self._node("Selu", [x], alpha=float(node.a[0]), gamma=float(node.b[0]))
            case "equal" if np.array_equal(node.a, node.b):
                whole = self._node("Cast", [x], to=self.onnx.TensorProto.INT64)
                same = self._node("Equal", [whole, self._constant(node.a, np.int64)])
                return self._node("Cast", [same], to=self.onnx.TensorProto.FLOAT)
        raise InputError(
            f"the unit '{node.name}' with these parameters has no ONNX operator.", hint="It cannot be saved."
        )

    def _clip(self, node: Unit, x: str) -> str:
        if (node.a == 0).all() and (node.b == inf).all():
            return self._node("Relu", [x])
        if not (node.a == -inf).all():
            x = self._node("Max", [x, self._constant(node.a)])
        return x if (node.b == inf).all() else self._node("Min", [x, self._constant(node.b)])
