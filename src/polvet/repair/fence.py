"""Fences: a policy that never takes an exit, that is an action that may leave what is won (`safety/exits.py`).

A tree ensemble gets one more tree over the few variables that decide: in cells where an action is an exit, its score falls by
more than all scores can differ. Everywhere else, and for all other actions, the scores stay what they are, bit for bit. So the
policy does what it did, but for the next best action in place of an exit; and a proof over these few variables goes through.
Limits   tree ensembles that read all of these variables
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.evidence.fault_files import Fault
from polvet.kernel.compiled import Compiled
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.trees import TreeEnsemble
from polvet.repair.leaf_values import leaf_change
from polvet.repair.new_trees import moving_outputs, penalty, pure_shape, round_of_trees, without_idle_trees
from polvet.repair.repair import Made, Repaired, judged
from polvet.safety.exits import Exits


def fence(fitted: Fitted, exits: Exits, faults: Sequence[Fault], compiled: Compiled) -> Repaired | str:
    """Return the fenced policy, with the faults it leaves fixed; or why there is none."""
    policy = fitted.policy
    if not isinstance(policy, TreeEnsemble):
        return f"a {type(policy).__name__} gets no fence"
    missing = [fitted.task.network.variables[place].name for place in exits.variables if place not in fitted.variables]
    if missing:
        return f"the policy does not read {', '.join(missing)}"
    made = add_fence(policy, fitted, exits)
    added = sum(len(tree.feature) > 1 for tree in made.trees[len(policy.trees) :])
    return judged(fitted, faults, Made(made, leaf_change(policy, made), trees_added=added), "fence", compiled)


def add_fence(policy: TreeEnsemble, fitted: Fitted, exits: Exits) -> TreeEnsemble:
    """Return the ensemble with the tree that forbids exits."""
    forbidden = np.zeros((len(exits.cells), len(policy.outputs)), dtype=np.bool_)
    for output, label in enumerate(fitted.labels):
        if label != UNKNOWN_LABEL:
            forbidden[:, output] = exits.labels[:, label]
    rows = np.zeros((len(exits.cells), len(fitted.variables)), dtype=np.float32)
    for column, place in enumerate(exits.variables):
        rows[:, fitted.variables.index(place)] = exits.cells[:, column]
    _, kind_of = np.unique(forbidden, axis=0, return_inverse=True)
    shape, leaf_of = pure_shape(rows, np.asarray(kind_of, dtype=np.intp).reshape(-1), policy.comparison)
    values = np.zeros((len(shape.feature), len(policy.outputs)))
    values[leaf_of] = penalty(policy) * forbidden
    if moving_outputs(policy) == [1]:  # the first score is constant: only the difference counts
        values[:, 1] -= values[:, 0]
    trees = [*policy.trees, *round_of_trees(policy, shape, values)]
    return without_idle_trees(policy.with_trees(trees), len(policy.trees))
