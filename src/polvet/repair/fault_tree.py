"""Many conflicting faults at once: one decision tree over faults and kept states, whose leaves put the actions in order.

Source   section 5.3 adds a tree that separates conflicting faults and solves the program again
Differs  the tree is grown until each leaf has an order of the actions that serves all its demands (`serving_order`), and the
         least values that bring the order about are its leaf values (`_values`): no program is solved, and what is kept or
         fixed already is separated from faults by the same splits; leaves without a fault to fix change nothing. Linear
         programs of thousands of conflicting faults take minutes; this, seconds
Cost     O(depth * demands * inputs * actions)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from polvet.policy.trees import TreeEnsemble
from polvet.repair.demands import Demands, Flags, Reals, join
from polvet.repair.new_trees import moving_outputs, round_of_trees, separating_shape, wishes


def add_fault_tree(ensemble: TreeEnsemble, faults: Demands, keeps: Demands) -> TreeEnsemble:
    """Return the ensemble with one more tree that meets all demands by their margins, in real arithmetic."""
    both = join(faults, keeps)
    one_group = np.zeros(len(both), dtype=np.intp)
    met = np.concatenate([faults.met_by(ensemble), np.ones(len(keeps), dtype=np.bool_)])
    shape, leaf_of = separating_shape(both, one_group, wishes(ensemble, both), ensemble.comparison, met)
    scores = ensemble.scores(both.rows).astype(np.float64)
    values = np.zeros((len(shape.feature), len(ensemble.outputs)))
    for leaf in np.unique(leaf_of[~met]).tolist():  # in others nothing is to change
        members = np.flatnonzero(leaf_of == leaf)
        values[leaf] = _values(both.pick(members), scores[members])
    if moving_outputs(ensemble) == [1]:  # the first score is constant: only the difference counts
        values[:, 1] -= values[:, 0]
    return ensemble.with_trees([*ensemble.trees, *round_of_trees(ensemble, shape, values * (ensemble.divisor or 1.0))])


def serving_order(targets: Flags, rivals: Flags) -> list[npt.NDArray[np.intp]]:
    """Return actions in ranks, the first ranks leading: every demand has a target before all its rivals.

    A rank holds the actions that no open demand has as a rival; the demands that have one of them as a target are served.

    >>> [rank.tolist() for rank in serving_order(np.array([[0, 1], [1, 0]]) == 1, np.array([[0, 0], [0, 1]]) == 1)]
    [[0], [1]]
    """
    ranks = []
    open_ = np.arange(len(targets))
    while len(open_):
        free = np.flatnonzero(~rivals[open_].any(axis=0) & targets[open_].any(axis=0))
        served = targets[open_][:, free].any(axis=1)
        if not served.any():
            raise AssertionError("a leaf of a separating tree holds no conflict")
        ranks.append(free)
        open_ = open_[~served]
    return ranks


def _values(demands: Demands, scores: Reals) -> Reals:
    """Return the least values of the actions, rank by rank from the last, with which all demands are met."""
    values = np.zeros(scores.shape[1])
    ranks = serving_order(demands.targets, demands.rivals)
    rank_of = np.full(scores.shape[1], len(ranks))
    for number, rank in reversed(list(enumerate(ranks))):
        rank_of[rank] = number
    first = np.where(demands.targets, rank_of, len(ranks)).min(axis=1)  # the rank that serves the demand
    for number, rank in reversed(list(enumerate(ranks))):
        who = np.flatnonzero(first == number)
        if not len(who):
            continue
        led = np.where(demands.rivals[who], scores[who] + values, -np.inf).max(axis=1)
        own = np.where(demands.targets[who][:, rank], scores[who][:, rank], -np.inf).max(axis=1)
        values[rank] = max(0.0, float((led + demands.margin[who] - own).max()))
    return values
