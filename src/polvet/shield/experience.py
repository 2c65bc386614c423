"""How costs become known: permissive schedulers are explored, single schedulers are followed, and bounds follow.

`Experience` is what the loop of `learning` needs. `Simulated` is a model that holds the costs itself: the kernel runs it, and one
visit to a choice shows what it costs. `deployment.py` is experience in an environment whose costs no model knows.
"""

from __future__ import annotations

import random
from typing import Protocol

import numpy as np

import polvet._core as _core
from polvet.budget import UNLIMITED, Budget
from polvet.mdp.sparse import Float64s, Mask
from polvet.shield.world import COST, World


class Experience(Protocol):
    """What was learned so far, and how more is learned; choices, options and states are those of one world."""

    @property
    def quality(self) -> Float64s:
        """What Q-learning expects each option to cost until the run ends."""
        ...

    @property
    def confidence(self) -> float | None:
        """How sure the bounds are; None: as sure as what was promised."""
        ...

    @property
    def visited(self) -> Mask:
        """Which choices were taken."""
        ...

    @property
    def known(self) -> int:
        """How much is known; nothing new was learned where it stays the same."""
        ...

    def bounds(self) -> tuple[Float64s, Float64s]:
        """Return a lower and an upper bound on the cost of each choice."""
        ...

    def explore(self, permitted: Mask, episodes: int, longest: int) -> None:
        """Learn inside the permitted options."""
        ...

    def follow(self, shares: Float64s, episodes: int, longest: int) -> None:
        """Run the scheduler that takes choices with these shares."""
        ...


class Simulated:
    """The costs of the model (reward `cost` of the world), each of them hidden until its choice was visited."""

    confidence: float | None = None

    def __init__(
        self,
        world: World,
        lower: float,
        upper: float,
        rng: random.Random,
        *,
        explore: float = 0.3,
        budget: Budget = UNLIMITED,
    ) -> None:
        self.world, self.lower, self.upper, self.rng, self.budget = world, lower, upper, rng, budget
        self.share = explore
        self.quality = np.full(world.options, lower)
        self._cost = np.ascontiguousarray(world.mdp.rewards[COST])
        self._seen = np.zeros(world.mdp.choices, dtype=np.uint64)

    @property
    def visited(self) -> Mask:
        """Which choices were taken."""
        return np.asarray(self._seen > 0)

    @property
    def known(self) -> int:
        """How many choices were taken."""
        return int(self.visited.sum())

    def bounds(self) -> tuple[Float64s, Float64s]:
        """Return the cost of each choice that was taken, and what is promised of the others."""
        return np.where(self.visited, self._cost, self.lower), np.where(self.visited, self._cost, self.upper)

    def explore(self, permitted: Mask, episodes: int, longest: int) -> None:
        """Learn by Q-learning (section 4.2 of the paper) inside the permitted options, in the kernel."""
        mdp, world = self.world.mdp, self.world
        _core.q_learn(
            mdp.branch_start,
            mdp.target,
            mdp.probability,
            world.option_start,
            world.option_choice,
            permitted.astype(np.uint8),
            mdp.initial.astype(np.uint32),
            self._cost,
            self.quality,
            self._seen,
            episodes,
            longest,
            self.share,
            self.rng.getrandbits(63),
            self.budget.left(),
        )

    def follow(self, shares: Float64s, episodes: int, longest: int) -> None:
        """Run the scheduler that takes choices with these shares and note which were taken."""
        mdp, rng = self.world.mdp, self.rng
        starts, branch_start = mdp.choice_start.tolist(), mdp.branch_start.tolist()
        targets, probabilities = mdp.target.tolist(), mdp.probability.tolist()
        weights = shares.tolist()
        for _ in range(episodes):
            if self.budget.is_over():
                return
            state = int(mdp.initial[0])
            for _ in range(longest):
                choices = range(starts[state], starts[state + 1])
                if not choices or sum(weights[c] for c in choices) <= 0:
                    break
                choice = rng.choices(choices, [weights[c] for c in choices])[0]
                self._seen[choice] += 1
                branches = range(branch_start[choice], branch_start[choice + 1])
                state = targets[rng.choices(branches, [probabilities[b] for b in branches])[0]]
