"""Which actions keep a bound on the risk and still reach the goal: in a small world, what a price of failing makes worth while.

What never raises the least risk may be to stand still. `plan_within` asks instead for the most of P(goal) - price * P(fail), and raises the
price until the policy, with these actions in its faulty states and its own elsewhere, keeps the bound. What it names is a proposal: the
repaired policy is judged like any other.
Source   Lagrange multipliers for constrained MDPs: Altman, Constrained Markov Decision Processes, 1999, chapter 3
Limits   doubles; where operators share a label, the worst of them counts for the risk and their mean for the worth
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.debug.faults import policy_steps
from polvet.debug.risk_faults import Ints, Reals, RiskWorld
from polvet.kernel.compiled import Words
from polvet.policy.compiled import GOAL, Bound
from polvet.records.fault_files import Fault

PRICES = tuple(0.25 * 2**k for k in range(14))
PATIENCE = 0.9999
"""What the goal is still worth a step later: the shorter of two ways is taken."""
SWEEPS, STILL = 5_000, 1e-9


def plan_within(
    bound: Bound, world: RiskWorld, starts: Words, faults: Sequence[Fault], most: float, *, budget: Budget = UNLIMITED
) -> list[Fault] | None:
    """Return the faults, each with the one action that the lowest price takes at which the bound is kept; None where none does."""
    groups = _Groups.of(world)
    chosen = policy_steps(bound, world.space.states(0, len(world.space))).label.astype(np.int64)
    own = groups.number(np.arange(len(world.space)), chosen)
    places = np.array([world.space.find(words) for words in bound.compiled.pack([one.state for one in faults])])
    begin = np.array([world.space.find(words) for words in starts])
    for price in PRICES:
        taken = groups.best(world, price, budget)
        combined = own.copy()
        combined[places] = taken[places]
        if groups.risk(world, combined, budget)[begin].max(initial=0.0) <= most:
            labels = [bound.label(int(groups.label[number])) for number in combined[places]]
            return [
                replace(fault, safe_actions=(label,)) if label is not None else fault
                for fault, label in zip(faults, labels, strict=True)
            ]
    return None


class _Groups:
    """The labels of all states, numbered; those of state s are first[s] .. first[s + 1], their operators likewise in `choices`."""

    def __init__(self, first: Ints, start: Ints, choices: Ints, label: Ints) -> None:
        self.first, self.start, self.choices, self.label = first, start, choices, label
        self.owner = np.repeat(np.arange(len(first) - 1), np.diff(first))

    @classmethod
    def of(cls, world: RiskWorld) -> _Groups:
        every = [group for groups in world.game.groups for group in groups]
        first = np.cumsum([0, *(len(groups) for groups in world.game.groups)])
        start = np.cumsum([0, *(len(group) for group in every)])
        choices = np.array([choice for group in every for choice in group], dtype=np.int64)
        return cls(first, start, choices, np.array([world.label(group) for group in every], dtype=np.int64))

    def number(self, states: Ints, labels: Ints) -> Ints:
        """Return the number of each state's label; where it has none of that name, its first; -1 where it has none at all."""
        numbers = np.where(self.first[states + 1] > self.first[states], self.first[states], -1)
        wanted = self.label == labels[self.owner]
        numbers[self.owner[wanted]] = np.flatnonzero(wanted)
        return np.asarray(numbers)

    def best(self, world: RiskWorld, price: float, budget: Budget) -> Ints:
        """Return the label of each state with the most of P(goal) - price * P(fail)."""
        value = world.space.mask(GOAL).astype(np.float64)
        value[world.game.fail] = -price
        owners = np.flatnonzero(np.diff(self.first))
        taken = np.where(np.diff(self.first) > 0, self.first[:-1], -1)
        for _ in range(SWEEPS if len(owners) else 0):
            budget.check()
            operator = world.game.mdp.expected(value)[self.choices]
            gained = PATIENCE * np.add.reduceat(operator, self.start[:-1]) / np.diff(self.start)
            better = np.maximum.reduceat(gained, self.first[owners])
            change = float(np.abs(better - value[owners]).max())
            value[owners] = better
            if change < STILL:
                break
        is_best = gained >= value[self.owner] - STILL if len(owners) else np.zeros(0, dtype=np.bool_)
        order = np.flatnonzero(is_best)[::-1]
        taken[self.owner[order]] = order
        return taken

    def risk(self, world: RiskWorld, taken: Ints, budget: Budget) -> Reals:
        """Return the risk of each state where one label is taken in each, about: from below."""
        value: NDArray[np.float64] = world.game.fail.astype(np.float64)
        moving = np.flatnonzero((taken >= 0) & ~world.game.fail)
        for _ in range(SWEEPS if len(moving) else 0):
            budget.check()
            worst = np.maximum.reduceat(world.game.mdp.expected(value)[self.choices], self.start[:-1])[taken[moving]]
            change = float(np.abs(worst - value[moving]).max())
            value[moving] = worst
            if change < STILL:
                break
        return value
