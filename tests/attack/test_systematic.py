"""Every field of every kind, changed: nothing false is accepted, nothing breaks, and a checker that forgets a test is found out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from polvet.check.checker import CHECKERS
from tests.attack.claims import FACTS
from tests.attack.fields import mutants
from tests.attack.systematic import OTHERS, Tried, attack_all, attack_false, attack_tiny

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def test_no_changed_field_makes_a_false_claim_about_a_world_pass():
    tried = Tried()
    attack_tiny(range(2), tried, most=1, siblings=1)
    assert tried.wrong == []
    assert tried.count_all() > 1_000
    assert tried.true


@pytest.mark.parametrize("kind", OTHERS)
def test_no_changed_field_makes_a_false_claim_pass(kind):
    tried = Tried()
    attack_false(kind, range(200), tried, most=1)
    assert tried.wrong == []
    assert tried.count_all()


@pytest.mark.slow
def test_no_changed_field_breaks_a_checker():
    tried = attack_all("true")
    assert tried.wrong == []
    assert {kind for kind, _ in tried.tried} == CHECKERS.keys()


WEAK = {
    "reachable-set": [("polvet.check.reachable_set._check_listed", lambda *given: None)],
    "strong-cyclic": [("polvet.check.strong_cyclic._check_won", lambda *given: None)],
    "run": [("polvet.check.run._replay", lambda *given: 0)],
    "risk-bound": [("polvet.check.risk_bound._check_above", lambda *given: None)],
    "permissive": [("polvet.check.permissive._check_values", lambda *given: None)],
}


@pytest.mark.parametrize("kind", WEAK)
def test_a_checker_that_forgets_something_is_found_out(kind, monkeypatch):
    for patch in WEAK[kind]:
        monkeypatch.setattr(*patch)
    tried = Tried()
    attack_tiny(range(40), tried, most=3, kinds={kind}, until_wrong=True)
    assert tried.wrong


def test_every_way_to_change_a_field_is_tried():
    document = {
        "kind": "k",
        "x": 3,
        "on": True,
        "text": "7",
        "list": [{"y": 1}, {"y": 2}, {"y": 3}],
        "box": {"z": [0, 1.5]},
    }
    found = list(mutants(document))
    assert {name for name, _, _ in found} == {
        "x",
        "on",
        "text",
        "list",
        "list[]",
        "list[].y",
        "box",
        "box.z",
        "box.z[]",
    }
    for name in ("x", "list[].y", "box.z[]"):
        hows = [how for field, how, _ in found if field == name]
        assert set(hows) == {"left out", "emptied", "doubled", "shrunk", "blown up"}
    values = [changed["x"] for name, how, changed in found if name == "x" and how == "blown up"]
    assert {2**31, 2**53, 2**53 + 1, 2**63, -(2**63)} <= {value for value in values if isinstance(value, int)}
    assert any(isinstance(value, float) and math.isnan(value) for value in values)
    assert any(value == 0 and math.copysign(1, value) < 0 for value in values if isinstance(value, float))
    assert all(changed != document or how == "emptied" for _, how, changed in found if how != "blown up")
    assert document == {
        "kind": "k",
        "x": 3,
        "on": True,
        "text": "7",
        "list": [{"y": 1}, {"y": 2}, {"y": 3}],
        "box": {"z": [0, 1.5]},
    }


def test_the_long_run_tried_every_kind_and_accepted_nothing_false():
    found = json.loads((RESULTS / "attack-fields.json").read_text())
    assert found["kinds"].keys() == CHECKERS.keys() >= FACTS.keys()
    assert (
        found["tried"] == sum(row["tried"] for fields in found["kinds"].values() for row in fields.values()) >= 50_000
    )
    assert found["wrong"] == []
    fields = sum(len(fields) for fields in found["kinds"].values())
    page = (RESULTS.parents[1] / "docs" / "trust.md").read_text(encoding="utf-8")
    assert f"{found['tried']:,} changes of {fields} fields of all {len(found['kinds'])} kinds" in page
