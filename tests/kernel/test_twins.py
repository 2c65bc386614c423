"""The compiled kernel does what the slow interpreter does, on random models of every kind."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polvet import _core
from polvet.budget import Budget
from polvet.errors import InputError, ModelError
from polvet.kernel.compiled import Compiled
from polvet.kernel.lower import Reward
from polvet.mdp.build import build, build_exactly
from polvet.model.automata import Automaton, Composition, Destination, Edge, Instance, Location, Model, ModelType
from polvet.model.expressions import Name
from polvet.model.instantiate import instantiate
from polvet.model.network import Network, OutOfBounds
from polvet.model.semantics import Semantics, State
from tests.strategies import FUNCTIONS, GLOBALS, assignments, booleans, computed, models

MOST_STATES = 60
RELAXED = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def network_of(model) -> Network | None:
    try:
        return instantiate(model)
    except InputError:
        return None  # a constant expression may fail while the model is made, such as 1 / 0


def some_states(semantics: Semantics) -> list[State]:
    """Reachable states, breadth first; a state whose moves fail is kept and not left."""
    found = dict.fromkeys(semantics.initial_states())
    for state in (order := list(found)):
        if len(order) > MOST_STATES:
            break
        try:
            moves = semantics.moves(state)
        except InputError:
            continue
        for move in moves:
            for outcome in move.outcomes:
                if outcome.state not in found:
                    found[outcome.state] = None
                    order.append(outcome.state)
    return order[:MOST_STATES]


def slow_moves(semantics: Semantics, state: State):
    moves = semantics.operators(state)
    return sorted(
        (move.label or "", move.edges, [(float(o.probability), o.state) for o in move.outcomes]) for move in moves
    )


def fast_moves(compiled: Compiled, state: State):
    moves = compiled.machine.moves(compiled.pack([state])[0])
    if moves is None:
        return None
    labels = compiled.network.labels
    return sorted(
        (
            labels[label] if label >= 0 else "",
            tuple(edges),
            [(p, compiled.unpack(_row(words))[0]) for p, words, _ in branches],
        )
        for label, edges, branches in moves
    )


def _row(words):
    import numpy as np

    return np.array([words], dtype=np.uint64)


def assert_same_moves(network: Network, *, disable: bool) -> None:
    if disable:
        network = replace(network, out_of_bounds=OutOfBounds.DISABLE)
    semantics = Semantics(network)
    compiled = Compiled(network)
    for state in some_states(semantics):
        assert compiled.unpack(compiled.pack([state])) == [state]
        try:
            expected = slow_moves(semantics, state)
        except InputError:
            assert fast_moves(compiled, state) is None, f"the interpreter refuses {state}, the kernel does not"
            continue
        got = fast_moves(compiled, state)
        if got is None:
            assert compiled.machine.fault == _core.Fault.OVERFLOWED, compiled.machine.fault
            continue
        assert [(label, edges) for label, edges, _ in got] == [(label, edges) for label, edges, _ in expected]
        for (_, _, branches), (_, _, wanted) in zip(got, expected, strict=True):
            assert [state for _, state in branches] == [state for _, state in wanted]
            assert [p for p, _ in branches] == pytest.approx([p for p, _ in wanted], rel=1e-12, abs=1e-320)
            assert all(p > 0 for p, _ in branches)


@given(models(), st.booleans())
@RELAXED
def test_every_move_of_every_state_is_the_interpreters(model, disable):
    network = network_of(model)
    if network is not None:
        assert_same_moves(network, disable=disable)


@st.composite
def chancy_models(draw: st.DrawFn) -> Model:
    """Models of one automaton in which every edge computes its probabilities."""
    edges = tuple(
        Edge("l", action, None, tuple(
            Destination("l", chance, draw(assignments(None))) for chance in draw(computed(None))
        ))
        for action in ("a", "b")
    )  # fmt: skip
    automaton = Automaton("A", (Location("l", ()),), ("l",), edges, (), (), None)
    instances = Composition((Instance("A"),), None)
    return Model("random", ModelType.MDP, (automaton,), instances, ("a", "b"), (), GLOBALS, FUNCTIONS)


@given(chancy_models())
@settings(RELAXED, max_examples=300)
def test_computed_probabilities_are_the_interpreters_exactly(model):
    network = network_of(model)
    if network is None:
        return
    semantics, compiled = Semantics(network), Compiled(network)
    for state in some_states(semantics):
        try:
            expected = slow_moves(semantics, state)
        except InputError:
            assert fast_moves(compiled, state) is None, f"the interpreter refuses {state}, the kernel does not"
            continue
        got = fast_moves(compiled, state)
        assert got is not None
        for (*name, branches), (*same, wanted) in zip(got, expected, strict=True):
            assert name == same
            assert [one for _, one in branches] == [one for _, one in wanted]
            for (fast, _), (slow, _) in zip(branches, wanted, strict=True):
                assert math.isclose(fast, max(slow, math.ulp(0.0)), rel_tol=2.0**-52)


@given(models())
@RELAXED
def test_exploration_finds_exactly_the_interpreters_states(model):
    network = network_of(model)
    if network is None:
        return
    semantics = Semantics(network)
    found = dict.fromkeys(semantics.initial_states())
    try:
        for state in (order := list(found)):
            for move in semantics.moves(state):
                for outcome in move.outcomes:
                    if outcome.state not in found:
                        found[outcome.state] = None
                        order.append(outcome.state)
            if len(order) > 10 * MOST_STATES:
                return
    except InputError:
        with pytest.raises(ModelError):
            Compiled(network).explore(budget=Budget(states=10**5))
        return
    compiled = Compiled(network)
    space = compiled.explore(parents=True)
    assert set(compiled.unpack(space.states())) == set(found)
    assert space.deadlocks == sum(not semantics.moves(state) for state in found)
    assert space.transitions == sum(len(m.outcomes) for s in found for m in semantics.moves(s))
    assert space.choices == sum(max(len(semantics.applicable(s)), bool(semantics.moves(s))) for s in found)
    states = compiled.unpack(space.states())
    for child, parent in enumerate(space.parent.tolist()):
        if child not in space.initial:
            assert any(o.state == states[child] for m in semantics.moves(states[parent]) for o in m.outcomes)


@given(models(), booleans(3))
@RELAXED
def test_conditions_hold_where_the_interpreter_says(model, expression):
    network = network_of(model)
    if network is None:
        return
    try:
        condition = network.resolve(expression)
    except InputError:
        return
    semantics = Semantics(network)
    compiled = Compiled(network, conditions=[condition])
    test = semantics.compile(condition)
    for state in some_states(semantics):
        truth = bool(compiled.machine.holds(0, compiled.pack([state]))[0])
        fault = compiled.machine.fault
        try:
            expected = bool(test(state))
        except InputError:
            assert fault != _core.Fault.NONE
            continue
        assert fault == _core.Fault.OVERFLOWED or truth == expected


@given(models())
@RELAXED
def test_the_fast_and_the_exact_matrix_agree(model):
    network = network_of(model)
    if network is None:
        return
    reward = Reward(network.resolve(Name("t")), network.resolve_step(Name("t")))
    limits = Budget(states=200)
    try:
        slow = build_exactly(network, rewards={"t": reward}, budget=limits)
        fast = build(network, rewards={"t": reward}, budget=limits)
    except InputError:
        return
    if slow.limit or fast.limit:
        return
    assert fast.mdp.states == slow.mdp.states
    assert fast.mdp.choices == slow.mdp.choices
    assert sorted(fast.mdp.rewards["t"]) == pytest.approx(sorted(slow.mdp.rewards["t"]), abs=1e-12)
    assert sorted(fast.mdp.probability) == pytest.approx(sorted(slow.mdp.probability), rel=1e-12)
