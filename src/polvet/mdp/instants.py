"""Values after a fixed number of steps, by going back step by step: instantaneous rewards, and `U` that starts late.

Rounding  every step multiplies the bounds outward by (1 ± (d + 2) 2^-52) for d branches at most: a sum of d products of
          non-negative doubles, each probability half a unit off, is never further from the exact one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.mdp.sparse import Float64s, Mask, SparseMdp


def step_back(
    mdp: SparseMdp, lower: Float64s, upper: Float64s, steps: int, *, minimise: bool, budget: Budget = UNLIMITED
) -> tuple[Float64s, Float64s]:
    """Return bounds on the expected value `steps` steps later; a deadlock stays where it is."""
    widest = int(np.diff(mdp.branch_start).max()) if mdp.choices else 1
    factor = (widest + 2) * 2.0**-52
    has_choice = np.diff(mdp.choice_start) > 0
    first_choice = mdp.choice_start[:-1][has_choice].astype(np.int64)
    best = np.minimum if minimise else np.maximum
    bounds = []
    for value, scale in ((lower, 1 - factor), (upper, 1 + factor)):
        current = value.astype(np.float64, copy=True)
        for _ in range(steps):
            budget.check()
            if mdp.choices:
                current[has_choice] = best.reduceat(mdp.expected(current) * scale, first_choice)
        bounds.append(current)
    return bounds[0], bounds[1]


def step_back_exactly(
    mdp: SparseMdp,
    worth: list[Fraction],
    steps: int,
    *,
    minimise: bool,
    goal: Mask | None = None,
    budget: Budget = UNLIMITED,
) -> list[Fraction]:
    """Return the exact expected value `steps` steps later; runs stop in the goal."""
    chances = mdp.exact_probabilities()
    starts, targets, choices = mdp.branch_start.tolist(), mdp.target.tolist(), mdp.choice_start.tolist()
    best = min if minimise else max
    for _ in range(steps):
        budget.check()
        worth = [
            worth[state]
            if goal is not None and goal[state]
            else best(
                (
                    sum((chances[b] * worth[targets[b]] for b in range(starts[c], starts[c + 1])), Fraction(0))
                    for c in range(choices[state], choices[state + 1])
                ),
                default=worth[state],
            )
            for state in range(mdp.states)
        ]
    return worth
