"""Of a fault's safe actions those are kept after which the policy reaches the goal."""

from __future__ import annotations

from polvet.debug.prospects import goal_prospects, prefer_goal
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.records.fault_files import Fault

FAULT = Fault((0,), "jump", ("left", "right"), ((9,),))


def crossroads(goal: bool):
    """From 0, `jump` fails, `left` gets lost at 1, `right` reaches 3 by way of 2."""
    m = ModelBuilder("crossroads")
    x = m.int("x", 0, 9, initial=0)
    for label, source, target in (("jump", 0, 9), ("left", 0, 1), ("right", 0, 2), ("left", 1, 1), ("right", 2, 3)):
        m.edge(label, guard=x == source, to={"x": target})
    task = m.task(fail=x == 9, goal=x == 3) if goal else m.task(fail=x == 9)
    order = ("jump", "left", "right")
    return compile_policy(
        fit(task, CallablePolicy(("x",), order, lambda state: {0: "jump", 1: "left"}.get(state["x"], "right")))
    )


def test_the_share_of_runs_to_the_goal_is_that_of_each_action():
    assert goal_prospects(crossroads(True), [FAULT], max_steps=20, seed=0) == [{"left": 0.0, "right": 1.0}]


def test_only_actions_that_lead_on_are_left_to_choose_from():
    (found,) = prefer_goal(crossroads(True), [FAULT], max_steps=20, seed=0)
    assert found.safe_actions == ("right",)


def test_without_a_goal_all_safe_actions_stay():
    assert prefer_goal(crossroads(False), [FAULT], max_steps=20, seed=0) == [FAULT]
