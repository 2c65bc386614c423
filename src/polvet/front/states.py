"""States as people hold them: a dictionary by variable name, a list of such, a pandas DataFrame, or an array in the model's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.model.network import Network
from polvet.model.semantics import State
from polvet.model.task import state_from_names

HINT = "Give a dictionary by variable name, a list of them, a DataFrame, or an array with one column per variable."


def read_states(network: Network, states: Any) -> list[State]:
    """Return the states; what does not fit is an InputError that names the state by its number."""
    if isinstance(states, Mapping):
        return [state_from_names(network, _plain(states), Where("state"))]
    if hasattr(states, "to_dict") and hasattr(states, "columns"):
        states = states.to_dict("records")
    if hasattr(states, "tolist"):
        states = states.tolist()
    if not isinstance(states, Sequence) or isinstance(states, str | bytes):
        raise InputError(f"a {type(states).__name__} is no state.", Where("state"), HINT)
    if states and not isinstance(states[0], Mapping | Sequence):
        return [_from_row(network, states, Where("state"))]
    return [_read_one(network, one, Where("states").at(number)) for number, one in enumerate(states)]


def is_one_state(value: Any) -> bool:
    """Return whether a single state is given, not a list of states."""
    if isinstance(value, Mapping):
        return True
    return getattr(value, "ndim", None) == 1 and not hasattr(value, "to_frame")


def _read_one(network: Network, value: Any, where: Where) -> State:
    if isinstance(value, Mapping):
        return state_from_names(network, _plain(value), where)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _from_row(network, value, where)
    raise InputError(f"a {type(value).__name__} is no state.", where, HINT)


def _from_row(network: Network, row: Sequence[Any], where: Where) -> State:
    names = [variable.name for variable in network.variables]
    if len(row) != len(names):
        shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise InputError(
            f"the row has {len(row)} values; there are {len(names)} variables.", where, f"Their order is {shown}."
        )
    return state_from_names(network, _plain(dict(zip(names, row, strict=True))), where)


def _plain(object_: Mapping[Any, Any]) -> Json:
    """Return the values as Python's own: numpy's scalars become ints, floats and bools; whole floats of arrays become ints."""
    plain: Json = {}
    for name, value in object_.items():
        value = value.item() if hasattr(value, "item") else value
        plain[str(name)] = int(value) if isinstance(value, float) and value.is_integer() else value
    return plain
