"""What polvet says of random worlds is true and agrees with itself; the oracle is right, and strong enough to find what is wrong."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest

from polvet.check import all_starts
from polvet.check.checker import CHECKERS
from polvet.errors import ModelError
from polvet.model.semantics import Semantics
from polvet.policy.binding import load_fitted
from polvet.sources import load_task
from tests.attack.claims import FACTS, Fact, above, at_most, exactly, no, truth, yes
from tests.attack.cross import cross
from tests.attack.tiny import random_tiny

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def test_what_is_said_of_random_worlds_is_true_and_does_not_contradict_itself():
    found = cross(range(24))
    assert found.wrong == []
    assert found.facts > 500
    assert sum(found.certificates.values()) > 150
    assert sum(found.forged.values()) > 500


BROKEN = {
    44: "regions of numbers beyond 2^53 were refused by the checker",
    797: "an unsafe run to where the model breaks a rule was called a bug of polvet",
    839: "so it was by another method",
    1091: "the proof of a won state spoke of others, where the model breaks a rule",
}


@pytest.mark.parametrize("seed", BROKEN, ids=BROKEN.values())
def test_what_was_wrong_once_is_right(seed):
    assert cross([seed]).wrong == []


@pytest.mark.slow
def test_what_is_said_of_more_random_worlds_is_true():
    assert cross(range(10_000, 10_150)).wrong == []


WEAK = {
    "labels of a table": [("polvet.check.won_projection._check_labels", lambda question: None)],
    "that there is a start": [
        ("polvet.check.followed.check_some_start", lambda *given: None),
        ("polvet.check.safe_region.check_some_start", lambda *given: None),
        ("polvet.check.reachable_set.iter_all_starts", lambda arena: all_starts._iter_starts(arena, ())),
    ],
    "other starts": [("polvet.check.reachable_set.iter_all_starts", lambda arena: iter(()))],
    "ranks": [("polvet.check.unsafe_rank._check_ranked", lambda *given: None)],
    "operators": [("polvet.check.risk_bound.possible_rows", lambda step: [])],
}


@pytest.mark.parametrize("forgets", WEAK)
def test_a_checker_that_forgets_something_is_found_out(forgets, monkeypatch):
    for patch in WEAK[forgets]:
        monkeypatch.setattr(*patch)
    assert cross(range(60), until_wrong=True).wrong


def test_the_oracle_takes_the_steps_of_the_slow_interpreter(tmp_path):
    """Written apart from each other: conditions, starts, operators with their chances, errors, and what the policy takes."""
    for seed in range(150):
        tiny = random_tiny(random.Random(seed))
        task, policy = tiny.save(tmp_path)
        task = load_task(task)
        semantics, fitted = Semantics(task.network), None if tiny.chain else load_fitted(task, policy)
        for state in tiny.states:
            values = tiny.value(state)
            assert bool(semantics.compile(task.fail)(values)) == tiny.fails(state)
            assert task.start is None or bool(semantics.compile(task.start)(values)) == (state in tiny.starts)
            if not tiny.runs_on(state):
                continue
            try:
                moves = semantics.moves(values)
            except ModelError:
                assert tiny.errs(state), (seed, state)
                continue
            assert not tiny.errs(state)
            mine = tiny.operators[state]
            rows = [tiny.mixed(mine)] if tiny.chain else [tiny.distribution(one) for one in mine]
            assert _sorted(_chances(move) for move in moves) == _sorted(
                {tiny.value(to): chance for to, chance in row.items()} for row in rows
            )
            if labels := {move.label for move in moves if move.label is not None}:
                taken = fitted.choose(values, sorted(labels))
                assert (taken if taken in labels else None) == tiny.policy.choose(state, labels)


def _chances(move):
    found = {}
    for outcome in move.outcomes:
        found[outcome.state] = found.get(outcome.state, 0) + outcome.probability
    return found


def _sorted(rows):
    return sorted(sorted(row.items()) for row in rows)


def test_the_oracle_knows_the_greatest_and_the_least_risk():
    """By trying out what everybody may do in each state, played move by move for long."""
    for seed in range(40):
        tiny = random_tiny(random.Random(seed))
        if (least := tiny.least_risk(error=0)) is None:
            continue
        rows = {state: list(tiny.actions(state).values()) for state in tiny.states}
        within = {state: float(tiny.fails(state)) for state in tiny.states}
        for _ in range(60):
            within = {
                state: 1.0
                if tiny.fails(state)
                else 0.0
                if tiny.errs(state) or not rows[state]
                else min(
                    max(sum(float(p) * within[to] for to, p in row.items()) for row in mine) for mine in rows[state]
                )
                for state in tiny.states
            }
        assert all(within[state] <= float(least[state]) + 1e-9 for state in tiny.states), seed
        near = [state for state in tiny.states if float(least[state]) - within[state] > 0.05]
        assert not near, seed


@pytest.mark.parametrize(
    "one", [yes("q"), no("q"), at_most("1/2", "q"), above("1/2", "q"), above(0, "q"), exactly("1/2", "q")]
)
def test_facts_contradict_each_other_where_no_value_is_left(one):
    values = [0, 0.25, 0.5, 0.75, 1]
    for other in (yes("q"), no("q"), at_most("1/2", "q"), above("1/2", "q"), above(0, "q"), exactly("1/2", "q")):
        left = [value for value in values if one.holds(value, value) and other.holds(value, value)]
        assert one.contradicts(other) == (not left)
    for low, high in product(values, values):
        if low <= high:
            assert one.holds(low, high) == all(one.holds(value, value) for value in values if low <= value <= high)


def test_an_error_of_the_model_leaves_open_what_is_true():
    for seed in range(200):
        tiny = random_tiny(random.Random(seed))
        for state in tiny.states:
            low, high = truth(tiny, ("avoidable", state))
            assert low <= high
            assert low == high or any(tiny.errs(one) for one in tiny.reached([state], follow=False))
            assert isinstance(yes("avoidable", state), Fact)


def test_all_kinds_about_worlds_say_facts_and_the_long_run_found_nothing():
    assert FACTS.keys() <= CHECKERS.keys()
    found = json.loads((RESULTS / "cross-claims.json").read_text())
    assert found["tasks"] >= 5_000
    assert found["wrong"] == []
    page = (RESULTS.parents[1] / "docs" / "trust.md").read_text(encoding="utf-8")
    claims = sum(found["certificates"].values()) + sum(found["forged"].values())
    assert f"{found['tasks']:,} random worlds, {claims:,} claims" in page
