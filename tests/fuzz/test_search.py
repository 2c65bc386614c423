"""FuzzResult runs are runs of the policy, repeatable whatever the threads; the distance is zero exactly in `fail`."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from polvet.errors import InputError
from polvet.fuzz.distance import distance_to, distance_to_fail
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.search import TEMPERATURES, UNBIASED, GuidedPolicy, Search, find_unsafe_runs, try_once
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import End, simulate
from tests.debug.oracle import cases
from tests.policy.worlds import reached as all_reached
from tests.policy.worlds import worlds

PLAIN = Search(novelty=0.0)
CASES = cases(80)[:25]
RELAXED = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@given(worlds())
@RELAXED
def test_the_distance_is_zero_exactly_where_fail_holds(world):
    assume(world is not None)
    task = world.fitted.task
    fail = world.semantics.compile(task.fail)
    for distance in (distance_to(task.fail, task.network), distance_to_fail(task)):
        far = world.semantics.compile(distance)
        for state in all_reached(world):
            try:
                measured, holds = far(state), bool(fail(state))
            except InputError:
                continue  # a division by zero: each looks at parts of the condition that the other leaves out
            assert measured >= 0
            assert (measured == 0) == holds


@pytest.mark.parametrize("options", [{}, {"temperatures": UNBIASED, "novelty": 0.0}, {"novelty": 1.0}])
def test_every_fuzzed_run_is_a_run_of_the_policy_into_fail(options):
    for case in CASES:
        found = find_unsafe_runs(
            compile_policy(case.fitted), sorted(case.starts), Search(first_only=False, max_steps=60, **options)
        )
        for run, owner in list(zip(found.runs, found.starts, strict=True))[::5]:
            assert run.states[0] == sorted(case.starts)[owner]
            assert case.semantics.compile(case.task.fail)(run.states[-1])
            for before, action, after in zip(run.states, run.actions, run.states[1:], strict=False):
                assert not case.ended(before)
                moves = case.fitted.followed(before, case.semantics.moves(before))
                assert any(move.label == action and any(o.state == after for o in move.outcomes) for move in moves)


def test_every_start_with_an_unsafe_run_is_found_sooner_or_later():
    for case in CASES:
        found = find_unsafe_runs(
            compile_policy(case.fitted), sorted(case.starts), Search(runs_per_start=64, max_steps=200)
        )
        reached, fails = case.reached(), case.semantics.compile(case.task.fail)
        reaching = {state for state in reached if fails(state)}
        while more := {s for s in reached - reaching if case.outcomes(s) & reaching}:
            reaching |= more
        assert {run.states[0] for run in found.runs} == case.starts & reaching


@pytest.mark.threads
def test_threads_do_not_change_what_is_found():
    for case in CASES[:15]:
        bound = compile_policy(case.fitted)
        starts = bound.compiled.pack(sorted(case.starts) * 60)
        one, two = (
            find_unsafe_runs(bound, starts, Search(seed=5, threads=k, first_only=False, max_steps=100)) for k in (1, 2)
        )
        assert np.array_equal(one.runs.states, two.runs.states)
        assert np.array_equal(one.runs.labels, two.runs.labels)
        assert np.array_equal(one.starts, two.starts)
        assert (one.tried, one.steps, one.ends) == (two.tried, two.steps, two.ends)


def branching():
    """One step to a hole with probability 1/10, back to the start otherwise."""
    m = ModelBuilder("m")
    x = m.int("x", 0, 3, initial=0)
    m.edge("go", guard=x == 0, to=[("1/10", {"x": 1}), ("9/10", {"x": 2})])
    task = m.task(fail=x == 1, goal=x >= 2)
    return compile_policy(fit(task, CallablePolicy(("x",), ("go",), lambda state: "go")))


def test_bias_makes_fail_likelier_and_plain_runs_follow_the_model():
    bound = branching()
    starts = bound.compiled.pack([(0,)] * 20_000)
    guide = GuidedPolicy.of(bound)
    numbers = np.arange(20_000, dtype=np.uint64)
    plain = try_once(guide, starts, numbers, inf, PLAIN)
    biased = try_once(guide, starts, numbers, 0.5, PLAIN)
    share = (plain.ends == End.FAIL).mean()
    assert abs(share - 0.1) < 0.01
    # 0.1 : 0.9 exp(-2) is what the weights say.
    assert abs((biased.ends == End.FAIL).mean() - 0.1 / (0.1 + 0.9 * np.exp(-2))) < 0.015
    assert (simulate(bound, starts).ends == End.FAIL).mean() == pytest.approx(share, abs=0.015)


def test_runs_that_repeat_themselves_for_ever_end_at_once():
    m = ModelBuilder("m")
    x = m.int("x", 0, 9, initial=0)
    m.edge("go", guard=x < 9, assign={"x": x + 1})
    m.edge("go", guard=x == 9, assign={"x": 4})
    task = m.task(fail=x > 9)
    bound = compile_policy(fit(task, CallablePolicy(("x",), ("go",), lambda state: "go")))
    found = find_unsafe_runs(bound, [(0,)], Search(max_steps=10**6))
    assert found.ends == {"loop": 1}
    assert found.steps < 50
    assert found.tried == 1, "there is only one run from this start"


def test_packed_runs_unfold_to_what_was_packed():
    case = next(
        case for case in CASES if len(find_unsafe_runs(compile_policy(case.fitted), sorted(case.starts)).runs) > 2
    )
    bound = compile_policy(case.fitted)
    runs = find_unsafe_runs(bound, sorted(case.starts)).runs
    again = PackedRuns.of(bound, runs)
    assert list(again) == list(runs)
    assert again[-1] == runs[len(runs) - 1]
    assert runs[:2] == tuple(runs)[:2]
    joined = PackedRuns.joined(bound, [runs, again])
    assert list(joined) == [*runs, *again]
    assert len(TEMPERATURES) > 1
