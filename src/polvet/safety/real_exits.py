"""Exits over cells of real values: actions that may lead out of the cells in which some action always stays among them.

Source   the greatest set of cells that a controller can stay in, as in symbolic control (Reissig, Weber and Rungger, Feedback refinement
         relations, 2017); what it leaves to the controller is the most that keeps safe, as with shields
Differs  where an action changes a variable by a constant, its cells are hardly narrower than that constant: a step then moves a whole
         row of cells into the next, and the stairs that bound the won cells need not be climbed down one cell too far at each step.
         Cells begin where a float32 input does, so that trees over inputs tell them apart exactly
Cost     one step from each cell, then passes over all cells until none is lost any more; finer grids until starts are won
Limits   bounded variables, few of them real; won cells lie around the start states; sums and products (`check.flow`)
What is said here is proved by nobody but `check.grid`: policies that take no exit are verified like any other
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.check.affine_forms import Bools, Floats, difference, truth_of, value_of
from polvet.check.box_view import Unreadable
from polvet.check.flow import Moves, Way, is_start_of
from polvet.check.grid import Grid, start_cells
from polvet.check.returning import inside_of
from polvet.model.network import Kind
from polvet.model.task import Task
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.trees import TreeEnsemble
from polvet.safety.cells import FEW, clock_end, is_clock
from polvet.safety.exits import Exits, find_exits

TRIED = ((1.0, 1 << 15), (1.0, 1 << 18), (3.0, 1 << 17))
"""How far beyond the start states, as a share of their range, and how many cells."""
BATCH = 1 << 14
ZOOM = 256
NARROWER = 1 - 2.0**-10
"""Cells of what moves by a constant are so much narrower than that constant: far more than float32 rounds."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RealExits:
    """The won cells, a row each with where they begin as float32 values, and the labels that may lead to cells that are not won."""

    variables: tuple[int, ...]
    cells: NDArray[np.float32]  # [cells, variables]
    labels: Bools  # [cells, labels of the network]
    grid: Grid
    won: Bools  # of all cells of the grid


def exits_of(task: Task, budget: Budget) -> Exits | RealExits | str:
    """Return the exits, or why they cannot be told; NotLinear is raised where states are integers and the model is not linear."""
    if all(variable.kind is not Kind.REAL for variable in task.network.variables):
        return find_exits(task, budget=budget)
    return find_real_exits(task, budget=budget)


def find_real_exits(task: Task, *, fenced: Fitted | None = None, budget: Budget = UNLIMITED) -> RealExits | str:
    """Return the exits of won cells that hold all start states, or why there are none; with a policy only on grids it knows."""
    if task.network.disables_out_of_bounds:
        return "operators that leave the bounds are disabled"
    try:
        moves = Moves(task)
        around = _start_ranges(moves)
        for reach, most in TRIED:
            budget.check()
            lines = _lines(moves, around, reach, most)
            if fenced is not None and not _knows(fenced, moves, lines):
                continue
            found = _won(moves, lines, budget)
            if found is not None:
                return found
    except Unreadable as refusal:
        return str(refusal)
    return "on no grid that was tried are all start states in won cells"


def takes_exit(fitted: Fitted, exits: RealExits) -> bool:
    """Return whether the policy takes an exit where won cells begin: then runs from these cells may leave them."""
    rows = np.zeros((len(exits.cells), len(fitted.variables)), dtype=np.float32)
    for column, place in enumerate(exits.variables):
        if place in fitted.variables:
            rows[:, fitted.variables.index(place)] = exits.cells[:, column]
    for begin in range(0, len(rows), BATCH):
        part, forbidden = rows[begin : begin + BATCH], exits.labels[begin : begin + BATCH]
        scores = fitted.policy.scores(part)
        best = scores.argmax(axis=1)
        for output, label in enumerate(fitted.labels):
            if label != UNKNOWN_LABEL and forbidden[best == output, label].any():
                return True
    return False


def _knows(fitted: Fitted, moves: Moves, lines: Sequence[NDArray[np.float32]]) -> bool:
    """Return whether a tree ensemble tells states apart where cells of some real variable begin, as fenced ones do."""
    policy = fitted.policy
    if not isinstance(policy, TreeEnsemble) or not fitted.is_plain:
        return False
    for k, line in enumerate(lines):
        if moves.whole[k] or len(line) < 4:
            continue
        mine = [
            tree.threshold[tree.feature == input_]
            for tree in policy.trees
            for input_, place in enumerate(fitted.variables)
            if place == k
        ]
        at = np.concatenate([np.zeros(0), *mine]).astype(np.float32)
        begins = at if policy.comparison == "<" else np.nextafter(at, np.float32(np.inf))
        if len(np.intersect1d(begins, line)) > 1:
            return True
    return False


