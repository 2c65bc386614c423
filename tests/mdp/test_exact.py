"""Exact values against the brute force, and reward bounds against unfolding."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.mdp import Always, CumulativeReward, Reach, Reward, SparseMdp, evaluate, solve, unfold_reward
from tests.mdp.brute import best_reach, best_reward, random_choices, random_mdp
from tests.mdp.test_solve import check_bounds, gambler, random_masks


@pytest.mark.parametrize("minimise", [True, False])
def test_exact_values_equal_the_best_of_all_schedulers(minimise: bool) -> None:
    pick = min if minimise else max
    for seed in range(200):
        rng = random.Random(1000 + seed)
        states = rng.choice([3, 4, 5, 6])
        choices, mdp, reward = random_mdp(rng, states=states)
        goal, safe = random_masks(rng, states)
        query = Reach(goal=np.array(goal), safe=np.array(safe), minimise=minimise)
        value = solve(mdp, query, exact=True)
        assert value.exact == pick(best_reach(choices, safe, goal, minimise=minimise))
        assert evaluate(mdp, value.scheduler, query, exact=True).exact == value.exact
        best = pick(best_reward(choices, reward, goal, minimise=minimise))
        value = solve(mdp, Reward("r", goal=np.array(goal), minimise=minimise), exact=True)
        assert value.infinite if best == math.inf else value.exact == best


def test_a_bad_first_scheduler_is_improved_to_the_optimum() -> None:
    from dataclasses import replace

    from polvet.mdp import solve_exactly

    for seed in range(100):
        rng = random.Random(seed)
        choices = random_choices(rng, states=5, deadlocks=0.1)
        mdp = SparseMdp.build(choices, initial=range(5))
        goal = [s == 0 for s in range(5)]
        query = Reach(goal=np.array(goal))
        value = solve(mdp, query)
        bad = np.where(value.scheduler == 0xFFFFFFFF, 0xFFFFFFFF, 0).astype(np.uint32)
        try:
            improved = solve_exactly(mdp, query, replace(value, scheduler=bad))
        except ValueError:
            continue  # the bad scheduler stays for ever where the goal could be reached: it has no worth there
        assert improved.exact == max(best_reach(choices, [True] * 5, goal, minimise=False))


def test_exact_always_and_step_bounds_agree_with_their_bounds() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        states = 5
        _, mdp, _ = random_mdp(rng, states=states)
        goal, safe = random_masks(rng, states)
        for query in (
            Always(safe=np.array(safe), minimise=seed % 2 == 0),
            Always(safe=np.array(safe), step_bound=3),
            Reach(goal=np.array(goal), step_bound=4),
            CumulativeReward("r", steps=4),
        ):
            bounds, exact = solve(mdp, query), solve(mdp, query, exact=True).exact
            assert exact is not None
            check_bounds(bounds.lower, exact, bounds.upper)


@pytest.mark.parametrize("minimise", [True, False])
def test_a_bound_on_reward_equals_the_unfolded_model(minimise: bool) -> None:
    for seed in range(150):
        rng = random.Random(seed)
        states = rng.choice([3, 4, 6])
        choices = random_choices(rng, states=states)
        count = sum(len(state) for state in choices)
        mdp = SparseMdp.build(choices, initial=[0], rewards={"r": [rng.choice([0, 0, 1, 2, 3]) for _ in range(count)]})
        goal, safe = random_masks(rng, states)
        bound = rng.choice([0, 1, 4, 7])
        for limit in ({"reward_bound": ("r", bound)}, {"reward_at_least": ("r", bound)}):
            query = Reach(goal=np.array(goal), safe=np.array(safe), minimise=minimise, **limit)
            unfolded, unfolded_goal = unfold_reward(mdp, query)
            exact = solve(unfolded, Reach(goal=unfolded_goal, minimise=minimise), exact=True).exact
            assert exact is not None
            value = solve(mdp, query)
            check_bounds(value.lower, exact, value.upper)
            assert solve(mdp, query, exact=True).exact == exact


def test_the_exact_gamblers_ruin_is_the_closed_form() -> None:
    up, n = Fraction(2, 5), 60
    ratio = (1 - up) / up
    expected = (1 - ratio ** (n // 2)) / (1 - ratio**n)
    assert solve(gambler(n, up), Reach(goal=np.arange(n + 1) == n), exact=True).exact == expected


def test_exact_mode_refuses_doubles_that_do_not_sum_to_one() -> None:
    mdp = SparseMdp(
        choice_start=np.array([0, 1, 1], dtype=np.uint64),
        branch_start=np.array([0, 3], dtype=np.uint64),
        target=np.array([0, 1, 1], dtype=np.uint32),
        probability=np.array([0.1, 0.7, 0.2]),
        initial=np.array([0], dtype=np.uint32),
    )
    with pytest.raises(InputError, match="do not sum to 1"):
        solve(mdp, Reach(goal=np.array([False, True]), minimise=True), exact=True)
