"""Real-valued models by grids: cells that runs return to, guessed from runs, finer and finer until the checker finds no way out.

Source   reachability over grids of boxes (Bacci, Giacobbe and Parker, Verifying reinforcement learning up to infinity, IJCAI
         2021, cover by templates); invariants guessed from runs and mended by what refutes them (Garg, Loeding, Madhusudan,
         Neider, ICE: a robust framework for learning invariants, CAV 2014)
Differs  cells are listed where the kernel's runs were. The checker's own judgement (`check.returning`) is the teacher: a cell
         from which some way does not come back in time adds the cells where that way is then; one that may fail ends the attempt
Cost     one return per cell, most of them within a step or two; cells grow by four with each halving in two dimensions
Limits   bounded variables; sums, products, case distinctions; networks and trees. Never finds an unsafe run
Nothing is computed here about sets of states: the engine runs, draws lines and lists cells. What the checker might be wrong about is
tried by other means before it is believed: by the interpreter, in states of listed cells (`verify.grid_trial`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from polvet.budget import Budget, stopwatch
from polvet.check.box_view import Unreadable
from polvet.check.flow import Flow
from polvet.check.grid import Grid, cells_between, pack_marks, start_cells
from polvet.check.returning import FAILS, OPEN, Plan, judge
from polvet.errors import LimitReached
from polvet.files import Json
from polvet.kernel.starts import drawable_starts
from polvet.model.expressions import Binary, Expression, Name, children
from polvet.model.folding import value_of
from polvet.model.network import Kind
from polvet.policy.compiled import Bound
from polvet.policy.runs import trace
from polvet.policy.trees import TreeEnsemble
from polvet.records.certificate_files import Certificate
from polvet.safety.real_exits import RealExits, find_real_exits, takes_exit
from polvet.verify.grid_trial import GridTrial
from polvet.verify.method import NETWORK_OR_TREES, ONLY_FAIL, PLAIN_INPUTS, STRICT_BOUNDS, Method, Request
from polvet.verify.verdicts import Safe, SafetyResult, Unknown

METHOD = "grid"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Cells per real variable over what runs visit; how long and in how many parts sets are followed; how often cells are halved.

    `clocks`: whether integers with many values are cut where trees compare them.
    """

    cells: int
    steps: int
    parts: int
    halvings: int
    clocks: bool = False


ATTEMPTS = (
    Attempt(32, 16, 16, 1),
    Attempt(64, 64, 32, 2),
    Attempt(128, 32, 32, 2),
    Attempt(128, 300, 64, 2),
    Attempt(128, 100, 64, 2, clocks=True),
    Attempt(256, 64, 64, 2),
    Attempt(256, 400, 64, 3),
    Attempt(512, 100, 64, 2),
    Attempt(512, 400, 128, 4),
    Attempt(1024, 400, 128, 4),
    Attempt(2048, 400, 128, 4),
)
RUNS, RUN_STEPS = 300, 1_000
MARGIN = 0.25
"""How far the fine part of the grid reaches beyond the values seen, as a share of their range."""
BATCH = 1 << 13
MOST_CELLS = 2**28
MOST_TOUCHED = 1 << 22
"""More cells than that touched by what does not return: the grid is too coarse to tell anything."""


def _verify(bound: Bound, request: Request) -> SafetyResult:
    """Return safe with a certificate of kind `grid`, or unknown."""
    budget, seed = request.budget, request.seed
    tried: list[Json] = []
    try:
        flow = Flow(bound.task, bound.fitted)
        if (exits := _exits_if_fenced(bound, budget)) is not None:
            spent = stopwatch()
            plan = Plan(1, 1, 0, tuple(np.zeros(0) for _ in flow.variables))
            won = _close_in(flow, exits.grid, exits.won, plan, budget)
            tried.append({"won": int(exits.won.sum()), "listed": won.listed, "seconds": round(spent(), 3)})
            if won.marks is not None:
                GridTrial(bound, exits.grid, won.marks, plan, seed).run(budget)
                return Safe(
                    grid_proof(flow, exits.grid, won.marks, plan), METHOD, {"cells": won.listed, "tried": tried}
                )
        seen = _seen(bound, seed, budget)
        for attempt in ATTEMPTS:
            grid = grid_of(flow, seen, attempt)
            if prod(grid.shape) > MOST_CELLS:
                break
            if prod(grid.shape) * 10 > budget.most_bytes:
                return Unknown(str(budget.reached("memory")), METHOD, {"tried": tried})
            spent = stopwatch()
            plan = Plan(attempt.steps, attempt.parts, attempt.halvings, cuts_of(flow))
            found = _close(flow, grid, seen, plan, budget)
            tried.append(
                {"cells": attempt.cells, "steps": attempt.steps, "listed": found.listed, "seconds": round(spent(), 3)}
            )
            if found.marks is not None:
                GridTrial(bound, grid, found.marks, plan, seed).run(budget)
                return Safe(grid_proof(flow, grid, found.marks, plan), METHOD, {"cells": found.listed, "tried": tried})
    except LimitReached as limit:
        return Unknown(str(limit), METHOD, {"tried": tried})
    except Unreadable as refusal:
        return Unknown(str(refusal), METHOD)
    return Unknown(f"a grid of {ATTEMPTS[-1].cells} cells per variable is too coarse", METHOD, {"tried": tried})


