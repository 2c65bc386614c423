"""Repair of networks: faults are fixed in every evaluation order, gates leave all other states bit for bit what they were."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.budget import Budget
from polvet.policy.binding import fit, load_fitted
from polvet.policy.networks import network_of, reference_scores
from polvet.policy.rounding import possible_choices
from polvet.policy.save import save_policy
from polvet.repair import demands
from polvet.repair.gated_units import add_gates
from polvet.repair.repair import Options, repair
from tests.policy.graphs import random_graph
from tests.repair.ensembles import LABELS, SIZE, applicable, grid_task, random_faults

TASK = grid_task()
EVERYWHERE = [(x, y) for x in range(SIZE) for y in range(SIZE)]
ROWS = np.array(EVERYWHERE, dtype=np.float32)


def random_network(rng, hidden):
    if hidden == "units":
        return random_graph(rng, ("x", "y"), LABELS)
    sizes = [2, *hidden, 3]
    return network_of([(rng.normal(size=(n, m)), rng.normal(size=n)) for m, n in pairwise(sizes)], ("x", "y"), LABELS)


HIDDEN = st.sampled_from([(), (5,), (5, 4), (5, 4, 3), "units", "units"])


def taken(policy, state):
    """Every label that some evaluation order takes."""
    mask = np.array([[label in applicable(state) for label in LABELS]])
    return {LABELS[k] for k in np.flatnonzero(possible_choices(policy, np.array([state], dtype=np.float32), mask)[0])}


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6), HIDDEN, st.integers(1, 10), st.sampled_from(["safe", "avoid"]), st.sampled_from([0.0, 1.0])
)
def test_every_fault_is_fixed_in_every_evaluation_order(seed, hidden, count, mode, loss):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, random_network(rng, hidden))
    faults = random_faults(rng, fitted, count)
    own = {fault.state for fault in faults}
    kept = [state for state in EVERYWHERE if state not in own]
    made = repair(fitted, faults, Options(mode=mode, keep=kept, max_goal_loss=loss))
    assert not made.left
    for fault in faults:
        labels = taken(made.policy, fault.state)
        assert labels <= set(fault.safe_actions) if mode == "safe" else fault.action not in labels
    if loss == 0.0:
        assert made.retention.changed == 0
        for state in kept:
            assert made.policy.choose(np.array([state], dtype=np.float32), mask(state)) == fitted.policy.choose(
                np.array([state], dtype=np.float32), mask(state)
            )


def mask(state):
    return np.array([[label in applicable(state) for label in LABELS]])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), HIDDEN, st.integers(1, 6))
def test_gates_move_the_scores_of_their_rows_only(seed, hidden, count):
    rng = np.random.default_rng(seed)
    network = random_network(rng, hidden)
    own = rng.permutation(len(ROWS))[:count]
    shifts = rng.normal(size=(count, 3))
    made = add_gates(network, ROWS[own], shifts, [True, True])
    others = np.delete(np.arange(len(ROWS)), own)
    if hidden != "units":
        assert np.array_equal(reference_scores(made, ROWS[others]), reference_scores(network, ROWS[others]))
    assert np.array_equal(made.scores(ROWS[others]), network.scores(ROWS[others]))
    expected = network.scores(ROWS[own]) + shifts.astype(np.float32)
    assert np.allclose(made.scores(ROWS[own]), expected, rtol=1e-5, atol=1e-5)


def test_gates_on_real_inputs_close_nearby():
    network = network_of([(np.eye(2), np.zeros(2)), (np.eye(2), np.zeros(2))])
    point = np.array([[0.3, 7.0]], dtype=np.float32)
    made = add_gates(network, point, np.array([[0.0, 5.0]]), [False, True])
    assert made.scores(point)[0].tolist() == [np.float32(0.3), 12.0]
    near = np.array([[0.3 + 2**-15, 7.0], [0.3, 8.0]], dtype=np.float32)
    assert np.array_equal(made.scores(near), network.scores(near))


def test_the_last_layer_alone_changes_where_nothing_is_kept():
    rng = np.random.default_rng(5)
    network = random_network(rng, (8, 8))
    fitted = fit(TASK, network)
    made = repair(fitted, random_faults(rng, fitted, 3), Options(keep=(), max_goal_loss=1.0))
    assert made.units_added == 0
    assert [layer.weights.shape for layer in made.policy.layers] == [layer.weights.shape for layer in network.layers]
    assert all(
        np.array_equal(new.weights, old.weights)
        for new, old in zip(made.policy.layers[:-1], network.layers[:-1], strict=True)
    )


def test_gates_keep_the_time_limit(monkeypatch):
    """Each row that a network is asked about takes a second here: the gates of a hundred faults would take hundreds."""
    rng = np.random.default_rng(3)
    fitted = fit(TASK, random_network(rng, (5,)))
    faults = random_faults(rng, fitted, 100)
    asked = []

    def slowly(policy, rows, allowed):
        asked.extend(rows)
        return possible_choices(policy, rows, allowed)

    monkeypatch.setattr(demands, "BLOCK", 1)
    monkeypatch.setattr(demands, "possible_choices", slowly)
    made = repair(fitted, faults, Options(method="units"), budget=Budget(20, clock=lambda: float(len(asked))))
    assert made.limit is not None
    assert made.limit.kind == "time"
    assert len(asked) == 20 + len(faults)  # which faults are left is looked at after the limit
    assert {fault.state for fault in made.fixed} == {
        fault.state for fault in faults if taken(fitted.policy, fault.state) <= set(fault.safe_actions)
    }


@pytest.mark.parametrize("ending", ["onnx", "nnet"])
@pytest.mark.parametrize("method", ["last-layer", "units"])
def test_a_repaired_network_is_the_same_after_saving(tmp_path, ending, method):
    rng = np.random.default_rng(9)
    fitted = fit(TASK, random_network(rng, (6, 6)))
    faults = random_faults(rng, fitted, 6)
    made = repair(fitted, faults, Options(method=method))
    file = tmp_path / f"p.{ending}"
    save_policy(made.policy, file)
    read = load_fitted(TASK, file)
    for fault in faults:
        assert read.choose(fault.state, applicable(fault.state)) in fault.safe_actions
    again = tmp_path / f"q.{ending}"
    save_policy(repair(fitted, faults, Options(method=method)).policy, again)
    assert file.read_bytes() == again.read_bytes()
