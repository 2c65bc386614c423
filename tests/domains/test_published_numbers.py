"""Numbers that the papers print come out of the generated worlds."""

import math

import pytest

from polvet.domains import generate
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import Starts
from tests.domains.worlds import explored, unsafe_states


def sizes(name: str, **parameters: int) -> tuple[int, int, int]:
    _, space = explored(generate(name, **parameters).task())
    return len(space), space.choices, space.transitions


def test_table_1_of_the_permissive_schedulers() -> None:
    assert sizes("janitor", width=5, height=5) == (625, 1125, 3545)
    assert sizes("folline", length=30, width=15) == (455, 1265, 3693)
    assert sizes("folline", length=40, width=15) == (625, 1775, 5223)
    assert sizes("comexp", width=6, height=6, distance=6) == (823, 2603, 3719)  # branches in the table: 3726
    assert sizes("comexp", width=8, height=8, distance=6) == (1495, 4859, 6947)  # 6953


@pytest.mark.parametrize(("n", "count"), [(4, 14), (6, 202), (8, 4139)])
def test_blocksworld_has_the_papers_start_states(n: int, count: int) -> None:
    assert Starts.of(generate("blocksworld", n=n).task()).count == count


def test_the_8_puzzle_has_4900_start_states() -> None:
    assert Starts.of(generate("sliding-tiles", n=8).task()).count == 4900
    assert Starts.of(generate("sliding-tiles", n=8, cost=0).task()).count == 4900


def test_transport_has_its_start_states() -> None:
    assert Starts.of(generate("transport").task()).count == 9 * math.comb(24, 9) == 11_767_536


def test_lines_have_one_start_for_each_way_to_place_the_packages() -> None:
    for name in ("one-way-line", "two-way-line"):
        assert Starts.of(generate(name, n=15, p=10).task()).count == 4 * math.comb(24, 9)


def test_beluga_starts_with_every_order() -> None:
    for jigs in (3, 4, 5):
        assert Starts.of(generate("beluga", jigs=jigs).task()).count == math.factorial(jigs)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_d_layers_have_2d_plus_2_states_and_actions(d: int) -> None:
    space = Compiled(generate("layers", d=d).task().network).explore()
    assert len(space) == space.choices == 2 * d + 2


def test_the_8_puzzle_reaches_half_of_all_arrangements_from_one_state() -> None:
    space = Compiled(generate("sliding-tiles", n=8, cost=0).task().network).explore()
    assert len(space) == math.factorial(9) // 2


def test_sliced_blocks_have_their_arrangements() -> None:
    _, space = explored(generate("blocksworld", n=6, cost=0).task())
    # n blocks in ordered stacks with the hand empty (sets of lists), or with one of them in the hand
    lists = [1, 1, 3, 13, 73, 501, 4051]
    assert len(space) == lists[6] + 6 * lists[5]


SAFE = [
    ("blocksworld", {"n": 4, "cost": 0}), ("blocksworld", {"n": 3, "cost": 2}),
    ("transport", {"locations": 4, "packages": 3}), ("beluga", {"jigs": 3}), ("beluga", {"jigs": 4}),
    ("beluga", {"jigs": 5}),
    ("one-way-line", {"n": 2, "p": 5}), ("two-way-line", {"n": 2, "p": 6}),
    ("one-way-line", {"n": 2, "p": 6, "icy": True, "park": True}),
    ("two-way-line", {"n": 2, "p": 6, "icy": True, "park": True}), ("two-way-line", {"n": 2, "p": 6, "icy": True}),
    ("flappy-bird", {"width": 30, "height": 8, "walls": 4}), ("flappy-bird", {"width": 9, "height": 5, "walls": 3}),
    ("layers", {"d": 4}), ("sliding-tiles", {"n": 5, "cost": 0}), ("racetrack", {"map": "hook"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), SAFE, ids=lambda value: str(value))
def test_a_safe_policy_exists_from_every_start(name, parameters) -> None:  # type: ignore[no-untyped-def]
    """Section 6.1 of the debugging paper: all state spaces are safe but that of the icy one-way line."""
    space, unsafe = unsafe_states(generate(name, **parameters).task())
    assert not unsafe[space.initial].any()


def test_on_the_icy_one_way_line_no_start_is_safe() -> None:
    space, unsafe = unsafe_states(generate("one-way-line", n=2, p=5, icy=True).task())
    assert unsafe[space.initial].mean() > 0.9


@pytest.mark.parametrize("seed", range(12))
def test_flappy_birds_always_find_a_way(seed: int) -> None:
    for width, height, walls in ((40, 10, 6), (13, 7, 6), (25, 30, 3)):
        task = generate("flappy-bird", width=width, height=height, walls=walls, seed=seed).task()
        space, unsafe = unsafe_states(task)
        assert not unsafe[space.initial].any()
        assert unsafe.any()
