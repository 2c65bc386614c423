"""Safe real-valued start states by grids: the cells of the start set that runs return from without fail; the rest is tried by runs.

On each grid of `ATTEMPTS` the cells of start states and of runs that end well are closed (verify/closed_cells.py), without those in which a
run was that fails. The start cells that are left are the region; the grid that proves the most of the start set counts. States are
drawn from the other start cells and executed: a cell with one that fails is unsafe, all others are open.
Cost     one return per cell and grid, most of them within a step or two
Limits   as `grid`. An unsafe cell may hold safe starts, too: finer grids tell them apart, as far as the limits allow
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor, log10, prod

import numpy as np
from numpy.typing import NDArray

from polvet.budget import Budget, stopwatch
from polvet.check.affine_forms import Bools, Floats, truth_of
from polvet.check.box_view import Unreadable
from polvet.check.flow import Flow, is_start_of
from polvet.check.grid import Grid, start_cells
from polvet.check.returning import Plan
from polvet.check.start_region import read_region
from polvet.errors import LimitReached
from polvet.files import Json
from polvet.kernel.starts import drawable_starts
from polvet.kernel.starts import is_start_of as start_test
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.runs import Batch, End, Run, simulate, trace
from polvet.records.start_regions import NamedBox, Region, Rest, Volume, region_json
from polvet.records.state_json import state_to_json
from polvet.symbolic.cover import MIXED, LabelledBox, cover
from polvet.verify.closed_cells import ClosedCells
from polvet.verify.grid import (
    GRID,
    MOST_CELLS,
    Attempt,
    condition_cuts,
    cuts_of,
    grid_of,
    grid_proof,
    is_large,
    tree_cuts,
)
from polvet.verify.grid_trial import GridTrial
from polvet.verify.method import Request
from polvet.verify.verdicts import Safe

METHOD = "grid"
ATTEMPTS = (
    Attempt(32, 16, 16, 1),
    Attempt(64, 16, 32, 2),
    Attempt(128, 64, 32, 2),
    Attempt(256, 64, 64, 2),
    Attempt(512, 64, 64, 2),
)
DRAWN, TRACED, RUN_STEPS = 2_000, 100, 1_000
"""Start states that are drawn; runs that are looked at, of those that fail as of the others; how long they are at most."""
LITTLE = 0.001
"""Where no more than this share is open beside what fails of the drawn start states, no finer grid is tried."""
GRIDS_SHARE, ATTEMPT_SHARE = 0.8, 0.7
"""The share of the time that grids may take, and the one of what is left of it that the next grid may take."""
PER_CELL, MOST_DRAWN = 16, 10_000
"""States that are executed from each start cell that is not proved, and from all of them."""
MOST_RUNS = 40
"""Boxes of which an unsafe run is told."""
OPEN, SAFE, UNSAFE = 0, 1, 2
"""Labels of start cells."""


def prove_start_cells(bound: Bound, request: Request) -> Region:
    """Return the start states that grids prove, with the proof; the whole of them where no run fails and `grid` proves that."""
    nothing = Region("in", (), None, (), METHOD)
    if (reason := GRID.refusal(bound)) is not None:
        return replace(nothing, reason=reason)
    try:
        sample = _Sample.of(bound, request)
        if not len(sample.failing):
            whole = GRID(bound, replace(request, budget=request.budget.share(0.5)))
            if isinstance(whole, Safe):
                return Region("out", (), whole.certificate, (), METHOD, volume=Volume(1.0, 0.0, 0.0))
        return _proved(bound, Flow(bound.task, bound.fitted), sample, request)
    except Unreadable as refusal:
        return replace(nothing, reason=str(refusal))
    except LimitReached as limit:
        return replace(nothing, reason=str(limit))


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Drawn start states, which of them fail when executed, and states on runs that fail and on others."""

    starts: Floats
    failing: NDArray[np.int64]
    bad: Floats
    good: Floats

    @classmethod
    def of(cls, bound: Bound, request: Request) -> _Sample:
        """Draw and execute start states."""
        drawn = drawable_starts(bound.task, budget=request.budget).sample(
            DRAWN, random.Random(request.seed), budget=request.budget
        )
        ended = _executed(bound, drawn, request)
        if ended.limit is not None:
            raise ended.limit
        fails = np.asarray(ended.ends == End.FAIL)
        failing, others = np.flatnonzero(fails), np.flatnonzero(~fails)
        bad, good = (_states(bound, drawn, runs[:TRACED], request.seed) for runs in (failing, others))
        return cls(np.array(drawn, dtype=np.float64), failing, bad, good)


