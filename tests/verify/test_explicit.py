"""Explicit verification agrees with the slow interpreter, and its evidence with the checker."""

from __future__ import annotations

import base64
import copy
import functools
import json
import operator
import zlib
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from polvet.budget import Budget
from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import Arena
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.followed import Followed
from polvet.check.reachable_set import _check_closed
from polvet.domains.shipped import find_shipped
from polvet.errors import Where
from polvet.model.build import ModelBuilder
from polvet.model.semantics import Semantics
from polvet.model.task import Avoid, PolicyReading, TaskOptions
from polvet.policy.binding import fit, load_fitted
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.runs import End
from polvet.records.packed import unpack_columns
from polvet.sources import load_task
from polvet.verdict import Verdict
from polvet.verify.box_system import Parallelism
from polvet.verify.explicit import EXPLICIT
from polvet.verify.method import Request
from polvet.verify.portfolio import verify
from polvet.verify.probability import find_risk
from polvet.verify.replay import replay
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.conftest import BENCHMARKS
from tests.policy.worlds import worlds
from tests.verify.cases import CASES, KINDS, fitted_case
from tests.verify.oracle import TooMany, truth

PLAJA = BENCHMARKS / "plaja-tests"


def arena_of(fitted):
    semantics = Semantics(fitted.task.network)
    fail, goal = semantics.compile(fitted.task.fail), semantics.compile(fitted.task.goal)
    return Arena(fitted.task, semantics, fail, goal, "the task")


def agrees(found, expected, fitted, bound):
    if expected.verdict == "unsafe":
        assert isinstance(found, Unsafe)
        replay(bound, found.run)
    elif expected.verdict == "near-tie":
        assert isinstance(found, Unknown)
        assert found.reason.startswith("near-tie")
        assert found.tie is not None
    else:
        assert isinstance(found, Safe)
        listed = unpack_columns(fitted.task.network.variables, found.certificate["states"], found.certificate["count"])
        assert frozenset(listed) == expected.states
        _check_closed(Followed(arena_of(fitted), fitted), listed, fitted.task.avoid.names)


@given(worlds())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_networks_in_random_models_get_the_interpreters_verdict(world):
    assume(world is not None)
    for avoid in (Avoid(), Avoid(stuck=True), Avoid(deadlock=True)):
        fitted = replace(world.fitted, task=replace(world.fitted.task, avoid=avoid))
        bound = compile_policy(fitted)
        expected = truth(fitted, world.starts, stuck=avoid.stuck, deadlock=avoid.deadlock)
        agrees(EXPLICIT(bound), expected, fitted, bound)


