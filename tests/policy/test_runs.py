"""Simulation and search under a policy do what the slow interpreter and the policy's own choices say."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from polvet.budget import Budget
from polvet.errors import InputError, ModelError
from polvet.mdp.build import build, build_exactly
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.runs import End, Inspection, Judgement, simulate, trace
from tests.policy.worlds import ended, fail_probability, reached, successors, worlds

RELAXED = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
STEPS = 12


def compiled(world):
    assume(world is not None)
    return compile_policy(world.fitted)


@given(worlds())
@RELAXED
def test_every_step_of_a_run_is_one_of_the_interpreters_under_the_policys_choice(world):
    bound = compiled(world)
    for number, start in enumerate(world.starts[:5]):
        run = trace(bound, start, number, max_steps=STEPS, seed=3)
        assert run.states[0] == start
        for before, action, after in zip(run.states, run.actions, run.states[1:], strict=False):
            assert ended(world, before) is None
            moves = world.fitted.followed(before, world.semantics.moves(before))
            assert any(move.label == action and any(o.state == after for o in move.outcomes) for move in moves)
        last = run.states[-1]
        if run.end in (End.FAIL, End.GOAL):
            assert ended(world, last) == run.end.text
        else:
            assert ended(world, last) is None
            moves = world.semantics.moves(last)
            if run.end is End.DEADLOCK:
                assert not moves
            elif run.end is End.STUCK:
                assert moves
                assert not world.fitted.followed(last, moves)
            else:
                assert run.end is End.LIMIT
                assert len(run.actions) == STEPS


@pytest.mark.threads
@given(worlds())
@RELAXED
def test_batches_hold_the_same_runs_whatever_the_threads_and_the_split(world):
    bound = compiled(world)
    starts = bound.compiled.pack(world.starts[:4])
    options = {"max_steps": STEPS, "seed": 7}
    whole = simulate(bound, starts, runs_per_start=300, **options)
    threaded = simulate(bound, starts, runs_per_start=300, threads=3, **options)
    assert (whole.ends == threaded.ends).all()
    assert (whole.lengths == threaded.lengths).all()
    assert (whole.last == threaded.last).all()
    part = simulate(bound, starts[:1], runs_per_start=20, first_run=5, **options)
    assert part.ends.tolist() == whole.ends[5:25].tolist()
    for number in (0, 17, 299):
        run = trace(bound, world.starts[0], number, **options)
        assert whole.ends[number] == run.end
        assert whole.lengths[number] == len(run.actions)
        assert bound.compiled.unpack(whole.last[number : number + 1])[0] == run.states[-1]


@given(worlds())
@settings(RELAXED, max_examples=10)
def test_runs_fail_as_often_as_the_exact_chain_says(world):
    bound = compiled(world)
    expected = float(fail_probability(world, world.starts[0], 6))
    runs = 20_000
    batch = simulate(bound, bound.compiled.pack(world.starts[:1]), runs_per_start=runs, max_steps=6, seed=11)
    error = 5 * sqrt(expected * (1 - expected) / runs)
    assert abs(batch.count(End.FAIL) / runs - expected) <= error + 1e-12


@given(worlds())
@RELAXED
def test_search_judges_every_start_as_brute_force_does(world):
    bound = compiled(world)
    inspection = Inspection(bound)
    judgements = inspection.judge(bound.compiled.pack(world.starts))
    for start, judged in zip(world.starts, judgements, strict=True):
        surely = any(ended(world, s) == "fail" for s in reached(world, any_order=False, starts=[start]))
        perhaps = any(ended(world, s) == "fail" for s in reached(world, any_order=True, starts=[start]))
        assert judged is (Judgement.UNSAFE if surely else Judgement.NEAR_TIE if perhaps else Judgement.SAFE)
        if judged in (Judgement.SAFE, Judgement.OPEN):
            continue
        run, tie = inspection.doubtful_witness(start)
        assert run.states[0] == start
        assert ended(world, run.states[-1]) == "fail"
        for before, after in zip(run.states, run.states[1:], strict=False):
            assert after in successors(world, before, any_order=judged is Judgement.NEAR_TIE)
        assert (tie is not None) == (judged is Judgement.NEAR_TIE)


@given(worlds())
@RELAXED
def test_the_policys_state_space_is_the_interpreters(world):
    assume(world is not None)
    task = world.fitted.task
    ends = [task.fail, task.goal]
    try:
        slow = build_exactly(task.network, conditions=ends, stop_at=[0, 1], policy=world.fitted)
    except InputError:
        assume(False)
    fast = build(task.network, conditions=ends, stop_at=[0, 1], policy=world.fitted)
    assert fast.mdp.states == slow.mdp.states == len(reached(world, any_order=False))
    assert fast.mdp.choices == slow.mdp.choices
    assert sorted(fast.mdp.probability) == pytest.approx(sorted(slow.mdp.probability), rel=1e-12)
    assert sorted(fast.labels.tolist()) == sorted(slow.labels.tolist())


def counter(fail=5):
    m = ModelBuilder("counter")
    x = m.int("x", 0, 9, initial=0)
    m.edge("up", guard=x < 9, to={"x": x + 1})
    m.edge("stay", guard=True, to={})
    return m.task(fail=x == fail, goal=x == 9)


def up_until(limit):
    return CallablePolicy(("x",), ("up", "stay"), lambda state: "up" if state["x"] < limit else "stay")


@pytest.mark.threads
def test_a_python_function_runs_in_the_kernel():
    bound = compile_policy(fit(counter(), up_until(3)))
    run = trace(bound, (0,), 0, max_steps=5)
    assert run.actions == ("up", "up", "up", "stay", "stay")
    assert run.end is End.LIMIT
    batch = simulate(bound, bound.compiled.pack([(0,), (7,)]), runs_per_start=600, threads=2, max_steps=20)
    assert batch.count(End.LIMIT) == 1200
    assert Inspection(bound).judge(bound.compiled.pack([(0,), (4,)])) == [Judgement.SAFE, Judgement.SAFE]


def test_a_policy_that_reads_nothing_runs():
    bound = compile_policy(fit(counter(), CallablePolicy((), ("up", "stay"), lambda state: "up")))
    assert trace(bound, (0,), 0).end is End.FAIL
    assert Inspection(bound).judge(bound.compiled.pack([(0,), (6,)])) == [Judgement.UNSAFE, Judgement.SAFE]


def test_an_error_in_a_python_function_reaches_the_caller():
    def broken(state):
        raise ZeroDivisionError(f"at {state}")

    bound = compile_policy(fit(counter(), CallablePolicy(("x",), ("up", "stay"), broken)))
    with pytest.raises(ZeroDivisionError, match="'x': 0"):
        simulate(bound, bound.compiled.pack([(0,)]))


def test_a_score_that_is_not_a_number_is_reported_with_its_state():
    huge = network_of([([[3e38], [3e38]], [0, 0]), ([[3e38, -3e38], [1, 1]], [0, 0])], ["x"], ["up", "stay"])
    bound = compile_policy(fit(counter(), huge))
    start = bound.compiled.pack([(2,)])
    for attempt in (
        lambda: simulate(bound, start),
        lambda: Inspection(bound).judge(start),
        lambda: trace(bound, (2,), 0),
    ):
        with pytest.raises(InputError, match="not a number in state x=2"):
            attempt()


def test_an_assignment_out_of_bounds_is_reported_with_its_state():
    m = ModelBuilder("ramp")
    x = m.int("x", 0, 3, initial=0)
    m.edge("up", guard=True, to={"x": x + 1})
    bound = compile_policy(fit(m.task(fail=x == 9), CallablePolicy(("x",), ("up",), lambda state: "up")))
    with pytest.raises(ModelError, match="x=3"):
        simulate(bound, bound.compiled.pack([(0,)]))
    with pytest.raises(ModelError, match="x=3"):
        Inspection(bound).judge(bound.compiled.pack([(0,)]))


def test_a_limit_leaves_starts_open_and_says_so():
    m = ModelBuilder("wide")
    x = m.int("x", 0, 10**6, initial=0)
    m.edge("up", guard=x < 10**6, to={"x": x + 1})
    bound = compile_policy(fit(m.task(fail=x < 0), CallablePolicy(("x",), ("up",), lambda state: "up")))
    inspection = Inspection(bound)
    near, far = bound.compiled.pack([(10**6 - 5,), (0,)])[:, None].transpose(1, 0, 2)[0]
    judged = inspection.judge(np.stack([near, far]), budget=Budget(states=500))
    assert judged == [Judgement.SAFE, Judgement.OPEN]
    assert inspection.limit is not None
    assert "500 states" in str(inspection.limit)


def test_near_ties_are_followed_for_safety_and_make_no_run():
    # Two sums of the same numbers in another order: equal in exact arithmetic, perhaps not in float32.
    layers = [([[0.1], [0.2], [0.3]], [0.1, 0.2, 0.3]), ([[1, 1, 1], [1, 1, 1]], [0, 1e-9])]
    network = network_of(layers, ["x"], ["stay", "up"])
    bound = compile_policy(fit(counter(fail=1), network))
    assert trace(bound, (0,), 0, max_steps=3).end is End.LIMIT
    inspection = Inspection(bound)
    assert inspection.judge(bound.compiled.pack([(0,)])) == [Judgement.NEAR_TIE]
    run, tie = inspection.doubtful_witness((0,))
    assert run.states == ((0,), (1,))
    assert tie == (0,)


@pytest.mark.threads
def test_runs_are_the_same_where_nothing_is_worth_remembering():
    """Hardly any state comes again, so that lanes soon step without memory: each run is still the one that is told."""
    m = ModelBuilder("drift")
    x, y = m.int("x", 0, 10**6, initial=0), m.int("y", 0, 10**6, initial=0)
    for label, step in (("slow", 1), ("fast", 3)):
        m.edge(label, guard=x < 10**6 - 3, to=[("1/3", {"x": x + step}), ("2/3", {"x": x + step, "y": y + 1})])
    m.edge("slow", guard=y > 50, to={"y": y - 7})
    m.edge(None, guard=x > 40, to={"x": x - 5})
    network = network_of([(np.array([[0.5, -1.0], [-0.3, 0.9]]), np.zeros(2))], ("x", "y"), ("slow", "fast"))
    bound = compile_policy(fit(m.task(fail=y == 97), network))
    starts = [(1_000 * k % 999_000, 13 * k) for k in range(1_500)]
    found = simulate(bound, bound.compiled.pack(starts), max_steps=40, seed=5, threads=2)
    assert found.steps > 30_000
    last = bound.compiled.unpack(found.last)
    for number in (0, 3, 700, 1_100, *range(1_300, 1_500, 7)):
        run = trace(bound, starts[number], number, max_steps=40, seed=5)
        assert run.states[-1] == last[number]
        assert len(run.actions) == found.lengths[number]
