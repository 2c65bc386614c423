"""States as people hand them over: `x=3,crashed=false` on the command line, JSON lines of states or runs in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import parse_json, read_text
from polvet.model.semantics import State
from polvet.model.task import Task, state_from_names

MAX_BYTES = 4 * 1024**3


def parse_state(task: Task, text: str, where: Where) -> State:
    """Return the state written as `x=3,crashed=false`; values may be quoted, as location names sometimes must be."""
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = part.partition("=")
        if not sign:
            raise InputError(f"'{part}' is not of the form NAME=VALUE.", where, "Write x=3,crashed=false.")
        if name.strip() in values:
            raise InputError(f"'{name.strip()}' is given twice.", where, "Give it once.")
        values[name.strip()] = value.strip()
    return state_from_names(task.network, values, where)


def iter_states(task: Task, path: str | Path) -> Iterator[State]:
    """Yield every state in the file: JSON lines that are states, {"state": ...}, or runs {"states": [...]}; or one list."""
    text = read_text(path, max_bytes=MAX_BYTES)
    where = Where(str(path))
    if text.lstrip().startswith("["):
        items = parse_json(text, where)
        for number, item in enumerate(items):
            yield from _states_in(task, item, where.at(number))
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = Where(str(path), line=number)
        item = parse_json(line, place)
        if number == 1 and isinstance(item, dict) and "format" in item:
            continue  # the head of a file of decisions
        yield from _states_in(task, item, place)


def _states_in(task: Task, item: Any, where: Where) -> Iterator[State]:
    if not isinstance(item, dict):
        shown = json.dumps(item)[:40]
        raise InputError(f"{shown} is no state.", where, 'Write {"x": 3, "crashed": false}.')
    if isinstance(item.get("states"), list):
        for k, state in enumerate(item["states"]):
            if not isinstance(state, dict):
                raise InputError("the run holds something that is no state.", where.at("states").at(k))
            yield state_from_names(task.network, state, where.at("states").at(k))
    elif isinstance(item.get("state"), dict):
        yield state_from_names(task.network, item["state"], where)
    else:
        yield state_from_names(task.network, item, where)


def iter_first_states(task: Task, path: str | Path) -> Iterator[State]:
    """Yield the first state of each line of the file: of a run its start, else the state itself."""
    where = Where(str(path))
    text = read_text(path, max_bytes=MAX_BYTES)
    items = (
        enumerate(parse_json(text, where))
        if text.lstrip().startswith("[")
        else ((k, parse_json(line, where)) for k, line in enumerate(text.splitlines()) if line.strip())
    )
    for number, item in items:
        if isinstance(item, dict) and "format" in item:
            continue
        yield next(iter(_states_in(task, item, where.at(number))))