# -- where cells begin


def _start_ranges(moves: Moves) -> tuple[Floats, Floats]:
    """Return the least and greatest value of each variable that a start state may have, as far as a few looks tell."""
    condition = is_start_of(moves.network, moves.task.start)
    low, high = moves.lower.copy(), moves.upper.copy()
    for k, whole in enumerate(moves.whole):
        for _ in range(1 if whole else 4):
            ends = np.linspace(low[k], high[k], ZOOM + 1)
            lower, upper = np.tile(low, (ZOOM, 1)), np.tile(high, (ZOOM, 1))
            lower[:, k], upper[:, k] = ends[:-1], ends[1:]
            there = np.flatnonzero(truth_of(condition, moves.forms(moves.boxes(lower, upper)))[1])
            if not len(there):
                raise Unreadable("there is no start state")
            low[k], high[k] = ends[there[0]], ends[there[-1] + 1]
    return low, high


def _lines(moves: Moves, around: tuple[Floats, Floats], reach: float, most: int) -> list[NDArray[np.float32]]:
    """Return for each variable where its cells begin as float32 values; for reals first and last cell are all that lies beyond."""
    found: list[NDArray[np.float32]] = []
    spans: dict[int, tuple[float, float]] = {}
    widths: dict[int, float] = {}
    for k, variable in enumerate(moves.variables):
        low, high = float(moves.lower[k]), float(moves.upper[k])
        if variable.kind is Kind.REAL:
            beyond = reach * (around[1][k] - around[0][k])
            spans[k] = max(low, float(around[0][k] - beyond)), min(high, float(around[1][k] + beyond))
            if (constant := _least_constant(moves, k)) is not None:
                widths[k] = constant * NARROWER
            found.append(np.zeros(0, dtype=np.float32))
        elif is_clock(moves, k):
            end = clock_end(moves, k)
            found.append(np.array([low, end + 1] if low <= end < high else [low], dtype=np.float32))
        elif high - low < FEW:
            found.append(np.arange(low, high + 1, dtype=np.float32))
        else:
            raise Unreadable(f"'{variable.name}' has too many values")
    rows = {k: (spans[k][1] - spans[k][0]) / width for k, width in widths.items()}
    if prod(rows.values()) * 16 > most:  # too many of them to leave room for the others
        widths, rows = {}, {}
    others = len(spans) - len(widths)
    share = (most / max(1.0, prod(rows.values()))) ** (1 / others) if others else 1.0
    for k, (low, high) in spans.items():
        width = widths.get(k, (high - low) / share)
        inner = np.arange(low, high, width, dtype=np.float64).astype(np.float32)
        ends = np.array([moves.lower[k], *inner, high], dtype=np.float32)
        found[k] = np.unique(ends[(ends >= moves.lower[k]) & (ends < moves.upper[k])])
        if found[k][0] > moves.lower[k]:
            found[k] = np.append(np.float32(moves.lower[k]), found[k])
    return found


def _least_constant(moves: Moves, place: int) -> float | None:
    """Return the least constant by which an action changes the variable, if actions add nothing but constants."""
    forms = moves.forms(moves.boxes(moves.lower[None], moves.upper[None]))
    name = moves.variables[place].name
    constants = set()
    for way in moves.ways:
        if name in way.after:
            low, high = difference(value_of(way.after[name], forms), forms[name]).bounds()
            if high[0] - low[0] > 1e-9 * (1 + abs(high[0])):
                return None
            constants.add(abs(float(low[0] + high[0]) / 2))
    return min((one for one in constants if one > 1e-9), default=None)


def _first_double(begin: np.float32) -> float:
    """Return the least double whose nearest float32 value is `begin` or more."""
    before = np.nextafter(begin, np.float32(-np.inf))
    middle = (float(before) + float(begin)) / 2
    return middle if np.float32(middle) == begin else float(np.nextafter(middle, np.inf))


def _grid_of(moves: Moves, lines: Sequence[NDArray[np.float32]]) -> Grid:
    axes = []
    for k, line in enumerate(lines):
        inner = [float(x) if moves.whole[k] else _first_double(x) for x in line[1:]]
        axes.append(np.array([moves.lower[k], *inner]))
    return Grid(tuple(axes), moves.upper, moves.whole)


