"""Every algorithm agrees with the attractor, and does what its paper says about cost."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.safety.games import SAFE, SEARCHES, UNDECIDED, UNSAFE, Game, decide, random_game


def expected(game: Game) -> list[int]:
    unsafe = game.unsafe_states()
    return [UNSAFE if s in unsafe else SAFE for s in range(len(game.actions))]


@pytest.fixture(scope="module")
def ten_thousand_games() -> list[tuple[Game, list[int]]]:
    rng = random.Random(2026)
    games = [random_game(rng) for _ in range(10_000)]
    return [(game, expected(game)) for game in games]


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_agrees_with_the_attractor_on_ten_thousand_random_games(
    algorithm: str, ten_thousand_games: list[tuple[Game, list[int]]]
) -> None:
    for number, (game, truth) in enumerate(ten_thousand_games):
        assert game.verdicts(algorithm, share=False) == truth, (number, game)
        assert game.verdicts(algorithm, share=True) == truth, (number, game)


@pytest.mark.parametrize("order", ["random", "last", "policy"])
@pytest.mark.parametrize("algorithm", SEARCHES)
def test_any_order_of_actions_gives_the_same_verdicts(algorithm: str, order: str) -> None:
    rng = random.Random(7)
    for seed in range(300):
        game = random_game(rng)
        preferred = (lambda words: int(words[0]) % 3) if order == "policy" else None
        found = game.verdicts(algorithm, order=order, seed=seed, preferred=preferred)
        assert found == expected(game), game


def test_larger_games_agree_too() -> None:
    rng = random.Random(11)
    for _ in range(60):
        game = random_game(rng, most=400)
        for algorithm in SEARCHES:
            if algorithm != "tarjan":  # exponential
                assert game.verdicts(algorithm, share=True) == expected(game)


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_the_two_state_example_on_which_printed_ipi_loops_ends(algorithm: str) -> None:
    """a0 leads to fail, a1 back to itself: as printed, iPI meets the fail state in every pass and starts again."""
    game = Game((((1,), (0,)), ()), fail=frozenset({1}))
    assert game.verdicts(algorithm) == [SAFE, UNSAFE]


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_figure_3_needs_the_outer_loop(algorithm: str) -> None:
    """s1 is found unsafe after s2, which leads to it, was left as maybe safe: only a second pass sees it."""
    s_i, s_1, s_2, fail = range(4)
    game = Game((((s_1,), (s_2,)), ((s_2, fail),), ((s_1,),), ()), fail=frozenset({fail}))
    decider = game.decider(algorithm, share=False)
    assert decide(decider, [s_i])[0] == [UNSAFE]
    assert expected(game)[s_i] == UNSAFE


def test_ipi_takes_a_second_pass_in_figure_3() -> None:
    """With s2 before fail in the support of a1, one pass ends with s_I held by a0' although s2 is lost."""
    game = Game((((1,), (2,)), ((2, 3),), ((1,),), ()), fail=frozenset({3}))
    passes = game.decider("ipi", share=False).decide(np.array([[0]], np.uint64), 60.0, 2**62, 2**32, None)[3]
    assert passes.tolist() == [2]


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_a_state_closed_under_an_unsafe_ancestor_is_not_called_safe(algorithm: str) -> None:
    """TarjanSafe as printed drops children's low links: it would mark s1 safe, which leans on s0, and accept r -> s1."""
    r, s0, s1, s2, fail = range(5)
    game = Game((((s0,), (s1,)), ((s1, fail),), ((s2,),), ((s0,),), ()), fail=frozenset({fail}))
    assert decide(game.decider(algorithm, share=False), [r])[0] == [UNSAFE]


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_a_state_without_actions_is_an_ended_run(algorithm: str) -> None:
    game = Game((((1,),), ()))
    assert game.verdicts(algorithm) == [SAFE, SAFE]


def layers(depth: int) -> Game:
    """Figure 1: s0 leads to either state of layer 1, each of these to either of layer 2, ..., the last state to s0."""
    actions: list[tuple[tuple[int, ...], ...]] = [((1, 2),)]
    for layer in range(1, depth):
        actions += [((2 * layer + 1, 2 * layer + 2),)] * 2
    last = 2 * depth + 1
    actions += [((last,),)] * 2
    return Game((*actions, ((0,),)))


def test_tarjan_doubles_per_layer_and_lazy_is_linear() -> None:
    looks = {name: [decide(layers(d).decider(name, share=False), [0])[1][0] for d in range(4, 15)]
             for name in ("tarjan", "lazy", "ipi")}  # fmt: skip
    doubling = [b / a for a, b in zip(looks["tarjan"], looks["tarjan"][1:], strict=False)]
    assert all(1.9 < ratio < 2.1 for ratio in doubling)
    assert {b - a for a, b in zip(looks["lazy"], looks["lazy"][1:], strict=False)} == {2}
    assert {b - a for a, b in zip(looks["ipi"], looks["ipi"][1:], strict=False)} == {2}


def test_lazy_looks_at_no_pair_twice() -> None:
    rng = random.Random(5)
    for _ in range(2_000):
        game = random_game(rng, most=40)
        pairs = sum(len(actions) for actions in game.actions)
        assert sum(decide(game.decider("lazy", share=True), range(len(game.actions)))[1]) <= pairs


