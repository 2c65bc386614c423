"""A state as JSON, the way certificates and files hold it."""

from __future__ import annotations

from typing import Any

from polvet.files import Json
from polvet.model.semantics import State
from polvet.model.task import Task, state_to_names

BIGGEST_JSON_INTEGER = 2**53


class Malformed(Exception):
    """A certificate does not have the shape that its kind asks for, or does not show what it claims: it is rejected."""


def state_to_json(task: Task, state: State) -> Json:
    """Return the state as `{"x": 3, "crashed": false}`; integers above 2^53 as text."""
    named = state_to_names(task.network, state)
    return {name: _number_to_json(value) for name, value in named.items()}


def _number_to_json(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > BIGGEST_JSON_INTEGER:
        return str(value)
    return value