def _executed(bound: Bound, states: Sequence[State], request: Request) -> Batch:
    """Return how the run from each state ends."""
    return simulate(bound, bound.compiled.pack(states), max_steps=RUN_STEPS, seed=request.seed, budget=request.budget)


def _run(bound: Bound, start: State, number: int, seed: int) -> Run:
    return trace(bound, start, number, max_steps=RUN_STEPS, seed=seed)


def _states(bound: Bound, starts: Sequence[State], runs: NDArray[np.int64], seed: int) -> Floats:
    found = [state for k in runs.tolist() for state in _run(bound, starts[k], k, seed).states]
    return np.array(found, dtype=np.float64).reshape(len(found), len(bound.task.network.variables))


@dataclass(frozen=True, slots=True, eq=False)
class _Proved:
    """A grid with its listed cells, and the start cells: which they are, how large, and whether they are listed."""

    grid: Grid
    plan: Plan
    marks: Bools
    starts: NDArray[np.int64]
    volumes: Floats
    is_whole: bool  # no cell was given up to keep the limits

    @property
    def share(self) -> float:
        """Return the share of the start cells' volume that is listed."""
        return float(self.volumes[self.marks[self.starts]].sum() / self.volumes.sum())


def _proved(bound: Bound, flow: Flow, sample: _Sample, request: Request) -> Region:
    best, within = None, request.budget.share(GRIDS_SHARE)
    tried: list[Json] = []
    reason = f"a grid of {ATTEMPTS[-1].cells} cells per variable is too coarse"
    for attempt in ATTEMPTS:
        budget = within.share(ATTEMPT_SHARE)
        if not len(sample.good):
            reason = "every start that was drawn fails"
            break
        spent = stopwatch()
        one = _attempt(flow, sample, attempt, budget)
        if isinstance(one, str):
            reason = one
            tried.append({"cells": attempt.cells, "reason": one, "seconds": round(spent(), 3)})
            break
        tried.append({"cells": attempt.cells, "share": round(one.share, 6), "seconds": round(spent(), 3)})
        best = one if best is None or one.share > best.share else best
        if not one.is_whole:
            reason = str(budget.reached("time"))
            break
        if 1 - best.share - len(sample.failing) / len(sample.starts) <= LITTLE:
            reason = f"on a grid of {attempt.cells} cells per variable little more than what fails is left"
            break
    figures = {"tried": tried, "drawn": len(sample.starts), "drawn_failing": len(sample.failing)}
    if best is None:
        return _nothing(bound, sample, request, reason, figures)
    return _told(bound, flow, best, sample, request, reason, figures)


def _attempt(flow: Flow, sample: _Sample, attempt: Attempt, budget: Budget) -> _Proved | str:
    grid = _with_short_lines(flow, grid_of(flow, sample.good, attempt), np.ptp(sample.good, axis=0) / attempt.cells)
    if prod(grid.shape) > MOST_CELLS or prod(grid.shape) * 30 > budget.most_bytes:
        return str(budget.reached("memory"))
    plan = Plan(attempt.steps, attempt.parts, attempt.halvings, cuts_of(flow))
    starts = start_cells(flow, grid)
    wanted = np.zeros(grid.shape, dtype=np.bool_)
    wanted[tuple(grid.spans(sample.good, sample.good)[0].T)] = True
    for place in range(len(grid.shape)):
        if is_large(flow, place):
            wanted = np.logical_or.accumulate(wanted, axis=place)
    wanted.ravel()[starts] = True
    lost = np.unique(np.ravel_multi_index(tuple(grid.spans(sample.bad, sample.bad)[0].T), grid.shape))
    cells = ClosedCells(flow, grid, plan)
    is_whole = cells.close(wanted.ravel(), lost, budget)
    return _Proved(grid, plan, cells.marks, starts, _volumes(grid, starts), is_whole)


