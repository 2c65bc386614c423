"""Repair of tree ensembles: every fault is fixed bit for bit, nothing is changed more than it must be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.policy.binding import fit, load_fitted
from polvet.policy.save import save_policy
from polvet.policy.trees import reference_scores
from polvet.repair.repair import Options, repair
from tests.repair.ensembles import LABELS, SIZE, applicable, grid_task, random_ensemble, random_faults

TASK = grid_task()
KINDS = st.sampled_from(["scalar", "vector", "double", "binary"])
EVERYWHERE = [(x, y) for x in range(SIZE) for y in range(SIZE)]


def chosen_slowly(policy, state):
    """The choice by the slow evaluation of the ensemble."""
    scores = reference_scores(policy, np.array([state], dtype=np.float32))[0]
    best = None
    for k, label in enumerate(policy.outputs):
        if label in applicable(state) and (best is None or scores[k] > scores[best]):
            best = k
    return policy.outputs[best]


def is_fixed(policy, fault, mode):
    label = chosen_slowly(policy, fault.state)
    return label in fault.safe_actions if mode == "safe" else label != fault.action


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    KINDS,
    st.integers(1, 12),
    st.sampled_from(["safe", "avoid"]),
    st.sampled_from(["leaves", "tree", "penalty"]),
)
def test_every_fault_is_fixed_in_the_policys_own_arithmetic(seed, kind, count, mode, method):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, kind))
    faults = random_faults(rng, fitted, count)
    made = repair(fitted, faults, Options(method=method, mode=mode))
    assert len(made.fixed) + len(made.left) == len(faults)
    assert not made.left
    assert all(is_fixed(made.policy, fault, mode) for fault in faults)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), KINDS, st.integers(1, 8), st.sampled_from(["leaves", "milp", "tree", "penalty"]))
def test_a_state_with_several_faulty_actions_takes_none_of_them(seed, kind, count, method):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, kind))
    first = random_faults(rng, fitted, count)
    more = [
        replace(fault, action=other)
        for fault in first
        for other in applicable(fault.state)
        if other in fitted.policy.outputs and other not in (fault.action, *fault.safe_actions)
    ]
    made = repair(fitted, [*first, *more], Options(method=method, mode="avoid"))
    assert not made.left
    assert all(is_fixed(made.policy, fault, "avoid") for fault in [*first, *more])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["scalar", "vector"]), st.integers(1, 8))
def test_penalty_trees_change_nothing_but_the_faults(seed, kind, count):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, kind))
    faults = random_faults(rng, fitted, count)
    made = repair(fitted, faults, Options(method="penalty", mode="avoid"))
    assert made.trees_added == len(faults)
    rows = np.array([s for s in EVERYWHERE if s not in {f.state for f in faults}], dtype=np.float32)
    assert np.array_equal(fitted.policy.scores(rows), made.policy.scores(rows))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), KINDS, st.integers(1, 6), st.sampled_from(["leaves", "tree"]))
def test_with_no_loss_allowed_no_kept_state_changes(seed, kind, count, method):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, kind))
    faults = random_faults(rng, fitted, count)
    kept = [s for s in EVERYWHERE if s not in {f.state for f in faults}]
    made = repair(fitted, faults, Options(keep=kept, max_goal_loss=0.0, method=method))
    assert not made.left
    assert made.retention.states == len([s for s in kept if set(applicable(s)) & set(fitted.policy.outputs)])
    assert made.retention.changed == 0
    assert all(
        chosen_slowly(made.policy, s) == chosen_slowly(fitted.policy, s)
        for s in kept
        if s[1] < SIZE - 1 or s[0] < SIZE - 1
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), KINDS, st.integers(8, 20))
def test_many_conflicting_faults_get_one_tree(seed, kind, count):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, kind))
    faults = random_faults(rng, fitted, count)
    kept = [s for s in EVERYWHERE if s not in {f.state for f in faults}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polvet.repair.leaves.MANY", 3)
        made = repair(fitted, faults, Options(keep=kept, max_goal_loss=0.0))
    assert not made.left
    assert made.retention.changed == 0
    assert all(is_fixed(made.policy, fault, "safe") for fault in faults)
    assert made.trees_added <= len(fitted.policy.outputs)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), KINDS, st.integers(2, 12))
def test_a_tree_grows_for_the_faults_that_are_left_only(seed, kind, count):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, kind))
    faults = random_faults(rng, fitted, count)
    first = repair(fitted, faults[1:], Options(method="tree"))
    again = repair(fit(TASK, first.policy), faults[1:], Options(method="tree"))
    assert again.trees_added == 0
    rows = np.array(EVERYWHERE, dtype=np.float32)
    assert np.array_equal(again.policy.scores(rows), first.policy.scores(rows))
    kept = [s for s in EVERYWHERE if s not in {f.state for f in faults}]
    both = repair(fit(TASK, first.policy), faults, Options(keep=kept, method="tree"))
    assert all(is_fixed(both.policy, fault, "safe") for fault in faults)
    assert both.retention.changed == 0


def exact_change(ensemble, faults, mode, margin):
    """The least L1 change of leaf values that fixes the faults: every choice of targets, each a linear program of its own."""
    from scipy.optimize import linprog

    rows = np.array([fault.state for fault in faults], dtype=np.float32)
    nodes = ensemble.leaf_nodes(rows)
    scores = ensemble.scores(rows).astype(np.float64)
    places = sorted({(t, n) for k in range(len(faults)) for t, n in enumerate(nodes[k])})
    number = {place: k for k, place in enumerate(places)}
    wide = len(places)

    def part(k, label):
        line = np.zeros(wide)
        for t, tree in enumerate(ensemble.trees):
            if ensemble.outputs[tree.output] == label:
                line[number[t, nodes[k][t]]] += 1
        return line

    options = []
    for k, fault in enumerate(faults):
        labels = [label for label in applicable(fault.state) if label in ensemble.outputs]
        targets = [t for t in labels if (t in fault.safe_actions if mode == "safe" else t != fault.action)]
        rivals = [r for r in labels if r not in targets] if mode == "safe" else [fault.action]
        options.append([[(k, t, r) for r in rivals] for t in targets])
    best = np.inf
    for chosen in product(*options):
        lines, need = [], []
        for k, target, rival in (item for group in chosen for item in group):
            difference = part(k, target) - part(k, rival)
            lines.append(-np.concatenate([difference, -difference]))
            old = scores[k][ensemble.outputs.index(target)] - scores[k][ensemble.outputs.index(rival)]
            need.append(old - margin)
        answer = linprog(np.ones(2 * wide), A_ub=np.array(lines), b_ub=np.array(need), bounds=(0, None))
        if answer.status == 0:
            best = min(best, answer.fun)
    return best


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from(["safe", "avoid"]))
def test_the_change_is_the_enumerated_optimum_or_the_gap_holds(seed, count, mode):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, "scalar", rounds=1))
    faults = random_faults(rng, fitted, count)
    made = repair(fitted, faults, Options(mode=mode))
    best = exact_change(fitted.policy, faults, mode, 1e-5)
    if np.isinf(best):
        assert made.trees_added > 0
        return
    if made.trees_added:
        return  # new trees have other optima
    assert made.objective >= best - 1e-6
    assert made.bound is not None
    assert made.bound <= best + 1e-6
    assert made.objective <= best + 1e-4 or made.gap > 0


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["highs", "scip"]))
def test_the_big_m_program_finds_the_enumerated_optimum(seed, count, solver):
    if solver == "scip":
        pytest.importorskip("pyscipopt")
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_ensemble(rng, "scalar", rounds=1))
    faults = random_faults(rng, fitted, count)
    made = repair(fitted, faults, Options(mode="avoid", method="milp", solver=solver))
    best = exact_change(fitted.policy, faults, "avoid", 1e-5)
    if np.isfinite(best) and not made.trees_added:
        assert made.objective == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("method", ["leaves", "milp", "penalty"])
def test_equal_inputs_give_byte_equal_files(tmp_path, method):
    rng = np.random.default_rng(7)
    fitted = fit(TASK, random_ensemble(rng))
    faults = random_faults(rng, fitted, 8)
    for name in ("one.json", "two.json"):
        save_policy(repair(fitted, faults, Options(method=method, keep=EVERYWHERE)).policy, tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_states_with_one_output_configuration_are_separated():
    """Two faults in the same leaves, each with the other's action as its only way out."""
    from polvet.policy.trees import TreeEnsemble, make_tree
    from polvet.records.fault_files import Fault

    stumps = [make_tree(k, [-1], [0], [-1], [-1], [value]) for k, value in enumerate((0.5, 0.4, 0.0))]
    fitted = fit(TASK, TreeEnsemble(("x", "y"), LABELS, tuple(stumps), (0.0, 0.0, 0.0)))
    faults = [Fault((1, 1), "a", ("b",), ()), Fault((1, 2), "a", ("c",), ())]
    made = repair(fitted, faults)
    assert not made.left
    assert 0 < made.trees_added <= 3
    assert [chosen_slowly(made.policy, fault.state) for fault in faults] == ["b", "c"]


def test_a_fault_without_a_safe_output_is_left_with_a_reason():
    from polvet.records.fault_files import Fault

    rng = np.random.default_rng(3)
    fitted = fit(TASK, random_ensemble(rng, "binary"))
    fault = random_faults(rng, fitted, 1)[0]
    made = repair(fitted, [Fault(fault.state, fault.action, ("c",), ())])
    assert not made.fixed
    assert "no output" in made.left[0].reason


def test_a_repaired_ensemble_is_the_same_after_saving(tmp_path):
    rng = np.random.default_rng(11)
    fitted = fit(TASK, random_ensemble(rng))
    faults = random_faults(rng, fitted, 10)
    made = repair(fitted, faults, Options(keep=EVERYWHERE, max_goal_loss=0.0))
    save_policy(made.policy, tmp_path / "p.json")
    read = load_fitted(TASK, tmp_path / "p.json")
    rows = np.array(EVERYWHERE, dtype=np.float32)
    assert np.array_equal(read.policy.scores(rows), made.policy.scores(rows))
