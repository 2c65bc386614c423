"""The numbers of an ONNX file: constants and weights, in the file or in files beside it.

SOUND    sizes are checked before memory is asked for; no file outside the model's folder is ever read; `external_names` lists every
         file that may be opened, since the policy's digest covers them
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, MissingExtra, Where
from polvet.files import MAX_BYTES
from polvet.policy.networks import MAX_PARAMETERS
from polvet.policy.onnx_call import AGAIN, FLOAT

Array: TypeAlias = npt.NDArray[Any]


def onnx_package() -> Any:
    """Return the package `onnx`, or raise MissingExtra."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    return onnx


def constants_of(onnx: Any, graph: Any, names: set[str], where: Where) -> dict[str, Array]:
    """Return the constants that are read, by name."""
    if graph.sparse_initializer:
        raise InputError("the graph has sparse weights, which are not supported.", where, AGAIN)
    place = where.at("graph").at("initializer")
    constants: dict[str, Array] = {}
    for index, tensor in enumerate(graph.initializer):
        if tensor.name in constants:
            raise InputError(f"the tensor '{tensor.name}' is there twice.", place.at(index), AGAIN)
        if tensor.name in names:
            constants[tensor.name] = _tensor(onnx, tensor, place.at(index))
    return constants


def constant_of(onnx: Any, node: Any, place: Where) -> Array:
    """Return the value of a Constant node."""
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


def external_names(data: bytes) -> set[str]:
    """Return the names of the files beside the model that hold some of its numbers."""
    onnx = onnx_package()
    try:
        model = onnx.load_model_from_string(data)
    except Exception:  # protobuf's own exception class differs between its implementations
        return set()
    external = onnx.TensorProto.EXTERNAL
    tensors = (tensor for tensor in _messages(model, onnx.TensorProto) if tensor.data_location == external)
    return {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}


def _messages(message: Any, kind: type) -> Iterator[Any]:
    """Every message of the kind, however deep: in graphs, attributes, functions, sparse tensors."""
    pending = [message]
    while pending:
        one = pending.pop()
        if isinstance(one, kind):
            yield one
            continue
        for field, value in one.ListFields():
            if field.message_type is not None:
                pending.extend([value] if hasattr(value, "ListFields") else value)