@dataclass(frozen=True, slots=True, eq=False)
class _Closed:
    """The cells to list, if all runs from them return; or how far it got."""

    marks: np.ndarray | None
    listed: int


def _close(flow: Flow, grid: Grid, seen: np.ndarray, plan: Plan, budget: Budget) -> _Closed:
    """Return a set of cells that holds the start states and what was seen, and that all runs from it return to."""
    marks = np.zeros(grid.shape, dtype=np.bool_)
    marks[tuple(grid.spans(seen, seen)[0].T)] = True
    marks.ravel()[start_cells(flow, grid)] = True
    for place in range(len(grid.shape)):
        if is_large(flow, place):  # what a clock says matters little to where runs are
            marks = np.logical_or.accumulate(marks, axis=place)
    cells = np.flatnonzero(marks)
    marks = marks.ravel()
    while len(cells):
        fresh: list[np.ndarray] = []
        inside = grid.inside(marks)
        for begin in range(0, len(cells), BATCH):
            mine = cells[begin : begin + BATCH]
            found = judge(flow, grid.boxes(mine), inside, plan, budget)
            if (found.how == FAILS).any():
                return _Closed(None, int(marks.sum()))
            # What does not return comes again when more is listed.
            fresh.append(mine[found.how == OPEN])
            first, last = grid.spans(*found.landed.ends)
            if float((last - first + 1).prod(axis=1).sum()) > MOST_TOUCHED:
                return _Closed(None, int(marks.sum()))
            for block in cells_between(first, last, grid.shape):
                new = np.unique(block[~marks[block]])
                marks[new] = True
                fresh.append(new)
        cells = np.concatenate(fresh)
    return _Closed(marks, int(marks.sum()))


def _exits_if_fenced(bound: Bound, budget: Budget) -> RealExits | None:
    """Return what may leave the cells in which some action always stays; None where the policy has no fence against it."""
    exits = find_real_exits(bound.task, fenced=bound.fitted, budget=budget)
    return None if isinstance(exits, str) or takes_exit(bound.fitted, exits) else exits


def _close_in(flow: Flow, grid: Grid, allowed: np.ndarray, plan: Plan, budget: Budget) -> _Closed:
    """Return the cells that runs may come to from start cells, step by step, if none of them is beyond those that are allowed."""
    marks = np.zeros(len(allowed), dtype=np.bool_)
    cells = start_cells(flow, grid)
    marks[cells] = True
    while len(cells):
        fresh: list[np.ndarray] = []
        for begin in range(0, len(cells), BATCH):
            mine = cells[begin : begin + BATCH]
            found = judge(flow, grid.boxes(mine), lambda low, high, _: np.zeros(len(low), dtype=np.bool_), plan, budget)
            if (found.how == FAILS).any():
                return _Closed(None, int(marks.sum()))
            for block in cells_between(*grid.spans(*found.landed.ends), grid.shape):
                new = np.unique(block[~marks[block]])
                if not allowed[new].all():
                    return _Closed(None, int(marks.sum()))
                marks[new] = True
                fresh.append(new)
        cells = np.concatenate(fresh) if fresh else cells[:0]
    return _Closed(marks, int(marks.sum()))


def grid_proof(flow: Flow, grid: Grid, marks: np.ndarray, plan: Plan) -> Certificate:
    """Return the body of the certificate of kind `grid`."""
    named = {
        key: {
            v.name: [x if v.kind is Kind.REAL else int(x) for x in row.tolist()]
            for v, row in zip(flow.variables, rows, strict=True)
        }
        for key, rows in (("lines", grid.lines), ("cuts", plan.cuts))
    }
    limits = {"steps": plan.steps, "parts": plan.parts, "halvings": plan.halvings}
    return {"kind": METHOD, **named, **limits, "cells": pack_marks(marks)}


# -- where to draw the lines


def _seen(bound: Bound, seed: int, budget: Budget) -> np.ndarray:
    """Return the states [n, variables] of some runs, as doubles."""
    starts = drawable_starts(bound.task, budget=budget).sample(RUNS, random.Random(seed), budget=budget)
    runs = [
        trace(bound, start, number, max_steps=RUN_STEPS, seed=seed).states
        for number, start in enumerate(budget.each(starts))
    ]
    return np.array([state for states in runs for state in states], dtype=np.float64)


