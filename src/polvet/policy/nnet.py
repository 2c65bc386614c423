"""PlaJA's networks: `.nnet` text with its interface `.jani2nnet`, read and written.

`.nnet` (Julian, Stanford): `//` comments; layers, inputs, outputs, widest; the sizes; a flag; least and greatest input
values; means and ranges (inputs and one for the outputs); then per layer one line of weights per neuron and one line of
bias per neuron. `.jani2nnet` (JSON): `file`, `input` (variables: `name`, array `index`; without `automaton`: a location),
`output` (labels), `elements` (hidden sizes).
Differs  least and greatest values are not applied (PlaJA does not either); means other than 0 and ranges other than 1
         are refused: folding them into weights would change the arithmetic
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.files import Json, beside, read_json, read_text, write_whole
from polvet.policy.decimals import nearest_float32
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.networks import MAX_PARAMETERS, Network, network_of
from polvet.policy.protocol import Policy, checked_names, renamed
from polvet.policy.signatures import SIGNATURES
from polvet.policy.unit_graph import UnitGraph

AGAIN = "The file is damaged: write it again."


def network_from_nnet(
    text: str, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Network:
    """Return the network of a `.nnet` text, or raise an InputError with the line."""
    lines = _Lines(text, where)
    header = lines.integers("the header (layers, inputs, outputs, widest)", 4)
    sizes = lines.integers("the layer sizes", header[0] + 1)
    if sizes[0] != header[1] or sizes[-1] != header[2]:
        raise InputError(
            f"the header says {header[1]} inputs and {header[2]} outputs, the layer sizes are {sizes}.",
            lines.here(),
            AGAIN,
        )
    total = sum(a * b for a, b in pairwise(sizes))
    if total > MAX_PARAMETERS:
        raise InputError(
            f"the network has {total} weights; at most {MAX_PARAMETERS} are read.",
            lines.here(),
            "Use a smaller network.",
        )
    lines.numbers("the flag", 1)
    lines.numbers("the least input values", sizes[0])
    lines.numbers("the greatest input values", sizes[0])
    # Some files hold a number too many here; means and ranges matter only as far as they are not 0 and 1.
    means = lines.numbers("the means", sizes[0] + 1)
    if any(means):
        raise InputError("the input means are not all 0.", lines.here(), "Fold them into the first layer's bias.")
    ranges = lines.numbers("the ranges", sizes[0] + 1)
    if any(value != 1 for value in ranges):
        raise InputError("the input ranges are not all 1.", lines.here(), "Fold them into the first layer's weights.")
    layers = []
    for index, (width, neurons) in enumerate(pairwise(sizes)):
        weights = [lines.numbers(f"weights of layer {index}, neuron {j}", width) for j in range(neurons)]
        bias = [lines.numbers(f"the bias of layer {index}, neuron {j}", 1)[0] for j in range(neurons)]
        layers.append((weights, bias))
    lines.end()
    return network_of(layers, inputs, outputs, where)


def network_from_jani2nnet(document: Any, path: str | Path) -> Network:
    """Return the network behind a `.jani2nnet` document: the `.nnet` file it names, relative to its own folder."""
    where = Where(str(path))
    inputs, outputs, file, hidden = interface_from_json(document, where)
    target = beside(path, file, where.at("file"))
    network = network_from_nnet(read_text(target), Where(str(target)), inputs, outputs)
    sizes = [len(layer.bias) for layer in network.layers[:-1]]
    if hidden is not None and hidden != sizes:
        raise InputError(
            f"'elements' says {hidden}, the network's hidden layers have {sizes}.",
            where.at("elements"),
            "Correct 'elements', or leave it out.",
        )
    return network


def interface_from_json(document: Any, where: Where) -> tuple[tuple[str, ...], tuple[str, ...], str, list[int] | None]:
    """Return (inputs, outputs, network file, hidden sizes) of a `.jani2nnet` document."""
    for key, kind in (("file", str), ("input", list), ("output", list)):
        if not isinstance(document.get(key), kind):
            raise InputError(
                f"'{key}' is missing or not a {kind.__name__}.", where.at(key), "Add it as PlaJA writes it."
            )
    inputs = []
    for index, entry in enumerate(document["input"]):
        place = where.at("input").at(index)
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise InputError("an input is an object with a 'name'.", place, 'Write {"name": "x"}.')
        if "automaton" not in entry:
            inputs.append(f"{entry['name']}.location")
        elif entry.get("index") is not None:
            inputs.append(f"{entry['name']}[{entry['index']}]")
        else:
            inputs.append(entry["name"])
    outputs = document["output"]
    hidden = document.get("elements")
    return (
        checked_names(inputs, len(inputs), "input", where.at("input")),
        checked_names(outputs, len(outputs), "output", where.at("output")),
        document["file"],
        hidden if isinstance(hidden, list) else None,
    )


def interface_beside(path: str | Path) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names in the `.jani2nnet` of the same name beside a `.nnet` file, if there is one."""
    beside = Path(path).with_suffix(".jani2nnet")
    if not beside.is_file():
        return None
    inputs, outputs, _, _ = interface_from_json(read_json(beside), Where(str(beside)))
    return inputs, outputs


