"""With a bound on the risk the loop ends when the bound is certified, or says that no policy keeps it; never riskier than before."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from polvet.budget import Budget
from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.settings import Settings
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.report.make import make_report
from polvet.sources import load_task
from polvet.verify.risk_bound import judge_risk
from tests.debug.test_risk_faults import NEAR, least_risk
from tests.debug.test_risk_faults import worlds as risk_worlds

WALKER = """mdp
// Running falls with probability 1/10, walking with 1/100; waiting is safe, and leads nowhere.
module walker
  x : [0..4] init 0;
  fallen : [0..1] init 0;
  [run] fallen=0 & x<4 -> 0.9 : (x'=x+1) + 0.1 : (fallen'=1);
  [walk] fallen=0 & x<4 -> 0.99 : (x'=x+1) + 0.01 : (fallen'=1);
  WAIT
endmodule
"""
WAIT = "[wait] fallen=0 -> true;"
SETTINGS = {"starts": 10, "runs": 2}


def world(folder, wait=WAIT):
    (folder / "walker.prism").write_text(WALKER.replace("WAIT", wait))
    task = folder / "walker.toml"
    task.write_text('model = "walker.prism"\nfail = "fallen = 1"\ngoal = "x = 4"\n')
    labels = ["run", "walk", *(["wait"] if wait else [])]
    rows = [{"state": {"x": x}, "scores": [3, 2, 1][: len(labels)]} for x in range(5)]
    policy = folder / "run.json"
    policy.write_text(json.dumps({"format": "table/1", "inputs": ["x"], "outputs": labels, "rows": rows}))
    return task, policy


@pytest.mark.parametrize(("most", "slowest"), [("0.3", 0.65), ("0.05", 0.96)])
def test_the_bound_is_kept_and_so_is_the_goal(tmp_path, capsys, most, slowest):
    task, policy = world(tmp_path)
    code = run(["debug", str(task), str(policy), "-o", str(tmp_path / "d"), "--max-risk", most, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["verdict"], told["outcome"]) == (0, "safe", "safe")
    figures = told["figures"]
    assert figures["risk_upper"] <= float(most) < figures["risk_lower_first"]
    assert figures["risk_upper_first"] == pytest.approx(1 - 0.9**4)
    assert figures["goal_percent"] >= max(65.6, 100 * slowest - 5), "waiting would be within the bound, and worthless"
    assert figures["least_risk"] == 0
    assert isinstance(check_file(told["certificate"], Subjects(task, told["policy"])), Accepted)
    assert not isinstance(check_file(told["certificate"], Subjects(task, policy)), Accepted)
    assert "Runs of the final policy fail with probability at most" in make_report(tmp_path / "d")


def test_a_bound_that_no_policy_keeps_is_impossible_and_the_least_risky_policy_is_left(tmp_path, capsys):
    task, policy = world(tmp_path, wait="")
    code = run(["debug", str(task), str(policy), "-o", str(tmp_path / "d"), "--max-risk", "0.01", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["verdict"]) == (10, "impossible")
    least = 1 - 0.99**4
    assert told["figures"]["least_risk"] == pytest.approx(least)
    assert told["figures"]["risk_upper"] == pytest.approx(least), "as good as can be, all the same"
    assert f"{least:.6g}" in told["reason"]
    assert "Impossible" in make_report(tmp_path / "d")


def test_the_text_says_the_course_of_the_risk(tmp_path, capsys):
    task, policy = world(tmp_path)
    assert run(["debug", str(task), str(policy), "-o", str(tmp_path / "d"), "--max-risk", "1/20"]) == 0
    said = capsys.readouterr().out
    assert "risk        0.3439 -> 0.0394" in said
    assert "at most 0.05 allowed" in said


def test_a_policy_within_the_bound_stays_as_it_is(tmp_path):
    task, policy = world(tmp_path)
    ended = debug(load_task(task), policy, tmp_path / "d", Settings(**SETTINGS, max_risk="0.4"))
    assert (ended.outcome, ended.iterations) == (Outcome.SAFE, 0)
    assert ended.policy.read_bytes() == policy.read_bytes()


def test_interruptions_change_nothing_and_other_bounds_are_refused(tmp_path):
    task, policy = world(tmp_path)
    settings = Settings(**SETTINGS, max_risk="0.05")
    whole = debug(load_task(task), policy, tmp_path / "whole", settings)
    seen = []

    def stop(record):
        seen.append(record)
        if len(seen) in (2, 5, 9, 14):
            raise KeyboardInterrupt

    for _ in range(10):
        try:
            again = debug(load_task(task), policy, tmp_path / "cut", settings, listener=stop)
        except KeyboardInterrupt:
            continue
        break
    assert len(seen) > 14
    assert again.policy.read_bytes() == whole.policy.read_bytes()
    assert again.certificate.read_bytes() == whole.certificate.read_bytes()
    for other in (Settings(**SETTINGS), Settings(**SETTINGS, max_risk="0.06")):
        with pytest.raises(InputError, match="max_risk was"):
            debug(load_task(task), policy, tmp_path / "cut", other)


def test_no_time_is_a_limit(tmp_path):
    task, policy = world(tmp_path)
    ended = debug(load_task(task), policy, tmp_path / "d", Settings(**SETTINGS, max_risk="0.05"), budget=Budget(0))
    assert ended.outcome is Outcome.LIMIT


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "risk"}, {"max_risk": "2"}, {"max_risk": "0.1", "verify": "never"}, {"kind": "goal", "max_risk": "0.1"}],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError):
        Settings(**wrong)


def test_random_worlds_end_within_the_bound_wherever_a_policy_keeps_it(tmp_path):
    """The least risk is that of brute force over all policies, in fractions."""
    ends = {Outcome.SAFE: 0, Outcome.IMPOSSIBLE: 0}
    for number, (_, one, bound) in enumerate(risk_worlds(tmp_path, count=40, seed=300)):
        before = max(one.true[s] for s in one.small.starts)
        most = (before * Fraction(2, 3)).limit_denominator(1000)
        least = max(least_risk(one.small)[s] for s in one.small.starts)
        lacks = set(one.task.network.labels) - set(bound.fitted.policy.outputs)
        tied = one.small.base >= 2**24  # rows of float32 do not tell the states apart
        if not 0 < most < 1 or abs(least - most) < Fraction(1, 10**6) or lacks or tied:
            continue  # what a policy cannot choose, no repair can make it choose
        settings = Settings(**SETTINGS, max_risk=str(most))
        ended = debug(one.task, one.subjects.policy, tmp_path / f"d{number}", settings)
        assert ended.outcome in (Outcome.SAFE, Outcome.GOAL_LOST, Outcome.IMPOSSIBLE)
        assert (ended.outcome is Outcome.IMPOSSIBLE) == (least > most * NEAR)
        final = compile_policy(load_fitted(one.task, ended.policy))
        after = judge_risk(final, most)
        assert after.upper <= before, "never riskier than it was"
        if ended.outcome is not Outcome.IMPOSSIBLE:
            assert after.upper <= most
            assert isinstance(check_file(ended.certificate, Subjects(one.subjects.task, ended.policy)), Accepted)
        ends[Outcome.IMPOSSIBLE if ended.outcome is Outcome.IMPOSSIBLE else Outcome.SAFE] += 1
    assert min(ends.values()) > 0
