"""Backward blocking says what exhaustive search says, on small worlds of every kind; every certificate is accepted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.domains.transport import transport
from polvet.jani.write import dump_model
from polvet.model.semantics import Semantics
from polvet.model.task import PolicyReading, TaskOptions
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.sources import load_task
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.operators import linear_task
from polvet.verify.ic3 import IC3
from polvet.verify.induction import INDUCTION
from polvet.verify.method import Request
from polvet.verify.replay import replay_fitted
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.safety.networks import TOP, random_model
from tests.verify.test_engine import chosen, random_network, random_trees


def random_world(seed, folder, graph=None):
    """A random task with any number of start states, and a random policy; None where the model has no labels."""
    rng, chance = np.random.default_rng(seed), random.Random(seed)
    path = folder / "world.jani"
    path.write_text(dump_model(random_model(chance)), encoding="utf-8")
    fail = f"x == {chance.randint(0, TOP)} && y >= {chance.randint(0, TOP)}"
    if chance.random() < 0.3:
        fail = f"x + y >= {chance.randint(5, 8)} || x != y && x - y == {chance.randint(1, 3)}"
    options = TaskOptions(
        fail=fail,
        goal=f"y == {chance.randint(0, TOP)} && x >= 3" if chance.random() < 0.5 else None,
        start=f"x <= {chance.randint(0, TOP)} && x + y != {chance.randint(0, 6)}" if chance.random() < 0.6 else None,
    )
    task = load_task(path, options)
    if not task.network.labels:
        return None
    names = [variable.name for variable in task.network.variables]
    inputs = [name for name in names if rng.integers(4)] or names[:1]
    outputs = [label for label in task.network.labels if rng.integers(6)] or list(task.network.labels)
    rng.shuffle(outputs)
    reading = PolicyReading("filtered" if rng.integers(2) else "raw")
    make = graph or (random_trees if rng.integers(2) else random_network)
    return fit(replace(task, reading=reading), make(rng, inputs, outputs, bool(rng.integers(2))))


def explicit(fitted):
    """Whether `fail` is reachable: in the reference order, and in some order, by the interpreter."""
    task, network = fitted.task, fitted.task.network
    semantics = Semantics(network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    start = list(semantics.initial_states() if task.start is None else semantics.states_satisfying(task.start))
    verdicts = []
    for any_order in (False, True):
        seen = set(start)
        pending = list(start)
        unsafe = False
        while pending:
            state = pending.pop()
            if fail(state):
                unsafe = True
                break
            if goal(state):
                continue
            moves = semantics.moves(state)
            labels = {move.label for move in moves if move.label is not None}
            reference, possible = chosen(fitted, semantics, tuple(map(int, state)))
            taken = {fitted.policy.outputs[k] for k in (possible if any_order else {reference} - {-1})} & labels
            for move in moves:
                if (move.label in taken) if move.label is not None else (not labels or taken):
                    for outcome in move.outcomes:
                        if outcome.state not in seen:
                            seen.add(outcome.state)
                            pending.append(outcome.state)
        verdicts.append(unsafe)
    return verdicts


@pytest.mark.parametrize("seed", range(300))
def test_verdicts_agree_with_exhaustive_search(seed, tmp_path):
    fitted = random_world(seed, tmp_path)
    if fitted is None:
        return
    reference, any_order = explicit(fitted)
    for method in (IC3, INDUCTION):
        result = method(compile_policy(fitted), Request(seed=seed))
        match result:
            case Safe():
                assert not any_order
            case Unsafe(run):
                assert reference
                replay_fitted(fitted, Semantics(fitted.task.network), run)
            case Unknown(reason):
                assert "near-tie" in reason
                assert any_order


def test_the_packages_of_transport_are_conserved():
    linear = linear_task(transport(locations=4, packages=3).task())
    [row] = conserved_rows(linear)
    assert (row.lower, row.upper, len(row.terms)) == (3, 3, 5)


@pytest.mark.parametrize("seed", range(12))
def test_transport_agrees_with_exhaustive_search(seed):
    task = transport(locations=3, packages=3).task()
    names = [variable.name for variable in task.network.variables][:-1]
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(8, len(names))), rng.normal(size=8)), (rng.normal(size=(4, 8)), rng.normal(size=4))]
    fitted = fit(task, network_of(layers, names, list(task.network.labels)))
    reference, any_order = explicit(fitted)
    result = IC3(compile_policy(fitted), Request(seed=seed))
    assert isinstance(result, Unsafe if reference else Safe)
    assert reference == any_order


def test_large_transport_is_decided():
    task = transport(locations=10, packages=15).task()
    names = [variable.name for variable in task.network.variables][:-1]
    verdicts = set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        layers = [
            (rng.normal(size=(16, 12)) * 0.4, rng.normal(size=16) * 0.5),
            (rng.normal(size=(16, 16)) * 0.35, rng.normal(size=16) * 0.5),
            (rng.normal(size=(4, 16)) * 0.35, rng.normal(size=4) * 0.5),
        ]
        fitted = fit(task, network_of(layers, names, list(task.network.labels)))
        verdicts.add(type(IC3(compile_policy(fitted), Request(seed=seed))))
    assert verdicts == {Safe, Unsafe}


def test_a_limit_of_time_gives_unknown_with_figures():
    task = transport(locations=10, packages=15).task()
    names = [variable.name for variable in task.network.variables][:-1]
    rng = np.random.default_rng(3)
    layers = [(rng.normal(size=(64, 12)), rng.normal(size=64)), (rng.normal(size=(4, 64)), rng.normal(size=4))]
    fitted = fit(task, network_of(layers, names, list(task.network.labels)))
    result = IC3(compile_policy(fitted), Request(budget=Budget(seconds=0.0), linear=linear_task(task)))
    assert isinstance(result, Unknown)
    assert "time limit" in result.reason
    assert "obligations" in result.figures


def test_conserved_rows_hold_in_every_reachable_state():
    task = transport(locations=3, packages=2).task()
    semantics = Semantics(task.network)
    rows = conserved_rows(linear_task(task))
    seen = set(semantics.states_satisfying(task.start))
    pending = list(seen)
    while pending:
        state = pending.pop()
        assert all(row.holds(state) for row in rows)
        for move in semantics.moves(state):
            for outcome in move.outcomes:
                if outcome.state not in seen:
                    seen.add(outcome.state)
                    pending.append(outcome.state)
