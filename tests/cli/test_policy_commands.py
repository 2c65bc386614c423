"""`simulate`, `evaluate`, `explore --policy`, `check --policy`: contract, files, and bad input by name."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.domains.shipped import FOLDER, SHIPPED
from polvet.files import sha256
from polvet.records.run_files import iter_runs
from polvet.sources import load_task

LINE = str(FOLDER / "one-way-line-8-5.toml")
GOOD, FAULTY = (str(SHIPPED[name].policy) for name in ("line-good", "line-faulty"))


def answer(arguments, capsys, code=0):
    assert run([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_shipped_policies_fit_in_five_megabytes_and_their_tasks():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 5 * 2**20
    from polvet.policy.binding import load_fitted

    for one in SHIPPED.values():
        if one.policy.suffix == ".onnx":
            pytest.importorskip("onnx")
        assert load_fitted(load_task(one.task), one.policy).unscored == ()


def test_evaluate_tells_the_good_policy_from_the_faulty_one(capsys):
    good = answer(["evaluate", LINE, GOOD, "--starts", "2000", "--runs", "2"], capsys)
    assert good["verdict"] == "safe"
    assert good["figures"]["unsafe_percent"] == 0
    assert good["figures"]["goal_percent"] == 100
    assert good["figures"]["starts"] == good["figures"]["starts_total"] == 1980
    faulty = answer(["evaluate", LINE, FAULTY, "--starts", "2000", "--runs", "2"], capsys, 10)
    assert faulty["verdict"] == "unsafe"
    low, high = faulty["figures"]["unsafe_percent_interval"]
    assert 0 < low == faulty["figures"]["unsafe_percent"] == high < 100
    # The world is deterministic: runs that do not fail reach the goal.
    assert faulty["figures"]["goal_percent"] == pytest.approx(100 - faulty["figures"]["unsafe_percent"])


def test_unsafe_runs_are_written_and_the_independent_checker_accepts_each(capsys, tmp_path):
    file = tmp_path / "unsafe.jsonl"
    found = answer(["evaluate", LINE, FAULTY, "--starts", "300", "--runs", "1", "-o", str(file)], capsys, 10)
    task = load_task(LINE)
    runs = list(iter_runs(task, file))
    assert len(runs) == found["figures"]["unsafe_by_search"] > 0
    for line in file.read_text().splitlines()[:2]:
        certificate = {
            "kind": "run", "task_sha256": task.sha256, "policy_sha256": sha256(FAULTY), **json.loads(line),
        }  # fmt: skip
        (tmp_path / "certificate.json").write_text(json.dumps(certificate))
        command = ["certify", str(tmp_path / "certificate.json"), "--task", LINE, "--policy"]
        assert run([*command, FAULTY]) == 0
        certificate["actions"][-1] = "drop_truck_0"
        (tmp_path / "certificate.json").write_text(json.dumps(certificate))
        assert run([*command, FAULTY]) == 10
        capsys.readouterr()


def test_simulate_counts_ends_writes_runs_and_tells_one(capsys, tmp_path):
    file = tmp_path / "runs.jsonl"
    found = answer(["simulate", LINE, GOOD, "--runs", "50", "-o", str(file), "--seed", "5"], capsys)
    assert found["figures"]["ends"] == {"goal": 50}
    assert found["seed"] == 5
    runs = list(iter_runs(load_task(LINE), file))
    assert len(runs) == 50
    assert sum(len(one.actions) for one in runs) == found["figures"]["steps"]
    assert run(["simulate", LINE, GOOD, "--runs", "50", "--seed", "5", "--show", "7"]) == 0
    told = capsys.readouterr().out
    assert f"{len(runs[7].actions)} {runs[7].actions[-1]}" in told
    assert "end: goal" in told
    one = answer(["simulate", LINE, FAULTY, "--runs", "2000"], capsys, 10)
    assert one["figures"]["ends"]["fail"] > 0


def test_explore_follows_the_policy_only(capsys):
    everything = answer(["explore", LINE], capsys)["figures"]
    followed = answer(["explore", LINE, "--policy", GOOD], capsys)["figures"]
    assert followed["states"] < everything["states"]
    assert followed["choices"] == followed["states"] - followed["deadlocks"] - followed["stuck"]
    assert followed["policy"]["outputs_from"] == "policy"


def test_check_gives_the_policys_own_value(capsys):
    free = answer(["check", LINE.replace(".toml", ".jani"), "--property", "goal"], capsys)["figures"]
    bound = answer(["check", LINE.replace(".toml", ".jani"), "--property", "goal", "--policy", GOOD], capsys)["figures"]
    assert bound["upper"] <= free["upper"]
    assert bound["states"] <= free["states"]


@pytest.mark.parametrize("command", ["simulate", "evaluate"])
@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"format": "rules/1", "rules": [{"when": "true", "action": "fly"}]}, "'fly', which is no label"),
        (
            {"format": "rules/1", "rules": [{"when": "speed > 1", "action": "acc_truck_0"}]},
            "'speed', which is no variable",
        ),
        (
            {
                "layers": [
                    {"kind": "Linear", "inputSize": 2, "outputSize": 5, "weights": [[0, 0]] * 5, "biases": [0] * 5}
                ]
            },
            "2 nameless inputs",
        ),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_by_name(command, policy, named, tmp_path, capsys):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy))
    assert run([command, LINE, str(file)]) == 30
    assert named in capsys.readouterr().err


def test_unknown_modes_states_and_runs_are_refused_by_name(capsys):
    for options, named in (
        (["--mode", "best"], "--mode"), (["--state", "truck=1"], "no variable 'truck'"), (["--show", "99999"], "--show"),
        (["--workers", "none"], "--workers"),
    ):  # fmt: skip
        assert run(["simulate", LINE, GOOD, *options]) == 30
        assert named in capsys.readouterr().err


def test_one_action_is_nothing_to_learn(tmp_path, capsys):
    assert run(["domains", "layers", "-o", str(tmp_path / "layers.jani")]) == 0
    assert run(["train", str(tmp_path / "layers.toml"), "--kind", "trees", "-o", str(tmp_path / "p.json")]) == 30
    assert "nothing to learn" in capsys.readouterr().err
