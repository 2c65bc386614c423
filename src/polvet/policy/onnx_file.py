"""ONNX files that hold a fully connected ReLU network, read and written.

Read     Gemm, MatMul, Add, Relu on the data; Flatten, Identity, Cast, Reshape where they change nothing; Constant,
         Identity, Cast, Reshape, Transpose, Squeeze, Unsqueeze on constants (folded)
Refused  every other node, by its operator and name; weights that are not float32; linear layers without Relu between
Names    metadata `polvet.inputs`, `polvet.outputs`: JSON lists
A Relu after the last layer is kept as an identity layer, which is exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet import __version__
from polvet.errors import InputError, MissingExtra, Where
from polvet.files import MAX_BYTES, write_whole
from polvet.policy.networks import MAX_PARAMETERS, Network, network_of
from polvet.policy.protocol import checked_names

AGAIN = "Export a plain MLP in float32: Gemm (or MatMul and Add) and Relu, one after the other."

FLOAT = 1  # TensorProto.FLOAT
SUPPORTED = ("Gemm", "MatMul", "Add", "Relu", "Flatten", "Identity", "Cast", "Reshape", "Constant", "Transpose", "Squeeze",
             "Unsqueeze")  # fmt: skip
Array = npt.NDArray[Any]


def onnx_package() -> Any:
    """Return the package `onnx`, or raise MissingExtra."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    return onnx


