"""With `--kind goal` the loop mends goal faults as well, never at the cost of safety; where the goal was lost it does so by itself."""

from __future__ import annotations

import json

from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.settings import Settings
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.cli.app import run
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
