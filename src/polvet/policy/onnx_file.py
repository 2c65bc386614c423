"""ONNX files that hold a feed-forward network, read and written.

Read     the nodes behind one output, in `onnx_graph`: a chain of linear layers with ReLU becomes a `Network`, all else a `UnitGraph`
Output   the one named by `output`, else the only one of floats with several columns: the actor's, where there is a critic
Refused  other nodes, by operator and name; numbers that are not float32; damaged, absurd or unsafe files
Names    metadata `polvet.inputs`, `polvet.outputs`: JSON lists
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from polvet import __version__
from polvet.errors import InputError, MissingExtra, Where, suggest
from polvet.files import MAX_BYTES, write_whole
from polvet.policy.networks import MAX_PARAMETERS, Network
from polvet.policy.onnx_call import AGAIN, DOUBLE, FLOAT, FLOAT16, FLOAT_ENDINGS, INT32, INT64, Value
from polvet.policy.onnx_graph import Walk
from polvet.policy.onnx_save import GraphWriter
from polvet.policy.protocol import checked_names
from polvet.policy.unit_graph import UnitGraph

OLDEST, NEWEST = 7, 25
"""The opsets whose operators are read as they were meant."""
Array: TypeAlias = npt.NDArray[Any]


def onnx_package() -> Any:
    """Return the package `onnx`, or raise MissingExtra."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    return onnx


@dataclass(frozen=True, slots=True)
class OnnxPolicy:
    """What an ONNX file holds: the policy, the output it was read from, and what was dropped behind its scores."""

    policy: Network | UnitGraph
    output: str
    other_outputs: tuple[str, ...]
    dropped: tuple[str, ...]
    opset: int


def network_from_onnx(
    data: bytes,
    where: Where,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    output: str | None = None,
) -> Network | UnitGraph:
    """Return the network in an ONNX file's bytes, or raise an InputError that names the node at fault."""
    return read_onnx(data, where, inputs, outputs, output).policy


def read_onnx(
    data: bytes,
    where: Where,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    output: str | None = None,
) -> OnnxPolicy:
    """Return what is in an ONNX file's bytes; `output` names the value that holds the scores, where there are several."""
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
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    if not OLDEST <= opset <= NEWEST:
        raise InputError(
            f"the file has the opset {opset}; {OLDEST} to {NEWEST} are read.", where, "Export with opset 17."
        )
    if inputs is None:
        inputs = _metadata_names(model, "polvet.inputs", where)
    if outputs is None:
        outputs = _metadata_names(model, "polvet.outputs", where)
    chosen = _chosen_output(graph, output, outputs, where)
    needed, names = _behind(graph, chosen)
    constants = _constants(onnx, graph, names, where)
    walk = Walk(constants, where, opset)
    sources = [entry for entry in graph.input if entry.name in names and entry.name not in constants]
    if len(sources) != 1:
        raise InputError(
            f"the output '{chosen}' depends on {len(sources)} inputs.", where, "Networks with one input are read."
        )
    kind, shape = _input(sources[0], graph, constants, where)
    walk.start(sources[0].name, shape, kind)
    assert walk.tape is not None
    wide = sources[0].type.tensor_type.elem_type == DOUBLE
    walk.tape.narrowed = wide or any(constant.dtype == np.float64 for constant in constants.values())
    for index in needed:
        node, place = graph.node[index], where.at("graph").at("node").at(index)
        if node.op_type == "Constant":
            walk.values[node.output[0]] = _constant(onnx, node, place)
        else:
            walk.node(onnx, node, place)
    scores = walk.values.get(chosen)
    if not isinstance(scores, Value) or walk.tape is None:
        raise InputError(f"the output '{chosen}' does not depend on the input.", where, "Is it the right output?")
    softmax = any(name in scores.ending for name in FLOAT_ENDINGS)
    policy = walk.tape.policy(scores.columns, inputs, outputs, softmax=softmax)
    others = tuple(entry.name for entry in graph.output if entry.name != chosen)
    return OnnxPolicy(policy, chosen, others, scores.ending, opset)


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