def network_from_onnx(
    data: bytes, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Network:
    """Return the network in an ONNX file's bytes, or raise an InputError that names the node at fault."""
    onnx = onnx_package()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own exception class differs between its implementations
        raise InputError(
            f"is not an ONNX file ({type(error).__name__}).", where, "It is damaged or truncated."
        ) from None
    graph = model.graph
    if not graph.node:
        raise InputError("the graph has no nodes.", where, "Is this an ONNX file, and is it whole?")
    walk = _Walk(_constants(onnx, graph, where), where)
    source = [entry for entry in graph.input if entry.name not in walk.constants]
    if len(source) != 1 or len(graph.output) != 1:
        raise InputError(
            f"the graph has {len(source)} inputs and {len(graph.output)} outputs.", where, "One each is read."
        )
    walk.start(source[0].name, _width(source[0], where))
    for index, node in enumerate(graph.node):
        walk.node(onnx, node, where.at("graph").at("node").at(index))
    layers = walk.finish(graph.output[0].name)
    if inputs is None:
        inputs = _metadata_names(model, "polvet.inputs", where)
    if outputs is None:
        outputs = _metadata_names(model, "polvet.outputs", where)
    return network_of(layers, inputs, outputs, where)


def save_onnx(network: Network, path: str | Path) -> None:
    """Write the network as an ONNX file of Gemm and Relu nodes with its names in the metadata."""
    onnx = onnx_package()
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    nodes, constants = [], []
    value = "inputs"
    for index, layer in enumerate(network.layers):
        last = index + 1 == len(network.layers)
        constants.append(numpy_helper.from_array(layer.weights, f"weights{index}"))
        constants.append(numpy_helper.from_array(layer.bias, f"bias{index}"))
        target = "scores" if last else f"affine{index}"
        operands = [value, f"weights{index}", f"bias{index}"]
        nodes.append(helper.make_node("Gemm", operands, [target], name=f"layer{index}", transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [target], [f"hidden{index}"], name=f"relu{index}"))
            value = f"hidden{index}"
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("inputs", FLOAT, ["batch", len(network.inputs)])],
        [helper.make_tensor_value_info("scores", FLOAT, ["batch", len(network.outputs)])],
        constants,
    )
    model = helper.make_model(
        graph, producer_name="polvet", producer_version=__version__, opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    names = {"polvet.inputs": json.dumps(network.inputs), "polvet.outputs": json.dumps(network.outputs)}
    helper.set_model_props(model, names)
    write_whole(path, model.SerializeToString())


class _Walk:
    """The graph, node by node: what is constant, and which layers the data has passed so far."""

    def __init__(self, constants: dict[str, Array], where: Where) -> None:
        self.constants, self.where = constants, where
        self.data = ""  # the name of the value that carries the data now
        self.aliases: set[str] = set()
        self.width = 0
        self.layers: list[tuple[Array, Array | None]] = []
        self.rectified = True  # whether a linear layer may come next

    def start(self, name: str, width: int | None) -> None:
        """Begin with the graph's input."""
        self.data, self.width = name, width or 0

    def node(self, onnx: Any, node: Any, place: Where) -> None:
        """Take in one node."""
        shown = f"the node '{node.name or place.path[-1]}' ({node.op_type})"
        if node.domain not in ("", "ai.onnx") or node.op_type not in SUPPORTED:
            domain = f" of the domain '{node.domain}'" if node.domain else ""
            raise InputError(
                f"{shown}{domain} is not supported.",
                place,
                "Supported: Gemm, MatMul, Add, Relu and nodes that change nothing.",
            )
        if len(node.output) != 1:
            raise InputError(f"{shown} has {len(node.output)} outputs; one is read.", place, AGAIN)
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type == "Constant":
            if not attributes or set(attributes) - {"value", "value_float", "value_floats", "value_int", "value_ints"}:
                raise InputError(f"{shown} has the unsupported attributes {sorted(attributes)}.", place, AGAIN)
            value = next(iter(attributes.values()))
            self.constants[node.output[0]] = _tensor(onnx, value, place) if "value" in attributes else np.array(value)
            return
        operands = [name for name in node.input if name]
        for name in operands:
            if name != self.data and name not in self.constants:
                what = "is used a second time" if name in self.aliases else "is not known"
                raise InputError(
                    f"{shown} reads '{name}', which {what}.", place, "Only a plain chain of layers is read."
                )
        if self.data not in operands:
            self.constants[node.output[0]] = _folded(
                node.op_type, [self.constants[n] for n in operands], attributes, place, shown
            )
            return
        constants = [self.constants[name] for name in operands if name != self.data]
        if operands.count(self.data) != 1:
            raise InputError(f"{shown} reads '{self.data}' twice.", place, "Only a plain chain of layers is read.")
        if len(constants) != 1 and node.op_type in ("MatMul", "Add"):
            raise InputError(f"{shown} has {len(operands)} operands; two are read.", place, AGAIN)
        handler: Callable[..., None] = getattr(self, "_" + node.op_type.lower(), self._refuse)
        handler(constants, attributes, operands.index(self.data), place, shown)
        self.aliases.add(self.data)
        self.data = node.output[0]

    def finish(self, output: str) -> list[tuple[Array, Array]]:
        """Return the layers, or raise an InputError if the output is not the end of the chain."""
        if self.data != output:
            raise InputError(
                f"the output '{output}' is not the last value of the chain, '{self.data}'.", self.where, AGAIN
            )
        if not self.layers:
            raise InputError("the graph has no layer.", self.where, AGAIN)
        layers = [(w, np.zeros(len(w), dtype=np.float32) if b is None else b) for w, b in self.layers]
        if self.rectified:
            size = len(layers[-1][0])
            layers.append((np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32)))
        return layers

    def _linear(self, weights: Array, bias: Array | None, place: Where, shown: str) -> None:
        if not self.rectified:
            raise InputError(
                f"{shown} follows a linear layer without Relu between.", place, "Multiply the two layers out."
            )
        if weights.ndim != 2:
            raise InputError(f"{shown} has weights of shape {weights.shape}, not a matrix.", place, AGAIN)
        if weights.dtype != np.float32 or (bias is not None and bias.dtype != np.float32):
            kind = weights.dtype if weights.dtype != np.float32 else bias.dtype if bias is not None else ""
            raise InputError(
                f"{shown} has {kind} weights.", place, "Only float32 is read: export the model in float32."
            )
        if self.width and weights.shape[1] != self.width:
            raise InputError(f"{shown} takes {weights.shape[1]} values, {self.width} arrive.", place, AGAIN)
        self.layers.append((weights, None if bias is None else self._bias(bias, len(weights), place, shown)))
        self.width, self.rectified = len(weights), False

    def _bias(self, bias: Array, size: int, place: Where, shown: str) -> Array:
        if bias.size not in (1, size) or (bias.ndim and bias.shape[-1] != bias.size):
            raise InputError(f"{shown} adds {bias.shape} numbers to {size} values.", place, AGAIN)
        return np.broadcast_to(bias.reshape(-1), (size,)).copy()

    def _gemm(self, constants: list[Array], attributes: dict[str, Any], at: int, place: Where, shown: str) -> None:
        for key, needed in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)):
            if attributes.get(key, needed) != needed:
                raise InputError(f"{shown} has {key} = {attributes[key]}; only {needed} is read.", place, AGAIN)
        if at != 0 or not constants:
            raise InputError(f"{shown} must multiply the data by constant weights.", place, AGAIN)
        weights = constants[0] if attributes.get("transB", 0) else constants[0].T
        self._linear(weights, constants[1] if len(constants) > 1 else None, place, shown)

    def _matmul(self, constants: list[Array], _: dict[str, Any], at: int, place: Where, shown: str) -> None:
        if at != 0:
            raise InputError(f"{shown} must have the data on the left.", place, AGAIN)
        self._linear(constants[0].T, None, place, shown)

    def _add(self, constants: list[Array], _: dict[str, Any], __: int, place: Where, shown: str) -> None:
        if self.rectified or self.layers[-1][1] is not None:
            raise InputError(f"{shown} adds something that is not the bias of a layer.", place, AGAIN)
        if constants[0].dtype != np.float32:
            raise InputError(f"{shown} adds {constants[0].dtype} numbers.", place, "Only float32 is read.")
        weights, _bias = self.layers[-1]
        self.layers[-1] = weights, self._bias(constants[0], len(weights), place, shown)

    def _relu(self, _: list[Array], __: dict[str, Any], ___: int, place: Where, shown: str) -> None:
        if not self.layers:
            raise InputError(f"{shown} is applied to the inputs themselves.", place, AGAIN)
        self.rectified = True

    def _identity(self, _: list[Array], __: dict[str, Any], ___: int, place: Where, shown: str) -> None:
        """An Identity changes nothing."""

    def _flatten(self, _: list[Array], attributes: dict[str, Any], ___: int, place: Where, shown: str) -> None:
        if attributes.get("axis", 1) != 1:
            raise InputError(f"{shown} has axis {attributes['axis']}; only 1 is read.", place, AGAIN)

    def _cast(self, _: list[Array], attributes: dict[str, Any], ___: int, place: Where, shown: str) -> None:
        if attributes.get("to") != FLOAT:
            raise InputError(
                f"{shown} casts the data to type {attributes.get('to')}; only float32 is read.", place, AGAIN
            )

    def _reshape(self, constants: list[Array], _: dict[str, Any], at: int, place: Where, shown: str) -> None:
        shape = constants[0].reshape(-1).tolist() if at == 0 and constants else []
        width = {self.width} if self.width else set()
        keeps = len(shape) == 2 and (shape[0] in (-1, 0) and shape[1] in {*width, 0, -1}) and shape != [-1, -1]
        if not keeps:
            raise InputError(f"{shown} changes the shape to {shape}.", place, "Only [batch, values] is read.")

    def _refuse(self, _: list[Array], __: dict[str, Any], ___: int, place: Where, shown: str) -> None:
        raise InputError(f"{shown} is applied to the data.", place, "It is read on constants only.")


