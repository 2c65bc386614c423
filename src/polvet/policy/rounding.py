"""How far another float32 evaluation can get from a network's reference scores, and which choices that leaves open.

Source   N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, section 3.1: gamma_m = m u / (1 - m u)
         bounds the relative error of a sum of m summands in any order; magnitudes and distances are propagated per layer.
         Smooth units (`units`): the greatest derivative over the local range times the distance, plus the enclosure
Differs  a score whose intermediate values are exact in every order (small dyadic weights and integers) has the bound 0
Cost     about ten times a plain evaluation; `near_ties` only pays that where a coarse bound leaves doubt
Limits   round to nearest, no overflow (the bound is infinite where one may happen); underflow and flushing to zero are covered
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from polvet.policy.protocol import Mask, Policy, Rows, checked_choices, checked_mask, checked_rows
from polvet.policy.unit_graph import AnyNetwork


def rounding_bounds(policy: Policy, rows: Rows) -> npt.NDArray[np.float64]:
    """Return per score a bound on |score in any float32 evaluation - reference score|.

    Everything but a network has one evaluation order, so the bound is 0.
    """
    rows = checked_rows(policy, rows)
    if not isinstance(policy, AnyNetwork):
        return np.zeros((len(rows), len(policy.outputs)))
    _, bounds = policy.kernel.rounding_bounds(rows)
    return bounds


def possible_choices(policy: Policy, rows: Rows, applicable: Mask | None = None) -> Mask:
    """Return [n, outputs]: which outputs are the choice of some float32 evaluation order.

    SOUND: the reference choice is always among them; one True in a row means that every order chooses it.
    """
    rows = checked_rows(policy, rows)
    mask = checked_mask(policy, rows, applicable)
    if isinstance(policy, AnyNetwork):
        return policy.kernel.possible(rows, mask).view(np.bool_)
    choices = policy.choose(rows, applicable)
    return np.asarray(choices[:, None] == np.arange(len(policy.outputs)))


def near_ties(policy: Policy, rows: Rows, applicable: Mask | None = None) -> npt.NDArray[np.bool_]:
    """Return [n]: whether the choice depends on the evaluation order, as far as the bounds tell."""
    rows = checked_rows(policy, rows)
    if not isinstance(policy, AnyNetwork):
        return np.zeros(len(rows), dtype=np.bool_)
    choices, sure = policy.kernel.choose_surely(rows, checked_mask(policy, rows, applicable))
    checked_choices(policy, choices, rows)
    return ~sure.view(np.bool_)
