"""Keeping what was good: how often the policy reaches the goal, and the decisions on the runs that do.

A repair may move decisions that it need not touch. A sample of the states on goal-reaching runs that are no known faults
is handed to the repair to be kept (`find_goals`); if the repaired policy still reaches the goal less
often than allowed, the states where it left those runs are added and the repair is tried again (`lost_states`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.debug.faults import policy_steps
from polvet.kernel.compiled import Words
from polvet.model.semantics import State
from polvet.policy.binding import Bound
from polvet.repair.keep import goal_runs

TRACED = 400
"""So many goal-reaching runs are looked at state by state."""


@dataclass(frozen=True, slots=True, eq=False)
class Goals:
    """Goal-reaching runs of one policy from given starts: the share of runs, and the states worth keeping."""

    share: float
    states: tuple[State, ...]  # on goal-reaching runs, in a random order; no known fault among them


def goal_share(bound: Bound, starts: Words, **chance: Any) -> float:
    """Return the share of simulated runs that reach the goal; `chance` as for `goal_runs`."""
    return goal_runs(bound, starts, most=0, **chance)[0]


def find_goals(bound: Bound, starts: Words, *, without: Collection[State], seed: int, **chance: Any) -> Goals:
    """Return how often the policy reaches the goal, and the states on such runs, without those that are known faults."""
    share, told = goal_runs(bound, starts, most=TRACED, seed=seed, **chance)
    states = list(dict.fromkeys(state for run in told for state in run.states[:-1] if state not in without))
    random.Random(seed).shuffle(states)
    return Goals(share, tuple(states))


def lost_states(before: Bound, after: Bound, states: Sequence[State]) -> list[State]:
    """Return the states in which the two policies choose differently."""
    if not states:
        return []
    packed = before.compiled.pack(states)
    differs = policy_steps(before, packed).label != policy_steps(after, packed).label
    return [states[k] for k in np.flatnonzero(differs).tolist()]
