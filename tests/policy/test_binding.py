"""Fitting a policy to a task: whose names hold, and what does not fit is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from polvet.errors import InputError
from polvet.model.build import ModelBuilder
from polvet.model.task import PolicyReading
from polvet.policy.binding import UNKNOWN_LABEL, fit, label_edges
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from tests.policy.worlds import reached, worlds


def two_variables(reading=None):
    m = ModelBuilder("two")
    x = m.int("x", 0, 3, initial=0)
    m.bool("y", initial=False)
    m.edge("go", guard=x < 3, to={"x": x + 1})
    m.edge("flip", guard=True, to={"y": "!y"})
    task = m.task(fail=x == 3)
    return task if reading is None else replace(task, reading=reading)


def scorer(inputs=None, outputs=None, *, width=2, labels=2):
    return network_of([(np.eye(labels, width), np.zeros(labels))], inputs, outputs)


def test_nameless_columns_take_the_models_order():
    fitted = fit(two_variables(), scorer())
    assert fitted.policy.inputs == ("x", "y")
    assert fitted.policy.outputs == fitted.task.network.labels
    assert (fitted.inputs_from, fitted.outputs_from) == ("model", "model")


def test_the_policys_own_names_hold_and_the_tasks_are_stronger():
    own = fit(two_variables(), scorer(["y", "x"], ["flip", "go"]))
    assert own.policy.inputs == ("y", "x")
    assert own.inputs_from == own.outputs_from == "policy"
    reading = PolicyReading("raw", ("x", "y"), ("go", "flip"))
    given = fit(two_variables(reading), scorer(["y", "x"], ["flip", "go"]))
    assert given.policy.inputs == ("x", "y")
    assert given.policy.outputs == ("go", "flip")
    assert not given.filtered


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (lambda: scorer(["x", "z"], ["go", "flip"]), "'z', which is no variable"),
        (lambda: scorer(["x", "y"], ["go", "flap"]), "'flap', which is no label.*flip"),
        (lambda: scorer(width=3), "3 nameless inputs.*2 variables: x, y"),
        (lambda: scorer(["x", "y"], labels=3), "3 nameless outputs.*2 labels"),
    ],
)
def test_what_does_not_fit_is_named(policy, named):
    with pytest.raises(InputError, match=named):
        fit(two_variables(), policy())


def test_labels_without_an_output_are_told_and_never_chosen():
    fitted = fit(two_variables(), scorer(["x", "y"], ["go"], labels=1))
    assert fitted.unscored == ("flip",)
    assert fitted.choose((0, False), ("go", "flip")) == "go"
    assert fitted.choose((3, False), ("flip",)) is None


def test_an_output_for_an_action_no_operator_has_is_never_applicable():
    task = two_variables()
    model = replace(task.network.model, actions=(*task.network.model.actions, "idle"))
    network = replace(task.network, model=model)
    fitted = fit(replace(task, network=network), scorer(["x", "y"], ["go", "idle"]))
    assert UNKNOWN_LABEL in fitted.labels
    assert fitted.choose((0, True), ("go",)) == "go"


def test_edges_of_a_model_without_labels_are_chosen_by_number():
    m = ModelBuilder("silent")
    x = m.int("x", 0, 3, initial=0)
    m.edge(None, guard=x < 3, to={"x": x + 1})
    m.edge(None, guard=x > 0, to={"x": x - 1})
    task = m.task(fail=x == 3)
    fitted = fit(task, network_of([([[0.0], [1.0]], [0.5, 0.0])]))
    assert fitted.outputs_from == "edges"
    assert fitted.task.network.labels == ("#0", "#1")
    assert fitted.choose((0,), ("#0",)) == "#0"
    assert fitted.choose((1,), ("#0", "#1")) == "#1"
    with pytest.raises(InputError, match="has labels"):
        label_edges(two_variables().network)


@pytest.mark.slow
@given(worlds())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_kernel_reads_states_as_the_slow_row_does(world):
    assume(world is not None)
    bound = compile_policy(world.fitted)
    states = reached(world)
    rows = bound.core.rows(bound.compiled.pack(states))
    expected = np.concatenate([world.fitted.row(state) for state in states])
    assert rows.tobytes() == expected.tobytes()
