"""Faults are what Definition 1 says, all of them and no others; judged by brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polvet.budget import Budget
from polvet.debug.faults import NO_FAULT, all_faults, find_faults, refuse_foreign_runs
from polvet.domains.shipped import find_shipped
from polvet.errors import InputError
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.kernel.starts import Starts
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit, load_fitted
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import End, Run
from polvet.safety.decide import Decider
from polvet.sources import load_task
from tests.debug.oracle import cases

CASES = cases(80)
SHORT = Search(max_steps=40, runs_per_start=2, first_only=False)


def in_order(fault):
    return replace(fault, unsafe_outcomes=tuple(sorted(fault.unsafe_outcomes)))


def test_the_cases_have_faults_and_unsafe_starts():
    assert sum(len(case.faults(case.reached())) for case in CASES) > 40
    assert sum(len(case.starts & case.unsafe) for case in CASES) > 40


@pytest.mark.parametrize("threads", [1, 2])
def test_all_faults_are_the_faults_of_the_definition(threads):
    for case in CASES:
        bound = compile_policy(case.fitted)
        found = all_faults(bound, Decider(case.task, threads=threads))
        wanted = case.faults(case.reached())
        assert {fault.state: in_order(fault) for fault in found.faults} == wanted
        assert len(found.faults) == len(wanted)
        assert found.exhaustive
        assert found.open == 0
        assert set(found.unsafe_starts) == case.starts & case.unsafe


def test_every_fault_on_given_runs_is_found_and_blamed():
    for case in CASES:
        bound = compile_policy(case.fitted)
        runs = find_unsafe_runs(bound, sorted(case.starts), SHORT).runs
        found = find_faults(bound, Decider(case.task), runs)
        on_runs = {state for run in runs for state in run.states}
        wanted = case.faults(on_runs)
        assert {fault.state: in_order(fault) for fault in found.faults} == wanted
        assert found.open == 0
        assert found.states == len(on_runs)
        for k, run in enumerate(runs):
            places = [state for state in run.states if state in wanted]
            if places:
                assert found.faults[found.first_faults[k]].state == places[0]
            else:
                assert found.first_faults[k] == NO_FAULT
            assert (k in found.never_safe) == all(state in case.unsafe for state in run.states)
            if run.states[0] not in case.unsafe:
                assert places, "an unsafe run from a safe start has a fault"
        for fault, blame in zip(found.faults, found.blame, strict=True):
            assert blame.runs == sum(fault.state in run.states for run in runs)
        assert set(found.unsafe_starts) == {run.states[0] for run in runs} & case.unsafe


def straight(length: int):
    """A road on which `go` cannot be stopped after 5, and one policy that always goes."""
    m = ModelBuilder("road")
    x = m.int("x", 0, length, initial=0)
    m.edge("go", guard=x < length, to={"x": x + 1})
    m.edge("stay", guard=x <= 5, to={})
    task = m.task(start=x < length, fail=x == length)
    return compile_policy(fit(task, CallablePolicy(("x",), ("go", "stay"), lambda state: "go")))


@pytest.mark.parametrize("length", [6, 7, 40])
def test_runs_without_chance_are_bisected_to_their_last_safe_state(length):
    bound = straight(length)
    runs = [Run(tuple((x,) for x in range(k, length + 1)), ("go",) * (length - k), End.FAIL) for k in range(length)]
    found = find_faults(bound, Decider(bound.task), runs)
    assert [(fault.state, fault.safe_actions, fault.unsafe_outcomes) for fault in found.faults] == [
        ((5,), ("stay",), ((6,),))
    ]
    assert (found.states, found.safe_states, found.open) == (length + 1, 6, 0)
    assert set(found.unsafe_starts) == {(x,) for x in range(6, length)}
    assert found.first_faults.tolist() == [0 if k <= 5 else NO_FAULT for k in range(length)]


def test_runs_that_do_not_fail_are_judged_as_well():
    bound = straight(40)
    found = find_faults(bound, Decider(bound.task), [Run(((0,), (1,), (2,)), ("go", "go"), End.LIMIT)])
    assert found.faults == ()
    assert found.safe_states == 3


def test_what_a_decider_learnt_is_kept_for_the_next_call():
    case = next(case for case in CASES if case.faults(case.reached()))
    bound, decider = compile_policy(case.fitted), Decider(case.task)
    runs = find_unsafe_runs(bound, sorted(case.starts), SHORT).runs
    first, second = find_faults(bound, decider, runs), find_faults(bound, decider, list(runs))
    assert first.faults == second.faults
    assert first.blame == second.blame


def test_runs_of_other_policies_are_refused():
    refused = 0
    for case in CASES[:40]:
        bound = compile_policy(case.fitted)
        runs = find_unsafe_runs(bound, sorted(case.starts), SHORT).runs
        refuse_foreign_runs(bound, runs)
        for run in runs[:3]:
            if len(run.states) < 2:
                continue
            other = next((s for s in sorted(case.unsafe) if s not in case.outcomes(run.states[0])), None)
            if other is not None:
                wrong = Run((run.states[0], other), run.actions[:1], End.FAIL)
                with pytest.raises(InputError, match="no run of this policy"):
                    refuse_foreign_runs(bound, PackedRuns.of(bound, [run, wrong]))
                refused += 1
            strange = next((s for s in sorted(case.unsafe) if s not in case.starts), None)
            if strange is not None:
                with pytest.raises(InputError, match="no start state"):
                    refuse_foreign_runs(bound, PackedRuns.of(bound, [Run((strange,), (), End.FAIL)]))
                refused += 1
    assert refused > 10


def test_a_limit_leaves_states_open_and_says_so():
    shipped = find_shipped("line-faulty")
    fitted = load_fitted(load_task(shipped.task), shipped.policy)
    bound = compile_policy(fitted)
    whole = all_faults(bound, Decider(fitted.task))
    cut = all_faults(bound, Decider(fitted.task), budget=Budget(states=2_000))
    assert whole.exhaustive
    assert not cut.exhaustive
    assert cut.limit is not None
    assert {fault.state for fault in cut.faults} <= {fault.state for fault in whole.faults}
    starts = [state for state in Starts.of(fitted.task).states()]
    runs = find_unsafe_runs(bound, starts).runs
    found = find_faults(bound, Decider(fitted.task), runs, budget=Budget(seconds=0.0))
    assert found.open > 0
    assert "time limit" in str(found.limit)
    assert {fault.state for fault in found.faults} <= {fault.state for fault in whole.faults}


def test_the_limit_that_stopped_deciding_is_the_one_that_is_named():
    shipped = find_shipped("line-faulty")
    fitted = load_fitted(load_task(shipped.task), shipped.policy)
    bound = compile_policy(fitted)
    runs = find_unsafe_runs(bound, bound.compiled.pack_starts(Starts.of(fitted.task)), Search(seed=1)).runs
    found = find_faults(bound, Decider(fitted.task), runs, budget=Budget(megabytes=8_000, states=2))
    assert found.limit is not None
    assert found.limit.kind == "states"
