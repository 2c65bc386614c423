"""No false claim of any kind is accepted; the attacks are strong enough to find a checker that lets one through."""

from __future__ import annotations

import pytest

from polvet.evidence.invariant_rows import Row
from tests.attack.strike import KINDS, strike


@pytest.mark.parametrize("kind", KINDS)
def test_false_claims_are_rejected(kind):
    found = strike(kind, 300, seed=1)
    assert found.tried >= 300
    assert found.accepted == []


def test_a_checker_that_believes_rows_of_doubles_is_found_out(monkeypatch):
    from polvet.evidence import invariant_claim, invariant_conditions

    def rounded(columns, lower, upper, most):
        made = invariant_claim.row_between({k: c // 2**60 for k, c in columns.items()}, lower, upper, most)
        return made if made is not None else Row(invariant_claim.np.zeros(len(most), dtype=int), 1, 1)

    monkeypatch.setattr(invariant_conditions, "row_between", rounded)
    assert strike("invariant", 400, seed=1).accepted
