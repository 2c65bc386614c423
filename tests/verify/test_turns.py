"""Turns of the portfolio: what decides alone within a sixth of the limit decides in `auto`, whatever the other methods do."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from polvet.budget import Budget
from polvet.domains import generate
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.tables import Table
from polvet.symbolic.operators import linear_task
from polvet.verify import portfolio
from polvet.verify.fuzzing import SHARE
from polvet.verify.method import Method, Request
from polvet.verify.turns import EXPLICIT, ORDER, REAL_ORDER, iter_turns
from polvet.verify.verdicts import Safe, Unknown

NEVER = float("inf")
TASK = generate("transport", locations=3, packages=2).task()
READ = linear_task(TASK)


@dataclass
class Race:
    """Methods that need so many seconds, by a clock that only they advance; explicit search alone goes on where it stopped."""

    needs: dict[str, float]
    reading: float = 0.0
    gives_up: dict[str, float] = field(default_factory=dict)
    now: float = 0.0
    searched: float = 0.0

    def spend(self, seconds: float, budget: Budget) -> bool:
        """Let time pass, at most until the budget ends; return whether it was enough."""
        left = budget.left()
        self.now += min(seconds, left)
        return seconds <= left

    def read(self, _, budget):
        return READ if self.spend(self.reading, budget) else "no time"

    def method(self, name: str) -> Method:
        def run(_, request: Request):
            if name == EXPLICIT:
                begun = self.now
                done = self.spend(self.needs[name] - self.searched, request.budget)
                self.searched += self.now - begun
            elif self.gives_up.get(name, NEVER) < min(self.needs[name], request.budget.left()):
                self.spend(self.gives_up[name], request.budget)
                return Unknown("cannot", name)
            else:
                done = self.spend(self.needs[name], request.budget)
            return Safe({}, name) if done else Unknown("no time", name, limit="time")

        return Method(name, "", run, linear=name != EXPLICIT)


@pytest.fixture
def decide(monkeypatch):
    names = tuple(variable.name for variable in TASK.network.variables)
    bound = compile_policy(fit(TASK, Table(names, TASK.network.labels, {}, 0)))

    def decide(race: Race, limit: float | None):
        def simulate(*_, budget, **__):
            race.spend(0.0 if limit is None else SHARE * limit, budget)

        monkeypatch.setattr(portfolio, "METHODS", {name: race.method(name) for name in ORDER.methods})
        monkeypatch.setattr(portfolio, "find_unsafe_run", simulate)
        monkeypatch.setattr(portfolio, "linearized", race.read)
        monkeypatch.setattr(portfolio, "Search", lambda *_: "begun")
        return portfolio._auto(bound, Request(Budget(limit, clock=lambda: race.now)))

    return decide


def test_what_decides_alone_in_a_sixth_of_the_limit_decides(decide):
    rng = random.Random(0)
    owed = 0
    for _ in range(600):
        limit = 10 ** rng.uniform(0, 4)
        sixth = limit / 6
        race = Race(
            {name: sixth * 10 ** rng.uniform(-2, 1) for name in ORDER.methods},
            reading=rng.choice([0.0, sixth * rng.random(), sixth * 10 ** rng.uniform(-1, 1)]),
            gives_up={name: sixth * 10 ** rng.uniform(-3, 1) for name in ORDER.methods if rng.random() < 0.3},
        )
        alone = {
            name
            for name, need in race.needs.items()
            if need + (name != EXPLICIT) * race.reading <= sixth
            and (name == EXPLICIT or race.gives_up.get(name, NEVER) >= need)
        }
        result = decide(race, limit)
        assert race.now <= limit * (1 + 1e-9)
        if alone:
            owed += 1
            assert isinstance(result, Safe), (race, limit, alone)
    assert owed > 200


@pytest.mark.parametrize("name", ORDER.methods)
def test_the_worst_case_is_decided_too(decide, name):
    """All others need for ever, the reading and the method together need the whole sixth."""
    for limit in (1.0, 3.0, 10.0, 60.0, 240.0, 3600.0):
        for reading in (0.0, limit / 12, limit / 6.01):
            need = limit / 6.01 - (name != EXPLICIT) * reading
            race = Race(dict.fromkeys(ORDER.methods, NEVER) | {name: need}, reading)
            result = decide(race, limit)
            assert isinstance(result, Safe), (limit, reading)
            assert result.method == name


def test_a_cheap_proof_does_not_wait_for_a_dear_method(decide):
    race = Race(dict.fromkeys(ORDER.methods, NEVER) | {"ic3": 0.4})
    assert isinstance(decide(race, 60.0), Safe)
    assert race.now < 60 * SHARE + 5 * 60 / 6 / 8


def test_who_gives_up_has_no_other_turn_and_leaves_the_time_to_others(decide):
    quitters = {name: 0.0 for name in ORDER.methods[1:-1]}
    race = Race(dict.fromkeys(ORDER.methods, NEVER) | {"ic3": 21.0}, gives_up=quitters)
    result = decide(race, 60.0)  # more than a sixth, as two only are left to share
    assert isinstance(result, Safe)
    assert result.method == "ic3"


def test_without_a_limit_explicit_search_has_the_last_turn_and_no_end(decide):
    race = Race(dict.fromkeys(ORDER.methods, NEVER) | {EXPLICIT: 1e6})
    assert isinstance(decide(race, None), Safe)
    assert race.now < 1e6 + 384


@pytest.mark.parametrize("order", [ORDER, REAL_ORDER])
@pytest.mark.parametrize("limit", [0.01, 1.0, 24.0, 5000.0])
def test_no_turn_is_negative_and_the_first_round_is_for_everybody(order, limit):
    turns = list(iter_turns(order, Budget(limit, clock=lambda: 0.0), limit, order.methods))
    assert all(turn.seconds is None or turn.seconds > 0 for turn in turns)
    assert tuple(turn.method for turn in turns[: len(order.methods)]) == order.methods
