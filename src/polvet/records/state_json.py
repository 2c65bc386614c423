"""A state as JSON, the way certificates and files hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polvet.files import Json

if TYPE_CHECKING:
    from polvet.model.semantics import State
    from polvet.model.task import Task

BIGGEST_JSON_INTEGER = 2**53


class Malformed(Exception):
    """A certificate does not have the shape that its kind asks for, or does not show what it claims: it is rejected."""


def state_to_json(task: Task, state: State) -> Json:
    """Return the state as `{"x": 3, "crashed": false}`; integers above 2^53 as text."""
    from polvet.model.task import state_to_names

    named = state_to_names(task.network, state)
    return {name: _number_to_json(value) for name, value in named.items()}


def _number_to_json(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > BIGGEST_JSON_INTEGER:
        return str(value)
    return value
