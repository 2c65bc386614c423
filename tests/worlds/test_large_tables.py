"""Tables of thousands of rows: what is made of them stays flat, is made once, and says the same as when it is made anew."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from polvet.fuzz.distance import distance_to_fail
from polvet.kernel.compiled import Compiled
from polvet.kernel.lower import Reward, lower
from polvet.model.expressions import children
from polvet.model.instantiate import instantiate
from polvet.model.kinds import kind_of
from polvet.model.semantics import Semantics
from polvet.model.tables import Outcome, TransitionTable
from polvet.worlds.table import build_table


def ring(states, *, features=False):
    rows = {}
    for s in range(states):
        rows[s, 0] = (Outcome(Fraction(1), (s + 1) % states),)
        rows[s, 1] = (Outcome(Fraction(1), s, event="failed" if s % 4 else "reached"),)
    meaning = {"half": tuple(s // 2 for s in range(states)), "odd": tuple(s % 2 for s in range(states))}
    return TransitionTable("ring", states, ("on", "stop"), rows, tuple(range(states)), meaning if features else {})


def depth(expression):
    deepest, pending = 0, [(expression, 1)]
    while pending:
        part, level = pending.pop()
        deepest = max(deepest, level)
        pending += [(child, level + 1) for child in children(part)]
    return deepest


def test_the_distance_to_hundreds_of_failing_steps_nests_little():
    m = build_table(ring(300))
    task = m.task(fail="failed", goal="reached")
    assert depth(distance_to_fail(task)) < 40


def test_each_part_of_an_expression_is_asked_for_its_kind_once(monkeypatch):
    from polvet.kernel import assemble

    asked = []
    monkeypatch.setattr(assemble, "kind_of", lambda part, *more: asked.append(part) or kind_of(part, *more))
    task = build_table(ring(300)).task(fail="failed", goal="reached")
    lower(task.network, rewards=[Reward(distance_to_fail(task), None)])
    assert len(asked) == len({id(part) for part in asked})


def test_ten_thousand_states_are_told_apart_by_one_jump():
    network = instantiate(build_table(ring(10_000)).build())
    assert any(len(targets) == 10_000 for _, targets, _ in lower(network)["jumps"])


def test_start_states_of_a_large_table_nest_little_and_are_those_of_the_table():
    network = instantiate(build_table(ring(3_000, features=True)).build())
    assert depth(network.initial_condition) < 40
    found = Compiled(network).initial()
    assert len(found) == 3_000


def test_features_follow_the_state_although_only_changes_are_assigned():
    network = instantiate(build_table(ring(12, features=True)).build())
    names = [variable.name for variable in network.variables]
    semantics = Semantics(network)
    todo, seen = list(semantics.initial_states()), set()
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        named = dict(zip(names, state, strict=True))
        assert (named["half"], named["odd"]) == divmod(named["s"], 2)
        todo += [outcome.state for move in semantics.moves(state) for outcome in move.outcomes]
    assert len(seen) == 24


def test_a_network_lowered_again_with_other_conditions_gives_the_program_of_a_new_one():
    task = build_table(ring(40)).task(fail="failed", goal="reached")
    lower(task.network, conditions=[task.goal, task.fail], rewards=[Reward(distance_to_fail(task), None)])
    again = lower(task.network, conditions=[task.fail])
    fresh = lower(build_table(ring(40)).task(fail="failed", goal="reached").network, conditions=[task.fail])
    assert again.keys() == fresh.keys()
    for key, value in fresh.items():
        assert np.array_equal(again[key], value) if key == "code" else again[key] == value, key
