"""Permissive schedulers against brute force, the paper's examples, and graph questions."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.domains import generate
from polvet.errors import InputError, LimitReached, Where
from polvet.mdp import Reach, SparseMdp, solve
from polvet.shield import Impossible, World, build_world, permissive, permit
from polvet.shield.permissive import Permitted, safe_region
from polvet.shield.world import induce_permitted, parse_bound
from tests.shield import oracle

HALF = Fraction(1, 2)


def bounds_of(rng: random.Random, choices: oracle.Choices, fail: list[bool]) -> Fraction:
    """A bound that often equals the risk of some scheduler: the case doubles cannot decide."""
    sets = [list(range(len(state))) for state in choices]
    some = rng.choice(list(itertools.islice(oracle.schedulers_of(sets), 50)))
    exact = oracle.risk(choices, some, fail)
    return rng.choice([exact, exact, Fraction(rng.randint(1, 19), 20), min(Fraction(1), exact + Fraction(1, 100))])


@pytest.mark.parametrize("block", range(10))
def test_results_are_safe_locally_maximal_and_impossible_only_where_nothing_is_safe(block: int) -> None:
    rng = random.Random(block)
    for _ in range(30):
        world, choices, fail = oracle.random_world(rng, states=rng.choice([4, 5, 6]))
        bound = bounds_of(rng, choices, fail)
        result = permit(world, bound, attempts=3, rng=rng)
        least = oracle.least(choices, fail)
        if isinstance(result, Impossible):
            assert least > bound
            assert result.exact == least
            continue
        assert least <= bound
        sets = oracle.sets_of(world, result.permitted)
        assert result.exact
        assert result.maximal
        assert result.risk == oracle.worst(choices, sets, fail) <= bound
        assert {int(s) for s in result.sub.states} == oracle.reached(choices, sets)
        assert all(sets[s] or not choices[s] for s in oracle.reached(choices, sets))
        assert oracle.addable(choices, sets, fail, bound) is None


def test_a_bound_of_zero_gives_the_complement_of_the_attractor() -> None:
    rng = random.Random(5)
    seen = 0
    for _ in range(150):
        world, choices, fail = oracle.random_world(rng, states=5)
        everything = [list(range(len(state))) for state in choices]
        safe = safe_region(world)
        for s in range(5):
            rows = [oracle.chain_reach([choices[t][c] if c >= 0 else [] for t, c in enumerate(one)], [True] * 5, fail)[s]
                    for one in oracle.schedulers_of(everything)]  # fmt: skip
            assert bool(safe[s]) == (min(rows) == 0)
        result = permit(world, Fraction(0))
        if isinstance(result, Impossible):
            assert not safe[0]
            continue
        seen += 1
        sets = oracle.sets_of(world, result.permitted)
        for s in oracle.reached(choices, sets):
            assert sets[s] == [c for c, row in enumerate(choices[s]) if all(safe[t] for t, _ in row)]
    assert seen > 20


def test_an_option_with_several_operators_counts_as_its_worst() -> None:
    rng = random.Random(9)
    found = 0
    for _ in range(150):
        world, choices, fail = oracle.random_world(rng, states=5)
        labels = np.array([rng.randrange(2) for state in choices for _ in state], dtype=np.int32)
        grouped = World.of(SparseMdp.build(choices), fail=np.array(fail), goal=world.goal, labels=labels)
        starts = np.concatenate([[0], np.cumsum([len(state) for state in choices])]).tolist()
        options = [sorted({int(k) for k in labels[starts[s] : starts[s + 1]]}) for s in range(5)]

        def opened(
            pick: tuple[int, ...] | list[list[int]], starts=starts, labels=labels, choices=choices
        ) -> oracle.Sets:
            wanted = [one if isinstance(one, list) else [one] for one in pick]
            return [[c for c in range(len(choices[s])) if int(labels[starts[s] + c]) in wanted[s]] for s in range(5)]

        least = min(
            oracle.worst(choices, opened(pick), fail) for pick in itertools.product(*(one or [-1] for one in options))
        )
        bound = Fraction(rng.randint(1, 19), 20)
        result = permit(grouped, bound, attempts=2, rng=rng)
        assert isinstance(result, Impossible) == (least > bound)
        if isinstance(result, Permitted):
            found += 1
            begin = grouped.option_start.tolist()
            allowed = [
                [int(grouped.option_label[o]) for o in range(begin[s], begin[s + 1]) if result.permitted[o]]
                for s in range(5)
            ]
            assert result.risk == oracle.worst(choices, opened(allowed), fail) <= bound
    assert found > 50


def example_1() -> World:
    """Figure 1 with 0.6 for a and c: s0 a -> s1, s1 c -> s2, the only unsafe pair, reaches s2 with 0.36."""
    p = Fraction(6, 10)
    rows = [
        [[(1, p), (3, 1 - p)], [(1, HALF), (3, HALF)]],  # s0: a, b
        [[(2, p), (3, 1 - p)], [(2, HALF), (3, HALF)]],  # s1: c, d
        [], [],
    ]  # fmt: skip
    fail = np.array([False, False, True, False])
    return World.of(SparseMdp.build(rows), fail=fail, goal=np.array([False, False, False, True]))


def test_example_1_safe_schedulers_together_may_be_unsafe() -> None:
    world = example_1()
    everything = solve(world.mdp, Reach(goal=world.fail), exact=True).exact
    assert everything == Fraction(36, 100)
    result = permit(world, Fraction(3, 10))
    assert isinstance(result, Permitted)
    # Three of the four schedulers are safe, but a and c exclude each other: one of the two is permitted.
    assert result.permitted.tolist() in ([True, True, False, True], [False, True, True, True])
    assert result.count == 3
    assert result.risk == Fraction(3, 10)


def test_example_2_induces_the_sub_mdp_without_the_unsafe_scheduler() -> None:
    world = example_1()
    result = permit(world, Fraction(3, 10))
    assert isinstance(result, Permitted)
    assert result.sub.mdp.choices == 3
    assert solve(result.sub.mdp, Reach(goal=result.sub.fail), exact=True).exact == Fraction(3, 10)


@pytest.mark.parametrize("n", [2, 4, 6, 8, 10])
def test_lemma_1_admits_one_fewer_than_half_of_the_certain_steps(n: int) -> None:
    """M_n of Lemma 1: sn is reached with 0.5^(number of a's); below 0.5^(n/2 + 1) at most n/2 - 1 of the b's fit."""
    rows = [[[(i + 1, HALF), (n + 1, HALF)], [(i + 1, Fraction(1))]] for i in range(n)]
    rows += [[], []]
    fail = np.zeros(n + 2, dtype=bool)
    fail[n] = True
    world = World.of(SparseMdp.build(rows), fail=fail)
    bound = HALF ** (n // 2 + 1)
    result = permit(world, bound, attempts=2)
    assert isinstance(result, Permitted)
    certain = result.permitted.reshape(n, 2)[:, 1]
    assert certain.sum() == n // 2 - 1
    # Where b is allowed, a (which is less risky) is, too.
    assert result.permitted.reshape(n, 2)[:, 0].all()
    assert result.risk == bound


def test_everything_is_permitted_where_nothing_can_go_wrong() -> None:
    world = World.of(SparseMdp.build([[[(0, Fraction(1))], [(1, Fraction(1))]], []]), fail=np.array([False, False]))
    result = permit(world, Fraction(0))
    assert isinstance(result, Permitted)
    assert result.count == 2
    assert not result.ends_surely


@pytest.mark.parametrize("text", ["-0.1", "1.5", "abc", "1/0", "nan"])
def test_a_bound_that_is_no_probability_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--bound"):
        parse_bound(text, Where("--bound"))


def test_probabilities_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(InputError, match="sum to"):
        World.of(SparseMdp.build([[[(0, HALF)]]]), fail=np.array([False]))


def test_what_a_time_limit_leaves_is_safe_and_says_that_it_may_not_be_maximal() -> None:
    world = build_world(generate("janitor", width=7, height=7).task(), exact=False)
    bound = Fraction(1, 20)
    for seconds in (0.02, 0.2):
        try:
            result = permit(world, bound, budget=Budget(seconds))
        except LimitReached:
            continue
        assert isinstance(result, Permitted)
        assert result.upper <= 0.05
        assert result.count > 0
    result = permit(world, bound, budget=Budget(60), attempts=1)
    assert isinstance(result, Permitted)
    assert result.lower <= result.upper <= 0.05


@pytest.mark.parametrize(
    ("name", "sizes"), [("folline", {"length": 40, "width": 15, "stray": 20}), ("comexp", {"width": 5, "height": 5})]
)
def test_what_a_maximal_result_in_doubles_forbids_would_break_the_bound(name: str, sizes: dict[str, int]) -> None:
    world = build_world(generate(name, **sizes).task(), exact=False)
    result = permit(world, Fraction("0.1"), attempts=1)
    assert isinstance(result, Permitted)
    assert result.maximal
    assert result.untested == 0
    reached = np.zeros(world.mdp.states, dtype=bool)
    reached[result.sub.states] = True
    forbidden = np.flatnonzero(reached[world.owners()] & ~result.permitted)
    assert len(forbidden) > 10
    for option in forbidden.tolist():
        wider = result.permitted.copy()
        wider[option] = True
        # States that only this option reaches take their least risky one: no risk at all is less than that.
        sub = induce_permitted(world, wider)
        stuck = ~(sub.fail | sub.goal) & (np.diff(sub.mdp.choice_start) == 0)
        value = solve(sub.mdp, Reach(goal=sub.fail))
        assert value.lower > 0.1 or stuck.any()


def test_a_search_without_time_says_how_much_it_did_not_test() -> None:
    world = build_world(generate("janitor", width=8, height=8).task(), exact=False)
    result = permit(world, Fraction("0.05"), attempts=1, budget=Budget(1e-3))
    assert isinstance(result, Permitted)
    assert not result.maximal
    assert 0 < result.untested <= result.options - result.count


@pytest.mark.parametrize("comes_back", [True, False])
def test_what_is_free_goes_first_in_large_worlds_only_where_it_closes_no_loop(
    comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permissive, "SMALL_OPTIONS", 0)
    mostly, tenth, one = (0 if comes_back else 2, Fraction(9, 10)), Fraction(1, 10), Fraction(1)
    rows = [
        [[(1, one)], [(1, one)]],  # often visited; the second option is as good as the first
        [[mostly, (3, tenth)]],
        [],  # the goal
        [[(2, one)], [(2, HALF), (4, HALF)]],  # rarely visited; the second option is a risk
        [],
    ]
    fail, goal = np.array([False] * 4 + [True]), np.array([False, False, True, False, False])
    world = World.of(SparseMdp.build(rows), fail=fail, goal=goal)
    enlargement = permissive._Enlarger(world, tenth, permissive.find_least_risk(world), Budget())
    order = enlargement._order(0, np.array([True, False, True, True, False]), np.random.default_rng(0))
    assert (order[1] > order[4]) == comes_back


def test_what_was_found_when_the_search_was_stopped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = build_world(generate("janitor", width=6, height=6).task(), exact=False)
    now, grow, is_safe = [0.0], permissive._Enlarger._grow, permissive.is_safe

    def slowly(enlarger: permissive._Enlarger, order: np.ndarray, slack: float) -> tuple[object, ...]:
        found = grow(enlarger, order, slack)
        now[0] = 75.0
        return found

    def punctually(world: World, permitted: np.ndarray, bound: Fraction, budget: Budget) -> bool | None:
        return None if budget.is_over() else is_safe(world, permitted, bound, budget)

    monkeypatch.setattr(permissive._Enlarger, "_grow", slowly)
    monkeypatch.setattr(permissive, "is_safe", punctually)
    result = permit(world, Fraction(1, 20), attempts=1, budget=Budget(100, clock=lambda: now[0]))
    assert isinstance(result, Permitted)
    assert result.count > result.options / 2
    assert result.upper <= 0.05