# -- the game


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """Where one way may lead from all cells: from which it may, where its guard surely holds, whether all stays on the grid."""

    label: int | None
    possible: Bools
    applicable: Bools
    inside: Bools
    first: Ints
    last: Ints

    def stays(self, won: Bools, all_won: Callable[[Ints, Ints], Bools]) -> Bools:
        """Return the won cells from which everything this leads to is won."""
        good = ~self.possible
        mine = np.flatnonzero(self.possible & self.inside & won)
        good[mine] = all_won(self.first[mine], self.last[mine])
        return good


def _won(moves: Moves, lines: Sequence[NDArray[np.float32]], budget: Budget) -> RealExits | None:
    grid = _grid_of(moves, lines)
    count = prod(grid.shape)
    won, ended = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for cells in _blocks(count):
        sets = moves.boxes(*grid.boxes(cells))
        won[cells] = ~moves.may_fail(sets)
        ended[cells] = truth_of(moves.task.goal, moves.forms(sets))[0]
    for k, whole in enumerate(grid.whole):
        if not whole:  # beyond what cells tell apart
            beyond = won.reshape(grid.shape)
            beyond[tuple(slice(None) if d != k else [0, -1] for d in range(len(grid.shape)))] = False
    outcomes = [_outcome(moves, grid, way, budget) for way in moves.ways]
    starts = start_cells(moves, grid)
    while True:
        budget.check()
        all_won = inside_of(won.reshape(grid.shape))
        good = [outcome.stays(won & ~ended, all_won) for outcome in outcomes]
        fresh = won & (ended | _can_stay(outcomes, good))
        if not fresh[starts].all():
            return None
        if (fresh == won).all():
            break
        won = fresh
    cells = np.flatnonzero(won & ~ended)
    exits = np.zeros((len(cells), len(moves.network.labels)), dtype=np.bool_)
    for outcome, stays in zip(outcomes, good, strict=True):
        if outcome.label is not None:
            exits[:, outcome.label] |= ~stays[cells]
    places = np.unravel_index(cells, grid.shape)
    kept = [k for k in range(len(lines)) if not is_clock(moves, k)]
    rows = np.stack([lines[k][places[k]] for k in kept], axis=1)
    return RealExits(tuple(kept), rows, exits, grid, won)


def _can_stay(outcomes: Sequence[_Outcome], good: Sequence[Bools]) -> Bools:
    """Return the cells in which some label is applicable and stays, or all do, and silent ways stay."""
    some, every = np.zeros(len(good[0]), dtype=np.bool_), np.ones(len(good[0]), dtype=np.bool_)
    for label in {outcome.label for outcome in outcomes if outcome.label is not None}:
        mine = [(outcome, stays) for outcome, stays in zip(outcomes, good, strict=True) if outcome.label == label]
        stays_all = np.logical_and.reduce([stays for _, stays in mine])
        some |= stays_all & np.logical_or.reduce([outcome.applicable for outcome, _ in mine])
        every &= stays_all
    found = some | every
    for outcome, stays in zip(outcomes, good, strict=True):
        if outcome.label is None:
            found &= stays
    return found


def _blocks(count: int) -> Iterator[Ints]:
    for begin in range(0, count, BATCH):
        yield np.arange(begin, min(begin + BATCH, count))


def _outcome(moves: Moves, grid: Grid, way: Way, budget: Budget) -> _Outcome:
    count, size = prod(grid.shape), len(grid.shape)
    possible, applicable, inside = (np.zeros(count, dtype=np.bool_) for _ in range(3))
    first, last = np.zeros((count, size), np.int64), np.zeros((count, size), np.int64)
    for cells in _blocks(count):
        budget.check()
        sets = moves.boxes(*grid.boxes(cells))
        forms = moves.forms(sets)
        surely, possibly = truth_of(moves.guards[way.guard], forms)
        a, b = moves.happens(way, sets, forms)
        possible[cells], applicable[cells] = possibly & b, surely & a
        mine = np.flatnonzero(possibly & b)
        went, left = moves.moved(sets.take(mine), way)
        possible[cells[np.setdiff1d(mine, mine[left])]] = False
        source, fits = cells[mine[left]], ~moves.may_fail(went)
        inside[source] = fits
        begin, end = grid.spans(went.ends[0][fits], went.ends[1][fits])
        first[source[fits]], last[source[fits]] = begin, end
    return _Outcome(way.label, possible, applicable, inside, first, last)
