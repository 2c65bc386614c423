"""The debugging loop ends in policies that the independent checker accepts, fixes faults for good, and survives kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polvet import domains
from polvet.budget import Budget
from polvet.campaign import steps
from polvet.campaign.goals import lost_states
from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.record import REPAIR
from polvet.campaign.rows import fold
from polvet.campaign.settings import Settings
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.cli.app import run
from polvet.debug.evaluate import evaluation_starts
from polvet.domains.instance import Instance
from polvet.errors import InputError
from polvet.model.build import ModelBuilder
from polvet.model.task import TaskOptions
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import FAIL, GOAL, compile_policy
from polvet.policy.save import save_policy
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.records.fault_files import read_faults
from polvet.safety.decide import Decider
from polvet.sources import load_task
from polvet.verdict import Verdict
from polvet.verify.verdicts import Unknown

SHIPPED = Path(domains.__file__).parent / "policies"
LINE = SHIPPED / "one-way-line-8-5.toml"
FAULTY = SHIPPED / "one-way-line-8-5-faulty.json"
SMALL = Settings(starts=300, runs=3, fuzz_runs=4)


def arguments(folder: Path) -> list[str]:
    return ["debug", str(LINE), str(FAULTY), "-o", str(folder), "--starts", "300", "--runs", "3", "--fuzz-runs", "4"]


@pytest.fixture(scope="module")
def debugged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign") / "line"
    return debug(load_task(LINE), FAULTY, folder, SMALL), folder


def test_the_loop_ends_safe_and_the_checker_accepts_it(debugged):
    found, _ = debugged
    assert found.outcome is Outcome.SAFE
    assert isinstance(check_file(found.certificate, Subjects(LINE, found.policy)), Accepted)


def test_every_repair_has_a_certificate_about_the_next_policy(debugged):
    _, folder = debugged
    certificates = sorted((folder / "certificates").glob("repair-*.json"))
    assert certificates
    for k, certificate in enumerate(certificates):
        mine = Subjects(LINE, folder / f"policies/{k + 1}.json")
        assert isinstance(check_file(certificate, mine), Accepted)
        assert not isinstance(check_file(certificate, Subjects(LINE, folder / f"policies/{k}.json")), Accepted)


@pytest.mark.slow
@pytest.mark.parametrize("repair_mode", ["safe", "avoid"])
def test_a_raw_reading_is_part_of_the_claim(tmp_path, capsys, repair_mode):
    chosen = [*arguments(tmp_path / "line"), "--mode", "raw", "--repair-mode", repair_mode, "--json"]
    code = run(chosen)
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["verdict"]) == (0, "safe")
    claim = json.loads(Path(answer["certificate"]).read_text())
    assert claim["options"]["mode"] == "raw"
    asked = Subjects(LINE, Path(answer["policy"]), TaskOptions(mode="raw"))
    assert isinstance(check_file(answer["certificate"], asked), Accepted)
    assert not isinstance(check_file(answer["certificate"], Subjects(LINE, Path(answer["policy"]))), Accepted)


def test_the_given_policy_is_not_what_the_certificate_is_about(debugged):
    found, _ = debugged
    assert not isinstance(check_file(found.certificate, Subjects(LINE, FAULTY)), Accepted)


def test_every_policy_fixes_all_faults_found_before_it(debugged):
    _, folder = debugged
    task = load_task(LINE)
    so_far = []
    for k in range(len(list((folder / "policies").iterdir()))):
        fitted = load_fitted(task, folder / f"policies/{k}.json")
        semantics = compile_policy(fitted).compiled.semantics
        for fault in so_far:
            assert fitted.choose(fault.state, semantics.applicable(fault.state)) in fault.safe_actions
        for file in (folder / f"faults/{k}.json", folder / f"faults/{k}-verify.json"):
            if file.exists():
                new = read_faults(task, file).faults
                assert all(fitted.choose(f.state, semantics.applicable(f.state)) == f.action for f in new)
                so_far += new
    assert so_far


def test_a_tree_over_many_faults_leaves_all_other_safe_states_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("polvet.campaign.steps.MANY", 0)
    task = load_task(LINE)
    found = debug(task, FAULTY, tmp_path / "line", replace(SMALL, method="tree"))
    assert found.outcome is Outcome.SAFE
    repaired = [record.iteration for record in found.records if record.step is REPAIR]
    assert repaired
    faulty = set()
    for k in repaired:
        files = [tmp_path / f"line/faults/{k}{after}.json" for after in ("", "-verify")]
        faulty |= {fault.state for file in files if file.exists() for fault in read_faults(task, file).faults}
        before, after = (compile_policy(load_fitted(task, tmp_path / f"line/policies/{n}.json")) for n in (k, k + 1))
        starts = evaluation_starts(task, SMALL.starts, SMALL.seed).states
        space = before.compiled.explore(before.compiled.pack(starts), stop_at=[FAIL, GOAL], policy=before.core)
        states = before.compiled.unpack(space.states(0, len(space)))
        safe = [answer.verdict is Verdict.SAFE for answer in Decider(task, algorithm="tarjan").decide(states)]
        left_alone = [state for state, is_safe in zip(states, safe, strict=True) if is_safe and state not in faulty]
        assert len(left_alone) > 100
        assert not lost_states(before, after, left_alone)


def test_goal_reaching_is_not_lost(debugged):
    found, _ = debugged
    goals = [row.evaluation.goal_percent for row in fold(found.records) if row.evaluation is not None]
    assert goals[-1] >= goals[0] - SMALL.max_goal_loss


def test_calling_it_again_does_nothing_new(debugged):
    found, folder = debugged
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    again = debug(load_task(LINE), FAULTY, folder, SMALL)
    assert again.outcome is found.outcome
    assert again.records == found.records
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_other_settings_in_the_same_folder_are_refused(debugged):
    _, folder = debugged
    with pytest.raises(InputError, match="starts was 300, is 301"):
        debug(load_task(LINE), FAULTY, folder, Settings(starts=301, runs=3, fuzz_runs=4))


@pytest.mark.slow
def test_a_time_limit_stops_it_and_the_next_call_goes_on(debugged, tmp_path):
    found, _ = debugged
    stopped = debug(load_task(LINE), FAULTY, tmp_path / "line", SMALL, budget=Budget(0))
    assert stopped.outcome is Outcome.LIMIT
    assert "time limit of 0 s" in (stopped.reason or "")
    resumed = debug(load_task(LINE), FAULTY, tmp_path / "line", SMALL)
    assert resumed.policy.read_bytes() == found.policy.read_bytes()


def test_without_verification_it_says_repaired(tmp_path, capsys):
    assert run([*arguments(tmp_path / "line"), "--verify", "never", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "repaired"
    assert answer["outcome"] == "improved"
    assert answer["certificate"] is None
    assert {"unsafe_percent", "goal_percent", "new_faults", "faults_fixed"} <= set(answer["figures"]["iterations"][0])


def test_an_unsafe_task_is_told_apart_with_a_proof(tmp_path, capsys):
    task = tmp_path / "icy.jani"
    assert run(["domains", "one-way-line", "n=2", "p=5", "icy=true", "-o", str(task)]) == 0
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"format": "rules/1", "rules": [{"when": "true", "action": "acc_truck_0"}]}))
    capsys.readouterr()
    code = run(["debug", str(task.with_suffix(".toml")), str(policy), "-o", str(tmp_path / "out"), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["verdict"], answer["outcome"]) == (10, "unsafe", "stopped")
    assert run(["debug", str(task.with_suffix(".toml")), str(policy), "-o", str(tmp_path / "out")]) == 10
    assert "--max-risk" in capsys.readouterr().out
    proof = check_file(answer["certificate"], Subjects(task.with_suffix(".toml")))
    assert isinstance(proof, Accepted)


def killed_after(seconds: float, folder: Path) -> bool:
    """Begin the campaign in a process of its own and kill it; return whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "polvet", *arguments(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    running = process.poll() is None
    os.kill(process.pid, signal.SIGKILL) if running else None
    process.wait()
    return running


@pytest.mark.slow
def test_ten_kills_change_nothing(debugged, tmp_path):
    found, folder = debugged
    rng = random.Random(7)
    here = tmp_path / "line"
    kills = sum(killed_after(rng.uniform(0.3, 1.6), here) for _ in range(10))
    assert kills
    assert run(arguments(here)) == 0
    names = sorted(p.relative_to(folder) for p in folder.glob("policies/*")) + sorted(
        p.relative_to(folder) for p in folder.glob("faults/*")
    )
    assert (here / "policy.json").read_bytes() == found.policy.read_bytes()
    assert all((here / name).read_bytes() == (folder / name).read_bytes() for name in names)


def test_rules_that_read_few_variables_are_repaired_by_rules_that_read_more(tmp_path):
    task = load_task(SHIPPED / "flappy-bird-20-10-3.toml")
    policy = tmp_path / "policy.json"
    rules = [{"when": "y <= 1", "action": "up"}, {"when": "true", "action": "down"}]
    policy.write_text(json.dumps({"format": "rules/1", "rules": rules}))
    found = debug(task, policy, tmp_path / "campaign", Settings(starts=50, runs=2, fuzz_runs=2, verify="never"))
    assert found.faults > 0
    assert found.outcome in (Outcome.IMPROVED, Outcome.STOPPED)


def test_where_leaves_cannot_keep_the_goal_only_faulty_states_change(tmp_path):
    m = ModelBuilder("corridor")
    x, fallen = m.int("x", 0, 9, initial=0), m.int("fallen", 0, 1, initial=0)
    m.edge("walk", guard=(x < 9) & (x != 3), to={x: x + 1})
    m.edge("walk", guard=(x == 3), to={fallen: 1})
    m.edge("look", guard=(x == 3), to={x: x + 1})
    m.edge("look", guard=(x != 3), to={})
    Instance.of(m, start=(x <= 4) & (fallen == 0), fail=(fallen == 1), goal=(x == 9)).write(tmp_path / "corridor.jani")
    task = load_task(tmp_path / "corridor.toml")

    def leaf(output, score):  # one leaf for all states: whatever changes there changes everywhere
        return make_tree(
            output, np.array([-1]), np.zeros(1), np.array([-1]), np.array([-1]), np.array([[score]]), None, MISSING_NAN
        )

    policy = TreeEnsemble(("x",), ("walk", "look"), (leaf(0, 1.0), leaf(1, 0.0)), (0.0, 0.0), "<", "float32", 0.0)
    save_policy(policy, tmp_path / "walk.json")
    asked = Settings(starts=5, runs=1, fuzz_runs=1, keep=0, max_goal_loss=0.0)
    found = debug(task, tmp_path / "walk.json", tmp_path / "campaign", asked)
    assert found.outcome is Outcome.SAFE
    repairs = [row.repair for row in fold(found.records) if row.repair is not None]
    assert [repair.method for repair in repairs] == ["penalty"]
    assert repairs[0].attempts > 1
    assert repairs[0].goal_percent_after == 100
    allowed = Settings(starts=5, runs=1, fuzz_runs=1, keep=0, max_goal_loss=100.0)
    whole = debug(task, tmp_path / "walk.json", tmp_path / "other", allowed)
    assert [row.repair.method for row in fold(whole.records) if row.repair is not None][:1] == ["leaves"]


def test_looking_for_exits_leaves_time_for_what_comes_after(tmp_path, monkeypatch):
    now = [0.0]

    def for_ever(task, budget):
        now[0] = budget.until
        budget.check()

    monkeypatch.setattr(steps, "exits_of", for_ever)
    # No quick proof: then exits are looked for.
    monkeypatch.setattr(steps, "verify", lambda *_, **__: Unknown("too hard", "grid"))
    budget = Budget(100, clock=lambda: now[0])
    found = debug(load_task(LINE), FAULTY, tmp_path / "line", SMALL, budget=budget)
    assert found.outcome is Outcome.SAFE
    tried = [json.loads(line) for line in (tmp_path / "line" / "figures.jsonl").read_text().splitlines()]
    reasons = {one["reason"] for one in tried if one["step"] == "strengthen"}
    assert reasons == {"its share of the time limit of 100 s is used up"}
