"""From what an environment shows to the state of the model that was made of it: what a shield around the environment asks at each step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polvet.errors import InputError, Where
from polvet.model.network import Network
from polvet.model.tables import STATE, TableMoves, TransitionTable
from polvet.worlds.enumerate import named_parts, whole_number

MADE_WITH, SEEDS = "environment", "seeds"
"""What a model notes of the environment it was made of: `made_with`, and the resets it starts from, where not from all."""


def table_of(network: Network) -> TransitionTable | None:
    """Return the table that the network's world is given by; None where it is none."""
    return network.edges.table if isinstance(network.edges, TableMoves) else None


def name_of(env: Any) -> str:
    """Return what a world that was made of the environment is called: its id, or else its class."""
    return str(getattr(getattr(env, "spec", None), "id", None) or type(env.unwrapped).__name__)


def made_with(env: Any) -> str:
    """Return the environment's id and the arguments it was made with, but for how it is drawn; empty where nobody registered it."""
    spec = getattr(env, "spec", None)
    if spec is None:
        return ""
    given = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    return f"{spec.id} {json.dumps(given, sort_keys=True, default=lambda value: type(value).__name__)}"


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
            if table.features and table.features.keys() <= numbers.keys():
                what = f"no state of the model has {', '.join(f'{name}={number}' for name, number in numbers.items())}."
            raise InputError(what, Where(table.name), "Give state_of (observation -> state by names).")
        return state

    return of_observation


def told_by(
    network: Network, env: Any, state_of_: Callable[[Any], Any] | None, labels: Sequence[str] | None
) -> tuple[Callable[[Any], Any] | None, Sequence[str] | None]:
    """Return how an observation tells the state, and the labels of actions: as given, or of the environment that the model was made of."""
    table = table_of(network)
    if table is None:
        return state_of_, labels
    if state_of_ is not None:
        return (lambda observation: table.completed(state_of_(observation))), labels
    if name_of(env) != table.name:
        return None, labels
    return state_of(table), table.labels if labels is None else labels
