"""Costs of runs that go on to the goal after failing, as section 2 of the paper has them, told to a loop in which runs end in fail.

A run that fails pays, on top, the least expected cost from there to the goal, V(f): once it has failed, nothing is left to be safe
from. So the cost of a choice is its own and the sum of P(f) V(f) over the fail states it may lead to. Bounds on costs give bounds on V.
Differs  from the paper in one thing: a scheduler may act differently once the run has failed, where the paper's does not remember that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.mdp import Reward, solve
from polvet.mdp.sparse import Float64s, Mask
from polvet.shield.costs import ROUNDING
from polvet.shield.experience import Experience
from polvet.shield.world import COST, World


class RunToGoal:
    """Experience in `wide`, the world that goes on after failing, as experience in `world`, which does not."""

    def __init__(self, inner: Experience, world: World, wide: World, budget: Budget = UNLIMITED) -> None:
        self.inner, self.world, self.wide, self.budget = inner, world, wide, budget
        self._state, self._choice = _match(world, wide)

    @property
    def quality(self) -> Float64s:
        """What Q-learning expects each option to cost until the goal."""
        return self.inner.quality[self._choice]

    @property
    def confidence(self) -> float | None:
        """How sure the bounds are; None: as sure as what was promised."""
        return self.inner.confidence

    @property
    def visited(self) -> Mask:
        """Which choices were taken."""
        return np.asarray(self.inner.visited[self._choice])

    @property
    def known(self) -> int:
        """How much is known of the costs, before failing and after."""
        return self.inner.known

    def bounds(self) -> tuple[Float64s, Float64s]:
        """Return a lower and an upper bound on the cost of each choice, with what a run that fails pays later."""
        sides = []
        for costs, side in zip(self.inner.bounds(), (-1.0, 1.0), strict=True):
            mdp = replace(self.wide.mdp, rewards={COST: costs}, exact_rewards={})
            query = Reward(COST, self.wide.goal, minimise=True)
            value = solve(mdp, query, relative_gap=1e-9, budget=self.budget)
            later = (value.lowers if side < 0 else value.uppers)[self._state]
            sides.append(costs[self._choice] + (1 + side * ROUNDING) * self._failed(later))
        return sides[0], sides[1]

    def explore(self, permitted: Mask, episodes: int, longest: int) -> None:
        """Learn inside the permitted options; where none is, the run has failed, and everything is."""
        self.inner.explore(self._widened(permitted.astype(np.float64)) > 0, episodes, longest)

    def follow(self, shares: Float64s, episodes: int, longest: int) -> None:
        """Run the scheduler with these shares; where it has none, the run has failed, and options are equal."""
        self.inner.follow(self._widened(shares), episodes, longest)

    def _failed(self, later: Float64s) -> Float64s:
        """Return the expectation of `later` over the fail states that each choice leads to."""
        fail = self.world.fail
        if not np.isfinite(later[fail]).all():
            raise InputError(
                "from a fail state the goal is not surely reached: a run that fails costs infinitely much.",
                Where("--to-goal"),
                "Leave it out: then a run that fails costs what it cost until then.",
            )
        return self.world.mdp.expected(np.where(fail, later, 0.0))

    def _widened(self, shares: Float64s) -> Float64s:
        """Return the shares in the wider world: the same where the state has some, else the same for every option."""
        total = np.bincount(self.world.owners(), weights=shares, minlength=self.world.mdp.states)
        mine = total[self.world.owners()] > 0
        wide = np.ones(self.wide.options)
        wide[self._choice[mine]] = shares[mine]
        return wide


def _match(world: World, wide: World) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each state and of each choice in the wider world."""
    assert world.states is not None
    assert wide.states is not None
    numbers = {tuple(state): number for number, state in enumerate(wide.states)}
    states = np.array([numbers[tuple(state)] for state in world.states], dtype=np.int64)
    first = wide.option_start[:-1].astype(np.int64)[states] - world.option_start[:-1].astype(np.int64)
    choices = np.arange(world.options) + first[world.owners()]
    assert (world.option_label == wide.option_label[choices]).all(), "the same options"
    return states, choices
