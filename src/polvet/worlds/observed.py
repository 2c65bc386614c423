"""From what an environment shows to the state of the model that was made of it: what a shield around the environment asks at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polvet.errors import InputError, Where
from polvet.model.network import Network
from polvet.model.tables import STATE, TableMoves, TransitionTable
from polvet.worlds.enumerate import named_parts, whole_number


def table_of(network: Network) -> TransitionTable | None:
    """Return the table that the network's world is given by; None where it is none."""
    return network.edges.table if isinstance(network.edges, TableMoves) else None


def name_of(env: Any) -> str:
    """Return what a world that was made of the environment is called: its id, or else its class."""
    return str(getattr(getattr(env, "spec", None), "id", None) or type(env.unwrapped).__name__)


def state_of(table: TransitionTable) -> Callable[[Any], Mapping[str, Any]]:
    """Return the function from an observation to the state: a number is the state's own, other numbers are its features by name."""

    def of_observation(observation: Any) -> Mapping[str, Any]:
        try:
            numbers = {name: whole_number(value) for name, value in named_parts(observation, "")}
        except ValueError:
            numbers = {}
        if numbers.keys() == {"observation"} and "observation" not in table.features:
            numbers = {STATE: numbers["observation"]}
        state = table.completed(numbers)
        if not table.features.keys() | {STATE} <= state.keys():
            what = f"an observation does not tell the state: it shows {', '.join(numbers) or 'no whole numbers'}."
            raise InputError(what, Where(table.name), "Give state_of (observation -> state by names).")
        return state

    return of_observation
