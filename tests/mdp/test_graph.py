"""Graph questions against definitions written out naively."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from polvet.mdp import (
    SparseMdp,
    connected_components,
    end_components,
    find_probability_one,
    find_probability_zero,
    predecessors,
)
from tests.mdp.brute import Choices, best_reach, random_choices
from tests.mdp.test_solve import random_masks


@pytest.mark.parametrize("minimise", [True, False])
def test_probability_zero_and_one_equal_the_exact_values(minimise: bool) -> None:
    for seed in range(250):
        rng = random.Random(seed)
        states = rng.choice([3, 4, 5, 6])
        choices = random_choices(rng, states=states)
        goal, safe = random_masks(rng, states)
        exact = best_reach(choices, safe, goal, minimise=minimise)
        mdp = SparseMdp.build(choices)
        zero = find_probability_zero(mdp, np.array(goal), safe=np.array(safe), minimise=minimise)
        one = find_probability_one(mdp, np.array(goal), safe=np.array(safe), minimise=minimise)
        assert zero.tolist() == [x == 0 for x in exact]
        assert one.tolist() == [x == 1 for x in exact]


def successors(choices: Choices) -> list[set[int]]:
    return [{t for choice in state for t, _ in choice} for state in choices]


def reach(edges: list[set[int]], start: int) -> set[int]:
    seen, todo = {start}, [start]
    while todo:
        for t in edges[todo.pop()] - seen:
            seen.add(t)
            todo.append(t)
    return seen


def test_components_are_mutual_reachability_numbered_bottom_up() -> None:
    for seed in range(150):
        choices = random_choices(random.Random(seed), states=7)
        edges = successors(choices)
        closure = [reach(edges, s) for s in range(7)]
        count, component = connected_components(SparseMdp.build(choices))
        assert count == len(set(component.tolist()))
        for s, t in itertools.product(range(7), repeat=2):
            assert (component[s] == component[t]) == (t in closure[s] and s in closure[t])
            assert t not in closure[s] or component[t] <= component[s]


def naive_end_components(choices: Choices) -> set[frozenset[int]]:
    """Every maximal set of states closed and strongly connected under choices that stay inside it."""
    n = len(choices)
    found: list[frozenset[int]] = []
    for size in range(n, 0, -1):
        for subset in itertools.combinations(range(n), size):
            inside = frozenset(subset)
            if any(inside <= bigger for bigger in found):
                continue
            edges = [
                {t for choice in choices[s] if all(u in inside for u, _ in choice) for t, _ in choice}
                if s in inside
                else set()
                for s in range(n)
            ]
            if all(edges[s] and reach(edges, s) == inside for s in inside):
                found.append(inside)
    return set(found)


def test_end_components_are_the_maximal_closed_connected_sets() -> None:
    for seed in range(250):
        choices = random_choices(random.Random(seed), states=6, dirac=0.6)
        result = end_components(SparseMdp.build(choices))
        groups: dict[int, set[int]] = {}
        for s, c in enumerate(result.component.tolist()):
            if c != 0xFFFFFFFF:
                groups.setdefault(c, set()).add(s)
        expected = naive_end_components(choices)
        assert {frozenset(g) for g in groups.values()} == expected
        assert result.count == len(expected)
        flat = [(s, choice) for s, state in enumerate(choices) for choice in state]
        for (s, choice), stays in zip(flat, result.choices.tolist(), strict=True):
            home = next((g for g in expected if s in g), frozenset())
            assert stays == (bool(home) and all(t in home for t, _ in choice))


def test_predecessors_list_every_branch_backwards() -> None:
    choices = random_choices(random.Random(5), states=9)
    mdp = SparseMdp.build(choices)
    back = predecessors(mdp)
    flat = [choice for state in choices for choice in state]
    for t in range(9):
        listed = back.choice[int(back.start[t]) : int(back.start[t + 1])].tolist()
        assert sorted(listed) == sorted(c for c, choice in enumerate(flat) for u, _ in choice if u == t)