def _chosen_output(graph: Any, output: str | None, labels: Sequence[str] | None, where: Where) -> str:
    """Return the name of the value that holds the scores: the only candidate, or the one that is named."""
    found = [entry.name for entry in graph.output]
    if output is not None:
        if output not in found:
            raise InputError(
                f"the file has no output '{output}'.", where, suggest(output, found) or f"It has {', '.join(found)}."
            )
        return output
    if len(found) == 1:
        return str(found[0])
    likely = []
    for entry in graph.output:
        kind = entry.type.tensor_type
        width = kind.shape.dim[-1].dim_value if len(kind.shape.dim) >= 2 else 0
        if kind.elem_type in (FLOAT, DOUBLE) and (width == len(labels) if labels is not None else width > 1):
            likely.append(entry.name)
    if len(likely) != 1:
        raise InputError(
            f"the file has the outputs {', '.join(found[:12])}; which one holds the scores is not clear.", where,
            f'Name it in task.toml: [policy] output = "{(likely or found or ["logits"])[0]}".',
        )  # fmt: skip
    return str(likely[0])


def _behind(graph: Any, output: str) -> tuple[list[int], set[str]]:
    """Return the nodes that the output depends on, in the file's order, and the names of all values they read."""
    maker: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            maker.setdefault(name, index)
    names, needed, waiting = {output}, set[int](), [output]
    while waiting:
        index = maker.get(waiting.pop(), -1)
        if index < 0 or index in needed:
            continue
        needed.add(index)
        for name in graph.node[index].input:
            if name and name not in names:
                names.add(name)
                waiting.append(name)
    return sorted(needed), names


def _constants(onnx: Any, graph: Any, names: set[str], where: Where) -> dict[str, Array]:
    """Return the constants that are read, by name."""
    if graph.sparse_initializer:
        raise InputError("the graph has sparse weights, which are not supported.", where, AGAIN)
    place = where.at("graph").at("initializer")
    return {t.name: _tensor(onnx, t, place.at(index)) for index, t in enumerate(graph.initializer) if t.name in names}


def _constant(onnx: Any, node: Any, place: Where) -> Array:
    attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    shown = f"the node '{node.name or place.path[-1]}' (Constant)"
    types = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if len(attributes) != 1 or set(attributes) - {"value", *types}:
        raise InputError(f"{shown} has the unsupported attributes {sorted(attributes)}.", place, AGAIN)
    ((name, value),) = attributes.items()
    return _tensor(onnx, value, place) if name == "value" else np.array(value, dtype=types[name])


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


def _input(entry: Any, graph: Any, constants: dict[str, Array], where: Where) -> tuple[str, tuple[int, ...]]:
    """Return the kind of the input's numbers, and its shape without the batch."""
    kind = entry.type.tensor_type
    if kind.elem_type not in (0, FLOAT, DOUBLE, INT32, INT64):
        name = {FLOAT16: "float16"}.get(kind.elem_type, f"of type {kind.elem_type}")
        raise InputError(
            f"the input '{entry.name}' is {name}; float32, float64 and whole numbers are read.", where,
            "Export the network in float32.",
        )  # fmt: skip
    whole = "int" if kind.elem_type in (INT32, INT64) else "float"
    shape = [dimension.dim_value for dimension in kind.shape.dim]
    if kind.HasField("shape") and (not shape or (len(shape) == 1 and shape[0] > 1)):
        raise InputError(
            f"the input '{entry.name}' has {len(shape)} dimensions, not [batch, inputs].", where,
            "Export with an input of shape [batch, inputs].",
        )  # fmt: skip
    if any(size < 0 or size > MAX_PARAMETERS for size in shape):
        raise InputError(f"the input '{entry.name}' has the shape {shape[:8]}.", where, "Its sizes make no sense.")
    if not kind.HasField("shape") or 0 in shape[1:]:
        return whole, (_width_from_readers(entry.name, graph, constants, where),)
    return whole, tuple(shape[1:])


def _width_from_readers(name: str, graph: Any, constants: dict[str, Array], where: Where) -> int:
    """Return how many values a row of the input has, where only the first matrix tells."""
    same = {name}
    for node in graph.node:
        if not node.input or node.input[0] not in same:
            continue
        if node.op_type in ("Gemm", "MatMul") and len(node.input) > 1 and node.input[1] in constants:
            turned = any(entry.name == "transB" and entry.i for entry in node.attribute)
            matrix = constants[node.input[1]]
            if matrix.ndim == 2:
                return int(matrix.shape[1 if turned else 0])
        elif node.op_type in ("Identity", "Flatten", "Cast", "Reshape"):
            same.add(node.output[0])
    raise InputError(f"the input '{name}' does not say how many values it has.", where, "Export with a fixed width.")


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
