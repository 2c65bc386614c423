"""Keeping what was good: how often the policy reaches the goal, and the decisions on the runs that do.

A repair may move decisions that it need not touch. A sample of the states on goal-reaching runs that are no known faults
is handed to the repair to be kept (`goal_states`); if the repaired policy still reaches the goal less
often than allowed, the states where it left those runs are added and the repair is tried again (`lost_states`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from polvet.debug.faults import policy_steps
from polvet.kernel.compiled import Limits, Words
from polvet.model.semantics import State
from polvet.policy.binding import Bound
from polvet.policy.runs import Batch, End, simulate, trace

TRACED = 400
"""So many goal-reaching runs are looked at state by state."""


@dataclass(frozen=True, slots=True, eq=False)
class Goals:
    """Goal-reaching runs of one policy from given starts: the share of runs, and the states worth keeping."""

    share: float
    states: tuple[State, ...]  # on goal-reaching runs, in a random order; no known fault among them


def goal_share(
    bound: Bound, starts: Words, *, runs: int, max_steps: int, seed: int, threads: int, limits: Limits | None = None
) -> float:
    """Return the share of simulated runs that reach the goal."""
    batch = _simulated(bound, starts, runs, max_steps, seed, threads, limits)
    return batch.count(End.GOAL) / max(1, len(batch.ends))


def find_goals(
    bound: Bound,
    starts: Words,
    *,
    without: Collection[State],
    runs: int,
    max_steps: int,
    seed: int,
    threads: int,
    limits: Limits | None = None,
) -> Goals:
    """Return how often the policy reaches the goal, and the states on such runs, without those that are known faults."""
    batch = _simulated(bound, starts, runs, max_steps, seed, threads, limits)
    reached = np.flatnonzero(batch.ends == End.GOAL).tolist()
    share = len(reached) / max(1, len(batch.ends))
    rng = random.Random(seed)
    chosen = sorted(rng.sample(reached, min(TRACED, len(reached))))
    first = bound.compiled.unpack(starts[[run // runs for run in chosen]]) if chosen else []
    told = [
        trace(bound, start, run, max_steps=max_steps, seed=seed) for start, run in zip(first, chosen, strict=True)
    ]  # fmt: skip
    states = dict.fromkeys(state for run in told for state in run.states[:-1] if state not in without)
    shuffled = list(states)
    rng.shuffle(shuffled)
    return Goals(share, tuple(shuffled))


def lost_states(before: Bound, after: Bound, states: Sequence[State]) -> list[State]:
    """Return the states in which the two policies choose differently."""
    if not states:
        return []
    packed = before.compiled.pack(states)
    differs = policy_steps(before, packed).label != policy_steps(after, packed).label
    return [states[k] for k in np.flatnonzero(differs).tolist()]


def _simulated(
    bound: Bound, starts: Words, runs: int, max_steps: int, seed: int, threads: int, limits: Limits | None
) -> Batch:
    batch = simulate(
        bound, starts, runs_per_start=runs, max_steps=max_steps, seed=seed, threads=threads, limits=limits
    )  # fmt: skip
    if batch.limit is not None:
        raise batch.limit
    return batch
