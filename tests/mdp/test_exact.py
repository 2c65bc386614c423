"""Exact values against the brute force, and reward bounds against unfolding."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.errors import InputError
from polvet.mdp import Always, CumulativeReward, Reach, Reward, SparseMdp, evaluate, solve, solve_exactly, unfold_reward
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
    improved = 0
    for seed in range(100):
        rng = random.Random(seed)
        choices = random_choices(rng, states=5, deadlocks=0.1)
        mdp = SparseMdp.build(choices, initial=range(5))
        goal = [s == 0 for s in range(5)]
        query = Reach(goal=np.array(goal))
        value = solve(mdp, query)
        bad = np.where(value.scheduler == 0xFFFFFFFF, 0xFFFFFFFF, 0).astype(np.uint32)
        try:
            result = solve_exactly(mdp, query, replace(value, scheduler=bad))
        except ValueError as error:
            assert "stays for ever" in str(error)  # noqa: PT017 - some bad schedulers have no worth to start from
            continue
        assert result.exact == max(best_reach(choices, [True] * 5, goal, minimise=False))
        improved += 1
    assert improved > 40


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


def test_exact_mode_ends_at_the_time_limit_with_the_bounds_it_has() -> None:
    mdp, query = gambler(30, Fraction(1, 3)), Reach(goal=np.arange(31) == 1)
    bounds = solve(mdp, query)
    value = solve_exactly(mdp, query, bounds, budget=Budget(0))  # long past
    assert (str(value.limit), value.exact) == ("time limit of 0 s reached", None)
    assert (value.lower, value.upper) == (bounds.lower, bounds.upper)


def drunk_on_a_grid(size: int, rng: random.Random) -> tuple[SparseMdp, np.ndarray, np.ndarray]:
    """A grid whose every cell offers two biased random walks; one border is the goal, the others are lost."""
    weights = [[rng.choice([1, 1, 2, 3]) for _ in range(4)] for _ in range(2 * size * size)]
    inner = [(x, y) for x in range(size) for y in range(size)]
    number = {cell: i for i, cell in enumerate(inner)}
    goal, lost = len(inner), len(inner) + 1
    choices: list[list[list[tuple[int, Fraction]]]] = []
    for i, (x, y) in enumerate(inner):
        rows = []
        for w in weights[2 * i : 2 * i + 2]:
            row: dict[int, Fraction] = {}
            for (dx, dy), part in zip([(1, 0), (-1, 0), (0, 1), (0, -1)], w, strict=True):
                t = number.get((x + dx, y + dy), goal if x + dx == size else lost)
                row[t] = row.get(t, Fraction(0)) + Fraction(part, sum(w))
            rows.append(list(row.items()))
        choices.append(rows)
    mdp = SparseMdp.build([*choices, [], []], initial=[0], rewards={"steps": [1] * (2 * len(inner))})
    states = np.arange(mdp.states)
    return mdp, states == goal, states >= goal


@pytest.mark.parametrize("minimise", [True, False])
@pytest.mark.parametrize("size", [6, pytest.param(13, marks=pytest.mark.slow)])
def test_bounds_of_whole_components_contain_the_exact_value(size: int, minimise: bool) -> None:
    mdp, goal, ends = drunk_on_a_grid(size, random.Random(size))
    for query in (Reach(goal=goal, minimise=minimise), Reward("steps", goal=ends, minimise=minimise)):
        bounds = solve(mdp, query)
        exact = solve(mdp, query, exact=True).exact
        assert exact is not None
        assert bounds.largest_component == size * size
        assert Fraction(bounds.lower) <= exact <= Fraction(bounds.upper)
        assert bounds.relative_gap <= 1e-6
