"""No false claim of any kind is accepted; the attacks are strong enough to find a checker that lets one through."""

from __future__ import annotations

import pytest

from tests.attack.strike import KINDS, strike


@pytest.mark.parametrize("kind", KINDS)
def test_false_claims_are_rejected(kind):
    found = strike(kind, 300, seed=1)
    assert found.tried >= 300
    assert found.accepted == []


def test_a_checker_that_does_not_look_for_errors_of_the_model_is_found_out(monkeypatch):
    from polvet.evidence import invariant, invariant_states

    for module in (invariant, invariant_states):
        monkeypatch.setattr(module, "possible_errors", lambda asked: [])
    assert strike("invariant", 300, seed=1).accepted
