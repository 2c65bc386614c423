"""The contract of the front door, line by line, against shipped data."""

from __future__ import annotations

import json
import shutil

import pytest

import polvet
from polvet.domains.shipped import shipped_files
from polvet.front.writing import domains

PLAN = {
    "format": "fmp/1", "semantics": "deterministic", "variables": [{"name": "x"}], "control_states": ["q"], "initial": "q",
    "edges": [{"id": 0, "from": "q", "to": "q", "choices": [{"effects": {"x": -1}}]}],
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with `task.toml` (a shipped task), `policy.json` (its faulty policy), `janitor.toml` and `plan.json`."""
    for file in shipped_files():
        shutil.copy(file, tmp_path)
    shutil.copy(tmp_path / "one-way-line-8-5.toml", tmp_path / "task.toml")
    shutil.copy(tmp_path / "one-way-line-8-5-faulty.json", tmp_path / "policy.json")
    domains("janitor", width=3, height=3, output=tmp_path / "janitor.jani")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_tasks(here):
    task = polvet.load("task.toml")
    assert task.explore().verdict is polvet.Verdict.EXPLORED
    assert task.check("Pmax=? [F fail]", max_states=10).verdict is polvet.Verdict.UNKNOWN
    small = polvet.load("janitor.toml")
    assert 0 <= small.check("Pmin=? [F fail]").value <= small.check("Pmax=? [F fail]").value <= 1
    assert small.check("Pmin=? [F fail]", exact=True).exact is not None
    decided = task.decide(workers=1)
    assert task.decide(dict(decided.states[0])).verdict in (polvet.Verdict.SAFE, polvet.Verdict.UNSAFE)
    assert len(task.decide([dict(state) for state in decided.states[:3]]).safe) == 3


def test_a_policy_that_keeps_the_goal_in_reach_is_asked_for(here):
    model = polvet.ModelBuilder("walk")
    x = model.int("x", 0, 9, initial=4)
    for label, step in (("left", -1), ("right", 1)):
        model.edge(label, guard=(x > 0) & (x < 9), to={x: x + step})
    task = polvet.load(model, fail="x == 0", goal="x == 9")
    won = task.decide({"x": 4}, goal_reaching=True)
    assert won.verdict is polvet.Verdict.STRONG_CYCLIC
    assert polvet.certify(won, task).accepted
    some = task.decide([{"x": 0}, {"x": 4}], goal_reaching=True)
    assert (some.verdict, some.safe) == (polvet.Verdict.NOT_STRONG_CYCLIC, (False, True))


def test_policies(here):
    task = polvet.load("task.toml")
    policy = task.policy("policy.json")
    start = task.decide(workers=1).states[0]
    assert policy.act(dict(start)) in (*task.labels, None)
    assert policy.evaluate().unsafe_percent > 0
    assert len(policy.simulate(runs=10).runs) == 10
    result = policy.verify(time_limit=60)
    assert (result.verdict, result.reason, result.run.end) == (polvet.Verdict.UNSAFE, None, "fail")
    with pytest.raises(TypeError, match="no truth value"):
        bool(result)
    result.save("certificate.json")
    assert polvet.certify("certificate.json", task, policy).accepted
    faults = policy.faults()
    better = policy.repair(faults)
    better.save("better.json")
    assert task.policy("better.json").verify().verdict is polvet.Verdict.SAFE
    campaign = policy.debug("folder", time_limit=600, starts=200)
    assert campaign.policy.verify().verdict is polvet.Verdict.SAFE
    assert campaign.report("report.html").exists()
    assert polvet.gate(task, campaign.policy, max_faults=0).passed


def test_shields_plans_and_environments(here):
    task = polvet.load("janitor.toml")
    shield = task.permit(bound=0.1)
    assert shield.verdict is polvet.Verdict.PERMITTED
    assert task.learn(bound=0.2, cost="fuel", iterations=2, episodes=50).lower >= 0
    assert polvet.terminates("plan.json").verdict is polvet.Verdict.TERMINATING
    pytest.importorskip("gymnasium")
    env = shield.wrap(task.env())
    env.reset(seed=0)
    assert polvet.from_gym("FrozenLake-v1").labels == ("left", "down", "right", "up")


WRONG = [
    ("an unknown keyword", lambda task, policy: policy.verify(time_limits=3), "Did you mean 'time_limit'?"),
    ("a keyword of another verb", lambda task, policy: policy.simulate(max_states=3), "max_states"),
    ("an unknown threshold", lambda task, policy: polvet.gate(task, policy, max_fault=0), "Did you mean 'max_faults'?"),
    ("an unknown option of training", lambda task, policy: task.train("trees", dept=3), "Did you mean 'depth'?"),
    ("an unknown option of learning", lambda task, policy: task.learn(0.1, "fuel", episode=3), "Did you mean 'episodes'?"),
    ("an unknown way of repairing", lambda task, policy: policy.repair(policy.faults(), repair_mode="soft"), "soft"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "says"), [(use, says) for _, use, says in WRONG], ids=[name for name, _, _ in WRONG])
def test_unknown_keywords_are_named(use, says, here):
    task = polvet.load("task.toml")
    with pytest.raises(polvet.InputError) as error:
        use(task, task.policy("policy.json"))
    assert says in str(error.value)
