"""Games over cells of real values: a grid of boxes, each won, lost, or not told.

Idea     a state's exact values hardly ever matter: a car far behind another one is safe, one about to hit it is not. Cells are
         judged by where all their states surely go (boxes with outward rounding, `check.flow`); a search then need look
         only at states in cells between the two, and there only until it has left them
Source   grids as in symbolic control (Reissig, Weber and Rungger, Feedback refinement relations, 2017), here for both sides
won      the greatest set of cells outside `fail` in which some label is applicable, and leads back into the set in all ways
lost     cells in `fail`; then, step by step, cells in which nothing ends and every label that may be applicable has an outcome
         that surely happens, or nothing but outcomes, in lost cells
SOUND    a box around all states of a cell is followed; what may happen counts for `won`, only what surely happens for `lost`.
         Neighbouring cells overlap by far more than is rounded where a state's cell is looked up
Clocks   a variable that every step increases by one is not cut into cells. Up to the time that the goal cannot hold before,
         what a clock says is the same; `lost` within k steps counts until k steps before that time. From then on the goal must
         hold in cells that are won
Evidence what is made for a verdict (`safety.certificates`) is replayed state by state in the interpreter: those checkers never follow
         sets, so a mistake in `check.flow` cannot stand on both sides
Limits   bounded variables, a few reals, sums and products; cells of equal width over the values that are asked about
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.check.affine_forms import Bools, Floats, truth_of
from polvet.check.box_view import Unreadable
from polvet.check.flow import Moves, Way
from polvet.check.state_sets import Sets
from polvet.kernel.compiled import Words
from polvet.model.expressions import Binary, Expression, IntLiteral, Name
from polvet.model.network import Kind
from polvet.safety.decide import SAFE, UNSAFE, Decider
from polvet.safety.game_verdicts import GameVerdicts

CELLS = 1 << 18
MARGIN = 0.3
"""How far the grid reaches beyond the values asked about, as a share of their range."""
OVERLAP = 1e-6
"""How far cells overlap, as a share of their width."""
MOST_STEPS = 250
BATCH = 1 << 14
FEW = 64
"""Integers with that many values or fewer are told apart."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A grid and its verdicts. `latest`: the clock (its place) and the last time at which `lost` counts."""

    variables: tuple[int, ...]
    lines: tuple[tuple[float, float, int], ...]  # per real variable: the lower end, cells per unit, cells
    won: NDArray[np.uint8]
    lost: NDArray[np.uint8]
    latest: tuple[int, int] | None


def foresee_cells(decider: Decider, around: Words, *, cells: int = CELLS, budget: Budget = UNLIMITED) -> int:
    """Let the decider know which cells are won and lost; return how many tables had something to say."""
    judgement = judge_cells(decider, around, cells=cells, budget=budget)
    if judgement is None:
        return 0
    told = 0
    if judgement.won.any():
        decider.foresee(GameVerdicts(judgement.variables, judgement.won, lines=judgement.lines))
        told += 1
    if judgement.lost.any():
        clocks = () if judgement.latest is None else (judgement.latest,)
        decider.foresee(GameVerdicts(judgement.variables, judgement.lost, lines=judgement.lines, clocks=clocks))
        told += 1
    return told


def judge_cells(decider: Decider, around: Words, *, cells: int = CELLS, budget: Budget = UNLIMITED) -> Judged | None:
    """Return the cells around the packed states with their verdicts; None where the model cannot be followed over cells."""
    try:
        moves = Moves(decider.task)
        grid = _grid(moves, decider, around, cells)
        if grid is None:
            return None
        game = _Game(moves, grid)
    except Unreadable:
        return None
    part = budget.share(0.25)
    lost, steps = game.lost(part)
    latest = None
    if grid.clock is not None:
        if grid.clock_end - steps < moves.lower[grid.clock]:
            lost = np.zeros_like(lost)
        else:
            latest = (grid.clock, grid.clock_end - steps)
    won = game.won(part)
    return Judged(
        grid.variables,
        tuple((line.lower, line.scale, line.count) for line in grid.lines if line.real),
        np.where(won, SAFE, 0).astype(np.uint8).ravel(),
        np.where(lost, UNSAFE, 0).astype(np.uint8).ravel(),
        latest,
    )


