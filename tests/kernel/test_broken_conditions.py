"""A condition that cannot be computed in a state is an error of the model there, on every road, whatever the other condition says."""

from __future__ import annotations

import pytest

import polvet
from polvet.errors import InputError

WORLD = """
mdp
module m
  x : [0..5] init 0;
  y : [0..3] init 2;
  [a] x < 5 -> (x' = x + 1) & (y' = max(y - 1, 0));
endmodule
"""
ROADS = {
    "decide": lambda task, policy: task.decide(),
    "verify": lambda task, policy: policy.verify(method="explicit"),
    "evaluate": lambda task, policy: policy.evaluate(),
    "simulate": lambda task, policy: policy.simulate(runs=3),
    "fuzz": lambda task, policy: policy.fuzz(runs=10),
    "faults": lambda task, policy: policy.faults(),
    "explore": lambda task, policy: policy.verify(max_risk="0.5"),
    "environment": lambda task, policy: [env := task.env(), env.reset(), [env.step(0) for _ in range(3)]],
}


@pytest.mark.parametrize("goal", [None, "x == 5", "x >= 4"])
@pytest.mark.parametrize("fail", ["x % y == 2", "x % y == 7"])  # y is 0 once x is 2
@pytest.mark.parametrize("road", ROADS)
def test_a_goal_does_not_hide_that_fail_cannot_be_computed(road, fail, goal, tmp_path):
    (tmp_path / "world.prism").write_text(WORLD)
    task = polvet.load(tmp_path / "world.prism", fail=fail, goal=goal)
    with pytest.raises(InputError, match=r"division.*x=2,y=0|zero"):
        ROADS[road](task, task.policy(lambda state: "a"))


@pytest.mark.parametrize("road", ROADS)
def test_a_run_that_ended_before_is_not_asked(road, tmp_path):
    (tmp_path / "world.prism").write_text(WORLD)
    task = polvet.load(tmp_path / "world.prism", fail="x % y == 2", goal="x == y")
    ROADS[road](task, task.policy(lambda state: "a"))
