"""What was good: states of runs of the policy that reach the goal, as often as they are visited."""

from __future__ import annotations

import random
from collections.abc import Sequence

from polvet.kernel.starts import Starts
from polvet.model.semantics import State
from polvet.policy.binding import Bound
from polvet.policy.runs import MAX_STEPS, End, simulate, trace


def goal_states(
    bound: Bound, runs: int, *, starts: Sequence[State] | None = None, max_steps: int = MAX_STEPS, seed: int = 0
) -> list[State]:
    """Return the states (but the last) of those simulated runs that reach the goal; starts are drawn where none are given."""
    if starts is None:
        starts = Starts.of(bound.task).sample(runs, random.Random(seed))
    batch = simulate(bound, bound.compiled.pack(starts), max_steps=max_steps, seed=seed)
    found: list[State] = []
    for k, start in enumerate(starts):
        if batch.ends[k] == End.GOAL:
            found += trace(bound, start, k, max_steps=max_steps, seed=seed).states[:-1]
    return found
