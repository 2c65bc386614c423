"""Exploration by several threads: the same states, numbers, parents, counts and matrix as by one; faults and limits told alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from polvet import _core
from polvet.budget import Budget
from polvet.domains import generate
from polvet.domains.shipped import find_shipped
from polvet.kernel.compiled import Compiled
from polvet.kernel.lower import Reward
from polvet.kernel.starts import Starts
from polvet.model.expressions import Name
from polvet.model.instantiate import instantiate
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.sources import load_task
from tests.kernel.test_twins import RELAXED, network_of
from tests.strategies import models

COUNTS = ("expanded", "choices", "moves", "transitions", "deadlocks", "stuck", "near_ties")
THREADS = (2, 3, 8)


def everything(space: _core.Space, build: bool) -> list[np.ndarray]:
    """Return all that a space tells."""
    counts = np.array([getattr(space, name) for name in COUNTS])
    matrix = space.take_matrix() if build else ((),)
    return [space.states(), space.initial, space.parent, counts, *map(np.asarray, matrix[:-1]), *matrix[-1]]


def explored(
    compiled: Compiled, initial, build: bool, stop_at, policy, threads: int, states: int = 2**32 - 3
) -> _core.Space:
    """Return the space; threads work together from the first state on."""
    starts = compiled.initial() if initial is None else initial
    return _core.Space(
        compiled.program, starts, build, True, list(stop_at), math.inf, 2**64 - 1, states, None, policy, threads, 0
    )


def assert_same(compiled: Compiled, initial=None, *, build: bool, stop_at=(), policy=None) -> None:
    one = everything(explored(compiled, initial, build, stop_at, policy, 1), build)
    for threads in THREADS:
        other = everything(explored(compiled, initial, build, stop_at, policy, threads), build)
        assert len(one) == len(other)
        for mine, yours in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, yours)


@given(models())
@settings(RELAXED, max_examples=60)
def test_random_models_are_numbered_alike(model):
    network = network_of(model)
    if network is None:
        return
    compiled = Compiled(network)
    spaces = [explored(compiled, None, True, (), None, threads, states=3_000) for threads in (1, *THREADS)]
    assert len({(space.status == _core.Status.FAULT, space.fault, space.faulty) for space in spaces}) == 1
    if spaces[0].status == _core.Status.DONE:
        assert_same(compiled, build=True)


@pytest.mark.parametrize("build", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters"), [("racetrack", {"map": "hook"}), ("transport", {"locations": 6, "packages": 5}), ("beluga", {"jigs": 5})]
)  # fmt: skip
def test_worlds_of_thousands_of_states_are_numbered_alike(name, parameters, build):
    network = instantiate(generate(name, **parameters).model)
    number = next(one.name for one in network.variables if one.kind.name == "INT")
    rewards = (Reward(per_state=Name(number), per_step=None), Reward(per_state=None, per_step=Name(number)))
    assert_same(Compiled(network, rewards=rewards if build else ()), build=build)


@pytest.mark.parametrize("name", ["bird", "line-good"])
def test_what_a_policy_reaches_is_numbered_alike(name):
    shipped = find_shipped(name)
    fitted = load_fitted(load_task(shipped.task), shipped.policy)
    bound = compile_policy(fitted)
    starts = bound.compiled.pack_starts(Starts.of(fitted.task), limit=5_000)
    assert_same(bound.compiled, starts, build=True, stop_at=[0, 1], policy=bound.core)


def test_a_limit_on_states_stops_all_threads():
    compiled = Compiled(instantiate(generate("blocksworld", n=5).model))
    space = compiled.explore(budget=Budget(states=5_000), threads=4)
    assert space.status == _core.Status.STATES
    prefix = compiled.explore(budget=Budget(states=5_000))
    least = min(len(space), len(prefix))
    np.testing.assert_array_equal(space.states(0, least), prefix.states(0, least))


def test_a_time_limit_stops_all_threads():
    compiled = Compiled(instantiate(generate("blocksworld", n=5).model))
    assert compiled.explore(budget=Budget(seconds=0.2), threads=4).status == _core.Status.TIME
