"""States as people hand them over: `x=3,crashed=false` on the command line, JSON lines of states or runs in files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import Json, parse_json, read_text
from polvet.model import atoms
from polvet.model.arithmetic import Value
from polvet.model.network import Kind, Variable
from polvet.model.semantics import State
from polvet.model.task import Task, state_from_names
from polvet.numbers import LARGEST
from polvet.records.state_json import BIGGEST_JSON_INTEGER, state_to_json

MAX_BYTES = 4 * 1024**3
COMMA = re.compile(r",(?![^(]*\))")


def parse_state(task: Task, text: str, where: Where) -> State:
    """Return the state written as `x=3,crashed=false`; values may be quoted, as location names sometimes must be.

    Commas inside brackets belong to a name: `at(r1,a)=true`. It may be given as planners write it, too: `(at r1 a) (= (fuel) 3)`.
    """
    if atoms.STATE.fullmatch(text):
        return state_from_names(task.network, atoms.read_atoms(task.network.variables, text, where), where)
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in COMMA.split(text))):
        name, sign, value = part.partition("=")
        if not sign:
            raise InputError(f"'{part}' is not of the form NAME=VALUE.", where, "Write x=3,crashed=false.")
        if name.strip() in values:
            raise InputError(f"'{name.strip()}' is given twice.", where, "Give it once.")
        values[name.strip()] = value.strip()
    return state_from_names(task.network, values, where)


class StateFormat:
    """States of one task as JSON objects, in both directions, fast: batches hold hundreds of thousands."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._columns = [
            (
                variable.name,
                variable.kind,
                -inf if variable.lower is None else variable.lower,
                inf if variable.upper is None else variable.upper,
                None if variable.locations is None else {name: k for k, name in enumerate(variable.locations)},
            )
            for variable in task.network.variables
        ]
        self._plain = not any(
            variable.is_location or (variable.kind is Kind.INT and not _fits_json(variable))
            for variable in task.network.variables
        )
        self._names = [variable.name for variable in task.network.variables]

    def find(self, values: Json) -> State | None:
        """Return the state if every value is plainly of its variable's type and between its bounds, else None."""
        if len(values) != len(self._columns):
            return None
        state: list[Value] = []
        for name, kind, lower, upper, locations in self._columns:
            value = values.get(name)
            if locations is not None:
                value = locations.get(value) if type(value) is str else None
            elif kind is Kind.REAL and isinstance(value, int | float) and not isinstance(value, bool):
                value = float(value) + 0.0 if -LARGEST <= value <= LARGEST else None
            elif type(value) is not (bool if kind is Kind.BOOL else int):
                return None
            if value is None or not (kind is Kind.BOOL or lower <= value <= upper) or value in (inf, -inf):
                return None
            state.append(value)
        return tuple(state)

    def read(self, values: Json, where: Where) -> State:
        """Return the state, or raise the InputError that says what is wrong with it."""
        state = self.find(values)
        return state_from_names(self.task.network, values, where) if state is None else state

    def write(self, state: State) -> Json:
        """Return the state as `{"x": 3, "crashed": false}`."""
        return dict(zip(self._names, state, strict=True)) if self._plain else state_to_json(self.task, state)


def _fits_json(variable: Variable) -> bool:
    lower, upper = variable.lower, variable.upper
    return lower is not None and upper is not None and lower >= -BIGGEST_JSON_INTEGER and upper <= BIGGEST_JSON_INTEGER


def iter_states(task: Task, path: str | Path) -> Iterator[State]:
    """Yield every state in the file: JSON lines that are states, {"state": ...}, or runs {"states": [...]}; or one list."""
    text = read_text(path, max_bytes=MAX_BYTES)
    where = Where(str(path))
    reader = StateFormat(task)
    if text.lstrip().startswith("["):
        items = parse_json(text, where)
        for number, item in enumerate(items):
            yield from _states_in(reader, item, where.at(number))
        return
    decode = json.JSONDecoder(object_pairs_hook=_unique).decode
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            item = decode(line)
        except ValueError:
            item = parse_json(line, Where(str(path), line=number))  # says what is wrong, and where
        if isinstance(item, dict) and (state := reader.find(item)) is not None:
            yield state
        elif not (number == 1 and isinstance(item, dict) and "format" in item):  # the head of a file of decisions
            yield from _states_in(reader, item, Where(str(path), line=number))


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key stands twice")
    return members


def _states_in(reader: StateFormat, item: Any, where: Where) -> Iterator[State]:
    if not isinstance(item, dict):
        shown = json.dumps(item)[:40]
        raise InputError(f"{shown} is no state.", where, 'Write {"x": 3, "crashed": false}.')
    if isinstance(item.get("states"), list):
        for k, state in enumerate(item["states"]):
            if not isinstance(state, dict):
                raise InputError(
                    "the run holds something that is no state.",
                    where.at("states").at(k),
                    "Write each state as an object from variable names to values.",
                )
            yield reader.read(state, where.at("states").at(k))
    elif isinstance(item.get("state"), dict):
        yield reader.read(item["state"], where)
    else:
        yield reader.read(item, where)


def iter_first_states(task: Task, path: str | Path) -> Iterator[State]:
    """Yield the first state of each line of the file: of a run its start, else the state itself."""
    where = Where(str(path))
    text = read_text(path, max_bytes=MAX_BYTES)
    reader = StateFormat(task)
    items = (
        enumerate(parse_json(text, where))
        if text.lstrip().startswith("[")
        else ((k, parse_json(line, where)) for k, line in enumerate(text.splitlines()) if line.strip())
    )
    for number, item in items:
        if isinstance(item, dict) and "format" in item:
            continue
        yield next(iter(_states_in(reader, item, where.at(number))))
