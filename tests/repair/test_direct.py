"""Repair of tables and rule lists: the fault's row or rule, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.model.task import PolicyReading
from polvet.policy.binding import fit, load_fitted
from polvet.policy.callables import CallablePolicy
from polvet.policy.rules import model_condition, rules_from_json
from polvet.policy.save import save_policy
from polvet.policy.tables import Table
from polvet.records.fault_files import Fault
from polvet.repair.repair import Options, repair
from tests.repair.ensembles import LABELS, SIZE, applicable, grid_task, random_faults

TASK = grid_task()
EVERYWHERE = [(x, y) for x in range(SIZE) for y in range(SIZE)]


def rules(*pairs):
    return rules_from_json({"rules": [{"when": w, "action": a} for w, a in pairs]}, Where("rules"), model_condition)


POLICIES = [
    lambda rng: Table(
        ("x", "y"),
        LABELS,
        {tuple(map(float, s)): tuple(rng.integers(0, 3, 3).astype(float).tolist()) for s in EVERYWHERE[::2]},
        1,
    ),
    lambda rng: rules(("x >= 3", "b"), ("true", "a")),
    lambda rng: rules(("true", "c")),
]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(POLICIES), st.integers(1, 10), st.sampled_from(["safe", "avoid"]))
def test_faults_are_fixed_and_other_states_keep_their_label(tmp_path_factory, seed, make, count, mode):
    rng = np.random.default_rng(seed)
    fitted = fit(TASK, make(rng))
    faults = faults_of(rng, fitted, count)
    made = repair(fitted, faults, Options(mode=mode, keep=EVERYWHERE))
    assert not made.left
    file = tmp_path_factory.mktemp("direct") / "policy.json"
    save_policy(made.policy, file)
    for policy in (fit(TASK, made.policy), load_fitted(TASK, file)):
        for fault in faults:
            label = policy.choose(fault.state, applicable(fault.state))
            assert label in fault.safe_actions if mode == "safe" else label not in (fault.action, None)
        own = {fault.state for fault in faults}
        for state in EVERYWHERE:
            if state not in own:
                labels = applicable(state)
                before = fitted.choose(state, labels)
                stuck = before is None and len(policy.policy.outputs) > len(fitted.policy.outputs)
                assert policy.choose(state, labels) == before or stuck


def faults_of(rng, fitted, count):
    if len(fitted.policy.outputs) == len(LABELS):
        return random_faults(rng, fitted, count)
    found = []
    for state in EVERYWHERE:  # a rule list may name fewer labels than the model has
        labels = applicable(state)
        chosen = fitted.choose(state, labels)
        others = [label for label in labels if label != chosen]
        if chosen is not None and others and len(found) < count:
            found.append(Fault(state, chosen, (others[-1],), ()))
    return found


def test_a_second_repair_of_rules_does_not_repeat_the_order_of_labels(tmp_path):
    fitted = fit(TASK, rules(("true", "a")))
    once = fit(TASK, repair(fitted, [Fault((0, 0), "a", ("b",), ())]).policy)
    twice = repair(once, [Fault((1, 1), "a", ("c",), ())]).policy
    assert sum(rule.when == "false" for rule in twice.rules) == 2
    again = fit(TASK, twice)
    assert again.choose((0, 0), ["a", "b", "c"]) == "b"
    assert again.choose((1, 1), ["a", "b", "c"]) == "c"


def test_rules_read_booleans_and_reals_exactly():
    m = ModelBuilder("mixed")
    v, on = m.real("v", 0.0, 1.0, initial=0.0), m.bool("on", initial=False)
    m.edge("up", guard=on, to={"v": 0.1})
    m.edge("stay", guard=True, to={"v": v})
    task = m.task(fail=v > 0.9)
    made = repair(fit(task, rules(("true", "up"))), [Fault((0.1, True), "up", ("stay",), ())])
    policy = fit(task, made.policy)
    assert policy.choose((0.1, True), ["up", "stay"]) == "stay"
    assert policy.choose((0.2, True), ["up", "stay"]) == "up"


def test_raw_choice_leads_everywhere_and_is_not_stuck():
    task = replace(TASK, reading=PolicyReading("raw"))
    table = Table(("x", "y"), LABELS, {}, 0)
    fault = Fault((2, SIZE - 1), "a", ("c",), ())
    made = repair(fit(task, table), [fault])
    assert fit(task, made.policy).choose(fault.state, applicable(fault.state)) == "c"


def test_what_cannot_be_repaired_is_refused_by_name():
    fitted = fit(TASK, CallablePolicy(("x", "y"), LABELS, lambda state: "a"))
    with pytest.raises(InputError, match="cannot be repaired"):
        repair(fitted, [])
    with pytest.raises(InputError, match="does not fit a Table"):
        repair(fit(TASK, Table(("x", "y"), LABELS, {}, 0)), [], Options(method="leaves"))
