"""Which policy this is: the files it is made of, and one SHA-256 of them all.

An ONNX file may keep weights in files beside it, a `.jani2nnet` names its `.nnet`, and a `.nnet` takes the names of its inputs
and outputs from the `.jani2nnet` beside it.
SOUND: every file that a reader opens is listed here. A digest that left one out would call two different policies the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import beside, parse_json, read_bytes, sha256
from polvet.policy.functions import function_sha256, named_function
from polvet.policy.load import detect
from polvet.policy.onnx_file import onnx_package


def policy_files(path: str | Path) -> tuple[Path, ...]:
    """Return the file itself, then those that it reads, all of them in its folder; a file outside is refused."""
    if (function := named_function(path)) is not None:
        return (function[0],)
    file, where = Path(path), Where(str(path))
    data = read_bytes(file)
    try:
        kind = detect(data, where) if data else None
    except InputError:
        return (file,)  # no policy at all: whoever loads it says so
    if kind == "onnx":
        names = sorted(_external_names(data))
    elif kind == "json":
        names = _index_names(data, where)
    elif kind == "nnet":
        interface = file.with_suffix(".jani2nnet").name
        names = [interface] if (file.parent / interface).is_file() else []
    else:
        names = []
    return (file, *(beside(file, name, where) for name in names))


def policy_sha256(path: str | Path) -> str:
    """Return the SHA-256 of the file's bytes where the policy is one file, else of the SHA-256 of each, one to a line.

    That of `file.py:function` covers the file and the function's name.
    """
    if (function := named_function(path)) is not None:
        return function_sha256(*function)
    first, *others = (sha256(file) for file in policy_files(path))
    if not others:
        return first
    return hashlib.sha256("".join(f"{one}\n" for one in (first, *others)).encode()).hexdigest()


def _index_names(data: bytes, where: Where) -> list[str]:
    # A large ensemble is not parsed a second time; a key may be written with escapes.
    if b'"file"' not in data and b"\\u" not in data:
        return []
    try:
        document = parse_json(data.decode("utf-8-sig"), where, parse_constant=float, parse_float=float)
    except (InputError, UnicodeDecodeError):
        return []
    is_index = "input" in document and "output" in document and isinstance(document.get("file"), str)
    return [document["file"]] if is_index else []


def _external_names(data: bytes) -> set[str]:
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
