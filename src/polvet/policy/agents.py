"""Agents of stable-baselines3 in worlds that were made of environments: what is judged must be what they do there.

By their files   the task's inputs are what the environment shows, in its order; every value of them is one that the agent knows; the
                 environment's masks are for agents that heed them. The world's metadata says what is shown and masked
By themselves    where the object and the environment are at hand, its own choices are compared with those that polvet reads out of it:
                 in every state that was seen, or in SAMPLED of more than MOST; near ties aside
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.model.network import Kind, Network
from polvet.model.tables import STATE, TableMoves, TransitionTable
from polvet.model.task import show_names, state_from_names, state_to_names
from polvet.model.world import MASKED, OBSERVATION
from polvet.policy.inputs import Input
from polvet.policy.networks import Archive
from polvet.policy.rounding import near_ties

if TYPE_CHECKING:
    from polvet.policy.binding import Fitted

MOST, SAMPLED = 10_000, 1_000
BATCH = 1_000
OWN = "Make the world of the environment that the agent learned in, wrapped as it is there."


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be asked: `predict(observations, masks)` gives the numbers of its actions."""

    predict: Callable[[Any, Any], Any]
    masked: bool = False  # its own environment masks actions


def check_agent(
    network: Network, archive: Archive, names: Sequence[str], inputs: Sequence[Input], where: Where | None
) -> None:
    """Refuse an agent that was read out of its archive where the world shows or masks something else than it knows."""
    metadata, table = dict(network.model.metadata), _table_of(network)
    if metadata.get(MASKED, "0") != "0" and not archive.masked:
        what = "the environment masks actions, and this agent takes the best of all."
        raise InputError(what, where, "Give a MaskablePPO, or make the world with from_gym(..., masks=False).")
    shown, read = metadata.get(OBSERVATION), ", ".join(names)
    if shown not in (None, read) and all(isinstance(one, int) for one in inputs):
        what = f"an agent reads what the environment shows, which is {shown or 'no variables of the world'}; the task reads {read}."
        order = f"Let `state` name {shown or 'the numbers that are shown'} in that order"
        hint = f"{order}, or say in task.toml how [policy] inputs are computed."
        raise InputError(what, where, hint)
    for name, one, count in zip(names, inputs, archive.values, strict=False):
        if not isinstance(one, int):
            continue
        variable = network.variables[one]
        low, high = (0, 1) if variable.kind is Kind.BOOL else (variable.lower, variable.upper)
        if table is not None and (name == STATE or name in table.features):
            column = range(table.states) if name == STATE else table.features[name]
            low, high = min(column), max(column)
        if low is None or high is None or low < 0 or high >= count:
            what = (
                f"the agent observes {count} values of '{name}', from 0 on; the world has those from {low} to {high}."
            )
            raise InputError(what, where, "Give the agent of this world.")


def _table_of(network: Network) -> TransitionTable | None:
    return network.edges.table if isinstance(network.edges, TableMoves) else None


def check_predictions(fitted: Fitted, shown: Mapping[int, Any], agent: Agent) -> None:
    """Refuse an agent that chooses otherwise on what the environment shows than polvet in the state, with the first difference."""
    network, where = fitted.task.network, Where("policy")
    table = _table_of(network)
    if table is None or not shown:
        return
    if agent.masked and MASKED not in dict(network.model.metadata):
        what = "the agent's environment masks actions, and the one that the world was made of does not."
        raise InputError(what, where, OWN)
    open_ = np.zeros((table.states, len(table.labels)), dtype=np.bool_)
    open_[tuple(np.array(list(table.rows)).T)] = True
    numbers = [one for one in sorted(shown) if open_[one].any()]
    if len(numbers) > MOST:
        numbers = sorted(random.Random(0).sample(numbers, SAMPLED))
    columns = [table.labels.index(name) if name in table.labels else -1 for name in fitted.names]
    for first in range(0, len(numbers), BATCH):
        batch = numbers[first : first + BATCH]
        states = [state_from_names(network, {STATE: one}, where) for one in batch]
        rows = np.concatenate([fitted.row(state) for state in states])
        mask = open_[batch][:, columns] & (np.array(columns) >= 0) if fitted.filtered else None
        theirs = _asked(agent, batch, shown, open_)
        mine = np.array(columns)[fitted.policy.choose(rows, mask)]
        wrong = (theirs != mine) & ~near_ties(fitted.policy, rows, mask) | ~open_[batch, theirs]
        for place in np.flatnonzero(wrong).tolist():
            state = show_names(state_to_names(network, states[place]))
            what = f"in {state} the agent chooses '{table.labels[theirs[place]]}', and polvet reads '{table.labels[mine[place]]}'."
            raise InputError(what, where, OWN)


def _asked(agent: Agent, states: Sequence[int], shown: Mapping[int, Any], masks: Any) -> Any:
    """Return the numbers of the actions that the agent chooses where it is shown this, or say where it cannot."""
    try:
        return np.asarray(agent.predict(np.stack([shown[one] for one in states]), masks[states])).reshape(-1)
    except Exception as error:  # whatever the library says against an observation that is not of the agent's space
        if len(states) > 1:
            for one in states:
                _asked(agent, [one], shown, masks)
        what = f"the agent cannot act in state s={states[0]}, where the environment shows {shown[states[0]]}: {error}"
        raise InputError(what.splitlines()[0][:300], Where("policy"), OWN) from None
