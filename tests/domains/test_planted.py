"""Planted faults are the faults there are, by brute force, and the fault finder finds exactly them."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.debug.faults import all_faults, find_faults
from polvet.domains.planted import plant
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.safety.decide import Decider
from tests.debug.oracle import Case
from tests.safety.networks import unsafe_states

SEEDS = range(40)


def brute_force(found):
    """The faults by Definition 1, from all states of the world."""
    task = found.instance.task()
    semantics = Semantics(task.network)
    rooms, keys, falls = (variable.upper for variable in task.network.variables)
    states = [(r, k, f) for r in range(rooms + 1) for k in range(keys + 1) for f in range(falls + 1)]
    holds = semantics.compile(task.start)
    starts = frozenset(state for state in states if holds(state))
    case = Case(fit(task, found.policy), semantics, starts, frozenset(unsafe_states(task, states)))
    return case.faults(case.reached())


@pytest.mark.parametrize("seed", SEEDS[:12])
def test_what_was_planted_is_what_there_is(seed):
    found = plant(seed, rooms=6, keys=3)
    assert {state: fault.action for state, fault in brute_force(found).items()} == found.faults


@pytest.mark.parametrize("seed", SEEDS)
def test_all_planted_faults_are_found_and_nothing_else(seed):
    found = plant(seed)
    task = found.instance.task()
    bound = compile_policy(fit(task, found.policy))
    exhaustive = all_faults(bound, Decider(task))
    assert exhaustive.exhaustive
    assert {fault.state: fault.action for fault in exhaustive.faults} == found.faults
    assert set(exhaustive.unsafe_starts) == found.doomed_starts
    starts = list(Starts.of(task).states()) * 20
    fuzzed = find_unsafe_runs(bound, starts, Search(seed, max_steps=200, first_only=False))
    on_runs = find_faults(bound, Decider(task), fuzzed.runs)
    assert {fault.state for fault in on_runs.faults} <= set(found.faults)
    for number in on_runs.never_safe:
        assert fuzzed.runs[int(number)].states[0] in found.doomed_starts


@pytest.mark.slow
def test_fuzzing_finds_nearly_all_of_them():
    planted = found_in_all = 0
    for seed in SEEDS:
        world = plant(seed)
        task = world.instance.task()
        bound = compile_policy(fit(task, world.policy))
        starts = list(Starts.of(task).states()) * 20
        runs = find_unsafe_runs(bound, starts, Search(seed, 16, 200, first_only=False)).runs
        planted += len(world.faults)
        found_in_all += len(find_faults(bound, Decider(task), runs).faults)
    assert planted > 200
    assert found_in_all > 0.9 * planted


@pytest.mark.slow
def test_the_command_line_finds_them_in_written_worlds(tmp_path, capsys):
    world = plant(3)
    task, policy = world.write(tmp_path)
    output = tmp_path / "faults.json"
    assert run(["faults", str(task), str(policy), "-o", str(output), "--json"]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["figures"]["faults"] == len(world.faults)
    document = json.loads(output.read_text())
    assert document["exhaustive"] is True
    listed = {(f["state"]["room"], f["state"]["key"], f["state"]["fall"]): f["action"] for f in document["faults"]}
    assert listed == world.faults
    runs = tmp_path / "runs.jsonl"
    assert run(["fuzz", str(task), str(policy), "-o", str(runs), "--runs", "4000", "--json"]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["figures"]["unsafe_runs"] > 0
    assert answer["figures"]["runs"] >= 4000
    assert run(["faults", str(task), str(policy), "--runs", str(runs), "--explain", "0", "--json"]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert 0 < answer["figures"]["faults"] <= len(world.faults)
    assert answer["explanation"]["best_safe"] in answer["explanation"]["safe_actions"]
