"""Repair by one new tree per fault: the simple method that does not generalise.

Source   section 5.1 and Theorem 4: the tree is 0 everywhere but in the fault's state, where it moves one action's score by more
         than all scores can differ. Mode `avoid` penalises the faulty action, as in the paper.
Differs  mode `safe` rewards the safe action that leads best, by the same number
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.policy.trees import VECTOR, Tree, TreeEnsemble
from polvet.repair.demands import Demands, Mode
from polvet.repair.leaf_values import leaf_change
from polvet.repair.method import Change, Method, Request
from polvet.repair.new_trees import moving_outputs, penalty, point_shape, round_of_trees, without_idle_trees


def add_penalty_trees(
    ensemble: TreeEnsemble, demands: Demands, bad: Sequence[int], mode: Mode, integers: Sequence[bool]
) -> TreeEnsemble:
    """Return the ensemble with a penalty tree for every row with a demand that is not met; `bad` are the faulty actions."""
    amount = penalty(ensemble)
    movable = moving_outputs(ensemble)
    scores = ensemble.scores(demands.rows).astype(np.float64)
    best = np.where(demands.targets, scores, -np.inf).argmax(axis=1)
    met = demands.met_by(ensemble)
    wrong = {row.tobytes() for row in demands.rows[~met]}
    seen: set[tuple[bytes, int | None]] = set()
    added: list[Tree] = []
    rounds = ensemble.in_rounds or any(tree.output == VECTOR for tree in ensemble.trees)
    for k in range(len(demands)):
        row = demands.rows[k].tobytes()
        if row not in wrong or not demands.targets[k].any():
            continue
        rewarded = (
            mode == "safe" or demands.rivals[k].sum() > 1
        )  # raw choice: labels that are not applicable are rivals
        output, value = (int(best[k]), -amount) if rewarded else (int(bad[k]), amount)
        # Every faulty action of a state is penalised, its choice or not: it must not become the choice.
        if (key := (row, None if rewarded else output)) in seen:
            continue
        seen.add(key)
        if output not in movable:  # a constant score: the other one moves
            output, value = 1 - output, -value
        shape, leaves = point_shape(demands.rows[k : k + 1], integers, ensemble.comparison)
        values = np.zeros((len(shape.feature), len(ensemble.outputs)))
        values[leaves[0], output] = value
        if rounds:
            added += round_of_trees(ensemble, shape, values)
        else:
            added.append(shape.tree(output, values[:, output]))
    return without_idle_trees(ensemble.with_trees([*ensemble.trees, *added]), len(ensemble.trees))


def _penalty(request: Request) -> Change:
    policy: TreeEnsemble = request.policy
    bad = [policy.outputs.index(fault.action) for fault in request.faults]
    ensemble = add_penalty_trees(policy, request.demands, bad, request.mode, request.integers)
    return Change(ensemble, leaf_change(policy, ensemble), trees_added=len(ensemble.trees) - len(policy.trees))


PENALTY = Method(
    "penalty",
    "one tree per fault that is 0 elsewhere (`repair/penalty_trees.py`): does not generalise",
    (TreeEnsemble,),
    _penalty,
)
