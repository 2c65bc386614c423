"""The long random test strikes each of its blows once here; `make torture` goes on for as long as it is told to."""

from __future__ import annotations

import pytest

from tests.torture import BLOWS, damaged, torture


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BLOWS if name != "kill_and_resume"])  # tests/fuzz kills enough
def test_every_blow_strikes(name):
    said = []
    assert torture(0.0, 3, name, said.append) == 0, "\n".join(said)
    assert "1 blows" in said[-1]


def test_a_blow_that_goes_wrong_is_told_with_its_seed(monkeypatch):
    def broken(seed):
        raise AssertionError(f"wrong with {seed}")

    monkeypatch.setitem(BLOWS, "broken", broken)
    said = []
    assert torture(0.0, 5, "broken", said.append) == 1
    assert any("wrong with 5" in text for text in said)
    assert any("--only broken --seed 5" in text for text in said)


def test_damage_is_repeatable():
    import random

    data = bytes(range(200))
    assert [damaged(random.Random(k), data) for k in range(9)] == [damaged(random.Random(k), data) for k in range(9)]
