"""Keeping what was good: how often the policy reaches the goal, and the decisions on the runs that do.

A repair may move decisions that it need not touch. A sample of the states on goal-reaching runs that are no known faults
is handed to the repair to be kept (`find_goals`); if the repaired policy still reaches the goal less
often than allowed, the states where it left those runs are added and the repair is tried again (`lost_states`).
A repair is judged (`Floor`) by the best of all policies so far: how often it reaches the goal, and in how many steps.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.budget import Budget
from polvet.debug.faults import policy_steps
from polvet.debug.goal_chance import goal_chances
from polvet.kernel.compiled import Words
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, simulate
from polvet.repair.keep import goal_runs

TRACED = 400
"""So many goal-reaching runs are looked at state by state."""


LENGTH_RUNS = 100
"""Of each start, for the mean length of runs where their share is computed."""
LONGER = 1.25
"""Runs may take so many times the steps that they took before other repairs are tried."""
WORTH = 0.05
"""So many more runs that reach the goal are worth longer ones."""


@dataclass(frozen=True, slots=True)
class GoalRate:
    """How often runs of a policy reach the goal, and in how many steps on average; None where none does."""

    share: float
    length: float | None


@dataclass(frozen=True, slots=True)
class Floor:
    """What a repaired policy should keep of the best one so far: a share of goal-reaching runs, about, and their mean length."""

    best: GoalRate
    slack: float

    @property
    def share(self) -> float:
        """Return the share of goal-reaching runs below which some are lost."""
        return self.best.share - self.slack

    def is_kept(self, reached: GoalRate) -> bool:
        """Whether nothing that is allowed to be lost is lost."""
        return reached.share >= self.share and not self._excess(reached)

    def cost(self, reached: GoalRate) -> tuple[float, int, float, float]:
        """Return what is lost, the least first: the share of runs that reach the goal, in steps that count, before their length."""
        lost = max(0.0, self.share - reached.share)
        return lost, -round(reached.share / WORTH), self._excess(reached), -reached.share

    def _excess(self, reached: GoalRate) -> float:
        length = self.best.length
        if length is None or reached.length is None or reached.length <= LONGER * length:
            return 0.0
        return reached.length


@dataclass(frozen=True, slots=True, eq=False)
class Goals:
    """Goal-reaching runs of one policy from given starts: how many, and the states worth keeping."""

    reached: GoalRate
    states: tuple[State, ...]  # on goal-reaching runs, in a random order; no known fault among them


def reach_goal(bound: Bound, starts: Words, *, runs: int, max_steps: int, budget: Budget, **chance: Any) -> GoalRate:
    """Return how the policy reaches the goal: by its Markov chain where that is small, else by so many runs of each start."""
    chances = goal_chances(bound, starts, max_steps=max_steps, budget=budget) if runs > 1 else None
    if chances is not None:
        runs = min(runs, LENGTH_RUNS)
    batch = simulate(bound, starts, runs_per_start=runs, max_steps=max_steps, budget=budget, **chance)
    if batch.limit is not None:
        raise batch.limit
    reached = batch.ends == End.GOAL
    share = float(reached.mean()) if len(reached) else 0.0
    if chances is not None:
        share = chances.mean[0]
    return GoalRate(share, float(batch.lengths[reached].mean()) if reached.any() else None)


def find_goals(
    bound: Bound, starts: Words, *, without: Collection[State], runs: int, seed: int, **chance: Any
) -> Goals:
    """Return how the policy reaches the goal, and the states on such runs, without those that are known faults."""
    _, traces = goal_runs(bound, starts, runs=runs, most=TRACED, seed=seed, **chance)
    states = list(dict.fromkeys(state for run in traces for state in run.states[:-1] if state not in without))
    random.Random(seed).shuffle(states)
    return Goals(reach_goal(bound, starts, runs=runs, seed=seed, **chance), tuple(states))


def lost_states(before: Bound, after: Bound, states: Sequence[State]) -> list[State]:
    """Return the states in which the two policies choose differently."""
    if not states:
        return []
    packed = before.compiled.pack(states)
    differs = policy_steps(before, packed).label != policy_steps(after, packed).label
    return [states[k] for k in np.flatnonzero(differs).tolist()]
