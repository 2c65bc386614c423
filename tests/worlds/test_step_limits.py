"""The step limit of an environment belongs to its world: shares of runs are those of its real episodes, verdicts need no limit."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import wrappers  # noqa: E402

LAKE = "gym:FrozenLake-v1"


def best_actions(table):
    """The optimal policy of a table by value iteration."""
    values, worth = np.zeros(len(table)), None
    for _ in range(2_000):
        worth = [
            [sum(p * (r + (not end) * values[to]) for p, to, r, end in row) for row in table[s].values()] for s in table
        ]
        values = np.array([max(row) for row in worth])
    return [int(np.argmax(row)) for row in worth]


def within(table, actions, steps):
    """The probability that the policy reaches the goal in so many steps, one step after the other."""
    at, reached = {0: 1.0}, 0.0
    for _ in range(steps):
        after = {}
        for state, share in at.items():
            for p, to, reward, end in table[state][actions[state]]:
                reached += share * p * reward if end else 0.0
                if not end:
                    after[to] = after.get(to, 0.0) + share * p
        at = after
    return reached


@pytest.fixture(scope="module")
def lake():
    env = gymnasium.make("FrozenLake-v1")
    actions = best_actions(env.unwrapped.P)
    task = polvet.from_gym(env)
    return env, actions, task, {state: task.labels[action] for state, action in enumerate(actions)}


def test_the_goal_is_reached_as_often_as_in_real_episodes_and_the_gate_means_these(lake):
    env, actions, task, policy = lake
    reached, episodes = 0, 4_000
    for episode in range(episodes):
        state, _ = env.reset(seed=None if episode else 0)
        reward = ended = cut = 0
        while not (ended or cut):
            state, reward, ended, cut, _ = env.step(actions[state])
        reached += reward
    share, exact = reached / episodes, within(env.unwrapped.P, actions, 100)
    assert abs(share - exact) < 3.3 * sqrt(exact * (1 - exact) / episodes)  # chance alone: 1 in 1,000
    assert task.max_steps == 100
    evaluation = task.policy(policy).evaluate()
    assert evaluation.goal_percent == pytest.approx(100 * exact, abs=1e-9)
    assert "goal=74.02% within 100 steps" in repr(evaluation)
    assert abs(task.policy(policy).simulate(20_000).figures["goal_percent"] - 100 * exact) < 1.5
    gate = polvet.gate(task, policy, min_goal=80)
    assert gate.passing == "failed"
    assert "%Goal within 100 steps 74.02" in gate.checks[0]["says"]
    assert polvet.gate(task, policy, min_goal=74).passing == "passed"
    assert polvet.gate(task, policy, min_goal=80, max_steps=10_000).passing == "passed"  # an option of evaluation


@pytest.mark.parametrize("steps", [1, 7, 30, 250])
def test_another_number_of_steps_may_be_asked_for(lake, steps):
    env, actions, task, policy = lake
    evaluation = task.policy(policy).evaluate(max_steps=steps)
    assert evaluation.goal_percent == pytest.approx(100 * within(env.unwrapped.P, actions, steps), abs=1e-9)
    assert evaluation.figures["max_steps"] == steps
    with pytest.raises(InputError, match="max_steps: 0 is no number"):
        task.policy(policy).evaluate(max_steps=0)


@pytest.mark.parametrize(
    ("env", "limit"),
    [
        (lambda: gymnasium.make("FrozenLake-v1", max_episode_steps=31), 31),
        (lambda: wrappers.TimeLimit(gymnasium.make("FrozenLake-v1"), 12), 12),
        (lambda: wrappers.RecordEpisodeStatistics(gymnasium.make("FrozenLake-v1", map_name="8x8", max_episode_steps=200)), 200),
        (lambda: gymnasium.make("FrozenLake-v1").unwrapped, None),
        (lambda: "FrozenLake-v1", 100),
    ],
)  # fmt: skip
def test_the_limit_is_that_of_the_tightest_wrapper(env, limit):
    assert polvet.from_gym(env()).max_steps == limit


def test_the_limit_is_saved_with_the_task_and_shown_with_what_depends_on_it(lake, tmp_path, capsys):
    env, actions, task, policy = lake
    file, agent = task.save(tmp_path / "lake.toml"), task.policy(policy).save(tmp_path / "agent.json")
    assert "max_steps = 100\n" in file.read_text()
    assert polvet.load(file).max_steps == polvet.load(LAKE).max_steps == 100
    assert "max_steps = 100\n" in polvet.load(LAKE).save(tmp_path / "again.toml").read_text()
    exact = 100 * within(env.unwrapped.P, actions, 100)
    for subject in (str(file), LAKE):
        assert run(["evaluate", subject, str(agent), "--json"]) == 10
        figures = json.loads(capsys.readouterr().out)["figures"]
        assert figures["goal_percent"] == pytest.approx(exact, abs=1e-9)
        assert figures["max_steps"] == 100
    said = {}
    for command in (["evaluate"], ["simulate"], ["gate", "--min-goal", "80"], ["verify"]):
        assert run([command[0], str(file), str(agent), *command[1:]]) == 10
        said[command[0]] = capsys.readouterr().out
    assert "%Unsafe     100.00 in any number of steps" in said["evaluate"]
    assert "%Goal       74.02 within 100 steps" in said["evaluate"]
    assert "1,000 within 100 steps from starts" in said["simulate"]
    assert "%Goal within 100 steps 74.02" in said["gate"]
    assert "all but %Goal is about runs of any length" in said["gate"]
    assert "steps        of any number: the world's limit of 100 is not used" in said["verify"]


def test_a_limit_may_be_written_for_any_world_and_nothing_else_than_a_number_of_steps(tmp_path):
    m = polvet.ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=0)
    m.edge("go", guard=x < 9, to={x: x + 1})
    file = polvet.load(m, goal="x == 9").save(tmp_path / "walk.toml")
    text = file.read_text()
    for steps, share in ((8, 0), (9, 100)):
        file.write_text(text + f"max_steps = {steps}\n")
        assert polvet.load(file).policy({k: "go" for k in range(9)}).evaluate().goal_percent == share
        assert polvet.load(file).policy({k: "go" for k in range(9)}).verify().figures["without_max_steps"] == steps
    for wrong in ("0", "-3", '"9"', "1.5", "true"):
        file.write_text(text + f"max_steps = {wrong}\n")
        with pytest.raises(InputError, match=r"max_steps: .* is not a number of steps. Write max_steps = 100"):
            polvet.load(file)


def test_debugging_counts_the_goal_within_the_limit_and_faults_beyond_it(tmp_path, capsys):
    m = polvet.ModelBuilder("walk")
    x = m.int("x", 0, 300, initial=1)
    for label, step in (("left", -1), ("right", 1)):
        m.edge(label, guard=(x > 0) & (x < 300), to={x: x + step})
    file = polvet.load(m, fail="x == 0", goal="x == 300").save(tmp_path / "walk.toml")
    file.write_text(file.read_text() + "max_steps = 100\n")
    task = polvet.load(file)
    policy = {k: "right" for k in range(1, 300)}
    campaign = task.policy(policy).debug(tmp_path / "out", starts=1)
    assert campaign.verdict.value == "safe"
    assert campaign.iterations[-1]["goal_percent"] == 0  # 299 steps away
    page = campaign.report(tmp_path / "report.html")
    assert "%Goal within 100 steps" in page.read_text()
    assert "Goal reached within 100 steps" in page.read_text()
    task.policy(policy).save(tmp_path / "agent.json")
    assert run(["debug", str(file), str(tmp_path / "agent.json"), "-o", str(tmp_path / "again"), "--starts", "1"]) in (
        0,
        11,
    )
    assert "%Goal       0.00 -> 0.00 within 100 steps" in capsys.readouterr().out
