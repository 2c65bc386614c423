"""Tree ensembles by imitation: XGBoost learns which label the teacher takes, from the states of the teacher's runs.

Source   the paper on safety debugging trains its ensembles so: 1,000 teacher runs from random starts, depth 5, 20 rounds,
         learning rate 0.4
Differs  the teacher is a scheduler by value iteration where the state space is small, else any policy or random choice
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.policy.boosting import Growth, grow
from polvet.policy.trees import TreeEnsemble

OF_THE_PAPER = Growth(depth=5, rounds=20)


@dataclass(frozen=True, slots=True, eq=False)
class Imitated:
    """The ensemble, how often it agrees with its lessons, and the loss after each round."""

    policy: TreeEnsemble
    accuracy: float
    curve: tuple[float, ...]


def imitate(
    rows: NDArray[np.float32],
    taught: NDArray[np.int64],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    growth: Growth = OF_THE_PAPER,
    budget: Budget = UNLIMITED,
) -> Imitated:
    """Return an ensemble that learnt from rows to take the taught outputs."""
    if not len(rows):
        raise InputError(
            "there is nothing to learn from: no run of the teacher makes a decision.",
            hint="Give more --runs, or another --teacher.",
        )
    grown = grow(rows, taught, (inputs, outputs), growth, budget=budget)
    accuracy = float((grown.policy.choose(rows) == taught).mean())
    return Imitated(grown.policy, accuracy, tuple(round(loss, 6) for loss in grown.losses))
