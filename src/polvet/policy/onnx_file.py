"""ONNX files that hold a feed-forward network, read; `onnx_save.py` writes them, `onnx_tensors.py` reads their numbers.

Read     the nodes behind one output, in `onnx_graph`: a chain of linear layers with ReLU becomes a `Network`, all else a `UnitGraph`
Output   the one named by `output`, else the only one of floats with several columns: the actor's, where there is a critic
Refused  other nodes, by operator and name; numbers that are not float32; damaged, absurd or unsafe files
Names    metadata `polvet.inputs`, `polvet.outputs`: JSON lists
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.errors import InputError, Where, suggest
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.networks import MAX_PARAMETERS, Network
from polvet.policy.onnx_call import DOUBLE, FLOAT, FLOAT16, FLOAT_ENDINGS, INT32, INT64, Value
from polvet.policy.onnx_graph import Walk
from polvet.policy.onnx_tensors import Array, constant_of, constants_of, external_names, onnx_package
from polvet.policy.protocol import Policy, checked_names
from polvet.policy.signatures import SIGNATURES
from polvet.policy.unit_graph import AnyNetwork, UnitGraph

STANDARD = ("", "ai.onnx")
OLDEST, NEWEST = 7, 25
"""The opsets whose operators are read as they were meant."""


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
    opset = _opset(model, where)
    if not OLDEST <= opset <= NEWEST:
        raise InputError(
            f"the file has the opset {opset}; {OLDEST} to {NEWEST} are read.", where, "Export with opset 17."
        )
    if inputs is None:
        inputs = _metadata_names(model, "polvet.inputs", where)
    if outputs is None:
        outputs = _metadata_names(model, "polvet.outputs", where)
    chosen = _chosen_output(graph, output, outputs, where)
    needed, names = _behind(graph, chosen, where)
    constants = constants_of(onnx, graph, names, where)
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
            walk.values[node.output[0]] = constant_of(onnx, node, place)
        else:
            walk.node(onnx, node, place)
    scores = walk.values.get(chosen)
    if not isinstance(scores, Value) or walk.tape is None:
        raise InputError(f"the output '{chosen}' does not depend on the input.", where, "Is it the right output?")
    softmax = any(name in scores.ending for name in FLOAT_ENDINGS)
    policy = walk.tape.policy(scores.columns, inputs, outputs, softmax=softmax)
    others = tuple(entry.name for entry in graph.output if entry.name != chosen)
    return OnnxPolicy(policy, chosen, others, scores.ending, opset)


def _opset(model: Any, where: Where) -> int:
    """Return the opset of ONNX's own operators.

    SOUND: they mean what that opset says. A file that defines one of them anew, or names two opsets, is refused.
    """
    own = [f.name for f in model.functions if f.domain in STANDARD]
    if own:
        raise InputError(f"the file defines the operator '{own[0]}' itself.", where, "Export the network again.")
    versions = [entry.version for entry in model.opset_import if entry.domain in STANDARD]
    if len(versions) > 1:
        raise InputError(f"the file names the opsets {', '.join(map(str, versions))}.", where, "Export with one opset.")
    return int(versions[0]) if versions else 1


def _chosen_output(graph: Any, output: str | None, labels: Sequence[str] | None, where: Where) -> str:
    """Return the name of the value that holds the scores: the only candidate, or the one that is named."""
    outputs = [entry.name for entry in graph.output]
    if output is not None:
        if output not in outputs:
            raise InputError(
                f"the file has no output '{output}'.",
                where,
                suggest(output, outputs) or f"It has {', '.join(outputs)}.",
            )
        return output
    if len(outputs) == 1:
        return str(outputs[0])
    likely = []
    for entry in graph.output:
        kind = entry.type.tensor_type
        width = kind.shape.dim[-1].dim_value if len(kind.shape.dim) >= 2 else 0
        if kind.elem_type in (FLOAT, DOUBLE) and (width == len(labels) if labels is not None else width > 1):
            likely.append(entry.name)
    if len(likely) != 1:
        raise InputError(
            f"the file has the outputs {', '.join(outputs[:12])}; which one holds the scores is not clear.",
            where,
            f'Name it in task.toml: [policy] output = "{(likely or outputs or ["logits"])[0]}".',
        )
    return str(likely[0])


def _behind(graph: Any, output: str, where: Where) -> tuple[list[int], set[str]]:
    """Return the nodes that the output depends on, in the file's order, and the names of all values they read."""
    maker: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and maker.setdefault(name, index) != index:
                raise InputError(f"'{name}' is made twice.", where.at("graph").at("node").at(index), "Export it again.")
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


def _input(entry: Any, graph: Any, constants: dict[str, Array], where: Where) -> tuple[str, tuple[int, ...]]:
    """Return the kind of the input's numbers, and its shape without the batch."""
    kind = entry.type.tensor_type
    if kind.elem_type not in (0, FLOAT, DOUBLE, INT32, INT64):
        name = {FLOAT16: "float16"}.get(kind.elem_type, f"of type {kind.elem_type}")
        raise InputError(
            f"the input '{entry.name}' is {name}; float32, float64 and whole numbers are read.",
            where,
            "Export the network in float32.",
        )
    whole = "int" if kind.elem_type in (INT32, INT64) else "float"
    shape = [dimension.dim_value for dimension in kind.shape.dim]
    if kind.HasField("shape") and (not shape or (len(shape) == 1 and shape[0] > 1)):
        raise InputError(
            f"the input '{entry.name}' has {len(shape)} dimensions, not [batch, inputs].",
            where,
            "Export with an input of shape [batch, inputs].",
        )
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
    entries = [entry.value for entry in model.metadata_props if entry.key == key]
    if not entries:
        return None
    place = where.at("metadata_props").at(key)
    try:
        names = json.loads(entries[0])
    except ValueError:
        names = None
    if not isinstance(names, list):
        raise InputError("the metadata is not a JSON list of names.", place, 'Write ["x", "y"].')
    return checked_names(names, len(names), key.removeprefix("polvet.").removesuffix("s"), place)


def _read(content: Content, names: Names) -> AnyNetwork:
    return network_from_onnx(content.data, content.where, *names.both, names.output)


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, AnyNetwork)
    from polvet.policy.onnx_save import save_onnx

    save_onnx(policy, path)


def _facts(content: Content) -> dict[str, str]:
    read = read_onnx(content.data, content.where)
    facts = {"output": f"'{read.output}' of an ONNX file with opset {read.opset}"}
    if read.other_outputs:
        facts["output"] += f"; not read: {', '.join(read.other_outputs)}"
    if read.dropped:
        facts["dropped"] = f"{', '.join(read.dropped)}: the scores are what comes before"
    return facts


ELSEWHERE = (".zip", ".skops", ".nnet", ".jani2nnet")
"""Endings under which a network is written in another format."""
ONNX = PolicyFormat(
    "onnx",
    "ONNX",
    "protobuf bytes",
    "metadata `polvet.inputs`, `polvet.outputs` (JSON lists)",
    detects=SIGNATURES["onnx"],
    read=_read,
    writes=lambda policy, path: isinstance(policy, AnyNetwork) and not path.endswith(ELSEWHERE),
    write=_write,
    saved="yes; runs in onnxruntime",
    extra="onnx",
    beside=lambda content: sorted(external_names(content.data)),
    facts=_facts,
)
