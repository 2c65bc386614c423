"""Faults are what Definition 1 says, all of them and no others; judged by brute force."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import polvet
from polvet.budget import Budget
from polvet.debug.faults import NO_FAULT, _Judge, all_faults, find_faults, refuse_foreign_runs
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
from polvet.safety.projections import View
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


# -- limits


def wide_table(states: int):
    """A world given state by state, with features of so many values that all their combinations are beyond counting; and its matrix."""
    rng = random.Random(states)
    moves = {
        label: [sorted({min(s + 1 + rng.randrange(3), states - 1) for _ in range(count)}) for s in range(states)]
        for label, count in (("a", 2), ("b", 1))
    }
    moves["b"] = [[s] if rng.random() < 0.5 else after for s, after in enumerate(moves["b"])]
    holes = {s for s in range(1, states - 1) if rng.random() < 0.1}
    rows, sparse = {}, pytest.importorskip("scipy.sparse")
    for label, targets in moves.items():
        entries = [(1 / len(after), s, t) for s, after in enumerate(targets) for t in after]
        chances, sources, after = zip(*entries, strict=True)
        rows[label] = sparse.coo_array((chances, (sources, after)), shape=(states, states))
    features = {
        "hole": [int(s in holes) for s in range(states)],
        **{name: [s * factor % 997 for s in range(states)] for name, factor in (("x", 31), ("y", 57), ("z", 7))},
    }
    starts = range(0, states, 5)
    task = polvet.from_matrix(rows, features=features, start=starts, fail="hole == 1", goal=[states - 1])
    return task, moves, holes, starts


def test_faults_of_a_table_with_many_features_are_those_of_the_definition():
    task, moves, holes, starts = wide_table(5_500)
    goal, ended = 5_499, holes | {5_499}
    unsafe, grown = set(holes), True
    while grown:
        fresh = {
            s for s in range(5_500) if s not in unsafe | {goal} and all(unsafe & set(m[s]) for m in moves.values())
        }
        unsafe, grown = unsafe | fresh, bool(fresh)
    chosen = {s: "ab"[s % 2] for s in range(5_500)}
    reached, pending = set(starts), list(starts)
    while pending:
        s = pending.pop()
        fresh = set() if s in ended else set(moves[chosen[s]][s]) - reached
        reached |= fresh
        pending += fresh
    wanted = {s for s in reached - unsafe - ended if unsafe & set(moves[chosen[s]][s])}
    found = task.policy(lambda state: chosen[state["s"]]).faults()
    assert found.exhaustive
    assert len(wanted) > 20
    assert {fault.state["s"] for fault in found} == wanted


def many_edges(count: int):
    """A model of many edges over variables with many values, and a clock that each look at an edge of a smaller game moves on."""
    m = ModelBuilder("many")
    x, y, z = m.int("x", 0, count, initial=0), m.int("y", 0, 3_000, initial=0), m.int("z", 0, 3_000, initial=0)
    for k in range(count):
        m.edge("go", guard=x == k, to={x: k + 1, y: k % 3_000, z: 7 * k % 3_000})
    task = m.task(start=(x < 3) & (y == 0) & (z == 0), fail=x == count)
    return compile_policy(fit(task, CallablePolicy(("x", "y", "z"), ("go",), lambda state: "go")))


def test_smaller_games_keep_the_time_limit_while_they_are_made(monkeypatch):
    now = [0.0]
    looked_at = []
    true_told = View.told

    def told(view, test):
        now[0] += 1.0
        looked_at.append(test)
        return true_told(view, test)

    monkeypatch.setattr(View, "told", told)
    bound = many_edges(600)
    found = all_faults(bound, Decider(bound.task), budget=Budget(5.0, clock=lambda: now[0]))
    assert 5 <= len(looked_at) < 20  # two tests of an edge may be told after the last look at the clock
    assert found.limit is not None
    assert found.limit.kind == "time"


def test_no_faults_on_some_runs_is_not_no_faults_where_a_limit_ended_the_search():
    """All runs from most starts are safe; what would be faulty is behind the limit on states, and fuzzing hardly comes there."""
    m = ModelBuilder("hidden")
    x, lost = m.int("x", 0, 100_000, initial=0), m.bool("lost", initial=False)
    m.edge("go", guard=x < 100_000, to={x: x + 1})
    m.edge("jump", guard=x == 99_000, to={lost: True})
    task = polvet.Task(m.task(start=x == 0, fail=lost))
    found = task.policy(lambda state: "jump" if state["x"] == 99_000 else "go").faults(
        max_states=500, budget=10, max_steps=50
    )
    assert (len(found), found.exhaustive) == (0, False)
    assert found.verdict is polvet.Verdict.UNKNOWN
    assert "limit of 500 states" in str(found.reason)


def test_a_function_that_takes_its_time_ends_an_analysis_soon_after_its_limit():
    now, asked = [0.0], []

    def function(state):
        asked.append(state)
        now[0] += 0.01
        return "go"

    m = ModelBuilder("slow")
    x = m.int("x", 0, 40_000, initial=0)
    m.edge("go", guard=x < 40_000, to={x: x + 1})
    m.edge("stay", to={})
    task = m.task(start=x >= 0, fail=x < 0)
    bound = compile_policy(fit(task, CallablePolicy(("x",), ("go", "stay"), function)))
    states = bound.compiled.pack_starts(Starts.of(task))
    judge = _Judge(bound, Decider(task), Budget(5.0, clock=lambda: now[0]))
    judge.number(states)
    judge.judge()
    assert 500 <= len(asked) < 1_000
    assert judge.limit is not None
    assert judge.open == len(states) - len(asked)
