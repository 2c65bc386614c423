"""Lazy abstraction says what exhaustive search says; what it reaches is closed, and what it keeps after a cut is true."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.check.checker import Accepted, Rejected
from polvet.check.invariant import check_claim
from polvet.errors import LimitReached
from polvet.model.semantics import Semantics
from polvet.policy.compiled import compile_policy
from polvet.symbolic.cells import Box
from polvet.symbolic.operators import linear_task, state_of
from polvet.verify.abstraction import ABSTRACTION
from polvet.verify.engine import ANYTHING, Answer, Engine
from polvet.verify.ic3 import what_to_block
from polvet.verify.lazy_abstraction import LazyAbstraction
from polvet.verify.local_states import LocalState
from polvet.verify.method import Request
from polvet.verify.replay import replay
from polvet.verify.split_tree import with_tree
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.safety.networks import TOP
from tests.verify.small_tasks import random_task
from tests.verify.test_engine import chosen
from tests.verify.test_explicit import arena_of
from tests.verify.test_ic3 import explicit, random_world


def worlds(seeds, folder):
    for seed in seeds:
        fitted = random_world(seed, folder)
        if fitted is not None:
            yield seed, fitted


def accepts(fitted, certificate):
    return isinstance(check_claim(arena_of(fitted), fitted, with_tree(certificate, fitted), "the policy"), Accepted)


@pytest.mark.parametrize("block", range(4))
def test_verdicts_are_those_of_exhaustive_search_and_certificates_are_accepted(block, tmp_path):
    refined = 0
    for seed, fitted in worlds(range(40 * block, 40 * block + 40), tmp_path):
        found = ABSTRACTION(compile_policy(fitted), Request(seed=seed))
        reference, any_order = explicit(fitted)
        if isinstance(found, Safe):
            assert not any_order
            assert accepts(fitted, found.certificate)
            refined += found.figures["refinements"] > 0
        elif isinstance(found, Unsafe):
            assert reference
            replay(compile_policy(fitted), found.run)
        else:
            assert any_order
            assert found.reason.startswith("near-tie")
    assert refined


@pytest.mark.parametrize("kind", ["network", "trees", "table", "rules"])
def test_policies_of_every_kind_are_decided(kind, tmp_path):
    decided = 0
    for seed in range(12):
        task, fitted, _ = random_task(seed, tmp_path, (kind,))
        found = ABSTRACTION(compile_policy(fitted), Request(Budget(60), seed=seed))
        if not list(Semantics(task.network).states_satisfying(task.start)):
            continue
        reference, any_order = explicit(fitted)
        if isinstance(found, Unknown):
            assert found.reason
            continue
        decided += 1
        assert isinstance(found, Unsafe) == reference
        if isinstance(found, Safe):
            assert not any_order
            assert accepts(fitted, found.certificate)
    assert decided >= 6


def searched(fitted, seed):
    """Return a search that has ended, where it ended safe after some refinement."""
    engine, fail = what_to_block(fitted, Request(linear=linear_task(fitted.task)))
    search = LazyAbstraction(engine, fail, Request(seed=seed))
    verdict = search.run("abstraction")
    return search if isinstance(verdict, Safe) and search.refinements else None


def test_no_step_of_the_policy_leaves_what_is_reached(tmp_path):
    checked = 0
    for seed, fitted in worlds(range(120), tmp_path):
        if (search := searched(fitted, seed)) is None:
            continue
        task, bounds = fitted.task, search.root.box
        semantics = Semantics(task.network)
        fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
        for point in product(*(range(a, b + 1) for a, b in zip(bounds.lower, bounds.upper, strict=True))):
            state = state_of(task.network, point)
            holds = all(row.holds(point) for row in search.engine.rows)
            if not search.root.leaf_of(point).reached or not holds or fail(state) or goal(state):
                continue
            moves = semantics.moves(state)
            labels = {move.label for move in moves if move.label is not None}
            taken = {fitted.policy.outputs[k] for k in chosen(fitted, semantics, point)[1]} & labels
            for move in moves:
                if (move.label in taken) if move.label is not None else (not labels or taken):
                    for outcome in move.outcomes:
                        assert not fail(outcome.state)
                        assert search.root.leaf_of(tuple(map(int, outcome.state))).reached
                        checked += 1
    assert checked > 100


def test_an_arrival_is_a_step_from_a_reached_leaf(tmp_path):
    arrivals = 0
    for seed, fitted in worlds(range(120), tmp_path):
        if (search := searched(fitted, seed)) is None:
            continue
        for leaf in search.root.leaves():
            assert leaf.reached == (leaf.holds_starts or leaf.arrival is not None)
            if leaf.arrival is not None:
                arrivals += 1
                source = leaf.arrival.source
                assert source.halves is None
                assert source.reached
                assert leaf in source.leads_to
                assert source.box.holds(leaf.arrival.state)
                assert leaf.box.holds(search.engine.successor(leaf.arrival.state, leaf.arrival.step))
                step = search.engine.steps[leaf.arrival.step]
                assert step.cell.holds(leaf.arrival.state)
    assert arrivals >= 5


def test_a_certificate_without_one_of_its_boxes_is_rejected(tmp_path):
    tried = 0
    for seed, fitted in worlds(range(80), tmp_path):
        found = ABSTRACTION(compile_policy(fitted), Request(seed=seed))
        if not isinstance(found, Safe) or not found.certificate["blocked"]:
            continue
        blocked = found.certificate["blocked"]
        for k in range(len(blocked)):
            fewer = {**found.certificate, "blocked": blocked[:k] + blocked[k + 1 :]}
            if accepts(fitted, found.certificate) and not _is_inductive(fitted, fewer):
                tree = with_tree(found.certificate, fitted)["tree"]
                assert isinstance(
                    check_claim(arena_of(fitted), fitted, {**fewer, "tree": tree}, "the policy"), Rejected
                )
                tried += 1
    assert tried >= 10


def _is_inductive(fitted, certificate):
    """Say by the interpreter whether runs stay in the claimed invariant."""
    task, names = fitted.task, [variable.name for variable in fitted.task.network.variables]
    semantics = Semantics(task.network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)

    def inside(state):
        values = dict(zip(names, map(int, state), strict=True))
        if fail(state):
            return False
        for row in certificate["rows"]:
            total = sum(c * values[name] for name, c in row["terms"].items())
            total += sum(c for name, value, c in row["marks"] if values[name] == value)
            if (row["lower"] is not None and total < row["lower"]) or (
                row["upper"] is not None and total > row["upper"]
            ):
                return False
        return not any(all(a <= values[n] <= b for n, (a, b) in box.items()) for box in certificate["blocked"])

    bounds = linear_task(task).system.bounds
    for point in product(*(range(a, b + 1) for a, b in zip(bounds.lower, bounds.upper, strict=True))):
        state = state_of(task.network, point)
        if not inside(state) or goal(state):
            continue
        moves = semantics.moves(state)
        labels = {move.label for move in moves if move.label is not None}
        taken = {fitted.policy.outputs[k] for k in chosen(fitted, semantics, point)[1]} & labels
        for move in moves:
            moves_here = (move.label in taken) if move.label is not None else (not labels or taken)
            if moves_here and not all(inside(outcome.state) for outcome in move.outcomes):
                return False
    starts = semantics.initial_states() if task.start is None else semantics.states_satisfying(task.start)
    return all(inside(state) for state in starts)


def test_steps_from_a_box_are_those_of_its_states(tmp_path):
    """`sources` against the interpreter: an answer NO means that no state of the box steps into the target, YES shows one."""
    answers = set()
    rng = random.Random(5)
    for seed, fitted in worlds(range(25), tmp_path):
        engine = Engine(fitted, seed=seed)
        bounds = engine.linear.system.bounds
        semantics = Semantics(fitted.task.network)
        fail, goal = semantics.compile(fitted.task.fail), semantics.compile(fitted.task.goal)
        for _ in range(4):
            sources, target = (_random_box(rng, bounds) for _ in range(2))
            number, reply = engine.find_first_step([target], sources=sources)
            answers.add(reply.answer)
            if reply.state is not None:
                assert number == 0
                assert sources.holds(reply.state)
                assert target.holds(engine.successor(reply.state, reply.step))
                continue
            for point in product(*(range(a, b + 1) for a, b in zip(sources.lower, sources.upper, strict=True))):
                state = state_of(fitted.task.network, point)
                if fail(state) or goal(state):
                    continue
                possible = chosen(fitted, semantics, point)[1]
                for step in engine.steps:
                    takes = step.output == ANYTHING or step.output in possible
                    if takes and step.cell.holds(point):
                        assert not target.holds(step.transition.successor(point))
    assert {Answer.YES, Answer.NO} <= answers


def _random_box(rng, bounds):
    sides = [sorted((rng.randint(a, b), rng.randint(a, b))) for a, b in zip(bounds.lower, bounds.upper, strict=True)]
    return Box(tuple(low for low, _ in sides), tuple(high for _, high in sides))


def test_leaves_stay_a_partition_and_unreached_parts_are_the_largest():
    rng = np.random.default_rng(2)
    root = LocalState(Box((0, 0, 0), (TOP, TOP, TOP)))
    points = list(product(range(TOP + 1), repeat=3))
    root.mark(True)
    for _ in range(25):
        leaf = root.leaf_of(points[rng.integers(len(points))])
        sides = [sorted(rng.integers(a, b + 1, 2)) for a, b in zip(leaf.box.lower, leaf.box.upper, strict=True)]
        box = Box(tuple(int(a) for a, _ in sides), tuple(int(b) for _, b in sides))
        if leaf.reached:
            leaf.mark(False)
        assert leaf.cut_out(box).box == box
        for part in leaf.leaves():
            part.mark(bool(rng.integers(2)))
        leaves = list(root.leaves())
        parts = list(root.unreached())
        for point in points:
            holding = [leaf for leaf in leaves if leaf.box.holds(point)]
            assert holding == [root.leaf_of(point)]
            assert sum(part.box.holds(point) for part in parts) == (not holding[0].reached)
        assert all(part.above is None or part.above.reached for part in parts)
        met = root.reached_in(box)
        assert (met is not None) == any(leaf.reached and not leaf.box.meet(box).is_empty for leaf in leaves)


@pytest.mark.parametrize("ticks", [0, 1, 5, 20])
def test_it_stops_at_the_limit_in_whatever_it_does(ticks, tmp_path):
    fitted = next(
        fitted
        for seed, fitted in worlds(range(200), tmp_path)
        if (one := searched(fitted, seed)) and one.refinements > 1
    )
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        return float(calls)

    linear = linear_task(fitted.task)
    engine, fail = what_to_block(fitted, Request(linear=linear))
    search = LazyAbstraction(engine, fail, Request(Budget(ticks, clock=clock)))
    with pytest.raises(LimitReached, match="time limit"):
        search.run("abstraction")
    assert calls <= ticks + 5