def _with_short_lines(flow: Flow, grid: Grid, widths: Floats) -> Grid:
    """Return the grid with lines of as few digits as cells of these widths need, but for those that cuts and conditions draw."""
    needed: list[set[float]] = [set() for _ in flow.variables]
    for place, cut in (*tree_cuts(flow), *condition_cuts(flow)):
        needed[place].add(cut)
    lines = []
    for k, line in enumerate(grid.lines):
        if flow.variables[k].kind is not Kind.REAL or not widths[k] > 0:
            lines.append(line)
            continue
        digits = 1 - floor(log10(widths[k]))
        short = {x if x in needed[k] or x == line[0] else round(x, digits) for x in line.tolist()}
        lines.append(np.array(sorted(x for x in short if line[0] <= x <= grid.upper[k])))
    return Grid(tuple(lines), grid.upper, grid.whole)


def _volumes(grid: Grid, cells: NDArray[np.int64]) -> Floats:
    """Return the volumes of cells; a variable that has one value only in all of them does not count."""
    low, high = grid.boxes(cells)
    sizes = np.where(grid.whole, high - low + 1, high - low)
    flat = (sizes <= 0).all(axis=0)
    volumes: Floats = np.where(flat, 1.0, sizes).prod(axis=1)
    return volumes if volumes.any() else np.ones(len(cells))


# -- what is told


def _told(
    bound: Bound,
    flow: Flow,
    best: _Proved,
    sample: _Sample,
    request: Request,
    reason: str,
    figures: Mapping[str, object],
) -> Region:
    labels = np.where(best.marks[best.starts], SAFE, OPEN)
    rest = np.flatnonzero(labels == OPEN)
    states, owner = _drawn_in(bound, best, rest, sample, request.seed)
    within = replace(request, budget=request.budget.share(0.5))  # what is not executed by then stays open
    fails = _executed(bound, states, within).ends == End.FAIL if states else np.zeros(0, dtype=np.bool_)
    if (labels[owner[fails]] == SAFE).any():
        raise RuntimeError("the kernel finds a run that fails from a start state in a cell that is proved safe")
    labels[owner[fails]] = UNSAFE
    places = np.stack(np.unravel_index(best.starts, best.grid.shape), axis=1)
    boxes = cover([np.ascontiguousarray(column) for column in places.T], labels)
    for box in boxes:
        if box.label == MIXED:
            labels[box.rows] = OPEN
    named = partial(_named, flow, best.grid, places)
    safe = tuple(named(box) for box in boxes if box.label == SAFE)
    others = sorted((box for box in boxes if box.label != SAFE), key=lambda box: -float(best.volumes[box.rows].sum()))
    first = {int(owner[k]): int(k) for k in np.flatnonzero(fails)[::-1]}
    told: list[Rest] = []
    runs = 0
    for box in others:
        run = None
        if box.label == UNSAFE and runs < MOST_RUNS:
            number = next(first[row] for row in box.rows.tolist() if row in first)
            run, runs = _run(bound, states[number], number, request.seed), runs + 1
        why = None if run is not None else f"runs are told of {MOST_RUNS} boxes" if box.label == UNSAFE else reason
        told.append(Rest(named(box), run, why))
    proof = None if not safe else grid_proof(flow, best.grid, best.marks, best.plan)
    region = Region("in", safe, proof, tuple(told), METHOD, reason=reason, figures=figures)
    if proof is not None:
        is_fail = bound.compiled.semantics.compile(bound.task.fail)
        claim = read_region(region_json(region), bound.task.network.variables, is_fail)
        GridTrial(bound, best.grid, best.marks, best.plan, request.seed).run(request.budget, claim)
        drawn = (_state(bound, row) for row in sample.starts.tolist())
        if (witness := next(filter(claim.holds, drawn), None)) is not None:
            region = replace(region, proof={**proof, "witness": state_to_json(bound.task, witness)})
    return replace(region, volume=_volume(flow, best, labels, sample))


