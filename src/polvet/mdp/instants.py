"""Values after a fixed number of steps, by going back step by step: instantaneous rewards, and `U` that starts late.

Rounding  every step multiplies the bounds outward by (1 ± (d + 2) 2^-52) for d branches at most: a sum of d products of
          non-negative doubles, each probability half a unit off, is never further from the exact one.
"""

from __future__ import annotations

import numpy as np

from polvet.mdp.sparse import Float64s, SparseMdp


def step_back(
    mdp: SparseMdp, lower: Float64s, upper: Float64s, steps: int, *, minimise: bool
) -> tuple[Float64s, Float64s]:
    """Return bounds on the expected value `steps` steps later; a deadlock stays where it is."""
    widest = int(np.diff(mdp.branch_start).max()) if mdp.choices else 1
    factor = (widest + 2) * 2.0**-52
    has_choice = np.diff(mdp.choice_start) > 0
    first_choice = mdp.choice_start[:-1][has_choice].astype(np.int64)
    first_branch = mdp.branch_start[:-1].astype(np.int64)
    best = np.minimum if minimise else np.maximum
    bounds = []
    for value, scale in ((lower, 1 - factor), (upper, 1 + factor)):
        current = value.astype(np.float64, copy=True)
        for _ in range(steps):
            if mdp.choices:
                sums = np.add.reduceat(mdp.probability * current[mdp.target], first_branch) * scale
                current[has_choice] = best.reduceat(sums, first_choice)
        bounds.append(current)
    return bounds[0], bounds[1]
