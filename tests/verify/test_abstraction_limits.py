"""The abstraction keeps its time limit while it enumerates abstract states, whatever the tester does."""

from __future__ import annotations

import pytest

import polvet
from polvet.budget import Budget
from polvet.domains.shipped import shipped_files
from polvet.verify.abstraction import Expansion, Options, Stopped
from polvet.verify.box_tester import BoxTester
from polvet.verify.linearized import linearized
from polvet.verify.predicates import Predicate
from polvet.verify.questions import Patience
from polvet.verify.slicing import sliced


@pytest.mark.parametrize("ticks", [0, 1, 50, 500])
def test_enumerating_abstract_states_stops_at_the_limit(ticks):
    files = {file.name: file for file in shipped_files()}
    policy = polvet.load(files["one-way-line-8-5.toml"]).policy(files["one-way-line-8-5-faulty.json"])
    part = sliced(policy.bound).bound
    task = linearized(part, Budget(60))
    assert not isinstance(task, str)
    bounds = task.system.bounds
    predicates = [
        Predicate(((place, 1),), value)
        for place, (low, high) in enumerate(zip(bounds.lower, bounds.upper, strict=True))
        for value in range(low, high)
    ]
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        return float(calls)

    budget = Budget(ticks, clock=clock)
    with pytest.raises(Stopped, match="time limit"):
        Expansion(task, predicates, BoxTester(part, task, Patience()), Options(), (), budget).build()
    assert calls <= ticks + 10