def _folded(operator: str, operands: list[Array], attributes: dict[str, Any], place: Where, shown: str) -> Array:
    """Return the value of a node whose operands are all constant."""
    try:
        if operator == "Identity":
            return operands[0]
        if operator == "Transpose":
            return np.transpose(operands[0], attributes.get("perm"))
        if operator == "Reshape":
            shape = [operands[0].shape[i] if n == 0 else int(n) for i, n in enumerate(operands[1].tolist())]
            return operands[0].reshape(shape)
        if operator == "Cast" and attributes.get("to") == FLOAT:
            return operands[0].astype(np.float32)
        if operator in ("Squeeze", "Unsqueeze"):
            axes = operands[1].tolist() if len(operands) > 1 else attributes.get("axes")
            change = np.squeeze if operator == "Squeeze" else np.expand_dims
            return change(operands[0], tuple(axes) if axes is not None else None)  # type: ignore[arg-type]
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(f"{shown} cannot be computed: {error}.", place, AGAIN) from None
    raise InputError(f"{shown} is applied to constants.", place, "Fold the constants before exporting.")


def _constants(onnx: Any, graph: Any, where: Where) -> dict[str, Array]:
    if graph.sparse_initializer:
        raise InputError("the graph has sparse weights, which are not supported.", where, AGAIN)
    place = where.at("graph").at("initializer")
    return {t.name: _tensor(onnx, t, place.at(index)) for index, t in enumerate(graph.initializer)}


