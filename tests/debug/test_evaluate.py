"""%Unsafe and %Goal: exact where the search closes, honest intervals where it does not."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from polvet.budget import Budget
from polvet.debug.confidence import binomial_interval, mean_interval
from polvet.debug.evaluate import evaluate, evaluation_starts
from polvet.errors import InputError
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from tests.policy.worlds import ended, reached, worlds


def line(length=100):
    """Start anywhere below `length`; `go` moves on and is fatal at 37."""
    m = ModelBuilder("line")
    x = m.int("x", 0, length, initial=0)
    m.edge("go", guard=x < length, to=[(Fraction(1, 2), {"x": x + 1}), (Fraction(1, 2), {})])
    return m.task(start=x < length, fail=x == 37, goal=x == length)


def walker():
    return CallablePolicy(("x",), ("go",), lambda state: "go")


def test_the_shares_over_all_starts_are_exact():
    found = evaluate(compile_policy(fit(line(), walker())), evaluation_starts(line(), 1000, 0), runs=5)
    assert found.starts.complete
    assert found.unsafe == 38 / 100
    assert found.unsafe_interval == (0.38, 0.38)
    assert found.solved
    assert found.goal == pytest.approx(0.62, abs=1e-9)
    assert found.goal_interval[1] - found.goal_interval[0] < 1e-9
    assert found.open == 0


@pytest.mark.parametrize("certain", [True, False])
def test_one_run_is_enough_only_where_no_state_has_two_outcomes(certain):
    m = ModelBuilder("fork")
    x = m.int("x", 0, 3, initial=0)
    half = Fraction(1, 2)
    m.edge("go", guard=x == 0, to={"x": 1} if certain else [(half, {"x": 1}), (half, {"x": 2})])
    task = m.task(fail=x == 3, goal=x == 1)
    # Two ended states for one fork: on the whole there are fewer steps than states.
    found = evaluate(compile_policy(fit(task, walker())), evaluation_starts(task, 10, 0), runs=400)
    assert found.certain is certain
    assert found.batch.runs_per_start == (1 if certain else 400)
    assert found.goal == 1.0 if certain else 0.3 < found.goal < 0.7


def test_sampled_starts_give_an_interval_that_holds_the_truth():
    sample = evaluation_starts(line(), 40, 3)
    assert not sample.complete
    assert len(set(sample.states)) == 40
    found = evaluate(compile_policy(fit(line(), walker())), sample, runs=5)
    low, high = found.unsafe_interval
    assert low <= 0.38 <= high
    assert found.unsafe == sum(state[0] <= 37 for state in sample.states) / 40


def test_where_the_search_stops_runs_decide_and_the_rest_widens_the_interval():
    found = evaluate(
        compile_policy(fit(line(), walker())), evaluation_starts(line(), 1000, 0), runs=3, budget=Budget(states=4)
    )
    assert found.limit is not None
    assert found.sampled_unsafe > 0
    assert found.open == 62 - sum(judged.name == "SAFE" for judged in found.judgements)
    low, high = found.unsafe_interval
    assert low == found.unsafe == 0.38
    assert high > 0.38


def test_excluded_starts_are_left_out():
    first = evaluation_starts(line(), 30, 0)
    second = evaluation_starts(line(), 70, 1, exclude=first.states)
    assert not set(first.states) & set(second.states)
    assert len(second.states) == 70
    assert not second.complete


def test_no_start_state_is_an_input_error():
    m = ModelBuilder("none")
    x = m.int("x", 0, 3, initial=0)
    m.edge("go", guard=x < 3, to={"x": x + 1})
    with pytest.raises(InputError, match="no state satisfies"):
        evaluation_starts(m.task(start=(x > 2) & (x < 2), fail=x == 3), 10, 0)


@given(worlds())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_unsafe_share_is_the_brute_force_share(world):
    assume(world is not None)
    sample = evaluation_starts(world.fitted.task, 10**4, 0)
    found = evaluate(compile_policy(world.fitted), sample, runs=2, max_steps=5)
    unsafe = sum(
        any(ended(world, s) == "fail" for s in reached(world, any_order=False, starts=[start]))
        for start in sample.states
    )
    assert found.unsafe == unsafe / len(sample.states)


def at_least(hits, tries, p):
    return sum(comb(tries, k) * p**k * (1 - p) ** (tries - k) for k in range(hits, tries + 1))


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=40, deadline=None)
def test_the_binomial_interval_ends_where_the_tails_are_two_and_a_half_percent(case):
    hits, tries = case
    low, high = binomial_interval(hits, tries)
    assert low <= hits / tries <= high
    if hits:
        assert float(at_least(hits, tries, Fraction(low))) == pytest.approx(0.025, rel=1e-6)
    if hits < tries:
        assert 1 - float(at_least(hits + 1, tries, Fraction(high))) == pytest.approx(0.025, rel=1e-6)


def test_hoeffdings_interval_never_leaves_zero_to_one():
    assert mean_interval(0.0, 10)[0] == 0.0
    assert mean_interval(1.0, 10)[1] == 1.0
