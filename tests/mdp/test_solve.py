"""Bounds, infinity and schedulers against the brute force over all memoryless schedulers."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.errors import InputError
from polvet.mdp import Always, CumulativeReward, Reach, Reward, SparseMdp, evaluate, solve
from tests.mdp.brute import best_reach, best_reward, random_mdp

GAP = 1e-6
HALF = Fraction(1, 2)


def random_masks(rng: random.Random, states: int) -> tuple[list[bool], list[bool]]:
    return [rng.random() < 0.25 for _ in range(states)], [rng.random() < 0.85 for _ in range(states)]


def check_bounds(lower: float, exact: Fraction | float, upper: float) -> None:
    assert lower <= exact <= upper
    assert lower == upper or upper - lower <= GAP * lower


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("minimise", [True, False])
def test_reachability_bounds_hold_everywhere_and_the_scheduler_attains_them(block: int, minimise: bool) -> None:
    for seed in range(40 * block, 40 * block + 40):
        rng = random.Random(seed)
        states = rng.choice([3, 4, 5, 6])
        choices, mdp, _ = random_mdp(rng, states=states)
        mdp.validate()
        goal, safe = random_masks(rng, states)
        exact = best_reach(choices, safe, goal, minimise=minimise)
        query = Reach(goal=np.array(goal), safe=np.array(safe), minimise=minimise)
        value = solve(mdp, query)
        achieved = evaluate(mdp, value.scheduler, query)
        for s in range(states):
            check_bounds(value.lowers[s], exact[s], value.uppers[s])
            assert (value.lowers[s] == value.uppers[s]) or exact[s] not in (0, 1), "0 and 1 are decided by the graph"
            assert achieved.lowers[s] <= exact[s] * (1 + Fraction(1, 10**6))
            assert achieved.uppers[s] >= exact[s] * (1 - Fraction(1, 10**6))


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("minimise", [True, False])
def test_expected_reward_bounds_hold_everywhere_and_the_scheduler_attains_them(block: int, minimise: bool) -> None:
    for seed in range(40 * block, 40 * block + 40):
        rng = random.Random(seed)
        states = rng.choice([3, 4, 5, 6])
        choices, mdp, reward = random_mdp(rng, states=states)
        goal, _ = random_masks(rng, states)
        exact = best_reward(choices, reward, goal, minimise=minimise)
        query = Reward("r", goal=np.array(goal), minimise=minimise)
        value = solve(mdp, query)
        achieved = evaluate(mdp, value.scheduler, query)
        for s in range(states):
            check_bounds(value.lowers[s], exact[s], value.uppers[s])
            if exact[s] == math.inf:
                assert achieved.lowers[s] == math.inf
            else:
                assert achieved.lowers[s] <= float(exact[s]) * (1 + 1e-6)
                assert achieved.uppers[s] >= float(exact[s]) * (1 - 1e-6)


def iterate(choices, reward, start, stop, steps, pick):
    """Value iteration in fractions, the slow twin of the step-bounded kernels."""
    now = list(start)
    for _ in range(steps):
        new, c = list(now), 0
        for s, state in enumerate(choices):
            offers = [reward[c + i] + sum(p * now[t] for t, p in row) for i, row in enumerate(state)]
            c += len(state)
            if offers and not stop[s]:
                new[s] = pick(offers)
        now = new
    return now


@pytest.mark.parametrize("minimise", [True, False])
def test_step_bounds_count_exactly_that_many_steps(minimise: bool) -> None:
    pick = min if minimise else max
    for seed in range(150):
        rng = random.Random(seed)
        states = rng.choice([3, 5, 7])
        choices, mdp, reward = random_mdp(rng, states=states)
        goal, safe = random_masks(rng, states)
        steps = rng.choice([0, 1, 2, 5, 9])
        stop = [g or not s for g, s in zip(goal, safe, strict=True)]
        nothing = [Fraction(0)] * mdp.choices
        exact = iterate(choices, nothing, [Fraction(int(g)) for g in goal], stop, steps, pick)
        value = solve(mdp, Reach(goal=np.array(goal), safe=np.array(safe), minimise=minimise, step_bound=steps))
        earned = iterate(choices, reward, [Fraction(0)] * states, [False] * states, steps, pick)
        total = solve(mdp, CumulativeReward("r", steps=steps, minimise=minimise))
        for s in range(states):
            check_bounds(value.lowers[s], exact[s], value.uppers[s])
            check_bounds(total.lowers[s], earned[s], total.uppers[s])


@pytest.mark.parametrize("minimise", [True, False])
def test_always_is_the_complement_of_finally_not(minimise: bool) -> None:
    for seed in range(150):
        rng = random.Random(seed)
        states = rng.choice([3, 4, 5])
        choices, mdp, _ = random_mdp(rng, states=states)
        _, safe = random_masks(rng, states)
        leave = best_reach(choices, [True] * states, [not s for s in safe], minimise=not minimise)
        value = solve(mdp, Always(safe=np.array(safe), minimise=minimise))
        assert all(value.lowers[s] <= 1 - leave[s] <= value.uppers[s] for s in range(states))
        check_bounds(value.lower, (min if minimise else max)(1 - x for x in leave), value.upper)


def rare_event(stages: int, p: Fraction) -> SparseMdp:
    """A chain of stages, each passed with probability p, retried by chance, else lost."""
    lost = stages + 1
    choices: list[list[list[tuple[int, Fraction]]]] = [
        [[(s + 1, p), (max(s - 1, 0), HALF), (lost, HALF - p)]] for s in range(stages)
    ]
    return SparseMdp.build([*choices, [], []])


@pytest.mark.parametrize(
    ("stages", "p"), [(4, Fraction(1, 10**11)), (23, Fraction(1, 100)), (46, Fraction(1, 10)), (2, Fraction(1, 10**60))]
)
def test_tiny_probabilities_are_right_relatively(stages: int, p: Fraction) -> None:
    mdp = rare_event(stages, p)
    goal = np.arange(stages + 2) == stages
    value = solve(mdp, Reach(goal=goal), exact=False)
    exact = solve(mdp, Reach(goal=goal), exact=True).exact
    assert exact is not None
    assert 0 < exact < Fraction(1, 10**40)
    assert Fraction(value.lower) <= exact <= Fraction(value.upper)
    assert value.upper - value.lower <= GAP * value.lower


def test_what_is_below_the_smallest_double_is_still_bounded_soundly() -> None:
    mdp = rare_event(50, Fraction(1, 10**8))
    value = solve(mdp, Reach(goal=np.arange(52) == 50))
    assert value.lower == 0 < value.upper < 1e-290


def slow_walk(length: int) -> SparseMdp:
    """Haddad and Monmege's trap: a walk that falls back to the start, so plain value iteration stops much too early."""
    middle = length
    rows: list[list[list[tuple[int, Fraction]]]] = []
    for s in range(2 * length + 1):
        if s in (0, 2 * length):
            rows.append([])
        elif s == middle:
            rows.append([[(s - 1, HALF), (s + 1, HALF)]])
        else:
            rows.append([[(s - 1 if s < middle else s + 1, HALF), (middle, HALF)]])
    return SparseMdp.build(rows, initial=[middle])