def save_nnet(network: Network, path: str | Path) -> None:
    """Write `.nnet`, and its interface as `.jani2nnet` beside it, by whichever name; weights read back exactly."""
    file = Path(path).with_suffix(".nnet")
    sizes = [len(network.inputs), *(len(layer.bias) for layer in network.layers)]
    count = len(network.inputs)
    limit = repr(float(np.finfo(np.float32).max))
    rows = [
        "// Neural Network File Format by Kyle Julian, Stanford 2016",
        f"{len(network.layers)},{count},{sizes[-1]},{max(sizes)},",
        ",".join(map(str, sizes)) + ",",
        "0,",
        f"-{limit}," * count,
        f"{limit}," * count,
        "0," * (count + 1),
        "1," * (count + 1),
    ]
    for layer in network.layers:
        rows.extend("".join(f"{_shortest(value)}," for value in row) for row in layer.weights)
        rows.extend(f"{_shortest(value)}," for value in layer.bias)
    write_whole(file, "\n".join(rows) + "\n")
    document = {
        "file": file.name,
        "input": [_input_entry(name) for name in network.inputs],
        "elements": sizes[1:-1],
        "output": list(network.outputs),
    }
    write_whole(file.with_suffix(".jani2nnet"), json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _shortest(value: np.float32) -> str:
    return np.format_float_scientific(value, unique=True, trim="0")


def _input_entry(name: str) -> Json:
    if name.endswith(".location"):
        return {"name": name.removesuffix(".location"), "index": 0}
    head, bracket, tail = name.partition("[")
    if bracket and tail[:-1].isdigit() and tail.endswith("]"):
        return {"automaton": None, "name": head, "index": int(tail[:-1])}
    return {"automaton": None, "name": name}


class _Lines:
    """The data lines of a `.nnet` text, one after the other, with their numbers."""

    def __init__(self, text: str, where: Where) -> None:
        self.file = where.file
        self.lines = [
            (number, line)
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip() and not line.lstrip().startswith("//")
        ]
        self.next = 0

    def here(self) -> Where:
        """Return the place of the line read last."""
        return Where(self.file, line=self.lines[max(0, min(self.next, len(self.lines)) - 1)][0] if self.lines else 1)

    def numbers(self, what: str, least: int) -> list[float]:
        """Return the numbers of the next line; at least `least` of them, surplus ones are dropped."""
        if self.next >= len(self.lines):
            raise InputError(f"the file ends where {what} should stand.", self.here(), "The file is truncated.")
        fields = [field.strip() for field in self.lines[self.next][1].split(",")]
        self.next += 1
        while fields and not fields[-1]:
            fields.pop()
        try:
            numbers = [nearest_float32(field) for field in fields]
        except ValueError:
            raise InputError(f"{what}: the line holds something that is not a number.", self.here(), AGAIN) from None
        if len(numbers) < least:
            raise InputError(f"{what}: {least} numbers are needed, {len(numbers)} stand there.", self.here(), AGAIN)
        return numbers[:least]

    def integers(self, what: str, count: int) -> list[int]:
        """Return positive integers of the next line."""
        if count > 10_000:
            raise InputError(f"{what}: {count} of them; at most 10000 are read.", self.here(), AGAIN)
        numbers = self.numbers(what, count)
        if any(not value.is_integer() or not 1 <= value < 2**31 for value in numbers):
            raise InputError(f"{what}: {numbers} are not positive integers.", self.here(), AGAIN)
        return [int(value) for value in numbers]

    def end(self) -> None:
        """Raise an InputError if data follows the last bias."""
        if self.next < len(self.lines):
            self.next += 1
            raise InputError("there is more data than the layer sizes say.", self.here(), AGAIN)


def _read_nnet(content: Content, names: Names) -> Network:
    own = interface_beside(content.path) if None in names.both else None
    inputs, outputs = (given if given is not None else own and own[k] for k, given in enumerate(names.both))
    return network_from_nnet(content.text, content.where, inputs, outputs)


def _interface_file(content: Content) -> list[str]:
    interface = content.path.with_suffix(".jani2nnet")
    return [interface.name] if interface.is_file() else []


def _read_interface(content: Content, names: Names) -> Network:
    network = network_from_jani2nnet(content.document, content.path)
    return network if names.both == (None, None) else renamed(network, *names.both)


def _network_file(content: Content) -> list[str]:
    file = content.document["file"]
    return [file] if isinstance(file, str) else []


def _writes(policy: Policy, path: str) -> bool:
    return isinstance(policy, Network | UnitGraph) and path.endswith((".nnet", ".jani2nnet"))


def _write(policy: Policy, path: str) -> None:
    if not isinstance(policy, Network):
        raise InputError("a .nnet file holds ReLU networks only.", Where(path), "Save the policy as .onnx.")
    save_nnet(policy, path)


NNET = PolicyFormat(
    "nnet",
    "PlaJA's .nnet",
    "`//`, or a line of numbers with commas",
    "the `.jani2nnet` beside it",
    detects=SIGNATURES["nnet"],
    read=_read_nnet,
    writes=_writes,
    write=_write,
    saved="yes, both files",
    beside=_interface_file,
)
JANI2NNET = PolicyFormat(
    "jani2nnet",
    "PlaJA's .jani2nnet",
    "JSON with `file`, `input`, `output`",
    "in the file",
    detects=SIGNATURES["jani2nnet"],
    read=_read_interface,
    writes=_writes,
    write=_write,
    saved="yes, both files",
    beside=_network_file,
)
