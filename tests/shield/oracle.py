"""The oracle: permissive schedulers of small MDPs judged by enumerating deterministic schedulers, in fractions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from polvet.mdp import SparseMdp
from polvet.shield.world import World
from tests.mdp.brute import Choices, chain_reach, random_choices

Sets = list[list[int]]  # per state the numbers of the choices that are open


def random_world(rng: random.Random, *, states: int = 6) -> tuple[World, Choices, list[bool]]:
    """A random MDP with one or two fail states and sometimes a goal; choices of ended states are dropped."""
    choices = random_choices(rng, states=states)
    fail = [False] * states
    for s in rng.sample(range(1, states), rng.choice([1, 1, 2])):
        fail[s] = True
    goal = [not fail[s] and s > 0 and rng.random() < 0.2 for s in range(states)]
    for s in range(states):
        if fail[s] or goal[s]:
            choices[s] = []
    world = World.of(SparseMdp.build(choices), fail=np.array(fail), goal=np.array(goal))
    return world, choices, fail


def risk(choices: Choices, scheduler: tuple[int, ...], fail: list[bool]) -> Fraction:
    rows = [state[c] if c >= 0 else [] for state, c in zip(choices, scheduler, strict=True)]
    return chain_reach(rows, [True] * len(rows), fail)[0]


def schedulers_of(sets: Sets) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(one or [-1] for one in sets))


def worst(choices: Choices, sets: Sets, fail: list[bool]) -> Fraction:
    """The greatest risk over the schedulers that take the open choices."""
    return max(risk(choices, scheduler, fail) for scheduler in schedulers_of(sets))


def least(choices: Choices, fail: list[bool]) -> Fraction:
    return min(risk(choices, scheduler, fail) for scheduler in schedulers_of([list(range(len(c))) for c in choices]))


def sets_of(world: World, permitted: np.ndarray) -> Sets:
    starts = world.option_start.tolist()
    return [[o - starts[s] for o in range(starts[s], starts[s + 1]) if permitted[o]] for s in range(world.mdp.states)]


def reached(choices: Choices, sets: Sets) -> set[int]:
    seen, todo = {0}, [0]
    while todo:
        s = todo.pop()
        for c in sets[s]:
            for t, _ in choices[s][c]:
                if t not in seen:
                    seen.add(t)
                    todo.append(t)
    return seen


def addable(choices: Choices, sets: Sets, fail: list[bool], bound: Fraction) -> tuple[int, int] | None:
    """A choice of a reachable state that could be added when states reached only through it take some one choice."""
    old = reached(choices, sets)
    fresh = [s for s in range(len(choices)) if s not in old]
    for s in sorted(old):
        for c in range(len(choices[s])):
            if c in sets[s]:
                continue
            for picks in itertools.product(*(range(len(choices[t])) if choices[t] else (-1,) for t in fresh)):
                wider = [list(one) for one in sets]
                wider[s].append(c)
                for t, pick in zip(fresh, picks, strict=True):
                    wider[t] = [pick] if pick >= 0 else []
                if worst(choices, wider, fail) <= bound:
                    return s, c
    return None
