"""Safety-constrained learning against brute force over all deterministic schedulers, and the SMT enumeration."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.mdp import SparseMdp
from polvet.shield import Impossible, World, permit
from polvet.shield.learning import Learned, LearningOptions, learn, promised
from polvet.shield.permissive import Permitted
from polvet.shield.smt import PermissiveSmt, iterate_all
from polvet.shield.world import COST, reached_options
from tests.mdp.brute import gauss
from tests.shield import oracle


def with_costs(rng: random.Random, world: World) -> World:
    costs = np.array([float(rng.randint(1, 9)) for _ in range(world.mdp.choices)])
    return replace(world, mdp=replace(world.mdp, rewards={COST: costs}, exact_rewards={}))


def cost_of(world: World, choices: oracle.Choices, scheduler: tuple[int, ...]) -> float:
    """The expected cost until goal or fail, by elimination on the reachable states; infinite where a run need not end."""
    ended = (world.fail | world.goal).tolist()
    sets = [[c] if c >= 0 else [] for c in scheduler]
    order = sorted(oracle.reached(choices, sets))
    if any(not choices[s] and not ended[s] for s in order):
        return math.inf
    inner = [s for s in order if not ended[s]]
    for s in inner:  # every state must lead to an end
        seen, todo = {s}, [s]
        while todo:
            t = todo.pop()
            for u, _ in choices[t][scheduler[t]] if not ended[t] else []:
                if u not in seen:
                    seen.add(u)
                    todo.append(u)
        if not any(ended[t] for t in seen):
            return math.inf
    if not inner:
        return 0.0
    starts = world.mdp.choice_start.tolist()
    matrix = []
    for s in inner:
        row = [Fraction(int(s == t)) for t in inner] + [
            Fraction(float(world.mdp.rewards[COST][starts[s] + scheduler[s]]))
        ]
        for t, p in choices[s][scheduler[s]]:
            if t in inner:
                row[inner.index(t)] -= p
        matrix.append(row)
    return float(gauss(matrix)[inner.index(0)]) if 0 in inner else 0.0


def best_safe(world: World, choices: oracle.Choices, fail: list[bool], bound: Fraction) -> float:
    everything = [list(range(len(state))) for state in choices]
    return min(
        (cost_of(world, choices, one) for one in oracle.schedulers_of(everything)
         if oracle.risk(choices, one, fail) <= bound),
        default=math.inf,
    )  # fmt: skip


@pytest.mark.parametrize("block", range(4))
def test_bounds_hold_and_the_optimum_is_reached(block: int) -> None:
    rng = random.Random(100 + block)
    optimal = finite = 0
    for _ in range(25):
        world, choices, fail = oracle.random_world(rng, states=5)
        if not world.goal.any() or not choices[0]:
            continue
        world = with_costs(rng, world)
        bound = Fraction(rng.randint(1, 19), 20)
        best = best_safe(world, choices, fail, bound)
        result = learn(world, bound, options=LearningOptions(iterations=8, episodes=500), rng=rng)
        if isinstance(result, Impossible):
            assert oracle.least(choices, fail) > bound
            continue
        assert result.lower <= best * (1 + 1e-9)
        assert result.rounds[-1].upper_deterministic >= best * (1 - 1e-9)
        if best < math.inf:
            finite += 1
            optimal += result.optimal
            if result.optimal:
                assert result.upper <= best * (1 + 1e-5)
    assert optimal >= 0.9 * finite > 0


def test_enumerating_all_permissive_schedulers_finds_the_deterministic_optimum() -> None:
    rng = random.Random(3)
    compared = 0
    for _ in range(25):
        world, choices, fail = oracle.random_world(rng, states=4)
        if not world.goal.any() or not choices[0]:
            continue
        world = with_costs(rng, world)
        bound = Fraction(rng.randint(1, 19), 20)
        found = math.inf
        for mask in iterate_all(world, bound):
            sets = oracle.sets_of(world, mask)
            assert oracle.worst(choices, sets, fail) <= bound
            found = min(found, min(cost_of(world, choices, one) for one in oracle.schedulers_of(sets)))
        assert found == best_safe(world, choices, fail, bound)
        compared += 1
    assert compared > 5


def test_smt_and_enlargement_agree_on_what_is_impossible() -> None:
    rng = random.Random(8)
    for _ in range(30):
        world, choices, fail = oracle.random_world(rng, states=5)
        bound = Fraction(rng.randint(0, 19), 20)
        mask = PermissiveSmt(world, bound).find()
        result = permit(world, bound, attempts=2)
        if mask is None:
            assert isinstance(result, Impossible)
        else:
            assert isinstance(result, Permitted)
            assert oracle.worst(choices, oracle.sets_of(world, reached_options(world, mask)), fail) <= bound


def test_maxsmt_allows_as_many_options_as_any_safe_set() -> None:
    rng = random.Random(4)
    for _ in range(10):
        world, choices, fail = oracle.random_world(rng, states=4)
        bound = Fraction(rng.randint(1, 19), 20)
        mask = PermissiveSmt(world, bound, maximise=True).find()
        if mask is None:
            continue
        count = world.options
        most = 0
        for number in range(2**count):
            one = np.array([number >> k & 1 for k in range(count)], dtype=bool)
            sets = oracle.sets_of(world, one)
            if all(sets[s] or not choices[s] for s in range(4)) and oracle.worst(choices, sets, fail) <= bound:
                most = max(most, int(one.sum()))
        assert int(mask.sum()) == most


def test_without_a_goal_or_with_costs_outside_their_bounds_learning_is_refused() -> None:
    one = Fraction(1)
    mdp = SparseMdp.build([[[(1, one)], [(2, one)]], [], []], rewards={COST: [1, 5]})
    fail = np.array([False, False, True])
    with pytest.raises(InputError, match="goal"):
        learn(World.of(mdp, fail=fail), one)
    world = World.of(mdp, fail=fail, goal=np.array([False, True, False]))
    with pytest.raises(InputError, match="outside"):
        promised(world, 0.0, 2.0)
    result = learn(world, Fraction(0))
    assert isinstance(result, Learned)
    assert result.optimal
    assert result.upper == pytest.approx(1.0)