def grid_of(flow: Flow, seen: np.ndarray, attempt: Attempt) -> Grid:
    """Return a grid that is fine where states were seen, with lines where trees and conditions tell states apart."""
    cuts: list[set[float]] = [set() for _ in flow.variables]
    for place, cut in tree_cuts(flow):
        if attempt.clocks or not is_large(flow, place):
            cuts[place].add(cut)
    for place, cut in condition_cuts(flow):
        cuts[place].add(cut)
    lines = []
    for k, variable in enumerate(flow.variables):
        low, high = flow.lower[k], flow.upper[k]
        mine = {float(low), *(cut for cut in cuts[k] if low < cut <= high)}
        if variable.kind is Kind.REAL:
            a, b = seen[:, k].min(), seen[:, k].max()
            width = max(b - a, 1e-9 * (high - low)) / attempt.cells
            reach = MARGIN * (b - a)
            fine = np.arange(a - reach, b + reach + width, width)
            # Beyond what was seen, cells grow by half each.
            outer = width * 1.5 ** np.arange(1, 200)
            growing = np.cumsum(outer[outer < high - low])
            mine |= {float(x) for x in (*fine, *(fine[0] - growing), *(fine[-1] + growing)) if low < x <= high}
        elif not is_large(flow, k):
            mine |= set(np.arange(low, high + 1).tolist())
        lines.append(np.array(sorted(mine)))
    return Grid(tuple(lines), flow.upper, flow.whole)


def cuts_of(flow: Flow) -> tuple[np.ndarray, ...]:
    """Return where sets are cut so that each piece goes its own way: at the thresholds of trees."""
    cuts: list[set[float]] = [set() for _ in flow.variables]
    for place, cut in tree_cuts(flow):
        cuts[place].add(cut)
    return tuple(np.array(sorted(row), dtype=np.float64) for row in cuts)


def is_large(flow: Flow, place: int) -> bool:
    """Return whether a variable holds integers, but too many to tell them all apart: a clock, most often."""
    return flow.variables[place].kind is not Kind.REAL and flow.upper[place] - flow.lower[place] >= 64


def tree_cuts(flow: Flow) -> Iterator[tuple[int, float]]:
    """Yield (variable, where a cell should begin): thresholds of trees."""
    policy = flow.fitted.policy
    if isinstance(policy, TreeEnsemble):
        for tree in policy.trees:
            for feature, threshold in zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True):
                if feature >= 0:
                    place = flow.fitted.variables[feature]
                    yield place, _first_right(threshold, policy.comparison, flow.variables[place].kind)


def condition_cuts(flow: Flow) -> Iterator[tuple[int, float]]:
    """Yield (variable, where a cell should begin): numbers that a condition compares a variable with."""
    start = flow.task.start
    pending: list[Expression] = [*flow.guards, flow.task.fail, flow.task.goal, *([] if start is None else [start])]
    while pending:
        part = pending.pop()
        pending += children(part)
        match part:
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, Name(name), other) if name in flow.place:
                yield from _around(flow, name, operator, other)
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, other, Name(name)) if name in flow.place:
                turned = {"<": ">", "≤": "≥", ">": "<", "≥": "≤"}.get(operator, operator)
                yield from _around(flow, name, turned, other)


def _around(flow: Flow, name: str, operator: str, other: Expression) -> Iterator[tuple[int, float]]:
    value = value_of(other)
    if value is None:
        return
    place, number = flow.place[name], float(value)
    whole = flow.variables[place].kind is not Kind.REAL
    after = np.floor(number) + 1 if whole else np.nextafter(number, np.inf)
    at = np.ceil(number) if whole else number
    if operator in ("<", "≥", "=", "≠"):
        yield place, float(at)
    if operator in ("≤", ">", "=", "≠"):
        yield place, float(after)


def _first_right(threshold: float, comparison: str, kind: Kind) -> float:
    """Return the least double that, made a float32, goes right at the threshold."""
    right = np.float32(threshold)
    passes = right < threshold if comparison == "<" else right <= threshold
    if passes:
        right = np.nextafter(right, np.float32(np.inf))
    else:
        below = np.nextafter(right, np.float32(-np.inf))
        while not (below < threshold if comparison == "<" else below <= threshold):
            right, below = below, np.nextafter(below, np.float32(-np.inf))
    left = np.nextafter(right, np.float32(-np.inf))
    middle = (float(left) + float(right)) / 2
    if kind is not Kind.REAL:
        return float(np.ceil(middle))
    return middle if np.float32(middle) == right else float(np.nextafter(middle, np.inf))


GRID = Method(
    METHOD,
    "finds cells of real values that all runs return to without failing on the way, on finer and finer grids",
    _verify,
    (ONLY_FAIL, STRICT_BOUNDS, NETWORK_OR_TREES, PLAIN_INPUTS),
)
