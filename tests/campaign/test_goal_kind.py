"""With `--kind goal` the loop mends goal faults as well, never at the cost of safety; where the goal was lost it does so by itself."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from polvet.campaign import goal_steps
from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.settings import Settings
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.cli.app import run
from polvet.report.make import make_report
from polvet.sources import load_task

CORRIDOR = """mdp
// The short way may fall into a pit; waiting is safe for ever; the long way gets there.
module corridor
  x : [0..6] init 0;
  [go] x<3 -> (x'=x+1);
  [go] x=3 -> 0.8 : (x'=6) + 0.2 : (x'=5);
  [turn] x=3 -> (x'=4);
  [turn] x=4 -> (x'=6);
  [go] x=4 -> (x'=3);
  [back] x>0 & x<5 -> (x'=0);
  [wait] x<5 -> true;
endmodule
"""
LABELS = ["go", "back", "wait", "turn"]
SETTINGS = {"starts": 10, "runs": 2}


def world(folder, favourites):
    (folder / "corridor.prism").write_text(CORRIDOR)
    task = folder / "corridor.toml"
    task.write_text('model = "corridor.prism"\nfail = "x = 5"\ngoal = "x = 6"\n')
    rows = [
        {
            "state": {"x": x},
            "scores": [float(label == favourites.get(x, "go")) - 0.01 * k for k, label in enumerate(LABELS)],
        }
        for x in range(7)
    ]
    policy = folder / "policy.json"
    policy.write_text(json.dumps({"format": "table/1", "inputs": ["x"], "outputs": LABELS, "rows": rows}))
    return task, policy


def test_a_safe_policy_that_goes_round_for_ever_gets_to_the_goal(tmp_path, capsys):
    task, policy = world(tmp_path, {2: "back"})
    plain = debug(load_task(task), policy, tmp_path / "plain", Settings(**SETTINGS))
    assert (plain.outcome, plain.usefulness.last) == (Outcome.SAFE, 0)
    code = run(["debug", str(task), str(policy), "-o", str(tmp_path / "goal"), "--kind", "goal", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["outcome"], told["figures"]["goal_percent"]) == (0, "safe", 100)
    assert told["figures"]["iterations"][0]["world"]["faults"] == 1
    assert isinstance(check_file(told["certificate"], Subjects(task, told["policy"])), Accepted)
    assert run(["verify", str(task), told["policy"], "--avoid", "stuck,deadlock,loop"]) == 0
    capsys.readouterr()


def test_a_lost_goal_is_brought_back_without_being_asked_to(tmp_path):
    """Turning is the safe action at the faulty state; there the policy turns back, round for ever: only there the repair changes it."""
    task, policy = world(tmp_path, {3: "go", 4: "go"})
    ended = debug(load_task(task), policy, tmp_path / "d", Settings(**SETTINGS))
    assert ended.outcome is Outcome.SAFE
    assert ended.usefulness.last >= ended.usefulness.first > 0


PLANT = """mdp
// Working heats up; cooling may stick, and mending takes its time; whoever idles loses nothing, and gets nowhere.
module plant
  heat : [0..6] init 1;
  parts : [0..10] init 0;
  stuck : bool init false;
  [work] heat<6 & parts<10 & !stuck -> 0.7 : (heat'=heat+1)&(parts'=parts+1) + 0.3 : (parts'=parts+1);
  [work] heat<6 & parts<10 & stuck -> (heat'=heat+1)&(parts'=parts+1);
  [cool] heat>0 & heat<6 & !stuck -> 0.8 : (heat'=max(heat-2,0)) + 0.1 : true + 0.1 : (stuck'=true);
  [cool] heat>0 & heat<6 & stuck -> true;
  [mend] heat<6 & stuck -> 0.9 : (stuck'=false)&(heat'=min(heat+1,6)) + 0.1 : (stuck'=false);
  [idle] heat<6 -> true;
endmodule
"""


def plant(folder):
    """The plant, and trees that work until it is hot."""
    xgboost = pytest.importorskip("xgboost")
    (folder / "plant.prism").write_text(PLANT)
    labels, task, rng = ["work", "cool", "mend", "idle"], folder / "plant.toml", np.random.default_rng(0)
    task.write_text(
        'model = "plant.prism"\nstart = "parts = 0 & heat <= 2"\nfail = "heat = 6"\ngoal = "parts = 10"\n'
        f'[policy]\ninputs = ["heat", "parts", "stuck"]\noutputs = {json.dumps(labels)}\n'
    )
    rows, chosen = [], []
    for heat, parts, stuck, _ in product(range(7), range(11), range(2), range(10)):
        careless = 0 if heat < 4 else 2 if stuck else 1
        chosen.append(int(rng.integers(4)) if rng.random() < 0.1 else careless)
        rows.append((heat, parts, stuck))
    wanted = {"objective": "multi:softprob", "num_class": 4, "max_depth": 4, "nthread": 1}
    data = xgboost.DMatrix(np.array(rows, dtype=float), label=np.array(chosen))
    xgboost.train(wanted, data, 8).save_model(folder / "trees.json")
    return task, folder / "trees.json"


def test_goal_faults_are_mended_by_what_leads_on_where_waiting_would_lose_the_goal(tmp_path, capsys):
    """Idling keeps the best chance of the goal in every state: a repair that may choose it stands still for ever."""
    task, trees = plant(tmp_path)
    code = run(["debug", str(task), str(trees), "-o", str(tmp_path / "d"), "--kind", "goal", "--json"])
    told = json.loads(capsys.readouterr().out)
    figures = told["figures"]
    assert (code, told["outcome"]) == (0, "safe")
    assert figures["goal_percent"] >= figures["goal_percent_possible"] - 0.01 > figures["goal_percent_first"] + 5


def test_a_campaign_whose_last_repair_was_refused_is_reported(tmp_path, capsys, monkeypatch):
    task, trees = plant(tmp_path)
    monkeypatch.setattr(goal_steps, "_nearest", lambda faults: faults)
    assert run(["debug", str(task), str(trees), "-o", str(tmp_path / "d"), "--kind", "goal"]) == 11
    assert "safe (goal faults remain: every repair would lose some of the goal)" in capsys.readouterr().out
    page = make_report(tmp_path / "d")
    assert "<dt>Repairs</dt><dd><b>1</b>" in page
    # Whoever resumes it otherwise is told what is other.
    assert run(["debug", str(task), str(trees), "-o", str(tmp_path / "d")]) == 30
    assert "kind was 'goal', is not given" in capsys.readouterr().err


def test_interruptions_change_nothing(tmp_path):
    task, policy = world(tmp_path, {2: "back", 3: "wait"})
    settings = Settings(**SETTINGS, kind="goal")
    whole = debug(load_task(task), policy, tmp_path / "whole", settings)
    assert whole.outcome is Outcome.SAFE
    assert whole.iterations > 1
    seen = []

    def stop(record):
        seen.append(record)
        if len(seen) % 4 == 3:
            raise KeyboardInterrupt

    for _ in range(40):
        try:
            again = debug(
                load_task(task),
                policy,
                tmp_path / "cut",
                settings,
                listener=stop if len(seen) < 60 else lambda record: None,
            )
        except KeyboardInterrupt:
            continue
        break
    assert again.policy.read_bytes() == whole.policy.read_bytes()
