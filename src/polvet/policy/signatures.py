"""How policies' files are told from one another: by their beginnings and keys, so that no reader but the right one is ever loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from polvet.policy.format import UBJSON, Content


def _is_onnx(content: Content) -> bool:
    """Return whether the bytes are a protobuf message that begins as ModelProto does: ir_version (1), then a field up to 25."""
    head = content.data[:3]
    return (
        len(head) == 3 and head[0] == 0x08 and 0 < head[1] < 0x80 and head[2] & 7 in (0, 2) and 2 <= head[2] >> 3 <= 25
    )


def _is_xgboost(content: Content) -> bool:
    if content.data.startswith(UBJSON) or content.opening.startswith(b'{"learner"'):
        return True  # as XGBoost writes it: nothing is parsed for this
    return "learner" in content.document and "format" not in content.document


def _is_nnet(content: Content) -> bool:
    opening = content.opening
    return opening.startswith(b"//") or (opening[:1].isdigit() and b"," in opening.split(b"\n", 1)[0])


def _is_interface(content: Content) -> bool:
    # A large ensemble is not parsed for this; a key may be written with escapes.
    if b'"file"' not in content.data and b"\\u" not in content.data:
        return False
    return {"file", "input", "output"} <= set(content.document) and "format" not in content.document


def _is_array(content: Content) -> bool:
    members = content.members
    return content.data.startswith(b"\x93NUMPY") or (bool(members) and all(one.endswith(".npy") for one in members))


SIGNATURES: Mapping[str, Callable[[Content], bool]] = {
    "onnx": _is_onnx,
    "xgboost": _is_xgboost,
    "lightgbm": lambda content: content.opening.startswith((b"tree\n", b"tree\r\n")),
    "skops": lambda content: "schema.json" in content.members,
    "stable-baselines3": lambda content: "policy.pth" in content.members,
    "nnet": _is_nnet,
    "jani2nnet": _is_interface,
    "mogym": lambda content: "layers" in content.document and "format" not in content.document,
    "table": lambda content: content.document.get("format") == "table/1",
    "rules": lambda content: content.document.get("format") == "rules/1",
    "numpy": _is_array,
}
"""Of polvet's own formats, in the order in which they are tried."""
