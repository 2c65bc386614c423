"""The oracle: every memoryless scheduler of a small random MDP, each evaluated by Gaussian elimination in fractions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from fractions import Fraction

from polvet.mdp import SparseMdp

Choices = list[list[list[tuple[int, Fraction]]]]
Number = Fraction | float


def random_choices(rng: random.Random, *, states: int, dirac: float = 0.4, deadlocks: float = 0.15) -> Choices:
    """A random MDP with end components, self-loops, deadlocks and unreachable states."""
    result: Choices = []
    for _ in range(states):
        if rng.random() < deadlocks:
            result.append([])
            continue
        state = []
        for _ in range(rng.choice([1, 1, 2, 2, 3])):
            width = 1 if rng.random() < dirac else rng.choice([2, 2, 3])
            targets = rng.sample(range(states), min(width, states))
            weights = [rng.choice([1, 1, 2, 3, 7]) for _ in targets]
            state.append([(t, Fraction(w, sum(weights))) for t, w in zip(targets, weights, strict=True)])
        result.append(state)
    return result


def schedulers(choices: Choices) -> Iterator[tuple[int, ...]]:
    """Every memoryless scheduler; -1 at a deadlock."""
    return itertools.product(*(range(len(state)) if state else (-1,) for state in choices))


def chain(choices: Choices, scheduler: tuple[int, ...]) -> list[list[tuple[int, Fraction]]]:
    return [state[c] if c >= 0 else [] for state, c in zip(choices, scheduler, strict=True)]


def gauss(matrix: list[list[Fraction]]) -> list[Fraction]:
    """Solve the augmented square system."""
    n = len(matrix)
    for i in range(n):
        pivot = next(r for r in range(i, n) if matrix[r][i] != 0)
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        matrix[i] = [x / matrix[i][i] for x in matrix[i]]
        for r in range(n):
            if r != i and matrix[r][i] != 0:
                factor = matrix[r][i]
                matrix[r] = [x - factor * y for x, y in zip(matrix[r], matrix[i], strict=True)]
    return [row[n] for row in matrix]


def chain_reach(rows: list[list[tuple[int, Fraction]]], safe: list[bool], goal: list[bool]) -> list[Fraction]:
    """The probability of `safe U goal` in a Markov chain."""
    n = len(rows)
    positive = set(s for s in range(n) if goal[s])
    while True:
        more = {s for s in range(n) if s not in positive and safe[s] and any(t in positive for t, _ in rows[s])}
        if not more:
            break
        positive |= more
    unknown = [s for s in sorted(positive) if not goal[s]]
    place = {s: i for i, s in enumerate(unknown)}
    matrix = []
    for s in unknown:
        row = [Fraction(0)] * (len(unknown) + 1)
        row[place[s]] += 1
        for t, p in rows[s]:
            if t in place:
                row[place[t]] -= p
            elif goal[t]:
                row[-1] += p
        matrix.append(row)
    solution = gauss(matrix)
    return [Fraction(1) if goal[s] else solution[place[s]] if s in place else Fraction(0) for s in range(n)]


def chain_reward(rows: list[list[tuple[int, Fraction]]], gains: list[Fraction], goal: list[bool]) -> list[Number]:
    """The expected reward until the goal in a Markov chain; infinite where the goal is not reached almost surely."""
    n = len(rows)
    sure = [p == 1 for p in chain_reach(rows, [True] * n, goal)]
    unknown = [s for s in range(n) if sure[s] and not goal[s]]
    place = {s: i for i, s in enumerate(unknown)}
    matrix = []
    for s in unknown:
        row = [Fraction(0)] * (len(unknown) + 1)
        row[place[s]] += 1
        row[-1] = gains[s]
        for t, p in rows[s]:
            if t in place:
                row[place[t]] -= p
        matrix.append(row)
    solution = gauss(matrix)
    return [Fraction(0) if goal[s] else solution[place[s]] if s in place else math.inf for s in range(n)]


def best_reach(choices: Choices, safe: list[bool], goal: list[bool], *, minimise: bool) -> list[Fraction]:
    values = [chain_reach(chain(choices, sigma), safe, goal) for sigma in schedulers(choices)]
    pick = min if minimise else max
    return [pick(column) for column in zip(*values, strict=True)]


def best_reward(choices: Choices, reward: list[Fraction], goal: list[bool], *, minimise: bool) -> list[Number]:
    starts = list(itertools.accumulate((len(state) for state in choices), initial=0))
    values = []
    for sigma in schedulers(choices):
        gains = [reward[starts[s] + c] if c >= 0 else Fraction(0) for s, c in enumerate(sigma)]
        values.append(chain_reward(chain(choices, sigma), gains, goal))
    pick = min if minimise else max
    return [pick(column) for column in zip(*values, strict=True)]


def random_mdp(rng: random.Random, *, states: int) -> tuple[Choices, SparseMdp, list[Fraction]]:
    choices = random_choices(rng, states=states)
    count = sum(len(state) for state in choices)
    reward = [Fraction(rng.choice([0, 0, 1, 2, 5]), rng.choice([1, 3])) for _ in range(count)]
    mdp = SparseMdp.build(choices, initial=range(states), rewards={"r": reward})
    return choices, mdp, reward