# -- cells


@dataclass(frozen=True, slots=True)
class _Line:
    """A variable in cells: reals of equal width, integers one by one."""

    lower: float
    scale: float
    count: int
    real: bool

    def ends(self, places: Ints) -> tuple[Floats, Floats]:
        """Return the least and greatest value in cells."""
        at = places.astype(np.float64)
        if not self.real:
            return self.lower + at, self.lower + at
        return self.lower + (at - OVERLAP) / self.scale, self.lower + (at + 1 + OVERLAP) / self.scale

    def span(self, low: Floats, high: Floats) -> tuple[Ints, Ints]:
        """Return the first and last cell that values between these meet; -1 or `count` beyond the line."""
        slack = OVERLAP if self.real else 0.0
        first = np.floor((low - self.lower) * self.scale - slack)
        last = np.floor((high - self.lower) * self.scale + slack)
        return np.clip(first, -1, self.count).astype(np.int64), np.clip(last, -1, self.count).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Grid:
    variables: tuple[int, ...]
    lines: tuple[_Line, ...]
    clock: int | None
    clock_end: int  # the last time before which the goal cannot hold

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(line.count for line in self.lines)


def _grid(moves: Moves, decider: Decider, around: Words, cells: int) -> _Grid | None:
    reals = [k for k, variable in enumerate(moves.variables) if variable.kind is Kind.REAL]
    clocks = [k for k in range(len(moves.variables)) if k not in reals and is_clock(moves, k)]
    rest = [k for k in range(len(moves.variables)) if k not in reals and k not in clocks]
    sizes = [int(moves.upper[k] - moves.lower[k]) + 1 for k in rest]
    if (
        not reals
        or len(clocks) > 1
        or not len(around)
        or any(size > FEW for size in sizes)
        or prod(sizes) > cells // 64
    ):
        return None
    values = decider.compiled.machine.unpack(np.ascontiguousarray(around))
    per_real = int((cells // prod(sizes)) ** (1 / len(reals)))
    lines = []
    for k in sorted([*reals, *rest]):
        if k in rest:
            lines.append(_Line(float(moves.lower[k]), 1.0, int(moves.upper[k] - moves.lower[k]) + 1, False))
            continue
        seen = np.ascontiguousarray(values[:, k]).view(np.float64)
        low, high = float(seen.min()), float(seen.max())
        reach = MARGIN * (high - low) + 1e-3 * max(1.0, abs(low), abs(high))
        low, high = max(low - reach, float(moves.lower[k])), min(high + reach, float(moves.upper[k]))
        lines.append(_Line(low, per_real / (high - low), per_real, True))
    clock = clocks[0] if clocks else None
    return _Grid(tuple(sorted([*reals, *rest])), tuple(lines), clock, clock_end(moves, clock))


def is_clock(moves: Moves, place: int) -> bool:
    """Return whether every step increases the variable by one."""
    name = moves.variables[place].name
    ticks = (Binary("+", Name(name), IntLiteral(1)), Binary("+", IntLiteral(1), Name(name)))
    return all(way.after.get(name) in ticks for way in moves.ways)


def clock_end(moves: Moves, clock: int | None) -> int:
    """Return the last time up to which the goal cannot hold, whatever the other variables hold."""
    if clock is None:
        return 0
    low, high = int(moves.lower[clock]) - 1, int(moves.upper[clock])
    while low < high:
        middle = (low + high + 1) // 2
        upper = moves.upper.copy()
        upper[clock] = middle
        sets = moves.boxes(moves.lower[None], upper[None])
        if truth_of(moves.task.goal, moves.forms(sets))[1][0]:
            high = middle - 1
        else:
            low = middle
    return low


# -- the game


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """Where one way leads from all cells: from which it may, from which it surely does, and the cells it may end in."""

    label: int | None
    possible: Bools
    sure: Bools
    applicable: Bools  # the guard surely holds
    fails: Bools  # all of what it leads to is in `fail`
    inside: Bools  # all of it is on the grid
    first: Ints
    last: Ints


class _Game:
    def __init__(self, moves: Moves, grid: _Grid) -> None:
        self.moves, self.grid = moves, grid
        self.count = prod(grid.shape)
        self.surely_fail, self.may_fail = self._judge_fail()
        self.surely_goal, self.may_goal = self._ask(moves.task.goal)
        self.late = self._late()
        self.outcomes = [self._outcome(way) for way in moves.ways]

    def _sets(self, cells: Ints, *, late: bool = False) -> Sets:
        places = np.unravel_index(cells, self.grid.shape)
        low, high = np.tile(self.moves.lower, (len(cells), 1)), np.tile(self.moves.upper, (len(cells), 1))
        for k, line, at in zip(self.grid.variables, self.grid.lines, places, strict=True):
            a, b = line.ends(at)
            low[:, k], high[:, k] = np.maximum(a, self.moves.lower[k]), np.minimum(b, self.moves.upper[k])
        if self.grid.clock is not None:
            if late:
                low[:, self.grid.clock] = self.grid.clock_end + 1
            else:
                high[:, self.grid.clock] = self.grid.clock_end
        return self.moves.boxes(low, high)

    def _blocks(self, cells: Ints) -> Sequence[Ints]:
        return [cells[begin : begin + BATCH] for begin in range(0, len(cells), BATCH)]

    def _ask(self, condition: Expression, *, late: bool = False) -> tuple[Bools, Bools]:
        surely, possibly = np.zeros(self.count, dtype=np.bool_), np.zeros(self.count, dtype=np.bool_)
        for block in self._blocks(np.arange(self.count)):
            surely[block], possibly[block] = truth_of(condition, self.moves.forms(self._sets(block, late=late)))
        return surely, possibly

    def _judge_fail(self) -> tuple[Bools, Bools]:
        surely, possibly = self._ask(self.moves.task.fail)
        if self.grid.clock is not None:
            possibly = possibly | self._ask(self.moves.task.fail, late=True)[1]
        return surely, possibly

    def _late(self) -> Bools:
        """Return in which cells the goal surely holds once the clock has passed."""
        if self.grid.clock is None or self.grid.clock_end >= self.moves.upper[self.grid.clock]:
            return np.ones(self.count, dtype=np.bool_)
        return self._ask(self.moves.task.goal, late=True)[0]

    def _outcome(self, way: Way) -> _Outcome:
        dimensions = len(self.grid.shape)
        possible, sure, applicable, fails, inside = (np.zeros(self.count, dtype=np.bool_) for _ in range(5))
        first, last = np.zeros((self.count, dimensions), np.int64), np.zeros((self.count, dimensions), np.int64)
        for block in self._blocks(np.arange(self.count)):
            sets = self._sets(block)
            forms = self.moves.forms(sets)
            surely, possibly = truth_of(self.moves.guards[way.guard], forms)
            applicable[block] = surely
            a, b = self.moves.happens(way, sets, forms)
            surely, possibly = surely & a, possibly & b
            mine = np.flatnonzero(possibly)
            possible[block], sure[block] = possibly, surely
            if not len(mine):
                continue
            went, left = self.moves.moved(sets.take(mine), way)
            source = block[mine[left]]
            possible[block[np.setdiff1d(mine, mine[left])]] = False
            low, high = went.ends
            fits = ((low >= self.moves.lower) & (high <= self.moves.upper)).all(axis=1)
            fails[source] = fits & truth_of(self.moves.task.fail, self.moves.forms(went))[0]
            on_grid = fits
            for d, (k, line) in enumerate(zip(self.grid.variables, self.grid.lines, strict=True)):
                begin, end = line.span(low[:, k], high[:, k])
                on_grid = on_grid & (begin >= 0) & (end < line.count)
                first[source, d], last[source, d] = begin, end
            inside[source] = on_grid
        return _Outcome(way.label, possible, sure, applicable, fails, inside, first, last)

    def _all_in(self, marks: Bools, outcome: _Outcome) -> Bools:
        """Return from which cells everything this outcome leads to is marked."""
        padded = np.zeros([size + 1 for size in self.grid.shape], dtype=np.int32)
        padded[tuple(slice(1, None) for _ in self.grid.shape)] = marks.reshape(self.grid.shape)
        for axis in range(padded.ndim):
            np.cumsum(padded, axis=axis, out=padded)
        inside = np.zeros(self.count, dtype=np.bool_)
        mine = np.flatnonzero(outcome.possible & outcome.inside)
        low, high = outcome.first[mine], outcome.last[mine] + 1
        total = np.zeros(len(mine), dtype=np.int64)
        for corner in product((0, 1), repeat=padded.ndim):
            place = tuple(np.where(up, high[:, d], low[:, d]) for d, up in enumerate(corner))
            total += (1 if (padded.ndim - sum(corner)) % 2 == 0 else -1) * padded[place]
        inside[mine] = total == (high - low).prod(axis=1)
        return inside

    def _labels(self) -> list[int]:
        return sorted({outcome.label for outcome in self.outcomes if outcome.label is not None})

    def lost(self, budget: Budget) -> tuple[Bools, int]:
        """Return the cells that are lost, and within how many steps."""
        lost = self.surely_fail.copy()
        moving = np.zeros(self.count, dtype=np.bool_)  # some label is surely applicable
        for outcome in self.outcomes:
            if outcome.label is not None:
                moving |= outcome.applicable
        clock = self.grid.clock
        most = MOST_STEPS if clock is None else min(MOST_STEPS, self.grid.clock_end // 2)
        for step in range(1, most + 1):
            if budget.is_over():
                return lost, step - 1
            bad = [outcome.fails | self._all_in(lost, outcome) for outcome in self.outcomes]
            every, forced = moving.copy(), np.zeros(self.count, dtype=np.bool_)
            for label in self._labels():
                some_sure, all_bad = np.zeros(self.count, dtype=np.bool_), np.ones(self.count, dtype=np.bool_)
                for outcome, is_bad in zip(self.outcomes, bad, strict=True):
                    if outcome.label == label:
                        some_sure |= outcome.sure & is_bad
                        all_bad &= is_bad | ~outcome.possible
                every &= some_sure | all_bad
            for outcome, is_bad in zip(self.outcomes, bad, strict=True):
                if outcome.label is None:
                    forced |= outcome.sure & is_bad
            fresh = lost | ((every | forced) & ~self.may_goal)
            if (fresh == lost).all():
                return lost, step - 1
            lost = fresh
        return lost, most

    def won(self, budget: Budget) -> Bools:
        """Return the cells that are won; none where time is up."""
        won = ~self.may_fail & self.late
        while True:
            if budget.is_over():
                return np.zeros(self.count, dtype=np.bool_)
            good = [~outcome.possible | self._all_in(won, outcome) for outcome in self.outcomes]
            some, everything = np.zeros(self.count, dtype=np.bool_), np.ones(self.count, dtype=np.bool_)
            for label in self._labels():
                applicable, all_good = np.zeros(self.count, dtype=np.bool_), np.ones(self.count, dtype=np.bool_)
                for outcome, is_good in zip(self.outcomes, good, strict=True):
                    if outcome.label == label:
                        applicable |= outcome.applicable
                        all_good &= is_good
                some |= applicable & all_good
                everything &= all_good
            for outcome, is_good in zip(self.outcomes, good, strict=True):
                if outcome.label is None:
                    some &= is_good
                    everything &= is_good
            fresh = won & (self.surely_goal | some | everything)
            if (fresh == won).all():
                return won
            won = fresh
