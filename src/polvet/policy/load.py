"""Policy files, told apart by their content: one door for every format that polvet reads.

Pickle (also joblib, numpy object files and torch's whole-module files) is refused: loading it would run code from the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import MAX_DEPTH, depth_of, parse_json, read_bytes
from polvet.policy import ubjson
from polvet.policy.archives import open_archive
from polvet.policy.arrays import table_from_numpy
from polvet.policy.callables import CallablePolicy
from polvet.policy.decimals import nearest_float32
from polvet.policy.functions import load_function, named_function
from polvet.policy.lightgbm_file import ensemble_from_lightgbm
from polvet.policy.mogym import network_from_mogym
from polvet.policy.networks import Network
from polvet.policy.nnet import interface_beside, network_from_jani2nnet, network_from_nnet
from polvet.policy.onnx_file import network_from_onnx
from polvet.policy.protocol import Policy, renamed
from polvet.policy.rules import ConditionParser, model_condition, rules_from_json
from polvet.policy.sklearn_network import network_from_perceptron
from polvet.policy.sklearn_trees import ensemble_from_sklearn, estimator_from_skops
from polvet.policy.stable_baselines import network_from_stable_baselines
from polvet.policy.tables import table_from_json
from polvet.policy.xgboost_file import ensemble_from_xgboost

READ = (
    "ONNX, XGBoost JSON or UBJ, LightGBM text, skops, stable-baselines3 zip, .nnet or .jani2nnet, MoGym JSON, table/1, rules/1, "
    "numpy's .npy or .npz, file.py:function"
)
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
    if (function := named_function(path)) is not None:
        if inputs is None or outputs is None:
            raise InputError("a function has no inputs and outputs of its own.", Where(str(path)), "Name them.")
        return CallablePolicy(tuple(inputs), tuple(outputs), load_function(*function), frozenset(booleans))
    data = read_bytes(path)
    where = Where(str(path))
    if not data:
        raise InputError("the file is empty.", where, "Save the policy again.")
    kind = detect(data, where)
    if kind == "zip":
        return _from_zip(data, where, inputs, outputs)
    if kind == "npy":
        return table_from_numpy(data, where, inputs, outputs)
    if kind == "ubjson":
        return ensemble_from_xgboost(ubjson.load(data, where), where, inputs, outputs)
    if kind == "onnx":
        return network_from_onnx(data, where, inputs, outputs, output)
    text = _text(data, where)
    if kind == "lightgbm":
        return ensemble_from_lightgbm(text, where, inputs, outputs)
    if kind == "nnet":
        return _from_nnet(text, path, where, inputs, outputs)
    return _from_json(text, path, where, inputs, outputs, parse_condition, booleans)


def detect(data: bytes, where: Where) -> str:
    """Return 'zip', 'npy', 'ubjson', 'onnx', 'lightgbm', 'nnet' or 'json', from the first bytes; pickle is refused here."""
    head = data[:4096]
    if _is_pickle(head):
        raise InputError("is a pickle, which is never loaded: it could run any code.", where, PICKLE_HINT)
    if head.startswith(b"PK\x03\x04") or head.startswith(b"PK\x05\x06"):
        return "zip"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith((b"{L", b"{l", b"{i", b"{U", b"{I")):
        return "ubjson"
    stripped = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if stripped.startswith(b"{"):
        return "json"
    if stripped.startswith(b"tree\n") or stripped.startswith(b"tree\r\n"):
        return "lightgbm"
    if stripped.startswith(b"//"):
        return "nnet"
    if stripped[:1].isdigit() and b"," in stripped.split(b"\n", 1)[0]:
        return "nnet"
    if head.startswith(b"binf") or stripped.startswith((b"[", b"<")):
        raise InputError("is not a policy file that polvet reads.", where, f"It reads {READ}.")
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head[:64]):
        raise InputError("is a text, but not a policy that polvet reads.", where, f"It reads {READ}.")
    # A protobuf message of class ModelProto begins with the field ir_version (1) or producer_name (2), graph (7), ...
    if head[0] & 7 in (0, 2) and 1 <= head[0] >> 3 <= 25 and b"\x00" not in head[:1]:
        return "onnx"
    raise InputError("is not a policy file that polvet reads.", where, f"It reads {READ}.")


def _is_pickle(head: bytes) -> bool:
    """Return whether the bytes begin like a pickle: protocol 2 to 5, or the text protocols 0 and 1 with a global."""
    if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5:
        return True
    return head[:1] in (b"c", b"(") and b"\n" in head and b"." in head and not head.startswith(b"(*")


def _from_zip(data: bytes, where: Where, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> Policy:
    names = set(open_archive(data, where).namelist())
    if "schema.json" in names:
        estimator = estimator_from_skops(data, where)
        if type(estimator).__name__ == "MLPClassifier":
            return network_from_perceptron(estimator, where, inputs, outputs)
        return ensemble_from_sklearn(estimator, inputs, outputs, where)
    if "policy.pth" in names:
        return network_from_stable_baselines(data, where, inputs, outputs)
    if names and all(name.endswith(".npy") for name in names):
        return table_from_numpy(data, where, inputs, outputs)
    if any(name.endswith("data.pkl") for name in names):
        raise InputError("is a torch file with a pickle, which is never loaded.", where, "Export the module to ONNX.")
    raise InputError("is a zip archive without 'policy.pth' or 'schema.json'.", where, f"polvet reads {READ}.")


def _from_nnet(
    text: str, path: str | Path, where: Where, inputs: Sequence[str] | None, outputs: Sequence[str] | None
) -> Network:
    if inputs is None or outputs is None:
        beside = interface_beside(path)
        if beside is not None:
            inputs = beside[0] if inputs is None else inputs
            outputs = beside[1] if outputs is None else outputs
    return network_from_nnet(text, where, inputs, outputs)


def _from_json(
    text: str,
    path: str | Path,
    where: Where,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    parse_condition: ConditionParser,
    booleans: Sequence[str],
) -> Policy:
    if text.count("[") + text.count("{") > MAX_DEPTH and (depth := depth_of(text)) > MAX_DEPTH:
        raise InputError(
            f"the document nests {depth} deep; at most {MAX_DEPTH} is read.",
            where,
            "Save the policy in another format.",
        )
    # XGBoost writes NaN where a leaf has no threshold; numbers that matter are checked by each reader, with their names.
    document: Any = parse_json(text, where, parse_constant=float, parse_float=float)
    kind = document.get("format")
    if kind == "table/1":
        table = table_from_json(document, where)
        _check_same(table, inputs, outputs, where)
        return table
    if kind == "rules/1":
        return rules_from_json(document, where, parse_condition, inputs=inputs, outputs=outputs, booleans=booleans)
    if kind is not None:
        raise InputError(f"the format {json.dumps(kind)} is not a policy.", where.at("format"), f"polvet reads {READ}.")
    if "learner" in document:
        # Parsed again so that every decimal becomes the float32 nearest to it.
        return ensemble_from_xgboost(
            parse_json(text, where, parse_constant=float, parse_float=nearest_float32), where, inputs, outputs
        )
    if "layers" in document:
        return network_from_mogym(
            parse_json(text, where, parse_constant=float, parse_float=nearest_float32), where, inputs, outputs
        )
    if "file" in document and "input" in document and "output" in document:
        network = network_from_jani2nnet(document, path)
        return network if inputs is None and outputs is None else renamed(network, inputs, outputs)
    raise InputError("is JSON, but not a policy that polvet reads.", where, f"It reads {READ}.")


def _check_same(policy: Policy, inputs: Sequence[str] | None, outputs: Sequence[str] | None, where: Where) -> None:
    for given, own, what in ((inputs, policy.inputs, "inputs"), (outputs, policy.outputs, "outputs")):
        if given is not None and tuple(given) != own:
            raise InputError(
                f"the table has the {what} {list(own)}, not {list(given)}.",
                where.at(what),
                "Make the names in task.toml those of the table.",
            )


def _text(data: bytes, where: Where) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start}).", where, "The file is damaged.") from None
