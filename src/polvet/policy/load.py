"""Policy files, told apart by their content: one door for every format of `policy/formats.py`.

Pickle (also joblib, numpy object files and torch's whole-module files) is refused: loading it would run code from the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from polvet.errors import InputError, Where
from polvet.policy.callables import CallablePolicy
from polvet.policy.conditions import ConditionParser, model_condition
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.formats import FORMATS, readable
from polvet.policy.functions import load_function, named_function
from polvet.policy.protocol import Policy
from polvet.policy.signatures import SIGNATURES

PICKLE_HINT = "Save the policy as ONNX, XGBoost JSON, LightGBM text or skops instead."


def load_policy(
    path: str | Path,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    output: str | None = None,
    parse_condition: ConditionParser = model_condition,
    booleans: Sequence[str] = (),
) -> Policy:
    """Return the policy in the file; `inputs` and `outputs` name its columns, else the file's own names hold.

    `output` names the value that holds the scores in an ONNX file with several.

    Where neither names them, they are called '#0', '#1', ... (see `has_positional_names`). `parse_condition` reads the
    conditions of rule lists (default: the infix language of `polvet.model`), `booleans` are the inputs that these see as
    truth values.
    """
    names = Names(inputs, outputs, output, parse_condition, booleans)
    if (function := named_function(path)) is not None:
        return _from_function(*function, names)
    return read_policy(Content.of(path), names)


def read_policy(content: Content, names: Names) -> Policy:
    """Return the policy in the content of a file."""
    return format_of(content).read(content, names)


def format_of(content: Content) -> PolicyFormat:
    """Return the format of the content, or raise an InputError that says what is read; pickle is refused here."""
    if not content.data:
        raise InputError("the file is empty.", content.where, "Save the policy again.")
    if _is_pickle(content.data[:4096]):
        raise InputError("is a pickle, which is never loaded: it could run any code.", content.where, PICKLE_HINT)
    for name, is_told in SIGNATURES.items():
        if is_told(content):
            return FORMATS[name]
    # SOUND: polvet's own formats come first, so that no package can read one of their files otherwise.
    unsigned = (FORMATS[name] for name in FORMATS if name not in SIGNATURES)
    for one in chain(unsigned, FORMATS.brought().values()):
        if one.detects(content):
            return one
    raise _unknown(content)


def _is_pickle(head: bytes) -> bool:
    """Return whether the bytes begin like a pickle: protocol 2 to 5, or the text protocols 0 and 1 with a global."""
    if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5:
        return True
    return head[:1] in (b"c", b"(") and b"\n" in head and b"." in head and not head.startswith(b"(*")


def _unknown(content: Content) -> InputError:
    """Return the error for content of no known format, as near to its cause as the content tells."""
    where, hint = content.where, readable()
    if any(name.endswith("data.pkl") for name in content.members):
        return InputError("is a torch file with a pickle, which is never loaded.", where, "Export the module to ONNX.")
    if content.members or content.data.startswith(b"PK\x05\x06"):
        return InputError("is a zip archive without a policy.", where, hint)
    if content.is_json:
        kind = content.document.get("format")
        if kind is not None:
            return InputError(f"the format {json.dumps(kind)} is not a policy.", where.at("format"), hint)
        return InputError("is JSON, but not a policy that polvet reads.", where, hint)
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in content.data[:64]):
        return InputError("is a text, but not a policy that polvet reads.", where, hint)
    return InputError("is not a policy file that polvet reads.", where, hint)


def _from_function(file: Path, function: str, names: Names) -> CallablePolicy:
    if names.inputs is None or names.outputs is None:
        where = Where(f"{file}:{function}")
        raise InputError("a function has no inputs and outputs of its own.", where, "Name them.")
    choose = load_function(file, function, asked_for=True)  # by its name
    return CallablePolicy(tuple(names.inputs), tuple(names.outputs), choose, frozenset(names.booleans))
