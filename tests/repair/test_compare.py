"""Comparing two policies: the differences are those that walking through all states by hand finds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.model.semantics import Semantics
from polvet.policy.binding import fit
from polvet.repair.compare import Effect, compare
from polvet.repair.repair import repair
from tests.repair.ensembles import LABELS, SIZE, applicable, grid_task, random_ensemble, random_faults

TASK = grid_task()


def reachable(fitted):
    """Every state that the policy reaches and where it acts, by the slow interpreter."""
    semantics = Semantics(fitted.task.network)
    is_end = [semantics.compile(part) for part in (fitted.task.fail, fitted.task.goal)]
    todo, seen = list(semantics.initial_states()), set()
    while todo:
        state = todo.pop()
        if state in seen or any(test(state) for test in is_end):
            continue
        seen.add(state)
        moves = fitted.followed(state, semantics.moves(state))
        todo += [outcome.state for move in moves for outcome in move.outcomes]
    return seen


def unsafe_states():
    """All states of the grid from which no policy avoids `fail`, by a fixpoint."""
    semantics = Semantics(TASK.network)
    fail, goal = semantics.compile(TASK.fail), semantics.compile(TASK.goal)
    states = [(x, y) for x in range(SIZE) for y in range(SIZE)]
    bad = {s for s in states if fail(s)}
    while True:
        more = {
            s
            for s in states
            if s not in bad and not goal(s) and semantics.moves(s)
            and all(any(o.state in bad for o in move.outcomes) for move in semantics.moves(s))
        }  # fmt: skip
        if not more:
            return bad
        bad |= more


def faulty(fitted, state, bad):
    semantics = Semantics(TASK.network)
    label = fitted.choose(state, applicable(state))
    return any(o.state in bad for move in semantics.moves(state) if move.label == label for o in move.outcomes)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_the_differences_are_those_found_by_hand(seed):
    rng = np.random.default_rng(seed)
    old = fit(TASK, random_ensemble(rng))
    new = fit(TASK, repair(old, random_faults(rng, old, 6)).policy)
    found = compare(old, new)
    mine, theirs, bad = reachable(old), reachable(new), unsafe_states()
    expected = {s for s in mine | theirs if old.choose(s, applicable(s)) != new.choose(s, applicable(s))}
    assert {item.state for item in found.differences} == expected
    assert (found.states, found.reached_by_old, found.reached_by_new) == (len(mine | theirs), len(mine), len(theirs))
    for item in found.differences:
        if item.state in bad:
            assert item.effect is Effect.UNSAFE_STATE
            continue
        before = item.state in mine and faulty(old, item.state, bad)
        after = item.state in theirs and faulty(new, item.state, bad)
        wanted = {(1, 0): Effect.REMOVED, (0, 1): Effect.ADDED, (1, 1): Effect.BOTH_FAULTY, (0, 0): Effect.NO_FAULT}
        assert item.effect is wanted[before, after]


def test_a_policy_does_not_differ_from_itself():
    fitted = fit(TASK, random_ensemble(np.random.default_rng(0)))
    assert not compare(fitted, fitted).differences


@pytest.mark.parametrize(
    ("first", "second", "code", "verdict"),
    [("b", "b", 0, "equal"), ("a", "b", 0, "different"), ("b", "a", 10, "faults added")],
)
def test_the_command_says_what_was_added(tmp_path, capsys, first, second, code, verdict):
    from polvet.cli.app import run
    from polvet.jani.write import dump_model

    (tmp_path / "grid.jani").write_text(dump_model(TASK.network.model))
    (tmp_path / "grid.toml").write_text("model = 'grid.jani'\nfail = 'x == 5 && y == 0'\ngoal = 'y == 5'\n")
    for name, label in (("old", first), ("new", second)):
        table = {"format": "table/1", "inputs": ["x", "y"], "outputs": list(LABELS), "rows": [], "default": label}
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    out = tmp_path / "differences.jsonl"
    files = [str(tmp_path / name) for name in ("grid.toml", "old.json", "new.json")]
    assert run(["compare", *files, "--json", "-o", str(out)]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == verdict
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == answer["figures"]["differences"]
    assert sum(line["effect"] == "fault added" for line in lines) == answer["figures"]["faults_added"]
