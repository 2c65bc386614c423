"""Fences: a policy that never takes an exit, that is an action that may leave what is won (`safety/exits.py`).

A tree ensemble gets one more tree over the few variables that decide, a network one gated unit for each box of cells
(`gated_units.py`): in cells where an action is an exit, its score falls by more than all scores can differ. Everywhere else, and for
all other actions, the scores stay what they are, bit for bit. So the policy does what it did, but for the next best action in
place of an exit; and a proof over these few variables goes through.
Over real values (`safety/real_exits.py`) the tree tells cells apart by the float32 inputs at which they begin.
Limits   tree ensembles, and over integers networks, that read all of these variables
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.check.invariant_space import variable_bounds
from polvet.kernel.compiled import Compiled
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.compiled import Bound
from polvet.policy.networks import Network
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork, UnitGraph
from polvet.records.fault_files import Fault
from polvet.repair.demands import Reals
from polvet.repair.gated_units import add_box_gates, score_spread
from polvet.repair.leaf_values import leaf_change
from polvet.repair.method import Change
from polvet.repair.new_trees import moving_outputs, penalty, pure_shape, round_of_trees, without_idle_trees
from polvet.repair.repair import Repaired, judged
from polvet.safety.exits import Exits, least_of
from polvet.safety.real_exits import RealExits, exits_of
from polvet.symbolic.linear import NotLinear


def fence_exits(bound: Bound, *, budget: Budget = UNLIMITED) -> tuple[Exits | RealExits | None, Repaired | str]:
    """Return the exits from what is won and the policy fenced against them, or why there is none."""
    try:
        exits = exits_of(bound.fitted.task, budget)
    except NotLinear as refusal:
        return None, refusal.why
    if isinstance(exits, str):
        return None, exits
    return exits, fence(bound.fitted, exits, [], bound.compiled)


def fence(fitted: Fitted, exits: Exits | RealExits, faults: Sequence[Fault], compiled: Compiled) -> Repaired | str:
    """Return the fenced policy, with the faults it leaves fixed; or why there is none."""
    policy = fitted.policy
    if not fitted.is_plain:
        return "an input of the policy is computed"
    missing = [fitted.task.network.variables[place].name for place in exits.variables if place not in fitted.variables]
    if missing:
        return f"the policy does not read {', '.join(missing)}"
    match policy:
        case TreeEnsemble():
            trees = fence_of_trees(policy, fitted, exits)
            added = sum(len(tree.feature) > 1 for tree in trees.trees[len(policy.trees) :])
            change = Change(trees, leaf_change(policy, trees), trees_added=added)
        case Network() | UnitGraph() if policy.archive is not None:
            return f"{policy.archive.kind} has no room for the units of a fence"
        case Network() | UnitGraph() if isinstance(exits, RealExits):
            return "a network gets no fence over real values"
        case Network() | UnitGraph():
            assert isinstance(exits, Exits)
            network, shifts = fence_of_units(policy, fitted, exits)
            change = Change(network, float(np.abs(shifts).sum()), units_added=len(shifts))
        case _:
            return f"a {type(policy).__name__} gets no fence"
    return judged(fitted, faults, change, "fence", compiled)


def fence_of_trees(policy: TreeEnsemble, fitted: Fitted, exits: Exits | RealExits) -> TreeEnsemble:
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


def fence_of_units(policy: AnyNetwork, fitted: Fitted, exits: Exits) -> tuple[AnyNetwork, Reals]:
    """Return the network with gated units that forbid exits, and by how much each of them moves the scores."""
    variables = fitted.task.network.variables
    least = [least_of(variables[place]) for place in exits.variables]
    columns = [fitted.variables.index(place) for place in exits.variables]
    boxes = [
        (output, low, high)
        for output, label in enumerate(fitted.labels)
        if label != UNKNOWN_LABEL
        for low, high in exits.boxes(label)
    ]
    lower = np.full((len(boxes), len(fitted.variables)), -np.inf, dtype=np.float32)
    upper = -lower
    shifts = np.zeros((len(boxes), len(policy.outputs)))
    # Exits are found where all variables have bounds.
    ends = np.array([variable_bounds(variables[place]) for place in fitted.variables], dtype=np.float64)
    spread = score_spread(policy, ends[:, 0], ends[:, 1])
    for k, (output, low, high) in enumerate(boxes):
        lower[k, columns] = [a + b for a, b in zip(low, least, strict=True)]
        upper[k, columns] = [a + b for a, b in zip(high, least, strict=True)]
        shifts[k, output] = -spread
    return add_box_gates(policy, lower, upper, shifts, [True] * len(fitted.variables)), shifts
