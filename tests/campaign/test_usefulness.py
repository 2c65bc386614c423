"""A policy that comes out safe is still useful, or the outcome says that it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polvet
from polvet.campaign.goals import Floor, GoalRate
from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.settings import Settings
from polvet.campaign.usefulness import Usefulness
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.cli.app import run
from polvet.policy.save import save_policy
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.report.make import make_report
from polvet.sources import load_task

WORLD = """mdp
// At place 2 and on the ledge, running may end in a fall. Waiting is safe everywhere, and leads nowhere.
module walker
  x : [0..4] init 0;
  ledge : [0..1] init 0;
  fallen : [0..1] init 0;
  [run] fallen=0 & x<4 & x!=2 -> (x'=x+1);
  [run] fallen=0 & x=2 & ledge=0 -> 0.6 : (x'=3) + 0.4 : (fallen'=1);
  [run] fallen=0 & x=2 & ledge=1 -> 0.4 : (x'=3)&(ledge'=0) + 0.6 : (fallen'=1);
  [wait] fallen=0 -> true;
  CLIMB
endmodule
"""
CLIMB = """[climb] fallen=0 & x=2 & ledge=0 -> (ledge'=1);
  [climb] fallen=0 & x=2 & ledge=1 -> (x'=3)&(ledge'=0);"""
LABELS = ("run", "wait", "climb")


def world(folder: Path, climb: str = CLIMB) -> Path:
    (folder / "walker.prism").write_text(WORLD.replace("CLIMB", climb))
    task = folder / "walker.toml"
    task.write_text('model = "walker.prism"\nfail = "fallen = 1"\ngoal = "x = 4"\n')
    return task


def always_run(folder: Path, labels: tuple[str, ...] = LABELS) -> Path:
    rows = [{"state": {"x": x, "ledge": y}, "scores": [3, 2, 1][: len(labels)]} for x in range(5) for y in range(2)]
    policy = folder / "run.json"
    policy.write_text(json.dumps({"format": "table/1", "inputs": ["x", "ledge"], "outputs": labels, "rows": rows}))
    return policy


def debugged(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["debug", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_table_that_would_stand_still_for_ever_gets_to_the_goal(tmp_path, capsys):
    task = world(tmp_path)
    code, answer = debugged(capsys, str(task), str(always_run(tmp_path)), "-o", str(tmp_path / "out"))
    assert (code, answer["verdict"], answer["outcome"], answer["warning"]) == (0, "safe", "safe", None)
    figures = answer["figures"]
    assert figures["goal_percent_first"] == pytest.approx(60)
    assert figures["goal_percent"] == figures["goal_percent_best"] == pytest.approx(100)
    assert figures["goal_percent_possible"] == pytest.approx(100)
    assert isinstance(check_file(answer["certificate"], Subjects(task, Path(answer["policy"]))), Accepted)


def test_a_tree_ensemble_does_as_well(tmp_path, capsys):
    def leaf(output, score):
        none = np.array([-1])
        return make_tree(output, none, np.zeros(1), none, none, np.array([[score]]), None, MISSING_NAN)

    trees = tuple(leaf(k, score) for k, score in enumerate((3.0, 2.0, 1.0)))
    policy = TreeEnsemble(("x", "ledge"), LABELS, trees, (0.0, 0.0, 0.0), "<", "float32", 0.0)
    save_policy(policy, tmp_path / "trees.json")
    code, answer = debugged(
        capsys, str(world(tmp_path)), str(tmp_path / "trees.json"), "-o", str(tmp_path / "out")
    )  # fmt: skip
    assert (code, answer["outcome"]) == (0, "safe")
    assert answer["figures"]["goal_percent"] == pytest.approx(100)


def test_a_lightgbm_policy_does_as_well(tmp_path, capsys):
    lightgbm = pytest.importorskip("lightgbm")
    rows = np.array([[x, y] for x in range(5) for y in range(2)], dtype=np.float64)
    # Running everywhere; the two others are only in the data so that there are three classes.
    data = np.concatenate([np.repeat(rows, 8, axis=0), rows[:1], rows[:1]])
    labels = np.array([0] * (8 * len(rows)) + [1, 2])
    options = {"objective": "multiclass", "num_class": 3, "min_data_in_leaf": 1, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(data, labels, feature_name=["x", "ledge"]), 5)
    booster.save_model(str(tmp_path / "run.txt"))
    task = world(tmp_path)
    task.write_text(task.read_text() + f'[policy]\ninputs = ["x", "ledge"]\noutputs = {json.dumps(LABELS)}\n')
    code, answer = debugged(capsys, str(task), str(tmp_path / "run.txt"), "-o", str(tmp_path / "out"))
    assert (code, answer["outcome"]) == (0, "safe")
    assert answer["figures"]["goal_percent_first"] == pytest.approx(60)
    assert answer["figures"]["goal_percent"] == pytest.approx(100)


def test_a_policy_that_cannot_do_better_is_safe_with_the_goal_lost(tmp_path, capsys):
    task, policy = world(tmp_path), always_run(tmp_path, ("run", "wait"))
    code, answer = debugged(capsys, str(task), str(policy), "-o", str(tmp_path / "out"))
    assert (code, answer["verdict"], answer["outcome"]) == (11, "safe", "safe, goal lost")
    figures = answer["figures"]
    assert (figures["goal_lost"], figures["goal_loss_forced"]) == (True, False)
    assert figures["goal_percent"] == 0
    assert figures["goal_percent_best"] == pytest.approx(60)
    assert figures["goal_percent_possible"] == pytest.approx(100)
    assert "although 100.00 is possible" in answer["warning"]
    assert answer["reason"] == answer["warning"]
    assert isinstance(check_file(answer["certificate"], Subjects(task, Path(answer["policy"]))), Accepted)
    page = make_report(tmp_path / "out")
    assert "Safe, goal lost" in page
    assert "Best possible goal" in page
    assert "although 100.00 is possible" in page


def test_a_forced_loss_is_said_to_be_forced(tmp_path, capsys):
    task, policy = world(tmp_path, climb=""), always_run(tmp_path, ("run", "wait"))
    arguments = ["debug", str(task), str(policy), "-o", str(tmp_path / "out")]
    assert run(arguments) == 11
    shown = capsys.readouterr().out
    assert "best possible for a safe policy 0.00" in shown
    assert "WARNING" in shown
    assert "a loss is forced" in shown
    code, answer = debugged(capsys, *arguments[1:])
    assert (code, answer["figures"]["goal_loss_forced"]) == (11, True)


def test_the_budget_may_allow_the_loss(tmp_path, capsys):
    task, policy = world(tmp_path, climb=""), always_run(tmp_path, ("run", "wait"))
    code, answer = debugged(capsys, str(task), str(policy), "-o", str(tmp_path / "out"), "--max-goal-loss", "60")
    assert (code, answer["outcome"], answer["warning"]) == (0, "safe", "no run reaches the goal")


def test_a_repair_that_is_not_verified_says_what_it_lost_as_well(tmp_path, capsys):
    task, policy = world(tmp_path, climb=""), always_run(tmp_path, ("run", "wait"))
    code, answer = debugged(capsys, str(task), str(policy), "-o", str(tmp_path / "out"), "--verify", "never")
    assert (code, answer["verdict"]) == (11, "repaired")
    assert answer["figures"]["goal_lost"]


def test_the_front_door_tells_it_apart(tmp_path):
    task = polvet.load(world(tmp_path))
    lost = task.policy(always_run(tmp_path, ("run", "wait"))).debug(tmp_path / "lost")
    assert lost.verdict is polvet.Verdict.SAFE
    assert lost.outcome == "safe, goal lost"
    assert lost.goal_lost
    assert "100.00 is possible" in lost.warning
    kept = task.policy(always_run(tmp_path)).debug(tmp_path / "kept")
    assert kept.outcome == "safe"
    assert not kept.goal_lost
    assert kept.figures["goal_percent"] == pytest.approx(100)


def test_the_gate_tells_a_policy_that_lost_the_goal_from_one_that_kept_it(tmp_path, capsys):
    task, poor, rich = world(tmp_path), tmp_path / "lost", tmp_path / "kept"
    assert run(["debug", str(task), str(always_run(tmp_path, ("run", "wait"))), "-o", str(poor)]) == 11
    given = always_run(tmp_path)
    assert run(["debug", str(task), str(given), "-o", str(rich)]) == 0
    capsys.readouterr()

    def gate(policy, *more):
        code = run(["gate", str(task), str(policy), "--max-faults", "0", "--json", *more])
        return code, json.loads(capsys.readouterr().out)

    before = ("--before", str(given))
    assert gate(poor / "policy.json")[0] == 0
    code, answer = gate(poor / "policy.json", *before)
    assert (code, answer["verdict"]) == (11, "failed")
    assert answer["figures"]["goal_loss"] == pytest.approx(60)
    assert answer["figures"]["goal_percent_possible"] == pytest.approx(100)
    assert gate(poor / "policy.json", *before, "--max-goal-loss", "60")[0] == 0
    assert gate(rich / "policy.json", *before)[0] == 0
    code, answer = gate(given, "--before", str(rich / "policy.json"))
    assert (code, answer["verdict"]) == (10, "failed")  # it has faults as well
    gated = polvet.gate(task, poor / "policy.json", max_faults=0, before=given)
    assert gated.verdict is polvet.Verdict.FAILED
    assert [check["name"] for check in gated.checks if check["passing"] == "failed"] == ["loss"]


def test_without_a_goal_nothing_is_lost(tmp_path):
    task = world(tmp_path)
    task.write_text('model = "walker.prism"\nfail = "fallen = 1"\n')
    found = debug(load_task(task), always_run(tmp_path), tmp_path / "out", Settings(starts=5))
    assert found.outcome is Outcome.SAFE
    assert found.usefulness is None


def test_the_budget_is_counted_from_the_best_policy_so_far():
    def useful(last, possible=None):
        span = (0.0, 100.0)
        return Usefulness(90.0, 95.0, last, span, span, span, 1.0, possible)

    assert useful(93.9).lost
    assert not useful(94.0).lost
    assert "a loss is forced" in useful(92.0, 92.5).warning()
    assert "although 96.00 is possible" in useful(92.0, 96.0).warning()
    assert useful(94.5, 94.5).warning() is None


def test_a_policy_that_never_reached_much_is_said_to_be_of_little_use():
    def useful(last, possible=None):
        span = (0.0, 100.0)
        return Usefulness(last, last, last, span, span, span, 1.0, possible)

    assert useful(0.0).warning() == "no run reaches the goal"
    assert "no run reaches the goal, although 100.00 is possible" in useful(0.0, 100.0).warning()
    assert "%Goal is 14.00, although 94.00 is possible" in useful(14.0, 94.0).warning()
    assert not useful(14.0, 94.0).lost
    assert useful(93.5, 94.0).warning() is None
    assert useful(14.0).warning() is None


def test_a_campaign_says_that_its_safe_policy_goes_round_for_ever(tmp_path):
    task = world(tmp_path)
    policy = always_run(tmp_path)
    policy.write_text(policy.read_text().replace("[3, 2, 1]", "[2, 3, 1]"))  # it always waits
    found = debug(load_task(task), policy, tmp_path / "out", Settings(starts=5))
    assert found.outcome is Outcome.SAFE
    assert found.usefulness.last == 0
    told = json.loads((tmp_path / "out" / "outcome.json").read_text())["warning"]
    assert told.startswith("no run reaches the goal, although")


def test_a_floor_counts_goal_reaching_runs_before_their_length():
    floor = Floor(GoalRate(0.95, 10.0), 0.05)
    assert floor.is_kept(GoalRate(0.9, 12.5))
    assert not floor.is_kept(GoalRate(0.89, 5.0))
    assert not floor.is_kept(GoalRate(0.95, 12.6))
    assert Floor(GoalRate(0.0, None), 0.0).is_kept(GoalRate(0.0, None))
    ranked = [GoalRate(0.95, 11.0), GoalRate(0.95, 40.0), GoalRate(0.96, 50.0), GoalRate(0.8, 1.0)]
    assert sorted(reversed(ranked), key=floor.cost) == ranked


def test_many_more_runs_that_reach_the_goal_are_worth_longer_ones():
    floor = Floor(GoalRate(0.2, 2.0), 0.005)
    ranked = [GoalRate(1.0, 9.0), GoalRate(1.0, 12.0), GoalRate(0.3, 5.0), GoalRate(0.1, 1.0)]
    assert sorted(reversed(ranked), key=floor.cost) == ranked


CROSSING = """mdp
// Two pits, at 1 and 5. Around each, left is short and right takes a long way; waiting leads nowhere.
module walker
  x : [0..8] init 0;
  detour : [0..9] init 0;
  fallen : [0..1] init 0;
  [run] fallen=0 & detour=0 & x<8 & x!=1 & x!=5 -> (x'=x+1);
  [run] fallen=0 & detour=0 & (x=1|x=5) -> 0.9 : (x'=x+1) + 0.1 : (fallen'=1);
  [run] detour>0 -> (detour'=detour-1);
  [right] fallen=0 & detour=0 & (x=1|x=5) -> (x'=x+1)&(detour'=9);
  [left] fallen=0 & detour=0 & (x=1|x=5) -> 0.5 : (x'=x+1) + 0.5 : true;
endmodule
"""


def crossing(folder: Path) -> tuple[Path, Path]:
    (folder / "crossing.prism").write_text(CROSSING)
    task = folder / "crossing.toml"
    task.write_text('model = "crossing.prism"\nfail = "fallen = 1"\ngoal = "x = 8 & detour = 0"\n')
    rows = [{"state": {"x": x, "detour": d}, "scores": [3, 2, 1]} for x in range(9) for d in range(10)]
    policy = folder / "run.json"
    outputs = ["run", "right", "left"]
    policy.write_text(
        json.dumps({"format": "table/1", "inputs": ["x", "detour"], "outputs": outputs, "rows": rows})
    )  # fmt: skip
    return task, policy


def test_a_repair_that_doubles_the_run_length_is_not_taken_where_a_shorter_one_does(tmp_path):
    task, policy = crossing(tmp_path)
    found = debug(load_task(task), policy, tmp_path / "out", Settings(starts=5))
    assert found.outcome is Outcome.SAFE
    assert found.usefulness is not None
    assert found.usefulness.last == pytest.approx(100, abs=1e-3)
    assert found.usefulness.last_length < 1.5 * found.usefulness.first_length


class Killed(Exception):
    """Raised between two steps, as a kill would come."""


@pytest.mark.parametrize("make", [lambda f: (world(f), always_run(f)), crossing], ids=["walker", "crossing"])
def test_what_is_taken_does_not_depend_on_interruptions(tmp_path, make):
    task, policy = make(tmp_path)
    whole = debug(load_task(task), policy, tmp_path / "whole", Settings(starts=5))
    assert whole.iterations > 0
    for _ in range(50):  # every call does one new step and is killed
        known = len((tmp_path / "parts/figures.jsonl").read_text().splitlines()) if (tmp_path / "parts").exists() else 0
        seen: list[Any] = []

        def listen(record, known=known, seen=seen):
            seen.append(record)
            if len(seen) > known:
                raise Killed

        try:
            parts = debug(load_task(task), policy, tmp_path / "parts", Settings(starts=5), listener=listen)
            break
        except Killed:
            continue
    assert parts.outcome is whole.outcome
    assert parts.usefulness == whole.usefulness
    for folder in ("policies", "faults", "certificates"):
        for file in (tmp_path / "whole" / folder).iterdir():
            assert (tmp_path / "parts" / folder / file.name).read_bytes() == file.read_bytes()
    assert parts.policy.read_bytes() == whole.policy.read_bytes()
