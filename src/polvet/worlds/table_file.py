"""Worlds given state by state as files (`table-world/1`): what a table in memory is saved as, and read from again.

A row is `[state, action, outcome, outcome, ...]`, an outcome `[probability, next state]`, perhaps with a reward and an event after it.
Probabilities and rewards are exact: integers, decimals or texts such as "1/3".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import Json, parse_json, refuse_unknown_keys
from polvet.jani.write import dump_model
from polvet.model.automata import Model
from polvet.model.signatures import is_table
from polvet.model.table_edges import TableEdges
from polvet.model.tables import EVENTS, TABLE_FORMAT, Outcome, Row, TransitionTable
from polvet.model.wellformed import check_model
from polvet.model.world import World, WorldFile, WorldFormat
from polvet.numbers import exact
from polvet.worlds.table import OBSERVED, ROLES, build_table

SUFFIX = ".table"
KEYS = ("format", "name", "metadata", "states", "labels", "starts", "features", "rows")
ROW = "Write [state, action, [probability, next state], ...], an outcome perhaps with a reward and an event."
MOST_STATES = 2**31


def dump_world(model: Model) -> tuple[str, str]:
    """Return how a file of the model ends, and its text: a table's rows where it is one, else JANI."""
    table = find_table(model)
    return (SUFFIX, dump_table(table, dict(model.metadata))) if table is not None else (".jani", dump_model(model))


def find_table(model: Model) -> TransitionTable | None:
    """Return the table that the model is; None where it is none, or has something besides that a table's file does not say."""
    edges = model.automata[0].edges
    if not isinstance(edges, TableEdges):
        return None
    # SOUND: what is written is what would be read again, or it is not written as a table.
    alone = replace(build_table(edges.table).build(), metadata=model.metadata)
    return edges.table if alone == model else None


def dump_table(table: TransitionTable, metadata: Mapping[str, str]) -> str:
    """Return the text of the table's file, a line per row."""
    head: Json = {
        "format": TABLE_FORMAT,
        "name": table.name,
        **({"metadata": dict(metadata)} if metadata else {}),
    }
    head |= {"states": table.states, "labels": list(table.labels), "starts": list(table.starts)}
    if table.features:
        head["features"] = {name: [int(value) for value in values] for name, values in table.features.items()}
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    rows = (json.dumps([state, action, *map(_written, outcomes)]) for state, action, outcomes in table.moves)
    return "{" + ",\n ".join(lines) + ',\n "rows": [\n  ' + ",\n  ".join(rows) + "\n ]}\n"


def parse_table(document: Any, where: Where) -> tuple[TransitionTable, dict[str, str]]:
    """Return the table of a JSON document whose numbers are exact, and its metadata."""
    if not isinstance(document, dict) or document.get("format") != TABLE_FORMAT:
        raise InputError("is no table of states.", where, f'Write "format": "{TABLE_FORMAT}".')
    refuse_unknown_keys(document, KEYS, where)
    name, states = document.get("name"), document.get("states")
    if not isinstance(name, str) or not name:
        raise InputError("the world has no name.", where.at("name"), 'Write "name": "ring".')
    if type(states) is not int or not 0 < states <= MOST_STATES:
        raise InputError("is no number of states.", where.at("states"), "Write how many there are, 1 or more.")
    labels = _list(document, "labels", str, where)
    starts = _list(document, "starts", int, where)
    features = document.get("features", {})
    metadata = document.get("metadata", {})
    if not isinstance(features, dict) or not isinstance(metadata, dict):
        raise InputError("'features' or 'metadata' is no object.", where, 'Write {"row": [0, 0, 1, 1]}.')
    if not all(isinstance(value, str) for value in metadata.values()):
        raise InputError("is no text.", where.at("metadata"), "Write texts.")
    values = {feature: tuple(_list(features, feature, int, where.at("features"))) for feature in features}
    rows: dict[tuple[int, int], tuple[Outcome, ...]] = {}
    others: list[Row] = []
    for state, action, outcomes in _rows(document, where):
        if (state, action) in rows:
            others.append((state, action, outcomes))
        else:
            rows[state, action] = outcomes
    return TransitionTable(name, states, tuple(labels), rows, tuple(starts), values, tuple(others)), metadata


def _rows(document: Json, where: Where) -> Iterator[Row]:
    known: dict[Any, Fraction] = {}

    def number(value: Any) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | Fraction | str):
            raise ValueError
        if value not in known:
            parsed = exact(value) if isinstance(value, str) else value
            if parsed is None:
                raise ValueError
            known[value] = Fraction(parsed)
        return known[value]

    for place, row in enumerate(_list(document, "rows", list, where)):
        try:
            state, action, *outcomes = row
            if type(state) is not int or type(action) is not int or not outcomes:
                raise ValueError
            yield state, action, tuple([_outcome(one, number) for one in outcomes])
        except (ValueError, TypeError):
            raise InputError("is no row.", where.at("rows").at(place), ROW) from None


def _outcome(given: Any, number: Any) -> Outcome:
    if not isinstance(given, list) or len(given) < 2:
        raise ValueError
    whole: list[Any] = given + [0, None][len(given) - 2 :]
    probability, state, reward, event = whole
    if type(state) is not int or (event is not None and event not in EVENTS):
        raise ValueError
    return Outcome(number(probability), state, number(reward), event)


def _written(outcome: Outcome) -> list[Any]:
    """Return the outcome as it stands in a row."""
    row: list[Any] = [_number(outcome.probability), outcome.state]
    if outcome.reward or outcome.event is not None:
        row.append(_number(outcome.reward))
    return row if outcome.event is None else [*row, outcome.event]


def _number(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else str(value)


def _list(document: Json, key: str, kind: type, where: Where) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list) or not all(type(one) is kind for one in value):
        what = {int: "integers", str: "texts", list: "rows"}[kind]
        raise InputError(f"'{key}' is no list of {what}.", where.at(key), f"Write a list of {what}.")
    return value


def _read(file: WorldFile) -> World:
    def real(digits: str) -> Fraction:
        value = exact(digits)
        if value is None:
            raise InputError(f"the number {digits[:24]} has too many digits.", file.where, "Write fewer.")
        return Fraction(value)

    table, metadata = parse_table(parse_json(file.text, file.where, parse_float=real), file.where)
    try:
        builder = build_table(table)
    except InputError as error:
        path = error.where.path if isinstance(error.where, Where) else ()
        raise InputError(error.what, Where(str(file.path), path), error.hint) from None
    for key, text in metadata.items():
        builder.note(key, text)
    model = replace(builder.build(), where=file.where)
    check_model(model)
    return World(model, {role: event for role, event in ROLES.items() if event in table.events}, OBSERVED)


TABLE = WorldFormat(
    "table",
    "a table of states",
    f'`{{"format": "{TABLE_FORMAT}"` first',
    _read,
    is_table,
    suffixes=(SUFFIX,),
)