def _tensor(onnx: Any, tensor: Any, where: Where) -> Array:
    """Return a tensor as an array; its size is checked before memory is asked for."""
    size = 1
    for dimension in tensor.dims:
        if dimension < 0 or (size := size * dimension) > MAX_PARAMETERS:
            raise InputError(
                f"the tensor '{tensor.name}' has the shape {list(tensor.dims)[:8]}.", where, "It is too large."
            )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(onnx, tensor, size, where)
    try:
        return onnx.numpy_helper.to_array(tensor)  # type: ignore[no-any-return]
    except Exception as error:  # several kinds: wrong lengths, unknown types
        raise InputError(f"the tensor '{tensor.name}' is damaged: {error}.", where, "Export the model again.") from None


def _external(onnx: Any, tensor: Any, size: int, where: Where) -> Array:
    """Return a tensor kept in a file beside the model; no other folder is ever read."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if (
        not isinstance(location, str)
        or not location
        or "\0" in location
        or Path(location).name != location
        or location in (".", "..")
    ):
        raise InputError(
            f"the tensor '{tensor.name}' is kept in '{location}'.", where, "Only a file beside the model is read."
        )
    if tensor.data_type != FLOAT:
        raise InputError(f"the tensor '{tensor.name}' is kept outside and is not float32.", where, AGAIN)
    file = Path(where.file).parent / location
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", 4 * size))
        if file.is_symlink() or offset < 0 or length != 4 * size or length > MAX_BYTES:
            raise InputError(
                f"the tensor '{tensor.name}' does not fit its place in '{location}'.",
                where,
                "Copy the weights' file again.",
            )
        with file.open("rb") as stream:
            stream.seek(offset)
            raw = stream.read(length)
    except (OSError, ValueError):
        raise InputError(
            f"'{location}', which holds '{tensor.name}', cannot be read.", where, "Put it beside the model."
        ) from None
    if len(raw) != length:
        raise InputError(f"'{location}' ends inside the tensor '{tensor.name}'.", where, "The file is truncated.")
    return np.frombuffer(raw, dtype="<f4").astype(np.float32).reshape(tuple(tensor.dims))


def _width(entry: Any, where: Where) -> int | None:
    kind = entry.type.tensor_type
    if kind.elem_type not in (0, FLOAT):
        raise InputError(f"the input '{entry.name}' is not float32.", where, "Export the model with float32 inputs.")
    shape = [dimension.dim_value for dimension in kind.shape.dim]
    if kind.HasField("shape") and len(shape) < 2:
        raise InputError(
            f"the input '{entry.name}' has {len(shape)} dimensions, not [batch, inputs].",
            where,
            "Export with an input of shape [batch, inputs].",
        )
    width = 1
    for dimension in shape[1:]:
        width *= dimension
    return width or None


def _metadata_names(model: Any, key: str, where: Where) -> tuple[str, ...] | None:
    found = [entry.value for entry in model.metadata_props if entry.key == key]
    if not found:
        return None
    place = where.at("metadata_props").at(key)
    try:
        names = json.loads(found[0])
    except ValueError:
        names = None
    if not isinstance(names, list):
        raise InputError("the metadata is not a JSON list of names.", place, 'Write ["x", "y"].')
    return checked_names(names, len(names), key.removeprefix("polvet.").removesuffix("s"), place)
