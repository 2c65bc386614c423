"""The search for the deterministic optimum against brute force over all deterministic schedulers."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from polvet.domains import generate
from polvet.shield import build_world
from polvet.shield.deterministic import find_deterministic
from polvet.shield.learning import Learned, LearningOptions, learn
from polvet.shield.least_risk import find_least_risk
from polvet.shield.permissive import is_safe
from polvet.shield.world import COST
from tests.shield import oracle
from tests.shield.test_learning import best_safe, cost_of, with_costs


@pytest.mark.parametrize("block", range(4))
def test_the_bounds_meet_at_the_cheapest_safe_deterministic_scheduler(block: int) -> None:
    rng = random.Random(40 + block)
    finite = 0
    for _ in range(30):
        world, choices, fail = oracle.random_world(rng, states=rng.choice([4, 5, 6]))
        if not world.goal.any() or not choices[0]:
            continue
        world = with_costs(rng, world)
        bound = Fraction(rng.randint(1, 19), 20)
        best = best_safe(world, choices, fail, bound)
        found = find_deterministic(world, world.mdp.rewards[COST], bound, find_least_risk(world).option)
        if best == math.inf:
            assert found.scheduler is None
            assert found.upper == math.inf
            continue
        finite += 1
        assert found.lower <= best * (1 + 1e-9)
        assert found.upper == pytest.approx(best)
        assert found.lower == pytest.approx(best, rel=1e-5)
        assert found.scheduler is not None
        (one,) = oracle.schedulers_of(oracle.sets_of(world, found.scheduler))
        assert oracle.risk(choices, one, fail) <= bound
        assert cost_of(world, choices, one) == pytest.approx(best)
    assert finite > 5


def test_bounds_hold_when_the_search_is_cut_short() -> None:
    world = build_world(generate("comexp", width=4, height=4, distance=5).task(), cost="energy")
    cost, careful, bound = world.mdp.rewards[COST], find_least_risk(world).option, Fraction(1, 10)
    lowers, uppers = [], []
    for nodes in (1, 5, 25, 500):
        found = find_deterministic(world, cost, bound, careful, nodes=nodes)
        assert found.lower <= found.upper
        assert found.nodes <= nodes + 2
        lowers.append(found.lower)
        uppers.append(found.upper)
        if found.scheduler is not None:
            assert is_safe(world, found.scheduler, bound)
            assert np.bincount(world.owners()[found.scheduler]).max() == 1
    assert max(lowers) <= min(uppers) * (1 + 1e-9)


@pytest.mark.slow
def test_learning_finds_the_deterministic_optimum_and_deploys_what_holds_it() -> None:
    world = build_world(generate("janitor", width=4, height=4).task(), cost="fuel")
    bound = Fraction(1, 10)
    known = find_deterministic(world, world.mdp.rewards[COST], bound, find_least_risk(world).option)
    result = learn(world, bound, options=LearningOptions(randomised=False))
    assert isinstance(result, Learned)
    assert result.optimal
    assert result.upper == pytest.approx(known.upper)
    assert result.randomised is None
    assert result.permissive is not None
    assert result.deterministic is not None
    assert not (result.deterministic & ~result.permissive.permitted).any()
