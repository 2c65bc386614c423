"""The fast checker beside the reference: a state that it does not leave to the reference is one that the reference accepts."""

from __future__ import annotations

import hashlib
import json
import random

import pytest

from polvet import _check
from polvet.evidence.checker.check import Rejected, Unreadable, check
from polvet.evidence.judge import judge
from tests.evidence.games import random_game
from tests.evidence.test_checker import MAKERS, POLICY, mutated, run

LISTED = [maker for maker in MAKERS if maker is not run]


def shows(text, evidence, **how):
    try:
        return check(text, json.dumps(evidence), **how).claim
    except (Rejected, Unreadable, ValueError, KeyError, TypeError):
        return None


@pytest.mark.parametrize("maker", LISTED, ids=lambda maker: maker.__name__)
def test_what_is_not_left_to_the_reference_is_as_the_kind_asks(maker):
    judged = left_over = 0
    for seed in range(120):
        rng = random.Random(seed)
        game = random_game(rng)
        honest = maker(game)
        text = game.text(rng, policy=maker in POLICY)
        for turn in range(5):
            evidence = honest if turn == 0 else mutated(rng, honest)
            evidence = {"format": "evidence/2", "flat_sha256": hashlib.sha256(text.encode()).hexdigest(), **evidence}
            if not isinstance(evidence.get("states"), list):
                continue
            answer = _check.judge(text.encode(), json.dumps(evidence).encode())
            if isinstance(answer, str):
                continue
            left, starts, bad = answer
            for k in set(range(len(evidence["states"]))) - set(left):
                assert shows(text, evidence, only=[k]) is not None or _is_about_starts(text, evidence), (seed, k)
            if turn == 0 and shows(text, evidence) is not None:
                judged, left_over = judged + len(evidence["states"]), left_over + len(left)
            if not left and bad is None and starts != 0:
                assert shows(text, evidence) is not None or _is_about_starts(text, evidence), (seed, evidence)
            if starts is not None and (bad is not None or starts == 0):
                assert shows(text, evidence) is None, (seed, evidence)
    assert judged > 30
    assert left_over == 0


def _is_about_starts(text, evidence):
    """Whether only what is said of the named start states is wrong."""
    with pytest.raises((Rejected, Unreadable, ValueError, KeyError, TypeError)) as found:
        check(text, json.dumps(evidence), only=[])
    return found is not None


def test_long_lists_are_judged_by_both(monkeypatch):
    monkeypatch.setattr("polvet.evidence.judge.MANY", 2)
    monkeypatch.setattr("polvet.evidence.judge.AGAIN", 1)
    accepted = 0
    for seed in range(100):
        rng = random.Random(seed)
        game = random_game(rng)
        maker = rng.choice(LISTED)
        honest = maker(game)
        text = game.text(rng, policy=maker in POLICY)
        for turn in range(4):
            evidence = honest if turn == 0 else mutated(rng, honest)
            evidence = {"format": "evidence/2", "flat_sha256": hashlib.sha256(text.encode()).hexdigest(), **evidence}
            try:
                claim = judge(text, evidence).claim
            except (Rejected, Unreadable, ValueError, KeyError, TypeError):
                claim = None
            assert (claim is None) == (shows(text, evidence) is None), (seed, evidence)
            accepted += claim is not None
    assert accepted > 50