@pytest.mark.parametrize("length", [5, 15, 22, 40])
def test_slow_convergence_does_not_stop_early(length: int) -> None:
    value = solve(slow_walk(length), Reach(goal=np.arange(2 * length + 1) == 2 * length))
    check_bounds(value.lower, HALF, value.upper)


def gambler(n: int, up: Fraction) -> SparseMdp:
    rows: list[list[list[tuple[int, Fraction]]]] = [[]]
    rows += [[[(s + 1, up), (s - 1, 1 - up)]] for s in range(1, n)]
    return SparseMdp.build([*rows, []], initial=[n // 2], rewards={"steps": [1] * (n - 1)})


@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_the_gamblers_ruin_has_its_closed_form(n: int) -> None:
    fair = gambler(n, HALF)
    ends = np.isin(np.arange(n + 1), [0, n])
    check_bounds((v := solve(fair, Reach(goal=np.arange(n + 1) == n))).lower, HALF, v.upper)
    check_bounds((v := solve(fair, Reward("steps", goal=ends))).lower, (n // 2) * (n - n // 2), v.upper)


def test_a_zero_reward_end_component_is_left_for_the_cheapest_exit() -> None:
    one = Fraction(1)
    mdp = SparseMdp.build([[[(1, one)], [(2, one)]], [[(0, one)], [(2, one)]], []], rewards={"cost": [0, 5, 0, 3]})
    goal = np.array([False, False, True])
    value = solve(mdp, Reward("cost", goal=goal, minimise=True))
    assert value.lower <= 3 <= value.upper
    assert value.scheduler.tolist()[:2] == [0, 1]
    assert solve(mdp, Reward("cost", goal=goal)).infinite


def test_a_maximal_scheduler_leaves_the_end_component_it_could_stay_in() -> None:
    one = Fraction(1)
    mdp = SparseMdp.build([[[(1, one)], [(2, HALF), (3, HALF)]], [[(0, one)]], [], []])
    goal = np.array([False, False, True, False])
    value = solve(mdp, Reach(goal=goal))
    achieved = evaluate(mdp, value.scheduler, Reach(goal=goal))
    assert achieved.lower <= 0.5 <= achieved.upper
    assert solve(mdp, Reach(goal=goal, minimise=True)).upper == 0


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    n = 300_000
    target = np.arange(1, n + 1, dtype=np.uint32)
    mdp = SparseMdp(
        choice_start=np.append(np.arange(n + 1), n).astype(np.uint64),
        branch_start=np.arange(n + 1, dtype=np.uint64),
        target=target,
        probability=np.ones(n),
        initial=np.array([0], dtype=np.uint32),
        rewards={"steps": np.ones(n)},
    )
    value = solve(mdp, Reward("steps", goal=np.arange(n + 1) == n))
    assert value.lower <= n <= value.upper


def test_a_time_limit_leaves_sound_bounds_and_says_so() -> None:
    mdp = gambler(20_000, Fraction(1, 2))
    value = solve(mdp, Reward("steps", goal=np.isin(np.arange(20_001), [0, 20_000])), budget=Budget(0))
    assert value.limit.kind == "time"
    assert value.lower <= 10**8 <= value.upper


def test_an_interrupt_reaches_python_while_the_kernel_runs() -> None:
    code = """
import numpy as np, signal
from tests.mdp.test_solve import HALF, gambler
from polvet.mdp import Reach, solve
mdp = gambler(2000, HALF)
signal.setitimer(signal.ITIMER_REAL, 0.5)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    solve(mdp, Reach(goal=np.arange(2001) == 2000, step_bound=10**9))
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Reward("stesp", goal=np.array([True])), "Did you mean 'steps'"),
        (Reward("steps", goal=np.array([True])), "Negative rewards"),
        (Reach(goal=np.array([1])), "must be bool"),
        (Reach(goal=np.array([True, False])), "shape"),
        (Reach(goal=np.array([True]), step_bound=-1), "step bound"),
        (Reach(goal=np.array([True]), reward_bound=("thirds", 4)), "integer rewards"),
    ],
)
def test_wrong_questions_are_refused_with_a_way_out(query: Reach | Reward, words: str) -> None:
    mdp = SparseMdp.build([[[(0, Fraction(1))]]], rewards={"steps": [-1], "thirds": [Fraction(1, 3)]})
    with pytest.raises(InputError, match=words):
        solve(mdp, query)
