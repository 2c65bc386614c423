"""A campaign that was stopped or killed goes on as if it had not been; its figures are those of its rounds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from polvet.budget import Budget
from polvet.domains.planted import plant
from polvet.domains.shipped import find_shipped
from polvet.fuzz.anytime import StopRule
from polvet.fuzz.population import Population
from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, iter_rounds, run_campaign
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.records.journal import read_journal
from polvet.sources import load_task

OPTIONS = RoundOptions(seed=3, starts=64, max_steps=200)


@pytest.fixture(scope="module")
def bound():
    shipped = find_shipped("line-faulty")
    return compile_policy(load_fitted(load_task(shipped.task), shipped.policy))


def summary(campaign):
    return campaign.tried, campaign.steps, campaign.unsafe, campaign.goal, dict(campaign.ends), campaign.runs


def test_a_campaign_in_pieces_is_the_campaign_in_one(bound, tmp_path):
    whole = run_campaign(Fuzzer(bound, OPTIONS), Target(runs=1000))
    journal = tmp_path / "runs.journal"
    for runs in (150, 400, 1000):
        pieces = run_campaign(Fuzzer(bound, OPTIONS), Target(runs=runs), journal=journal)
    assert summary(pieces) == summary(whole)
    assert len(read_journal(journal)) == whole.rounds + 1


@pytest.mark.threads
def test_threads_do_not_change_a_campaign():
    world = plant(5)
    bound = compile_policy(fit(world.instance.task(), world.policy))
    shipped = find_shipped("bird")
    bird = compile_policy(load_fitted(load_task(shipped.task), shipped.policy))
    for one in (bound, bird):
        first, second = (run_campaign(Fuzzer(one, OPTIONS, threads=threads), Target(runs=500)) for threads in (1, 2))
        assert summary(first) == summary(second)


def test_a_torn_journal_loses_only_its_last_round(bound, tmp_path):
    journal = tmp_path / "runs.journal"
    whole = run_campaign(Fuzzer(bound, OPTIONS), Target(runs=600), journal=journal)
    data = journal.read_bytes()
    journal.write_bytes(data[:-20])
    again = run_campaign(Fuzzer(bound, OPTIONS), Target(runs=600), journal=journal)
    assert summary(again) == summary(whole)


def test_another_campaign_does_not_go_on_with_these_rounds(bound, tmp_path):
    journal = tmp_path / "runs.journal"
    run_campaign(Fuzzer(bound, OPTIONS), Target(runs=200), journal=journal)
    other = RoundOptions(seed=4, starts=64, max_steps=200)
    found = run_campaign(Fuzzer(bound, other), Target(runs=200), journal=journal)
    assert summary(found) == summary(run_campaign(Fuzzer(bound, other), Target(runs=200)))
    assert (tmp_path / "runs.journal.old").exists()


def test_a_time_limit_and_a_stop_rule_end_campaigns(bound):
    cut = run_campaign(Fuzzer(bound, OPTIONS), Target(runs=10**9), budget=Budget(seconds=0.3))
    assert "time limit" in str(cut.limit)
    ruled = run_campaign(Fuzzer(bound, OPTIONS), Target(rule=StopRule(0.1)))
    assert ruled.unsafe.width < 0.1
    assert ruled.limit is None
    assert "narrower" in str(ruled.stopped_by)


def test_an_interrupt_that_a_library_swallows_ends_the_campaign(bound, tmp_path, monkeypatch):
    honest = Population.learn

    def learn(self, *found):
        if len(read_journal(journal)) > 2:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        honest(self, *found)

    journal = tmp_path / "runs.journal"
    monkeypatch.setattr(Population, "learn", learn)
    cut = run_campaign(Fuzzer(bound, OPTIONS), Target(runs=10**6), journal=journal)
    assert str(cut.limit) == "interrupted"
    assert len(read_journal(journal)) == cut.rounds + 1 == 3


def test_searched_starts_are_start_states_and_come_nearer(bound):
    fuzzer = Fuzzer(bound, OPTIONS)
    starts = set(fuzzer.starts.states())
    rounds = iter_rounds(fuzzer)
    for _ in range(3):
        found = next(rounds)
        assert all(state in starts for state, _ in found.best)
        assert all(run.states[0] in starts for run in found.runs)
        distances = [distance for _, distance in found.best]
        assert distances == sorted(distances)


def start_process(folder, *more):
    shipped = find_shipped("line-faulty")
    command = [sys.executable, "-m", "polvet", "fuzz", str(shipped.task), str(shipped.policy), "--json"]
    command += ["--round", "64", "--unsafe-runs", "1000000", "-o", str(folder / "runs.jsonl"), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_rounds(folder, count):
    journal = folder / "runs.jsonl.journal"
    for _ in range(600):
        if journal.exists() and journal.read_bytes().count(b"\n") > count:
            return
        time.sleep(0.05)
    raise AssertionError("no rounds were written")


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_command_loses_no_finished_round_and_resumes(tmp_path, how):
    long = start_process(tmp_path, "--runs", "1000000000")
    wait_for_rounds(tmp_path, 3)
    os.kill(long.pid, how)
    out, _ = long.communicate(timeout=60)
    kept = read_journal(tmp_path / "runs.jsonl.journal")[1:]
    assert len(kept) >= 3
    if how is signal.SIGINT:
        answer = json.loads(out)
        assert answer["reason"] == "interrupted"
        assert answer["figures"]["rounds"] == len(kept)
        assert (tmp_path / "runs.jsonl").exists()
    tried = sum(record["tried"] for record in kept)
    again = start_process(tmp_path, "--runs", str(tried + 1))
    out, errors = again.communicate(timeout=120)
    assert again.returncode == 10, errors
    answer = json.loads(out)
    assert answer["figures"]["rounds"] == len(kept) + 1
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    out, _ = start_process(fresh, "--runs", str(tried + 1)).communicate(timeout=120)
    assert json.loads(out)["figures"] == answer["figures"]
    assert (fresh / "runs.jsonl").read_text() == (tmp_path / "runs.jsonl").read_text()