@pytest.mark.threads
@pytest.mark.parametrize("mode", ["filtered", "raw"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_all_domains_with_random_policies_of_all_kinds_agree(case, mode):
    for number, kind in enumerate(KINDS):
        fitted, starts = fitted_case(case, kind, mode, number)
        try:
            expected = truth(fitted, starts)
        except TooMany:
            continue
        bound = compile_policy(fitted)
        agrees(EXPLICIT(bound), expected, fitted, bound)
        whole = verify(bound, method="auto", threads=2)
        if isinstance(whole, Unsafe):
            assert expected.verdict == "unsafe"
            replay(bound, whole.run)
        else:
            assert whole.verdict.value == ("safe" if expected.verdict == "safe" else "unknown")


@given(worlds())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_checker_finds_the_same_starts(world):
    assume(world is not None)
    assert sorted(iter_all_starts(arena_of(world.fitted))) == sorted(world.starts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_checker_finds_all_starts_of_the_domains(case):
    fitted, starts = fitted_case(case, "table", "filtered", 0)
    found = list(iter_all_starts(arena_of(fitted)))
    assert len(found) == len(starts)
    assert set(found) == set(starts)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_checker_follows_lists_of_starts_case_by_case(data):
    """Lists of cases that say some of the variables, twice or contradicting themselves, and another condition beside them."""
    m = ModelBuilder("listed")
    x, y, b = m.int("x", 0, 4, initial=0), m.int("y", -2, 2, initial=0), m.bool("b", initial=False)
    m.edge("stay", to={x: x})
    parts = st.sampled_from([*(x == k for k in range(6)), *(y == k for k in (-2, 0, 2)), b, ~b, x + y <= 1, y < x])
    cases = data.draw(st.lists(st.lists(parts, min_size=1, max_size=3), min_size=8, max_size=14))
    listed = functools.reduce(operator.or_, [functools.reduce(operator.and_, case) for case in cases])
    task = m.task(fail=x < 0, start=listed & (x + y >= data.draw(st.integers(-2, 2))))
    fitted = fit(task, CallablePolicy(("x",), ("stay",), lambda state: "stay"))
    holds = Semantics(task.network).compile(task.start)
    brute = [state for state in product(range(5), range(-2, 3), (False, True)) if holds(state)]
    assert sorted(iter_all_starts(arena_of(fitted))) == brute


@pytest.mark.threads
def test_threads_change_nothing():
    shipped = find_shipped("line-good")
    bound = compile_policy(load_fitted(load_task(shipped.task), shipped.policy))
    one, three = (
        EXPLICIT(bound, Request(parallelism=Parallelism(1))),
        EXPLICIT(bound, Request(parallelism=Parallelism(3))),
    )
    assert one.certificate == three.certificate
    assert one.figures == three.figures
    faulty = compile_policy(load_fitted(load_task(shipped.task), find_shipped("line-faulty").policy))
    assert (
        EXPLICIT(faulty, Request(parallelism=Parallelism(1))).run
        == EXPLICIT(faulty, Request(parallelism=Parallelism(3))).run
    )


def test_limits_make_the_verdict_unknown_and_are_named():
    shipped = find_shipped("blocks")
    bound = compile_policy(load_fitted(load_task(shipped.task), shipped.policy))
    for budget, named in (
        (Budget(seconds=0.0), "time limit"),
        (Budget(megabytes=1), "memory limit"),
        (Budget(states=1000), "1000 states"),
    ):
        found = EXPLICIT(bound, Request(budget=budget))
        assert found.verdict is Verdict.UNKNOWN
        assert named in found.reason


def near_tie_task():
    """One step decides; the two scores differ by less than rounding can tell."""
    m = ModelBuilder("tie")
    x = m.int("x", 0, 2, initial=0)
    m.labels("good", "bad")
    m.edge("good", guard=x == 0, to={x: 1})
    m.edge("bad", guard=x == 0, to={x: 2})
    return m.task(fail=x == 2)


def test_a_near_tie_is_unknown_and_an_exact_tie_is_decided():
    near = network_of([([[0.0], [0.0]], [0.1, 0.1]), ([[0.1, 0.2], [0.2, 0.1]], [0.3, 0.3])], ["x"], ["good", "bad"])
    found = verify(compile_policy(fit(near_tie_task(), near)), method="explicit")
    assert found.verdict is Verdict.UNKNOWN
    assert found.tie == (0,)
    exact = network_of([([[0.0], [0.0]], [0.5, 0.5])], ["x"], ["good", "bad"])
    assert verify(compile_policy(fit(near_tie_task(), exact))).verdict is Verdict.SAFE


def cost_task():
    m = ModelBuilder("cost")
    x, cost, spent = m.int("x", 0, 3), m.int("cost", 0, 50), m.int("spent", 0, 60)
    m.labels("go", "stay")
    m.edge("go", guard=x < 3, to={x: x + 1, cost: cost + 1, spent: spent + cost})
    m.edge("stay", guard=x < 3, to={x: x})
    return m.task(start="x <= 1 && cost == 2 && spent <= 3", fail=x == 3)


def test_what_nothing_depends_on_is_left_out_and_runs_are_brought_back():
    policy = network_of([([[0.0], [0.0]], [1.0, 0.0])], ["x"], ["go", "stay"])
    bound = compile_policy(fit(cost_task(), policy))
    found = verify(bound, method="explicit")
    assert isinstance(found, Unsafe)
    assert found.figures["left_out"] == ["cost", "spent"]
    assert found.figures["starts"] == 2
    assert found.run.states[0][1] == 2
    replay(bound, found.run)
    careful = network_of([([[-1.0], [0.0]], [2.0, 0.5])], ["x"], ["go", "stay"])
    safe = verify(compile_policy(fit(cost_task(), careful)), method="explicit")
    assert isinstance(safe, Safe)
    assert safe.certificate["kept"] == ["x"]
    assert safe.certificate["count"] == 3


def test_stuck_runs_are_found_when_they_shall_be_avoided():
    task = replace(near_tie_task(), reading=PolicyReading("raw"))
    policy = network_of([([[0.0], [1.0]], [0.5, 0.0])], ["x"], ["good", "bad"])
    assert verify(compile_policy(fit(task, policy)), method="explicit").verdict is Verdict.SAFE
    for avoid, end in ((Avoid(deadlock=True), End.DEADLOCK),):
        found = verify(compile_policy(fit(replace(task, avoid=avoid), policy)), method="explicit")
        assert isinstance(found, Unsafe)
        assert found.run.end is end
        assert found.run.states == ((0,), (1,))


# -- certificates in files


def certificate_and_subjects(name="line-good"):
    shipped = find_shipped(name)
    found = verify(compile_policy(load_fitted(load_task(shipped.task), shipped.policy)), method="explicit")
    return json.loads(json.dumps(found.certificate)), Subjects(shipped.task, shipped.policy)


def test_a_listed_set_is_accepted_and_an_unlisted_one_is_explored_again():
    certificate, subjects = certificate_and_subjects("bird")
    assert isinstance(check(certificate, subjects, Where("c")), Accepted)
    del certificate["states"]
    assert isinstance(check(certificate, subjects, Where("c")), Accepted)
    certificate["count"] -= 1
    assert isinstance(check(certificate, subjects, Where("c")), Rejected)
    certificate["count"] += 2
    assert isinstance(check(certificate, subjects, Where("c")), Rejected)


def without_one(certificate, which):
    item = copy.deepcopy(certificate)
    states = item["states"]
    raw = zlib.decompress(base64.b64decode(states["data"]))
    count, columns, at = item["count"], [], 0
    for kind in states["types"]:
        width = count * int(kind[1:])
        column, size = raw[at : at + width], int(kind[1:])
        columns.append(column[: which * size] + column[(which + 1) * size :])
        at += width
    states["data"] = base64.b64encode(zlib.compress(b"".join(columns))).decode()
    item["count"] -= 1
    return item


def test_every_mutated_set_is_rejected():
    certificate, subjects = certificate_and_subjects("bird")
    assert isinstance(check(certificate, subjects, Where("c")), Accepted)
    for which in range(0, certificate["count"], 7):
        assert isinstance(check(without_one(certificate, which), subjects, Where("c")), Rejected)
    for change in (
        {"count": certificate["count"] + 1},
        {"count": True},
        {"policy_sha256": "0" * 64},
        {"task_sha256": "0" * 64},
        {"kept": ["nobody"]},
        {"kept": certificate["states"]["variables"][:-1]},
        {"avoids": ["everything"]},
        {"states": {**certificate["states"], "types": ["i8"]}},
        {"states": {**certificate["states"], "data": "!"}},
        {"options": {"mode": "sideways"}},
    ):
        assert isinstance(check({**certificate, **change}, subjects, Where("c")), Rejected), change


# -- other people's networks

FOUR = PLAJA / "blocksworld/cost_terminal/models/legacy_enc/blocksworld_4_3.jani"
FOUR_NETWORK = PLAJA / "rddps22/blocksworld/networks/learned_cost05_non_terminal/blocksworld_4_3_16_16.jani2nnet"


@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmark files are not here")
def test_plajas_network_for_four_blocks_is_safe():
    task = load_task(FOUR, TaskOptions({"failing_probability": 0, "item_cost_bound": 1}))
    for mode in ("raw", "filtered"):
        bound = compile_policy(load_fitted(replace(task, reading=PolicyReading(mode)), FOUR_NETWORK))
        assert verify(bound).verdict is Verdict.SAFE


@pytest.mark.slow
@given(worlds())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_risk_is_zero_exactly_where_no_run_fails(world):
    assume(world is not None)
    bound = compile_policy(world.fitted)
    risk = find_risk(bound)
    assert 0 <= risk.lower <= risk.upper <= 1
    unsafe = truth(world.fitted, world.starts).verdict == "unsafe"
    assert (risk.upper > 0) == unsafe
    assert (risk.lower > 0) == unsafe
