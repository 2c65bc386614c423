"""The loop turns to retraining by itself, once, where repairs leave starts unsafe that nobody debugged on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polvet.campaign.loop import debug
from polvet.campaign.settings import Settings
from polvet.domains import generate
from polvet.policy.save import save_policy
from polvet.sources import load_task
from tests.repair.test_retrain import poor_policy

SETTINGS = Settings(starts=8, runs=2, iterations=4, verify="never")


@pytest.fixture(scope="module")
def beluga(tmp_path_factory):
    """Eight of 24 orders are debugged on, eight others are evaluated on."""
    folder = tmp_path_factory.mktemp("beluga")
    _, file = generate("beluga", jigs=4).write(folder / "task.jani")
    task = load_task(file)
    save_policy(poor_policy(task), folder / "policy.json")
    return task, folder / "policy.json"


def course(ended):
    steps = {(one.iteration, one.line()["step"]): one.figures for one in ended.records}
    methods = [steps[k, "repair"].method for k in range(10) if (k, "repair") in steps]
    return methods, [steps[k, "evaluate"].unsafe_percent for k in range(10) if (k, "evaluate") in steps]


def test_where_repairs_do_not_generalise_the_policy_is_taught_anew(beluga, tmp_path):
    methods, unsafe = course(debug(*beluga, tmp_path / "d", SETTINGS))
    taught = methods.index("retrain")
    assert taught >= 3
    assert methods.count("retrain") == 1
    assert unsafe[taught] >= max(20, unsafe[0] / 2)
    assert unsafe[taught + 1] < unsafe[taught]


def test_nobody_who_names_a_method_gets_another_one(beluga, tmp_path):
    methods, _ = course(debug(*beluga, tmp_path / "d", replace(SETTINGS, method="tree")))
    assert set(methods) == {"tree"}
    assert len(methods) > 3
