"""No false claim of any kind is accepted; the attacks are strong enough to find a checker that lets one through."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polvet.check.checker import CHECKERS, Accepted, check
from polvet.check.ends import possible_outcomes
from polvet.check.general import _Rules
from polvet.check.risk_bound import possible_rows
from polvet.errors import Where
from polvet.policy.finite_memory.projection import part_between, project
from tests.attack import action_risk, conflict, grid, permissive
from tests.attack.risk_bound import expected
from tests.attack.strike import KINDS, strike

OFFERED = _Rules.steps


def _first_row(step):
    return possible_rows(step)[:1]


def _first_group(step, *, adversarial=False):
    """One outcome of all: as if nothing else were possible."""
    return [frozenset(sorted(one)[:1]) for one in possible_outcomes(step)]


def _forgets_ranks(state, row, worth, ranks):
    return expected(row, {target: worth.get(target, 0) for target in row}) >= worth[state]


def _only_offered(rules, place):
    """The first step that the rules offer, as if they offered no other and claimed nothing."""
    offered, _ = OFFERED(rules, place)
    return offered[:1], []


def _unchanging(sketch, places):
    """A part of the sketch as if no rule changed anything."""
    return part_between(replace(sketch, rules=tuple(replace(rule, changes={}) for rule in sketch.rules)), places)


def _first_rule(sketch, names, budget):
    """A projection of the first rule only."""
    return project(replace(sketch, rules=sketch.rules[:1]), names, budget)


WEAK = {
    "action-risk": ("polvet.check.action_risk.check_not_less", lambda arena, rows, least: None),
    "conflict": ("polvet.check.conflict.check_not_less", lambda arena, rows, least: None),
    "grid": ("polvet.check.flow.Flow.may_leave", lambda flow, sets: np.zeros(len(sets), dtype=np.bool_)),
    "invariant": ("polvet.check.invariant.try_all_states", lambda asked, judge: True),
    "lex-rank": ("polvet.check.lex_rank._change", lambda component, *step: -1),
    "lasso": ("polvet.check.lasso._holds_for_ever", lambda atom, value, drift: True),
    "recurrent-set": ("polvet.check.recurrent_set.is_infeasible", lambda rows: True),
    "goal-reaching": ("polvet.check.goal.find_stop_outside", lambda *place: None),
    "goal-missed": ("polvet.check.goal.is_stopped", lambda fmp, state, values: True),
    "its-run": ("polvet.check.its_run.closed_region", lambda system, cycle: []),
    "permissive": ("polvet.check.permissive._check_attained", lambda arena, rows, values: None),
    "risk-bound": ("polvet.check.risk_bound.possible_rows", _first_row),
    "risk-exceeds": ("polvet.check.risk_bound._attains", _forgets_ranks),
    "safe-region": ("polvet.check.reachable_set.iter_all_starts", lambda arena: iter(())),
    "general": ("polvet.check.general._Rules.steps", _only_offered),
    "solves": ("polvet.check.solves.dead_ends", lambda problem, plan: []),
    "sure-end": ("polvet.check.ends.possible_outcomes", _first_group),
    "livelock": ("polvet.check.ends._check_goes_on", lambda followed, states, is_listed, **how: None),
    "lost-projection": (
        "polvet.check.lost_boxes._falls",
        lambda game, way, pieces, image: np.ones(len(pieces.box), dtype=np.bool_),
    ),
    "won-projection": ("polvet.check.won_projection.check_steps", lambda asked, follower: None),
    "repair": ("polvet.check.repair._taken", lambda fitted, state, applicable: []),
}
"""What a checker would be like that forgets one test."""
WEAK_IN_BULK = {
    "sure-end": (
        "polvet.check.ends._breaks_distances",
        lambda steps, numbers, mine, **how: np.zeros(len(mine), np.bool_),
    ),
    "risk-bound": ("polvet.check.risk_bound._maybe_not_above", lambda bulk, values: np.zeros(len(values), np.bool_)),
    "risk-exceeds": (
        "polvet.check.risk_bound._maybe_not_below",
        lambda bulk, values, ranks: np.zeros(len(values), np.bool_),
    ),
    "unsafe-rank": ("polvet.check.unsafe_rank._doubtful", lambda actions, *claim: np.zeros(actions.count, np.bool_)),
    "strong-cyclic": (
        "polvet.check.strong_cyclic._maybe_not_won",
        lambda actions, *claim: np.zeros(actions.count, np.bool_),
    ),
    "no-strong-cyclic": (
        "polvet.check.strong_cyclic._maybe_not_lost",
        lambda actions, rounds: np.zeros(actions.count, np.bool_),
    ),
}
"""The same of what is tested for all states at once."""
MANY = {"lasso": 600, "risk-exceeds": 400, "sure-end": 400}
"""Claims until one hangs on that test alone, where it takes more than 150."""


def test_every_kind_is_attacked():
    assert KINDS.keys() == CHECKERS.keys()


def test_the_page_tells_what_the_long_run_has_shown():
    root = Path(__file__).resolve().parents[2]
    found = json.loads((root / "benchmarks" / "results" / "attack.json").read_text())
    assert {row["kind"] for row in found["kinds"]} == CHECKERS.keys()
    assert found["tried"] == sum(row["tried"] for row in found["kinds"]) >= 10_000
    assert found["accepted"] == sum(row["accepted"] for row in found["kinds"]) == 0
    page = (root / "docs" / "trust.md").read_text()
    assert f"{found['tried']:,} of all {len(found['kinds'])} kinds, 0 accepted" in page


@pytest.mark.parametrize("kind", KINDS)
def test_false_claims_are_rejected(kind):
    found = strike(kind, 200, seed=1)
    assert found.tried >= 200
    assert found.accepted == []


def test_false_shields_are_rejected_in_bulk(monkeypatch):
    monkeypatch.setattr("polvet.check.permissive.FEW", 0)
    found = strike("permissive", 200, seed=2)
    assert found.tried >= 200
    assert found.accepted == []
    monkeypatch.setattr("polvet.check.permissive.reaches", lambda count, fail, pairs: np.ones(count, dtype=np.bool_))
    assert strike("permissive", 300, seed=2).accepted


@pytest.mark.parametrize("kind", WEAK)
def test_a_checker_that_forgets_one_test_is_found_out(kind, monkeypatch):
    monkeypatch.setattr(*WEAK[kind])
    assert strike(kind, MANY.get(kind, 150), seed=1).accepted


@pytest.mark.parametrize(
    "forgets",
    [
        ("polvet.check.grid._check_region", lambda *claim: None),
        ("polvet.check.grid._check", lambda *claim: None),
    ],
)
def test_a_check_of_regions_by_grids_that_forgets_one_test_is_found_out(forgets, monkeypatch):
    monkeypatch.setattr("tests.attack.safe_region.PROOFS", [grid])
    monkeypatch.setattr(*forgets)
    assert strike("safe-region", 150, seed=1).accepted


@pytest.mark.parametrize("kind", WEAK_IN_BULK)
def test_a_check_in_bulk_that_forgets_everything_is_found_out(kind, monkeypatch):
    monkeypatch.setattr(*WEAK_IN_BULK[kind])
    assert strike(kind, 600, seed=1).accepted


@pytest.mark.parametrize("kind", [permissive, action_risk, conflict])
def test_shields_that_tell_the_truth_are_accepted(kind, tmp_path):
    answers = [
        check(certificate, subjects, Where("claim"))
        for seed in range(40)
        for certificate, subjects in kind.true_claims(random.Random(seed), tmp_path)
    ]
    assert len(answers) > 30
    assert all(isinstance(answer, Accepted) for answer in answers), answers


@pytest.mark.parametrize(
    "weak",
    [
        ("polvet.check.action_risk._limit", lambda kind, threshold, best: max(threshold, best)),
        ("polvet.check.action_risk._horizon", lambda item, kind: None),
        ("polvet.check.action_risk._within", lambda arena, rows, steps: dict.fromkeys(rows, 0)),
    ],
    ids=["a budget read as a bound", "a horizon not looked at", "a horizon of one step"],
)
def test_a_checker_of_rules_that_forgets_one_test_is_found_out(weak, monkeypatch, tmp_path):
    monkeypatch.setattr(*weak)
    wrong = strike("action-risk", 150, seed=1).accepted
    refused = [
        seed
        for seed in range(15)
        for certificate, subjects in action_risk.true_claims(random.Random(seed), tmp_path)
        if not isinstance(check(certificate, subjects, Where("claim")), Accepted)
    ]
    assert wrong or refused


@pytest.mark.parametrize(
    ("kind", "weak"),
    [
        ("lex-rank", ("polvet.check.relations.find_broken", lambda *relations: None)),
        ("goal-reaching", ("polvet.check.relations.find_broken", lambda *relations: None)),
        ("lex-rank", ("polvet.check.counters.started", lambda fmp, starts: replace(fmp, initial=fmp.initial[:1]))),
        ("lex-rank", ("polvet.check.counters.project", _first_rule)),
        ("lasso", ("polvet.check.counters.part_between", _unchanging)),
    ],
    ids=[
        "relations believed",
        "relations of goals believed",
        "other starts",
        "a projection of one rule",
        "a part that nothing changes",
    ],
)
def test_a_checker_of_plans_that_forgets_one_test_is_found_out(kind, weak, monkeypatch):
    monkeypatch.setattr(*weak)
    assert strike(kind, 400, seed=1).accepted


def test_a_checker_that_believes_the_reasons_of_split_trees_is_found_out(monkeypatch):
    from polvet.check.invariant_tree import Follower

    monkeypatch.setattr(Follower, "_holds", lambda *given: True)
    assert strike("invariant", 120, seed=1).accepted
