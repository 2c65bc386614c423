"""What a grid claims, tried state by state: a second opinion that shares no code with the checker, before a policy is called safe.

Engine and checker follow sets of states with the same code (`check.flow`): a mistake there would stand on both sides. The slow
interpreter knows nothing of sets. Start states and states of listed cells are drawn, half of them in cells at the rim of the
list, and at the ends of cells more often than in between. From each, every outcome is followed, however unlikely, of every choice that
some order of evaluation makes, for as many steps as the grid claims; the kernel then makes longer runs. What the grid says of
a single run must hold: start states are listed; a run from a listed cell ends or is back in listed cells in time; none fails.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np

from polvet.budget import Budget
from polvet.check.affine_forms import Bools, Floats
from polvet.check.arena import Arena
from polvet.check.followed import Followed
from polvet.check.grid import Grid
from polvet.check.returning import Plan
from polvet.check.start_region import StartRegion
from polvet.kernel.starts import drawable_starts
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, simulate
from polvet.records.state_json import Malformed

STARTS = 300
DRAWN, AWAY = 2_000, 200
"""States of listed cells that are followed, and how many of those that are not back are followed from one step to the next."""
RUN_STEPS = 1_000


class GridTrial:
    """A grid with its listed cells, and what runs must do if its claim holds."""

    def __init__(self, bound: Bound, grid: Grid, marks: Bools, plan: Plan, seed: int) -> None:
        self.bound, self.grid, self.marks, self.plan = bound, grid, marks.reshape(grid.shape), plan
        self.seed, self.rng = seed, np.random.default_rng(seed)

    def run(self, budget: Budget, region: StartRegion | None = None) -> None:
        """Raise a RuntimeError, which is a bug of polvet, where a run does what the grid says no run does (of starts in the region)."""
        starts = drawable_starts(self.bound.task).sample(STARTS, random.Random(self.seed + 1))
        for state in self._unlisted(starts if region is None else region.among(starts)):
            raise RuntimeError(f"the grid does not list the cell of the start state {self._show(state)}")
        drawn = [state for cells in self._urns() for state in self._drawn(self.rng.choice(cells, DRAWN // 2))]
        self._follow(drawn, Arena.of(self.bound.task, budget=budget))
        ended = simulate(
            self.bound, self.bound.compiled.pack(drawn), max_steps=RUN_STEPS, seed=self.seed, budget=budget
        )
        if ended.limit is not None:
            raise ended.limit
        for k in np.flatnonzero(ended.ends == End.FAIL).tolist():
            raise RuntimeError(f"the kernel finds a run that fails from {self._show(drawn[k])} in a listed cell")

    def _follow(self, drawn: Sequence[State], arena: Arena) -> None:
        """Follow all that may happen until it is back in listed cells; where much is away, some of it, drawn anew in each step."""
        followed = Followed(arena, self.bound.fitted)
        away = list(drawn)
        for _ in range(self.plan.steps):
            going = [state for state in away if not arena.is_goal(state)]
            if not going:
                return
            try:
                steps = list(followed.steps(going))
            except Malformed as error:
                raise RuntimeError(f"a run from listed cells breaks a rule of the model: {error}") from None
            after = {outcome.state for step in steps for move in step.moves for outcome in move.outcomes}
            for state in after:
                if arena.is_fail(state):
                    raise RuntimeError(f"{self._show(state)} fails, which a run from listed cells reaches")
            away = self._unlisted(sorted(after))
            if len(away) > AWAY:
                away = [away[k] for k in self.rng.choice(len(away), AWAY, replace=False)]
        if away:
            raise RuntimeError(
                f"a run from listed cells is in {self._show(away[0])} after {self.plan.steps} steps, and never came back"
            )

    def _urns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the listed cells, and those of them with a neighbour that is not listed (all, where none has one)."""
        inner = self.marks.copy()
        for axis in range(inner.ndim):
            for turn in (1, -1):
                inner &= np.roll(self.marks, turn, axis=axis)
        listed, rim = np.flatnonzero(self.marks), np.flatnonzero(self.marks & ~inner)
        return listed, rim if len(rim) else listed

    def _drawn(self, cells: np.ndarray) -> list[State]:
        """Return a state of each cell."""
        low, high = self.grid.boxes(cells)
        drawn = low + self.rng.random(low.shape) * (high - low)
        # The ends of cells are where rounding tells.
        side = self.rng.random(low.shape)
        drawn = np.where(side < 0.25, low, np.where(side > 0.75, high, np.clip(drawn, low, high)))
        drawn = np.where(self.grid.whole, np.floor(drawn), drawn)
        kinds = [variable.kind for variable in self.bound.task.network.variables]
        return [tuple(_value(kind, x) for kind, x in zip(kinds, point, strict=True)) for point in drawn.tolist()]

    def _unlisted(self, states: Iterable[State]) -> list[State]:
        """Return the states that lie in no listed cell."""
        listed = list(states)
        points: Floats = np.array(listed, dtype=np.float64).reshape(len(listed), self.marks.ndim)
        places, _ = self.grid.spans(points, points)
        return [listed[k] for k in np.flatnonzero(~self.marks[tuple(places.T)])]

    def _show(self, state: State) -> str:
        return self.bound.compiled.semantics.show(state)


def _value(kind: Kind, number: float) -> bool | int | float:
    return number if kind is Kind.REAL else bool(number) if kind is Kind.BOOL else int(number)
