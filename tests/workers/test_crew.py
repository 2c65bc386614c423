"""A crew that gets task and policy as bytes does what is done here without one: rounds, runs, verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.debug.evaluate import evaluate, evaluation_starts
from polvet.domains.shipped import find_shipped
from polvet.errors import InputError
from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, generation_end, run_campaign
from polvet.model.network import OutOfBounds
from polvet.model.task import TaskOptions
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.runs import End, simulate
from polvet.policy.save import save_policy
from polvet.safety.batch import decide_many
from polvet.safety.decide import ActionOrder, Decider
from polvet.sources import load_task
from polvet.workers.parcel import open_parcel, pack
from polvet.workers.protocol import Crew, Here
from polvet.workers.simulation import simulate_by

OPTIONS = RoundOptions(seed=3, starts=64, max_steps=200)


@pytest.fixture(params=["line-faulty", "bird"])
def case(request):
    shipped = find_shipped(request.param)
    fitted = load_fitted(load_task(shipped.task), shipped.policy)
    parcel = pack(fitted.task, policy=shipped.policy)
    return compile_policy(fitted), Crew(Here(), parcel)


def test_generations_are_without_gaps_and_grow_to_64():
    ends = sorted({generation_end(number) for number in range(1000)})
    sizes = np.diff([0, *ends]).tolist()
    assert sizes[:8] == [1, 1, 2, 4, 8, 16, 32, 64]
    assert set(sizes[7:]) == {64}


def test_a_crew_fuzzes_the_same_campaign(case, tmp_path):
    bound, crew = case
    found = [
        run_campaign(Fuzzer(bound, OPTIONS), Target(runs=900), journal=tmp_path / name, crew=who)
        for name, who in (("alone", None), ("crew", crew))
    ]
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "crew").read_bytes()
    assert found[0].runs == found[1].runs
    assert found[0].rounds == found[1].rounds > 3


def test_a_crew_simulates_and_evaluates_the_same_runs(case):
    bound, crew = case
    sample = evaluation_starts(bound.task, 300, 1)
    alone, together = (evaluate(bound, sample, runs=90, max_steps=100, seed=4, crew=who) for who in (None, crew))
    assert together.ends == alone.ends
    assert together.goal_interval == alone.goal_interval
    packed = bound.compiled.pack(sample.states)
    here = simulate(bound, packed, runs_per_start=90, max_steps=100, seed=4)
    there = simulate_by(crew, packed, runs_per_start=90, max_steps=100, seed=4)
    for name in ("ends", "lengths", "last", "steps"):
        assert np.array_equal(getattr(here, name), getattr(there, name))


@pytest.mark.parametrize("order", ["app", "random", "policy"])
def test_a_crew_decides_the_same(case, order):
    bound, crew = case
    states = list(evaluation_starts(bound.task, 40, 1).states) + [
        state for run in run_campaign(Fuzzer(bound, OPTIONS), Target(runs=100)).runs[:3] for state in run.states
    ]
    decider = Decider(bound.task, share=False, order=ActionOrder(order, 7, bound))
    alone, together = (decide_many(decider, states, crew=who).decided for who in (None, crew))
    assert [(one.verdict, one.expanded) for one in alone] == [(one.verdict, one.expanded) for one in together]


def test_a_crew_out_of_time_says_so(case):
    bound, crew = case
    packed = bound.compiled.pack(evaluation_starts(bound.task, 300, 1).states)
    found = simulate_by(crew, packed, runs_per_start=9000, max_steps=100, seed=4, budget=Budget(0))
    assert "time limit" in str(found.limit)
    assert found.count(End.UNFINISHED) > 0
    states = list(evaluation_starts(bound.task, 200, 1).states)
    decided = decide_many(Decider(bound.task), states, crew=crew, budget=Budget(seconds=0.0)).decided
    assert len(decided) == len(states)


def test_workers_of_another_version_are_refused(case):
    _, crew = case
    with pytest.raises(InputError, match="Install the same version"):
        open_parcel(replace(crew.parcel, version="0.0.0"))


def test_options_and_mode_travel(tmp_path):
    shipped = find_shipped("line-faulty")
    options = TaskOptions(start="false", goal="true", out_of_bounds=OutOfBounds.DISABLE, mode="raw")
    here = load_task(shipped.task, options)
    there = open_parcel(pack(here, policy=Path(shipped.policy))).task
    assert there == replace(here, network=there.network)
    assert there.reading.mode == "raw"
    assert there.network.constants == here.network.constants
    assert there.network.out_of_bounds is OutOfBounds.DISABLE


def test_a_policy_of_two_files_travels_whole(tmp_path):
    shipped = find_shipped("bird")
    task = load_task(shipped.task)
    fitted = load_fitted(task, shipped.policy)
    names = list(fitted.policy.inputs), list(fitted.policy.outputs)
    random = np.random.default_rng(1)
    network = network_of([(random.normal(size=(len(names[1]), len(names[0]))), np.zeros(len(names[1])))], *names)
    save_policy(network, tmp_path / "policy.jani2nnet")
    for name in ("policy.jani2nnet", "policy.nnet"):
        here = load_fitted(task, tmp_path / name)
        there = open_parcel(pack(task, policy=tmp_path / name)).fitted
        assert there.sha256 == here.sha256
        assert (there.policy.inputs, there.policy.outputs) == (network.inputs, network.outputs)
        assert np.array_equal(there.policy.layers[0].weights, network.layers[0].weights)
