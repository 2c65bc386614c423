"""Tree ensembles trained on sets: any of a row's acceptable outputs is right, and which of them is taken is left to the trees.

The loss of a row is minus the logarithm of the probability of all its acceptable outputs together, among the allowed ones, where
probabilities are the softmax of the scores. A label per row would have to break ties, and ties broken in ways that the inputs do
not show cannot be learnt.
Source   partial-label learning (Jin and Ghahramani, Learning with multiple labels, 2002), as an objective of gradient boosting
         (Chen and Guestrin, XGBoost, 2016)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.policy.boosting import Growth, grow
from polvet.policy.protocol import Mask, Rows
from polvet.policy.trees import TreeEnsemble

LEAST_CURVATURE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Rows with the outputs that may be taken, and those of them that are right."""

    rows: Rows
    allowed: Mask
    right: Mask

    def __len__(self) -> int:
        return len(self.rows)


def set_loss(scores: NDArray[np.float64], lessons: Lessons) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the gradient and the (diagonal, positive) curvature of the loss of each row.

    >>> lessons = Lessons(np.zeros((1, 1), np.float32), np.array([[True, True, True, False]]), np.array([[True, True, False, False]]))
    >>> [part.round(3).tolist() for part in set_loss(np.zeros((1, 4)), lessons)]
    [[[-0.167, -0.167, 0.333, 0.0]], [[0.444, 0.444, 0.444, 0.0]]]
    """
    chances = _softmax(scores, lessons.allowed)
    gradient = chances - _softmax(scores, lessons.right)
    return gradient, np.maximum(2.0 * chances * (1.0 - chances), LEAST_CURVATURE)


def train_on_sets(
    lessons: Lessons,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    growth: Growth | None = None,
    *,
    budget: Budget = UNLIMITED,
) -> TreeEnsemble:
    """Return an ensemble that learnt to take right outputs; equal lessons give equal ensembles."""

    def objective(scores: NDArray[np.float32], _: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return set_loss(scores.reshape(lessons.allowed.shape).astype(np.float64), lessons)

    names, first = (inputs, outputs), lessons.right.argmax(axis=1)
    return grow(lessons.rows, first, names, growth or Growth(), objective=objective, budget=budget).policy


def _softmax(scores: NDArray[np.float64], among: Mask) -> NDArray[np.float64]:
    """Return probabilities among the given outputs of each row, 0 elsewhere."""
    kept = np.where(among, scores, -np.inf)
    powers = np.exp(kept - kept.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
