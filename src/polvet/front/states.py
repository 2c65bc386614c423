"""States as people hold them: a dictionary by variable name, a list of such, a pandas DataFrame, or an array in the model's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polvet.errors import InputError, Where
from polvet.model.network import Network
from polvet.model.semantics import State
from polvet.model.task import state_from_names

HINT = "Give a dictionary by variable name, a list of them, a DataFrame, or an array with one column per variable."


def read_states(network: Network, given: Any) -> list[State]:
    """Return the states; what does not fit is an InputError that names the state by its number."""
    if isinstance(given, Mapping):
        return [state_from_names(network, _plain(given), Where("state"))]
    if hasattr(given, "to_dict") and hasattr(given, "columns"):
        given = given.to_dict("records")
    if hasattr(given, "tolist"):
        given = given.tolist()
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InputError(f"a {type(given).__name__} is no state.", Where("state"), HINT)
    if given and not isinstance(given[0], Mapping | Sequence):
        return [_from_row(network, given, Where("state"))]
    return [_read_one(network, one, Where("states").at(number)) for number, one in enumerate(given)]


def is_one_state(given: Any) -> bool:
    """Return whether a single state is given, not a list of states."""
    if isinstance(given, Mapping):
        return True
    return getattr(given, "ndim", None) == 1 and not hasattr(given, "to_frame")


def _read_one(network: Network, given: Any, where: Where) -> State:
    if isinstance(given, Mapping):
        return state_from_names(network, _plain(given), where)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _from_row(network, given, where)
    raise InputError(f"a {type(given).__name__} is no state.", where, HINT)


def _from_row(network: Network, row: Sequence[Any], where: Where) -> State:
    names = [variable.name for variable in network.variables]
    if len(row) != len(names):
        shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise InputError(
            f"the row has {len(row)} values; there are {len(names)} variables.", where, f"Their order is {shown}."
        )
    return state_from_names(network, _plain(dict(zip(names, row, strict=True))), where)


def _plain(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values as Python's own: numpy's scalars become ints, floats and bools; whole floats of arrays become ints."""
    plain: dict[str, Any] = {}
    for name, value in given.items():
        value = value.item() if hasattr(value, "item") else value
        plain[str(name)] = int(value) if isinstance(value, float) and value.is_integer() else value
    return plain