@pytest.mark.slow
def test_searches_three_hundred_thousand_states_deep_without_recursion() -> None:
    """A chain that ends in fail: unsafety has to come back all the way."""
    count = 300_000
    chain = Game((*(((s + 1,),) for s in range(count - 1)), ()), fail=frozenset({count - 1}))
    for algorithm in ("lazy", "ipi", "npi", "tarjan", "propagate", "tvi", "lao"):
        assert decide(chain.decider(algorithm, share=False), [0])[0] == [UNSAFE], algorithm


def test_a_radius_never_makes_an_unsafe_state_safe() -> None:
    rng = random.Random(3)
    for _ in range(2_000):
        game = random_game(rng)
        truth = expected(game)
        for radius in (1, 2, 3, 20):
            found = game.verdicts("tarjan", share=rng.random() < 0.5, radius=radius)
            assert all(verdict in (UNDECIDED, right) for verdict, right in zip(found, truth, strict=True)), game


def test_a_long_enough_radius_decides_a_chain_and_a_short_one_does_not() -> None:
    chain = Game((((1,),), ((2,),), ((3,),), ()), fail=frozenset({3}))
    assert [decide(chain.decider("tarjan", radius=r), [0])[0][0] for r in (1, 2, 3, 4)] == [0, 0, UNSAFE, UNSAFE]
    endless = Game((((1,),), ((2,),), ((2,),)))
    assert [decide(endless.decider("tarjan", radius=r), [0])[0][0] for r in (1, 2, 5)] == [0, 0, SAFE]


@pytest.mark.threads
@pytest.mark.parametrize("algorithm", SEARCHES)
def test_threads_share_the_questions_and_agree(algorithm: str) -> None:
    rng = random.Random(13)
    for _ in range(30):
        game = random_game(rng, most=60)
        numbers = [rng.randrange(len(game.actions)) for _ in range(400)]
        truth = expected(game)
        for share in (False, True):
            found = decide(game.decider(algorithm, share=share, threads=3), numbers)[0]
            assert found == [truth[s] for s in numbers]


@pytest.mark.threads
def test_threads_that_explore_together_agree_with_the_attractor() -> None:
    """Owners, releases, gifts and messages in all their orders: batches of all sizes, one after the other."""
    rng = random.Random(17)
    for _ in range(150):
        game = random_game(rng, most=rng.choice([10, 60, 400]))
        truth = expected(game)
        order = rng.choice(["app", "random", "last"])
        decider = game.decider("lazy", share=True, threads=rng.choice([2, 3, 5]), order=order)
        for count in (2, 5, 300):
            numbers = [rng.randrange(len(game.actions)) for _ in range(count)]
            assert decide(decider, numbers)[0] == [truth[s] for s in numbers], game


@pytest.mark.threads
def test_threads_that_explore_together_split_the_work() -> None:
    """A long corridor with side steps: no thread looks again at what another one has looked at."""
    length = 20_000
    steps = tuple(((k + 1, max(0, k - 7)), (k + 1,)) for k in range(length - 1))
    game = Game((*steps, ((0,),)))
    rng = random.Random(19)
    numbers = [rng.randrange(length) for _ in range(2_000)]
    alone = sum(decide(game.decider("lazy", share=True), numbers)[1])
    verdicts, looks = decide(game.decider("lazy", share=True, threads=2), numbers)
    assert set(verdicts) == {SAFE}
    assert sum(looks) <= 1.05 * alone


def long_walk(rng: random.Random, count: int, rare: int) -> Game:
    """Return a game in which the first action leads ever further along, and others back; a few states fail at the end of some steps."""
    actions = []
    for s in range(count):
        onward = tuple({min(s + rng.choice([1, 2]), count - 1), min(s + 1, count - 1)})
        others = [
            tuple(max(0, min(count - 1, s + rng.randint(-30, 6))) for _ in range(rng.choice([1, 2])))
            for _ in range(rng.randrange(rare) == 0)
        ]
        actions.append((onward, *others))
    fail = {s for s in range(count) if rng.random() < 0.0003} | {count - 1}
    return Game(tuple(actions), frozenset(fail))


@pytest.mark.parametrize("share", [True, False])
def test_a_long_question_is_asked_in_several_orders_and_answered_alike(share: bool) -> None:
    rng, turns = random.Random(5), 0
    for rare in (4, 32, 128):
        game = long_walk(rng, 9_000, rare)
        truth = expected(game)
        states = [0, *(rng.randrange(9_000) for _ in range(20))]
        decider = game.decider("lazy", share=share, patience=2_048)
        found, looks = decide(decider, states)
        assert found == [truth[s] for s in states]
        turns += max(looks) > 2_048
        if share:
            safe = np.array([s for s in states if truth[s] == SAFE], np.uint64).reshape(-1, 1)
            unsafe = np.array([s for s in states if truth[s] == UNSAFE], np.uint64).reshape(-1, 1)
            closed, chosen = decider.safe_policy(safe, 60.0, 2**62)
            inside = {int(s) for (s,) in closed}
            for (s,), action in zip(closed.tolist(), chosen.tolist(), strict=True):
                assert set(game.actions[s][action]) <= inside - set(game.fail)
            ranked, ranks, begins, labels, witnesses = decider.unsafe_rank(unsafe, 60.0, 2**62)
            for k, (s,) in enumerate(ranked.tolist()):
                places = range(begins[k], begins[k + 1])
                assert (ranks[k] == 0) == (s in game.fail)
                if ranks[k]:
                    assert sorted(labels[p] for p in places) == list(range(len(game.actions[s])))
                for p in places:
                    assert ranks[witnesses[p]] < ranks[k]
                    assert int(ranked[witnesses[p], 0]) in game.actions[s][labels[p]]
    assert turns > 1
