"""A budget ends when it says, its shares with it, and messages name what was given; all by a clock that the tests turn."""

from __future__ import annotations

import pickle
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import LimitReached


class FakeClock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return FakeClock()


def test_time_runs_out(clock):
    budget = Budget(240, clock=clock)
    budget.check()
    clock.pass_by(239)
    assert budget.left() == 1
    assert not budget.is_over()
    budget.check()
    clock.pass_by(2)
    assert budget.left() == 0
    assert budget.is_over()
    with pytest.raises(LimitReached, match=r"^time limit of 240 s reached$") as caught:
        budget.check()
    assert caught.value.kind == "time"


def test_no_limit_never_ends(clock):
    budget = Budget(clock=clock)
    clock.pass_by(1e12)
    budget.check(10**12)
    assert budget.left() == inf
    assert budget.left_or_none() is None
    assert budget.share(0.1) is budget
    assert UNLIMITED.left() == inf


def test_a_budget_can_begin_before_it_is_made(clock):
    budget = Budget(10, clock=clock, begun=clock() - 4)
    assert budget.left() == 6


def test_a_share_names_the_limit_that_was_given(clock):
    share = Budget(240, clock=clock).share(0.5).share(0.3)
    assert share.left() == pytest.approx(36)
    clock.pass_by(37)
    with pytest.raises(LimitReached, match=r"^its share of the time limit of 240 s is used up$"):
        share.check()
    clock.pass_by(300)
    with pytest.raises(LimitReached, match=r"^time limit of 240 s reached$"):
        share.check()


def test_a_limit_inside_an_unlimited_budget_names_itself(clock):
    inner = Budget(clock=clock).at_most(5)
    clock.pass_by(5)
    with pytest.raises(LimitReached, match=r"^time limit of 5 s reached$"):
        inner.check()


@given(st.floats(0, 100), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 30)), max_size=6))
def test_no_share_outlives_its_budget(seconds, cuts):
    clock = FakeClock()
    budget = part = Budget(seconds, clock=clock)
    for share, passing in cuts:
        shorter = part.share(share)
        assert shorter.left() <= part.left() <= budget.left()
        assert shorter.left() == pytest.approx(share * part.left(), abs=1e-6)
        longer = part.at_most(1e9)
        assert longer.left() == part.left()
        part = shorter
        clock.pass_by(passing)
        assert part.left() <= budget.left()


def test_states_are_counted_by_whoever_makes_them(clock):
    budget = Budget(states=100, clock=clock)
    budget.check(100)
    with pytest.raises(LimitReached, match=r"^limit of 100 states reached$") as caught:
        budget.check(101)
    assert caught.value.kind == "states"
    assert budget.at_most(states=7).states == 7
    assert budget.at_most(states=700).states == 100
    assert Budget().at_most(states=7).states == 7


def test_memory_counts_from_where_the_budget_began(monkeypatch):
    budget = Budget(megabytes=50)
    budget.check()
    share = budget.share(0.5)
    held = np.ones(100 * 2**20, dtype=np.uint8)  # 100 MB, written
    monkeypatch.setattr("polvet.budget.LOOK_EVERY", 0.0)
    for limited in (budget, share, budget.at_most(states=5)):
        with pytest.raises(LimitReached, match=r"^memory limit of 50 MB reached$") as caught:
            limited.check()
        assert caught.value.kind == "memory"
    assert held.sum() == len(held)
    Budget(megabytes=50).check()


def test_a_stopwatch_reads_its_clock(clock):
    spent = stopwatch(clock)
    clock.pass_by(2.5)
    assert spent() == 2.5


def test_a_limit_keeps_its_kind_on_its_way_from_a_worker():
    error = pickle.loads(pickle.dumps(Budget(3).reached("time")))
    assert (str(error), error.kind) == ("time limit of 3 s reached", "time")
