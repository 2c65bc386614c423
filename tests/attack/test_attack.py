"""No false claim of any kind is accepted; the attacks are strong enough to find a checker that lets one through."""

from __future__ import annotations

import pytest

from tests.attack.strike import KINDS, strike


@pytest.mark.parametrize("kind", KINDS)
def test_false_claims_are_rejected(kind):
    found = strike(kind, 200, seed=1)
    assert found.tried >= 200
    assert found.accepted == []


def test_a_checker_that_looks_at_start_states_alone_is_found_out(monkeypatch):
    from polvet.check import invariant

    monkeypatch.setattr(invariant, "try_all_states", lambda asked, judge: True)
    assert strike("invariant", 60, seed=1).accepted


def test_a_checker_that_believes_the_reasons_of_split_trees_is_found_out(monkeypatch):
    from polvet.check.invariant_tree import Follower

    monkeypatch.setattr(Follower, "_holds", lambda *given: True)
    assert strike("invariant", 120, seed=1).accepted