def _volume(flow: Flow, best: _Proved, labels: NDArray[np.int64], sample: _Sample) -> Volume:
    """Return the shares by the volumes of cells, or by drawn states where some cell holds other states than start states."""
    forms = flow.forms(flow.boxes(*best.grid.boxes(best.starts)))
    surely = truth_of(is_start_of(flow.network, flow.task.start), forms)[0]
    drawn = None
    weights = best.volumes
    if not surely[best.volumes > 0].all():
        cells = np.ravel_multi_index(tuple(best.grid.spans(sample.starts, sample.starts)[0].T), best.grid.shape)
        weights = np.bincount(np.searchsorted(best.starts, cells), minlength=len(best.starts)).astype(np.float64)
        drawn = len(cells)
    proved, unsafe, open_ = (float(weights[labels == label].sum() / weights.sum()) for label in (SAFE, UNSAFE, OPEN))
    return Volume(proved, unsafe, open_, drawn)


def _nothing(bound: Bound, sample: _Sample, request: Request, reason: str, figures: Mapping[str, object]) -> Region:
    """Return that nothing is proved, with a run from a start state that fails where one was drawn."""
    fails = len(sample.failing) / len(sample.starts)
    rest = Rest({}, None, reason)
    if len(sample.failing):
        number = int(sample.failing[0])
        rest = Rest({}, _run(bound, _state(bound, sample.starts[number].tolist()), number, request.seed))
    volume = Volume(0.0, fails, 1.0 - fails, len(sample.starts))
    return Region("in", (), None, (rest,), METHOD, reason=reason, figures=figures, volume=volume)


def _state(bound: Bound, values: Sequence[float]) -> State:
    kinds = [variable.kind for variable in bound.task.network.variables]
    return tuple(
        x if kind is Kind.REAL else bool(x) if kind is Kind.BOOL else int(x)
        for kind, x in zip(kinds, values, strict=True)
    )


def _drawn_in(
    bound: Bound, best: _Proved, rest: NDArray[np.int64], sample: _Sample, seed: int
) -> tuple[list[State], NDArray[np.int64]]:
    """Return start states in the cells that are not proved, with the number of the start cell of each; those known to fail first."""
    known = sample.starts[sample.failing]
    cells = np.ravel_multi_index(tuple(best.grid.spans(known, known)[0].T), best.grid.shape)
    numbers = np.searchsorted(best.starts, cells)
    low, high = best.grid.boxes(best.starts[rest])
    count = max(1, min(PER_CELL, MOST_DRAWN // max(1, len(rest))))
    rng = np.random.default_rng(seed)
    low, high, owners = np.tile(low, (count, 1)), np.tile(high, (count, 1)), np.tile(rest, count)
    points = np.clip(low + rng.random(low.shape) * (high - low), low, high)
    whole = np.array(best.grid.whole)
    points[:, whole] = np.minimum(np.floor(low + rng.random(low.shape) * (high - low + 1)), high)[:, whole]
    holds = start_test(bound.task)
    states, owner = [], []
    for point, number in zip([*known.tolist(), *points.tolist()], [*numbers.tolist(), *owners.tolist()], strict=True):
        state = _state(bound, point)
        if holds(state):
            states.append(state)
            owner.append(number)
    return states, np.array(owner, dtype=np.int64)


def _named(flow: Flow, grid: Grid, places: NDArray[np.int64], box: LabelledBox) -> NamedBox:
    """Return the box by names, with the ends of its cells; of variables that all start cells share nothing is said."""
    ends: dict[str, list[int | float]] = {}
    for k, variable in enumerate(flow.variables):
        column = places[:, k]
        first, last = box.ends.get(k, (column.min(), column.max()))
        if (column == column[0]).all():
            continue
        low, high = float(grid.lines[k][int(first)]), float(grid.ends(k)[int(last)])
        ends[variable.name] = [low, high] if variable.kind is Kind.REAL else [int(low), int(high)]
    return ends
