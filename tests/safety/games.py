"""Random explicit games, and the attractor: the oracle that every algorithm must agree with."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from polvet import _core
from polvet.safety.algorithms import ALGORITHMS

UNDECIDED, UNSAFE, SAFE = 0, 1, 2
SEARCHES = tuple(algorithm.name for algorithm in ALGORITHMS.values() if algorithm.search)


@dataclass(frozen=True)
class Game:
    """For each state its actions, for each action its outcomes; fail and goal states end runs."""

    actions: tuple[tuple[tuple[int, ...], ...], ...]
    fail: frozenset[int] = frozenset()
    goal: frozenset[int] = frozenset()

    def unsafe_states(self) -> set[int]:
        """Return the attractor of `fail`: the least set with every state all of whose actions may lead into it."""
        unsafe = set(self.fail)
        while True:
            more = {
                s
                for s, actions in enumerate(self.actions)
                if s not in unsafe and s not in self.goal and actions
                and all(any(t in unsafe for t in outcomes) for outcomes in actions)
            }  # fmt: skip
            if not more:
                return unsafe
            unsafe |= more

    def decider(self, algorithm: str, **options: object) -> _core.Decider:
        """Return the game as the kernel plays it."""
        born = [UNSAFE if s in self.fail else SAFE if s in self.goal else UNDECIDED for s in range(len(self.actions))]
        action_start, outcome_start, target = [0], [0], []
        for actions in self.actions:
            for outcomes in actions:
                target += outcomes
                outcome_start.append(len(target))
            action_start.append(len(outcome_start) - 1)
        return _core.Decider.of_table(
            np.array(born, np.uint8), np.array(action_start, np.uint32), np.array(outcome_start, np.uint32),
            np.array(target, np.uint32), algorithm, **options,
        )  # fmt: skip

    def verdicts(self, algorithm: str, **options: object) -> list[int]:
        """Return what the algorithm says about each state."""
        return decide(self.decider(algorithm, **options), range(len(self.actions)))[0]


def decide(decider: _core.Decider, states: object, seconds: float = 60.0) -> tuple[list[int], list[int]]:
    """Return the verdicts on the states, and how many pairs were looked at for each."""
    numbers = np.array(list(states), np.uint64).reshape(-1, 1)
    known, _, looks, _, _ = decider.decide(numbers, seconds, 2**62, 2**32, None)
    return known.tolist(), looks.tolist()


def random_game(rng: random.Random, most: int = 14) -> Game:
    """Return a game with few states: about a fifth fails, some are goals, some have no action."""
    count = rng.randint(1, most)
    density = rng.choice([0.05, 0.2, 0.35])
    actions = tuple(
        tuple(
            tuple(rng.sample(range(count), min(count, rng.choice([1, 1, 2, 3]))))
            for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))
        )
        for _ in range(count)
    )
    fail = frozenset(s for s in range(count) if rng.random() < density)
    goal = frozenset(s for s in range(count) if s not in fail and rng.random() < 0.1)
    return Game(actions, fail, goal)
