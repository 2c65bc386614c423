"""The most cells that all runs from them return to: cells that may fail are given up, and whatever came back only by them is judged again.

Source   greatest fixed points by worklists: only what depended on a cell that was lost is looked at again (Liu and Smolka, Simple
         linear-time algorithms for minimal fixed points, ICALP 1998); the rest as `verify/grid.py`
Differs  a cell that does not return lists the cells where its parts are, as there; where these are all listed or lost, it is lost, too.
         Where the time does not do, all that hangs on what is lost is given up at once, which leaves a closed set; what comes back
         to that is taken back
Cost     one return per cell, and one more whenever cells are lost that parts of it lay in
What a cell does is the checker's own judgement (`check.returning`), so that what is listed in the end is what the checker accepts
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polvet.budget import Budget
from polvet.check.affine_forms import Bools, Floats
from polvet.check.flow import Flow
from polvet.check.grid import Grid
from polvet.check.returning import FAILS, RETURNS, Inside, Plan, judge
from polvet.errors import LimitReached

BATCH = 1 << 12
MOST_PAIRS = 1 << 26
"""Pairs of a cell and one that a part of it came back to."""
CAREFUL = 0.6
"""The share of the time after which what came back to a cell that was lost is given up without another look."""
NEW, LISTED, LOST, GIVEN_UP = 0, 1, 2, 3
Ints = np.ndarray


@dataclass(slots=True, eq=False)
class ClosedCells:
    """Cells of a grid: which are listed, which are lost, and who came back to whom."""

    flow: Flow
    grid: Grid
    plan: Plan
    state: Ints = field(init=False)  # per cell: NEW, LISTED, LOST or GIVEN_UP
    backs: list[Ints] = field(init=False, default_factory=list)
    sources: list[Ints] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.state = np.zeros(self.grid.shape, dtype=np.int8).ravel()

    @property
    def marks(self) -> Bools:
        """Return which cells are listed."""
        return np.asarray(self.state == LISTED)

    def close(self, wanted: Bools, lost: Ints, budget: Budget) -> bool:
        """List what is wanted and what its runs need, but nothing that is lost; False where limits made it give up more."""
        self.state[wanted] = LISTED
        self.state[lost] = LOST
        pending = np.flatnonzero(self.marks)
        careful = budget.share(CAREFUL)
        while len(pending):
            fresh, gone = [], []
            inside = self.grid.inside(self.marks)
            for begin in range(0, len(pending), BATCH):
                mine = pending[begin : begin + BATCH]
                try:
                    if sum(map(len, self.backs)) > MOST_PAIRS:
                        raise careful.reached("memory")
                    again, bad = self._judge(mine, inside, careful)
                except LimitReached:
                    self._give_up(pending)
                    self._take_back(budget)
                    return False
                fresh.append(again)
                gone.append(bad)
                self.state[bad] = LOST
            pending = np.unique(np.concatenate([*fresh, self._who_came_back_to(np.concatenate(gone))]))
            pending = pending[self.state[pending] == LISTED]
        return True

    def _give_up(self, cells: Ints) -> None:
        """Give up cells that are not judged any more, and all that came back to them or to what was lost: the others are closed."""
        self.state[cells] = GIVEN_UP
        bad = np.flatnonzero((self.state == LOST) | (self.state == GIVEN_UP))
        while len(bad):
            bad = self._who_came_back_to(bad)
            bad = bad[self.state[bad] == LISTED]
            self.state[bad] = GIVEN_UP

    def _take_back(self, budget: Budget) -> None:
        """List cells that were given up, but come back to listed ones."""
        left = np.flatnonzero(self.state == GIVEN_UP)
        while len(left):
            inside, back = self.grid.inside(self.marks), []
            for begin in range(0, len(left), BATCH):
                mine = left[begin : begin + BATCH]
                try:
                    how = judge(self.flow, self.grid.boxes(mine), inside, self.plan, budget).how
                except LimitReached:
                    break
                back.append(mine[how == RETURNS])
            found = np.concatenate([left[:0], *back])
            self.state[found] = LISTED
            if not len(found) or budget.is_over():
                return
            left = np.setdiff1d(left, found)

    def _judge(self, cells: Ints, inside: Inside, budget: Budget) -> tuple[Ints, Ints]:
        """Return the cells to be judged (again) and those that are lost."""
        found = judge(self.flow, self.grid.boxes(cells), self._recorded(cells, inside), self.plan, budget)
        bad, open_ = found.how == FAILS, (found.how != FAILS) & (found.how != RETURNS)
        mine = open_[found.source]
        first, last = self.grid.spans(*(self._clipped(ends[mine]) for ends in found.landed.ends))
        source, landed = pairs(found.source[mine], first, last, self.grid.shape)
        new = self.state[landed] == NEW
        helped = np.zeros(len(cells), dtype=np.bool_)
        helped[source[new]] = True
        listed = np.unique(landed[new])
        self.state[listed] = LISTED
        return np.concatenate([listed, cells[open_ & helped]]), cells[bad | (open_ & ~helped)]

    def _recorded(self, cells: Ints, inside: Inside) -> Inside:
        """Return the same question, which notes down what came back to which cells."""

        def recorded(low: Floats, high: Floats, source: Ints) -> Bools:
            held = inside(low, high, source)
            first, last = self.grid.spans(low[held], high[held])
            of, back = pairs(source[held], first, last, self.grid.shape)
            self.sources.append(cells[of].astype(np.int32))
            self.backs.append(back.astype(np.int32))
            return held

        return recorded

    def _clipped(self, ends: Floats) -> Floats:
        return np.asarray(np.clip(ends, self.flow.lower, self.flow.upper))

    def _who_came_back_to(self, bad: Ints) -> Ints:
        if not len(bad):
            return bad
        is_bad = np.zeros(len(self.state), dtype=np.bool_)
        is_bad[bad] = True
        found = [source[is_bad[back]] for source, back in zip(self.sources, self.backs, strict=True)]
        return np.unique(np.concatenate(found)).astype(np.int64)


def pairs(source: Ints, first: Ints, last: Ints, shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return (source, cell) for each cell between each pair of corners."""
    size = last - first + 1
    count = size.prod(axis=1)
    owner = np.repeat(np.arange(len(count)), count)
    left = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    cell, stride = np.zeros(len(owner), dtype=np.int64), 1
    for d in range(len(shape) - 1, -1, -1):
        cell += stride * (first[owner, d] + left % size[owner, d])
        left //= size[owner, d]
        stride *= shape[d]
    return source[owner], cell
