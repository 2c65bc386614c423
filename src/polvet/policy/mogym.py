"""MoGym's JSON networks: `layers`, a list of `Linear` (weights [out][in], biases) and `ReLU`.

Source   Gros, Hermanns, Hoffmann, Klauck, Köhler, Wolf: MoGym, CAV 2022 (artifact's `*.json` networks)
Limits   the file names neither inputs nor outputs: they are positions until the caller names them (inputs: the model's
         variables in order; output i: edge i of the controlled automaton)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.policy.format import PolicyFormat
from polvet.policy.networks import Network, network_of
from polvet.policy.signatures import SIGNATURES

AGAIN = "Write 'layers' as MoGym does: Linear with weights and biases, ReLU between."


def network_from_mogym(
    document: Any, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Network:
    """Return the network of a MoGym document, or raise an InputError with the JSON path."""
    entries = document.get("layers")
    if not isinstance(entries, list) or not entries:
        raise InputError("'layers' must be a list.", where.at("layers"), AGAIN)
    layers: list[tuple[Any, Any]] = []
    after_linear = False
    for index, entry in enumerate(entries):
        place = where.at("layers").at(index)
        kind = entry.get("kind") if isinstance(entry, dict) else None
        if kind == "Linear":
            if after_linear:
                raise InputError("two linear layers follow each other without ReLU.", place, "Multiply them out.")
            layers.append(_linear(entry, place))
            after_linear = True
        elif kind == "ReLU":
            if not after_linear:
                raise InputError("a ReLU must follow a linear layer.", place, AGAIN)
            after_linear = False
        else:
            raise InputError(f"the layer kind {kind!r} is not supported.", place, "Supported are Linear and ReLU.")
    if not after_linear:
        raise InputError("the last layer must be Linear: its values are the scores.", where.at("layers"), AGAIN)
    return network_of(layers, inputs, outputs, where)


def _linear(entry: Json, where: Where) -> tuple[Any, Any]:
    rows, columns = entry.get("outputSize"), entry.get("inputSize")
    weights = entry.get("weights")
    if not isinstance(weights, list) or not all(isinstance(row, list) for row in weights):
        raise InputError("'weights' must be a list of lists.", where.at("weights"), AGAIN)
    biases = entry.get("biases") if entry.get("hasBiases", True) else [0.0] * len(weights)
    if not isinstance(biases, list):
        raise InputError("'biases' must be a list.", where.at("biases"), AGAIN)
    if len(weights) != rows or len(biases) != rows or any(len(row) != columns for row in weights):
        raise InputError(f"weights and biases are not {rows} x {columns} and {rows} numbers.", where, AGAIN)
    for values, key in [*((row, "weights") for row in weights), (biases, "biases")]:
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            raise InputError("not every entry is a number.", where.at(key), AGAIN)
    return weights, biases


MOGYM = PolicyFormat(
    "mogym",
    "MoGym JSON",
    "JSON with `layers`",
    "none",
    detects=SIGNATURES["mogym"],
    read=lambda content, names: network_from_mogym(content.rounded_document(), content.where, *names.both),
    saved="as ONNX",
)
