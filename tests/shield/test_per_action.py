"""Shields by a rule on each action's risk: equal to brute force over all schedulers, and accepted by the checker."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction

import pytest

import polvet
from polvet.errors import InputError
from polvet.shield.per_action import Rule, permit_by_rule
from tests.attack.action_risk import THRESHOLDS, least_risks, meant, risks_of
from tests.attack.permissive import small_task
from tests.mdp.brute import chain_reach
from tests.shield.oracle import random_world


def _least(choices, fail):
    """The least risk from every state, over all deterministic memoryless schedulers."""
    best = [Fraction(1)] * len(choices)
    for scheduler in itertools.product(*(range(max(1, len(mine))) for mine in choices)):
        rows = [mine[c] if mine else [] for mine, c in zip(choices, scheduler, strict=True)]
        best = [min(a, b) for a, b in zip(best, chain_reach(rows, [True] * len(rows), fail), strict=True)]
    return best


def _rule(rng):
    return rng.choice(["per-state", "relative"]), rng.choice(THRESHOLDS[:-1])


def test_500_worlds_are_as_brute_force_says():
    forbidden = above = 0
    for seed in range(500):
        rng = random.Random(seed)
        world, choices, fail = random_world(rng, states=5)
        kind, threshold = _rule(rng)
        found = permit_by_rule(world, Rule(kind, threshold))
        least = _least(choices, fail)
        assert found.least == least, seed
        starts = world.option_start.tolist()
        for s, mine in enumerate(choices):
            risks = {c: sum(p * least[t] for t, p in row) for c, row in enumerate(mine)}
            assert found.risks[starts[s] : starts[s + 1]] == list(risks.values()), seed
            allowed = meant(kind, threshold, risks, least[s])
            assert [c for c in risks if found.result.permitted[starts[s] + c]] == allowed, seed
            forbidden += len(risks) - len(allowed)
            above += bool(risks) and kind == "per-state" and least[s] > threshold
    assert forbidden > 300
    assert above > 100


def test_500_models_with_silent_operators_and_shared_labels_are_as_brute_force_says(tmp_path):
    models = forbidden = 0
    for seed in range(600):
        rng = random.Random(seed)
        if (made := small_task(rng, tmp_path)) is None:
            continue
        small, file, _ = made
        kind, threshold = _rule(rng)
        asked = {"bound": threshold, "per_state": True} if kind == "per-state" else {"relative": threshold}
        shield = polvet.load(file).permit(**asked)
        assert shield.checked, (seed, shield)
        least = least_risks(small)
        risks = risks_of(small, least)
        for (key,), allowed in shield.table.actions.items():
            s = key - small.base
            assert shield.action_risks({"s": key}) == risks[s], seed
            assert list(allowed) == meant(kind, threshold, risks[s], least[s]), seed
            forbidden += len(risks[s]) - len(allowed)
        models += 1
    assert models >= 500
    assert forbidden > 100


def test_a_forbidden_action_is_replaced_by_the_least_risky_one(tmp_path):
    model = """mdp
module walk
  x : [0..3] init 1;
  [bold] x=1 -> 0.3:(x'=0) + 0.7:(x'=3);
  [calm] x=1 -> 0.1:(x'=0) + 0.9:(x'=3);
  [wild] x=1 -> 0.6:(x'=0) + 0.4:(x'=3);
endmodule
"""
    (tmp_path / "walk.prism").write_text(model)
    shield = polvet.load(tmp_path / "walk.prism", fail="x=0", goal="x=3").permit("0.4", per_state=True)
    assert shield.allowed({"x": 1}) == ("bold", "calm")
    assert shield.table.replace({"x": 1}, "wild") == "calm"
    assert shield.action_risks({"x": 1}) == {"bold": Fraction(3, 10), "calm": Fraction(1, 10), "wild": Fraction(3, 5)}
    assert (shield.bound, shield.risk({"x": 1})) == (Fraction(3, 10), Fraction(3, 10))
    saved = json.loads(shield.save(tmp_path / "shield.json").read_text())
    assert (saved["kind"], saved["rule"]) == ("action-risk", {"per-state": "2/5"})


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"bound": 0.1, "relative": 0.9}, {"relative": 0.9, "per_state": True}, {"relative": 2},
        {"bound": 0.1, "per_state": True, "attempts": 3}, {"bound": 0.1, "per_state": True, "exact": False},
        {"relative": 0.5, "distributions": 2},
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(asked, tmp_path):
    (tmp_path / "one.prism").write_text("mdp\nmodule one\n  x : [0..1] init 0;\n  [a] x=0 -> (x'=1);\nendmodule\n")
    with pytest.raises(InputError):
        polvet.load(tmp_path / "one.prism", fail="x=1").permit(**asked)
