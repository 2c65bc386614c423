"""`polvet repair`: figures, files, exit codes, and bad input by name."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.domains import generate
from polvet.domains.shipped import FOLDER, SHIPPED
from polvet.kernel.starts import Starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import Inspection, Judgement
from polvet.policy.save import save_policy
from polvet.records.fault_files import Fault, FaultList, write_faults
from polvet.safety.decide import Decider
from polvet.sources import load_task
from tests.verify.line_policies import random_line_policy

LINE = str(FOLDER / "one-way-line-8-5.toml")
FAULTY = str(SHIPPED["line-faulty"].policy)


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """The faults on unsafe runs of the shipped faulty policy."""
    fitted = load_fitted(load_task(LINE), FAULTY)
    bound = compile_policy(fitted)
    starts = list(Starts.of(fitted.task).states())
    inspection, decider = Inspection(bound), Decider(fitted.task, compiled=bound.compiled)
    found: dict[object, Fault] = {}
    for start, judged in zip(starts, inspection.judge(bound.compiled.pack(starts)), strict=True):
        if judged is Judgement.UNSAFE:
            run_ = inspection.witness(start)
            for state, action in zip(run_.states, run_.actions, strict=False):
                safe = [label for label in decider.safe_actions(state) if label is not None]
                if action is not None and safe and action not in safe:
                    found.setdefault(state, Fault(state, action, tuple(safe), ()))
    assert found
    file = tmp_path_factory.mktemp("faults") / "faults.json"
    write_faults(fitted.task, FaultList(tuple(found.values()), fitted.task.sha256, fitted.sha256), file)
    return file, len(found)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["safe", "avoid"])
def test_the_shipped_faulty_policy_is_repaired_and_certified(faults, tmp_path, capsys, mode):
    file, count = faults
    new, certificate = tmp_path / "new.json", tmp_path / "certificate.json"
    arguments = ["repair", LINE, FAULTY, "--faults", str(file), "--mode", mode, "-o", str(new)]
    assert run([*arguments, "--certificate", str(certificate), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "repaired"
    figures = answer["figures"]
    assert (figures["faults_fixed"], figures["faults_left"]) == (count, 0)
    assert {"objective", "trees_added"} <= set(figures)
    assert answer["policy"] == str(new)
    assert run(["certify", str(certificate), "--task", LINE, "--policy", str(new)]) == 0
    assert run(["certify", str(certificate), "--task", LINE, "--policy", FAULTY]) == 10


def test_kept_runs_come_from_a_file(faults, tmp_path, capsys):
    runs = tmp_path / "runs.jsonl"
    run(["simulate", LINE, FAULTY, "--runs", "50", "-o", str(runs), "--json"])
    capsys.readouterr()
    new = tmp_path / "new.json"
    arguments = ["repair", LINE, FAULTY, "--faults", str(faults[0]), "--keep", str(runs), "-o", str(new), "--json"]
    assert run([*arguments, "--max-goal-loss", "0"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    lines = [json.loads(line) for line in runs.read_text().splitlines()]
    assert 0 < figures["kept_states"] <= sum(len(line["states"]) - 1 for line in lines if line["end"] == "goal")
    assert figures["kept_changed"] == 0


def test_faults_that_cannot_be_fixed_are_left_and_the_exit_code_says_so(tmp_path, capsys):
    task = load_task(LINE)
    fitted = load_fitted(task, FAULTY)
    state = next(iter(Starts.of(task).states()))
    label = fitted.policy.outputs[0]
    write_faults(task, FaultList((Fault(state, label, (), ()),)), tmp_path / "faults.json")
    assert run(["repair", LINE, FAULTY, "--faults", str(tmp_path / "faults.json"), "--json"]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "faults remain"
    assert answer["figures"]["faults_left"] == 1
    assert answer["figures"]["reasons"]


def test_a_time_limit_still_gives_a_repair(faults, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("polvet.cli.limits.GRACE", 60.0)  # importing a library may take long on a busy machine
    arguments = ["repair", LINE, FAULTY, "--faults", str(faults[0]), "--time-limit", "0", "--json"]
    assert run(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["figures"]["faults_left"] == 0
    assert "time limit" in answer["reason"]


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["--method", "last-layer"], "does not fit a TreeEnsemble"),
        (["--method", "magic"], "'magic' is unknown"),
        (["--mode", "hopeful"], "'hopeful' is unknown"),
        (["--solver", "abacus"], "'abacus' is unknown"),
        (["--certificate", "c.json"], "a certificate speaks about a policy's file"),
    ],
)
def test_bad_options_are_named(faults, capsys, extra, named):
    assert run(["repair", LINE, FAULTY, "--faults", str(faults[0]), *extra]) == 30
    assert named in capsys.readouterr().err


@pytest.mark.slow
def test_a_fence_is_proved_and_its_certificate_accepted(tmp_path, capsys):
    generate("two-way-line", n=3, p=4, icy=True).write(tmp_path / "line.jani")
    line, policy = str(tmp_path / "line.toml"), tmp_path / "policy.json"
    save_policy(random_line_policy(load_task(line), 0), policy)
    fenced, proof = str(tmp_path / "fenced.json"), str(tmp_path / "proof.json")
    assert run(["fence", line, str(policy), "-o", fenced, "--certificate", proof, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "safe"
    assert answer["figures"]["exits"] > 0
    assert run(["certify", proof, "--task", line, "--policy", fenced]) == 0
    assert run(["certify", proof, "--task", line, "--policy", str(policy)]) != 0


def test_where_no_fence_can_be_had_the_reason_is_told(tmp_path, capsys):
    assert run(["fence", LINE, FAULTY, "-o", str(tmp_path / "fenced.json")]) == 20
    assert "nothing is won" in capsys.readouterr().out
    assert not (tmp_path / "fenced.json").exists()
    assert run(["fence", LINE, FAULTY]) == 30
    assert "-o POLICY" in capsys.readouterr().err
