"""Confidence sequences hold at all times at once, in simulation; stop rules are read or refused."""

from __future__ import annotations

import random

import pytest

from polvet.debug.confidence import binomial_interval
from polvet.errors import InputError
from polvet.fuzz.anytime import Share, StopRule, parse_stop_rule


@pytest.mark.parametrize("truth", [0.0, 0.02, 0.5, 0.97])
def test_the_truth_is_hardly_ever_left_out_at_any_time(truth):
    rng = random.Random(7)
    missed = 0
    for _ in range(60):
        share = Share()
        for _ in range(25):
            share = share.seen(sum(rng.random() < truth for _ in range(10)), 10)
            low, high = share.interval
            if not low <= truth <= high:
                missed += 1
                break
    assert missed <= 60 * 0.05 + 5  # three standard deviations above what is promised at most


def test_the_interval_narrows_and_is_wider_than_one_for_a_single_look():
    widths = []
    for draws in (10, 100, 1000, 10_000):
        share = Share(draws // 10, draws)
        low, high = share.interval
        fixed_low, fixed_high = binomial_interval(draws // 10, draws)
        assert low <= fixed_low
        assert high >= fixed_high
        assert low <= share.mean <= high
        widths.append(share.width)
    assert widths == sorted(widths, reverse=True)


def test_nothing_seen_says_nothing():
    assert Share().interval == (0.0, 1.0)
    assert not StopRule(0.5).holds(Share())
    assert StopRule(0.5).holds(Share(0, 100))


@pytest.mark.parametrize("text", ["width", "width<0", "width<2", "length<0.1", "width<x", ""])
def test_strange_rules_are_refused(text):
    with pytest.raises(InputError, match="rule"):
        parse_stop_rule(text)
