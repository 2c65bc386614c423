"""The commands `fuzz` and `faults`: exit codes, files, and what they say when the input is wrong."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.domains.shipped import find_shipped

FAULTY, GOOD, BIRD = find_shipped("line-faulty"), find_shipped("line-good"), find_shipped("bird")


def ask(capsys, *arguments):
    code = run([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_faulty_policy_is_found_out_with_evidence_that_checks(tmp_path, capsys):
    faults, folder = tmp_path / "faults.json", tmp_path / "evidence"
    code, answer = ask(capsys, "faults", FAULTY.task, FAULTY.policy, "-o", faults, "--certificates", folder)
    assert code == 10
    assert answer["verdict"] == "faults"
    document = json.loads(faults.read_text())
    assert document["format"] == "faults/1"
    assert document["exhaustive"] is True
    assert len(document["faults"]) == answer["figures"]["faults"] > 0
    states = [json.dumps(fault["state"], sort_keys=True) for fault in document["faults"]]
    assert len(set(states)) == len(states)
    for name in ("safe.json", "unsafe.json"):
        code, judged = ask(capsys, "certify", folder / name, "--task", FAULTY.task)
        assert (code, judged["verdict"]) == (0, "accepted")


def test_runs_lead_to_faults_and_those_of_another_policy_are_refused(tmp_path, capsys):
    runs = tmp_path / "runs.jsonl"
    code, answer = ask(capsys, "fuzz", FAULTY.task, FAULTY.policy, "-o", runs, "--runs", "3000")
    assert code == 10
    assert answer["figures"]["unsafe_runs"] > 0
    low, high = answer["figures"]["unsafe_percent_interval"]
    assert low <= answer["figures"]["unsafe_percent"] <= high
    code, answer = ask(capsys, "faults", FAULTY.task, FAULTY.policy, "--runs", runs)
    assert code == 10
    assert answer["figures"]["runs"] == len(runs.read_text().splitlines())
    assert answer["figures"]["exhaustive"] is False
    assert run(["faults", str(GOOD.task), str(GOOD.policy), "--runs", str(runs)]) == 30
    assert "no run of this policy" in capsys.readouterr().err


def test_a_good_policy_has_neither(tmp_path, capsys):
    code, answer = ask(capsys, "fuzz", GOOD.task, GOOD.policy, "--runs", "2000")
    assert (code, answer["verdict"], answer["figures"]["unsafe_runs"]) == (0, "fuzzed", 0)
    code, answer = ask(capsys, "faults", GOOD.task, GOOD.policy)
    assert (code, answer["verdict"], answer["figures"]["faults"]) == (0, "no faults", 0)
    assert answer["figures"]["exhaustive"] is True


def test_where_limits_forbid_to_search_all_it_fuzzes(capsys):
    code, answer = ask(capsys, "faults", FAULTY.task, FAULTY.policy, "--max-states", "500", "--budget", "2000")
    assert code == 10
    assert answer["figures"]["exhaustive"] is False
    assert "fuzzed" in answer["figures"]["how"]
    assert answer["figures"]["faults"] > 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_runs_whatever_the_workers(tmp_path, capsys):
    texts = []
    for workers in ("1", "2"):
        file = tmp_path / f"{workers}.jsonl"
        run(["fuzz", str(FAULTY.task), str(FAULTY.policy), "-o", str(file), "--runs", "2000", "--workers", workers])
        texts.append(file.read_text())
    assert texts[0] == texts[1]
    assert capsys.readouterr().out


def test_explanations_name_the_leaves_or_the_margin(capsys):
    code, answer = ask(capsys, "faults", FAULTY.task, FAULTY.policy, "--explain", "0")
    told = answer["explanation"]
    assert code == 10
    assert told["leaves"]
    taken = next(action for action in told["actions"] if action["taken"])
    assert taken["action"] == told["action"]
    assert any(outcome["verdict"] == "unsafe" for outcome in taken["outcomes"])
    assert told["margin"] >= 0
    assert {a["action"] for a in told["actions"] if a["safe"]} == set(told["safe_actions"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fuzz", "--stop-when", "often"), "no rule"),
        (("fuzz", "--workers", "none"), "no number of threads"),
        (("faults", "--explain", "100000"), "there is no fault 100000"),
        (("faults", "--runs", "nowhere.jsonl"), "nowhere.jsonl"),
        (("faults", "--out-of-bounds", "maybe"), "unknown"),
    ],
)
def test_wrong_input_exits_30_and_says_what(arguments, message, capsys):
    command, *options = arguments
    assert run([command, str(FAULTY.task), str(FAULTY.policy), *options]) == 30
    assert message in capsys.readouterr().err


def test_a_time_limit_without_a_finding_is_unknown(capsys):
    code, answer = ask(capsys, "fuzz", BIRD.task, BIRD.policy, "--runs", "100000000", "--time-limit", "0.5")
    assert (code, answer["verdict"]) == (20, "unknown")
    assert "time limit" in answer["reason"]
