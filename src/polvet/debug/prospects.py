"""Which of a fault's safe actions leads on to the goal: simulated runs of the policy after each of them.

A fault may have several safe actions, and a repair may choose any. The one that keeps goal-reaching runs going is found
by taking it once and following the policy from every outcome. The estimate only ranks actions; it proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.model.expressions import FALSE
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, simulate
from polvet.records.fault_files import Fault

RUNS = 20
MOST_STEPS = 10_000_000
"""Of all runs together, about: where there are thousands of faults or runs are long, each gets fewer."""
SLACK = 0.1
"""Actions whose share of goal-reaching runs is within this of the best are all left to the repair to choose from."""


def prefer_goal(
    bound: Bound,
    faults: Sequence[Fault],
    *,
    runs: int = RUNS,
    max_steps: int,
    seed: int,
    threads: int = 1,
    budget: Budget = UNLIMITED,
) -> list[Fault]:
    """Return the faults, their safe actions narrowed to those after which the policy reaches the goal about most often."""
    if bound.task.goal == FALSE:
        return list(faults)
    prospects = goal_prospects(bound, faults, runs=runs, max_steps=max_steps, seed=seed, threads=threads, budget=budget)
    return [
        replace(fault, safe_actions=tuple(a for a in fault.safe_actions if chances[a] >= max(chances.values()) - SLACK))
        if chances
        else fault
        for fault, chances in zip(faults, prospects, strict=True)
    ]


def goal_prospects(
    bound: Bound,
    faults: Sequence[Fault],
    *,
    runs: int = RUNS,
    max_steps: int,
    seed: int,
    threads: int = 1,
    budget: Budget = UNLIMITED,
) -> list[dict[str, float]]:
    """Return for each fault the share of goal-reaching runs after each of its safe actions."""
    starts: list[list[int]] = []
    owners: list[tuple[int, str]] = []
    weights: list[float] = []
    packed = bound.compiled.pack([fault.state for fault in faults])
    for k, fault in enumerate(faults):
        for number, _, outcomes in bound.compiled.machine.moves(packed[k]) or ():
            label = bound.label(number)
            if label is not None and label in fault.safe_actions:
                for probability, words, _ in outcomes:
                    starts.append(words)
                    owners.append((k, label))
                    weights.append(probability)
    chances: list[dict[str, float]] = [{} for _ in faults]
    if not starts:
        return chances
    chance: Any = {"max_steps": max_steps, "seed": seed, "threads": threads, "budget": budget}
    packed = np.array(starts, dtype=np.uint64)
    first = simulate(bound, packed, **chance)
    more = min(runs - 1, MOST_STEPS // max(1, first.steps))
    ends = first.ends.reshape(len(starts), 1)
    if more > 0:
        others = simulate(bound, packed, runs_per_start=more, first_run=len(starts), **chance)
        ends = np.concatenate([ends, others.ends.reshape(len(starts), more)], axis=1)
    reached: dict[tuple[int, str], list[float]] = {owner: [0.0, 0.0] for owner in sorted(owners)}
    for owner, weight, share in zip(owners, weights, (ends == End.GOAL).mean(axis=1).tolist(), strict=True):
        sums = reached[owner]
        sums[0] += weight * share
        sums[1] += weight
    for (k, label), (share, weight) in reached.items():
        chances[k][label] = share / weight
    return chances
