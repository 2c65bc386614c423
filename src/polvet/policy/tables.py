"""Tables: a score per state and label, listed (`table/1`), with an optional default label for all other states.

Source   own format; a row holds `scores` or an `action` (score 1, all others 0), as `default` does
Limits   states are matched after rounding each value to float32; two rows that round to the same state are refused
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from struct import pack, unpack
from typing import Any

import numpy as np

from polvet.errors import InputError, Where, suggest
from polvet.files import Json, refuse_unknown_keys, write_whole
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.protocol import (
    Choices,
    Mask,
    Policy,
    Rows,
    Scores,
    Value,
    best_indices,
    checked_names,
    checked_rows,
    has_positional_names,
)
from polvet.policy.signatures import SIGNATURES

Key = tuple[float, ...]
KEYS = ("format", "comment", "inputs", "outputs", "rows", "default")
ROW_KEYS = ("state", "scores", "action")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A policy by its rows: input values -> scores; `default` is the index of the label for states not listed."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: Mapping[Key, tuple[float, ...]]
    default: int | None = None

    def scores(self, rows: Rows) -> Scores:
        """Return the float64 scores [n, outputs]; a state without row and default is an InputError."""
        rows = checked_rows(self, rows)
        result = np.zeros((len(rows), len(self.outputs)))
        for index, row in enumerate(rows.tolist()):
            entry = self.rows.get(tuple(row))
            if entry is not None:
                result[index] = entry
            elif self.default is not None:
                result[index, self.default] = 1.0
            else:
                state = ", ".join(f"{name}={value:g}" for name, value in zip(self.inputs, row, strict=True))
                raise InputError(f"the table has no row for {state}.", hint="Add the row, or a default.")
        return result

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""
        rows = checked_rows(self, rows)
        return best_indices(self, self.scores(rows), rows, applicable)

    def with_names(self, inputs: Sequence[str], outputs: Sequence[str]) -> Table:
        """Return the same table under other names; a table that names its columns keeps them."""
        for own, wish in ((self.inputs, tuple(inputs)), (self.outputs, tuple(outputs))):
            if own != wish and not has_positional_names(own):
                raise InputError(
                    "a Table names its inputs and outputs itself; they cannot be renamed.",
                    hint="Leave inputs and outputs out of task.toml.",
                )
        checked_names(inputs, len(self.inputs), "input")
        checked_names(outputs, len(self.outputs), "output")
        return replace(self, inputs=tuple(inputs), outputs=tuple(outputs))


def table_from_json(document: Any, where: Where) -> Table:
    """Return the table of a `table/1` document, or raise an InputError with the JSON path."""
    refuse_unknown_keys(document, KEYS, where)
    inputs = _name_list(document, "inputs", where)
    outputs = _name_list(document, "outputs", where)
    entries = document.get("rows")
    if not isinstance(entries, list):
        raise InputError("'rows' must be a list.", where.at("rows"), "Write a list of rows.")
    default = document.get("default")
    rows: dict[Key, tuple[float, ...]] = {}
    list_of_rows = where.at("rows")
    for index, entry in enumerate(entries):
        place = list_of_rows.at(index)
        if not isinstance(entry, dict) or not isinstance(entry.get("state"), dict):
            raise InputError(
                "a row must be an object with a 'state' object.", place, 'Write {"state": {"x": 0}, "action": "a"}.'
            )
        refuse_unknown_keys(entry, ROW_KEYS, place)
        key = _key(entry["state"], inputs, place, "state")
        if key in rows:
            read = ", ".join(f"{name}={_plain(value)}" for name, value in zip(inputs, key, strict=True))
            what = f"this state has two rows: policies read it as {read}, in float32."
            raise InputError(what, place, "Keep one of them; beyond 2^24 not every integer is a float32.")
        rows[key] = _row_scores(entry, outputs, place)
    index_of_default = None if default is None else _label(default, outputs, where, "default")
    return Table(inputs, outputs, rows, index_of_default)


def save_table(table: Table, path: str) -> None:
    """Write the table as `table/1`."""
    write_whole(path, table_text(table))


def table_text(table: Table) -> str:
    """Return the table as the text of a `table/1` file."""
    document: Json = {
        "format": "table/1",
        "inputs": list(table.inputs),
        "outputs": list(table.outputs),
        "rows": [
            {"state": dict(zip(table.inputs, map(_plain, key), strict=True)), "scores": [_plain(s) for s in scores]}
            for key, scores in table.rows.items()
        ],
    }
    if table.default is not None:
        document["default"] = table.outputs[table.default]
    return json.dumps(document, ensure_ascii=False) + "\n"


def _name_list(document: Any, key: str, where: Where) -> tuple[str, ...]:
    names = document.get(key)
    if not isinstance(names, list) or not names:
        raise InputError(f"'{key}' must be a list of names.", where.at(key), 'Write ["x", "y"].')
    return checked_names(names, len(names), key.removesuffix("s"), where.at(key))


def _key(state: Mapping[str, Any], inputs: tuple[str, ...], place: Where, *path: str) -> Key:
    if len(state) != len(inputs) or any(name not in state for name in inputs):
        where = _below(place, path)
        for name in state:
            if name not in inputs:
                raise InputError(f"'{name}' is not an input of the table.", where, suggest(name, inputs))
        name = next(name for name in inputs if name not in state)
        raise InputError(f"the value of '{name}' is missing.", where, "Give every input a value.")
    values = []
    for name in inputs:
        number = _number(state[name], place, *path, name)
        try:
            values.append(unpack("<f", pack("<f", number))[0])  # as a float32 holds it
        except OverflowError:
            raise _too_large(_below(place, (*path, name))) from None
    return tuple(values)


def _row_scores(entry: Mapping[str, Any], outputs: tuple[str, ...], where: Where) -> tuple[float, ...]:
    if ("scores" in entry) == ("action" in entry):
        raise InputError("a row holds either 'scores' or an 'action'.", where, "Write one of the two.")
    if "action" in entry:
        chosen = _label(entry["action"], outputs, where, "action")
        return tuple(1.0 if index == chosen else 0.0 for index in range(len(outputs)))
    scores = entry["scores"]
    if not isinstance(scores, list) or len(scores) != len(outputs):
        raise InputError(
            f"'scores' must be a list of {len(outputs)} numbers, one per output.", where.at("scores"), "Write a number."
        )
    return tuple(_number(score, where, "scores", index) for index, score in enumerate(scores))


def _label(label: Any, outputs: tuple[str, ...], place: Where, *path: str | int) -> int:
    if label not in outputs:
        raise InputError(f"'{label}' is not an output of the table.", _below(place, path), suggest(str(label), outputs))
    return outputs.index(label)


def _number(value: Any, place: Where, *path: str | int) -> float:
    if not isinstance(value, int | float):  # bool is an int: false is 0, true is 1
        raise InputError(f"{json.dumps(value)[:60]} is not a number.", _below(place, path), "Write a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _too_large(_below(place, path))
    return number


def _too_large(where: Where) -> InputError:
    return InputError("the number is too large.", where, "Write a number that a float32 holds.")


def _below(place: Where, path: Sequence[str | int]) -> Where:
    """Return a place further in: it is made where something is wrong there, since tables are long."""
    for step in path:
        place = place.at(step)
    return place


def _plain(value: float) -> Value:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _read(content: Content, names: Names) -> Table:
    table = table_from_json(content.document, content.where)
    for wish, own, what in ((names.inputs, table.inputs, "inputs"), (names.outputs, table.outputs, "outputs")):
        if wish is not None and tuple(wish) != own:
            raise InputError(
                f"the table has the {what} {list(own)}, not {list(wish)}.",
                content.where.at(what),
                "Make the names in task.toml those of the table.",
            )
    return table


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, Table)
    save_table(policy, path)


TABLE = PolicyFormat(
    "table",
    "table/1",
    'JSON with `"format": "table/1"`',
    "in the file",
    detects=SIGNATURES["table"],
    read=_read,
    writes=lambda policy, path: isinstance(policy, Table) and not path.endswith((".npy", ".npz")),
    write=_write,
    saved="yes",
)
