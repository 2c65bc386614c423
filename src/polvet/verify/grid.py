"""Real-valued models by grids: the cells that the policy's sets of states return to, finer and finer until none may fail.

Source   reachability over grids of boxes (Bacci, Giacobbe, Parker, Verifying reinforcement learning up to infinity, IJCAI 2021,
         cover by templates; here by a fixed grid). `follow` in `check.grid` is one return, `_close` the worklist
Differs  a set is followed as an affine form for several steps before it is put back on the grid, so that what a cell is too wide
         by is paid once per return, not once per step. Lines of the grid lie where trees and guards change their mind
Cost     one return per cell; cells grow by four with each halving in two dimensions
Limits   bounded variables; sums, products, case distinctions; networks and trees. Never finds an unsafe run
Sets are followed with the checker's arithmetic (`check.flow`). What must not agree by a shared mistake is tried by other means before it
is believed: the kernel runs the policy from states drawn in listed cells (`_try_in_kernel`), and none of the runs may fail.
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
from polvet.check.grid import Grid, cells_between, follow, pack_marks, start_cells
from polvet.files import Json
from polvet.kernel.starts import drawable_starts
from polvet.model.expressions import Binary, Expression, Name, children
from polvet.model.folding import value_of
from polvet.model.network import Kind
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, simulate, trace
from polvet.policy.trees import TreeEnsemble
from polvet.records.certificate_files import Certificate
from polvet.verify.method import NETWORK_OR_TREES, ONLY_FAIL, PLAIN_INPUTS, STRICT_BOUNDS, Method, Request
from polvet.verify.verdicts import Safe, SafetyResult, Unknown

METHOD = "grid"
ATTEMPTS = (
    (32, 1, False),
    (64, 1, False),
    (64, 4, False),
    (128, 1, False),
    (128, 4, False),
    (128, 1, True),
    (256, 4, False),
    (256, 16, False),
    (256, 1, False),
    (512, 4, False),
    (512, 16, False),
    (512, 64, False),
    (1024, 16, False),
    (1024, 64, False),
    (2048, 16, False),
    (2048, 64, False),
)
"""Cells per real variable over what runs were seen to visit; steps before a set returns to the grid; whether integers with many
values are cut where trees compare them."""
RUNS, RUN_STEPS = 50, 1_000
DRAWN = 2_000
"""States of listed cells from which the kernel runs the policy."""
MARGIN = 0.25
"""How far the fine part of the grid reaches beyond the values seen, as a share of their range."""
BATCH = 1 << 14
MOST_CELLS = 2**31
MOST_TOUCHED = 1 << 24
"""More cells than that touched by one batch: the grid is too coarse to tell anything."""


def _verify(bound: Bound, request: Request) -> SafetyResult:
    """Return safe with a certificate of kind `grid`, or unknown."""
    budget, seed = request.budget, request.seed
    try:
        flow = Flow(bound.task, bound.fitted)
        seen = _seen(bound, flow, seed, budget)
        tried: list[Json] = []
        for cells, steps, clocks in ATTEMPTS:
            grid = _grid(flow, seen, cells, clocks=clocks)
            if prod(grid.shape) > MOST_CELLS:
                break
            spent = stopwatch()
            closure = _close(flow, grid, steps, budget)
            tried.append(
                {
                    "cells": cells,
                    "steps": steps,
                    "reached": closure.reached,
                    "seconds": round(spent(), 3),
                }
            )
            if closure.marks is not None:
                _try_in_kernel(bound, grid, closure.marks, seed)
                return Safe(
                    _certificate(flow, grid, closure.marks, steps), METHOD, {"cells": closure.reached, "tried": tried}
                )
            if closure.stopped:
                return Unknown(str(budget.reached("time")), METHOD, {"tried": tried})
            if prod(grid.shape) * 5 > budget.most_bytes:
                return Unknown(str(budget.reached("memory")), METHOD, {"tried": tried})
    except Unreadable as refusal:
        return Unknown(str(refusal), METHOD)
    return Unknown(f"a grid of {ATTEMPTS[-1][0]} cells per variable is too coarse", METHOD, {"tried": tried})


@dataclass(frozen=True, slots=True, eq=False)
class _Closed:
    """The cells reached, if none of them may fail; or how far it got."""

    marks: np.ndarray | None
    reached: int
    stopped: bool = False


def _close(flow: Flow, grid: Grid, steps: int, budget: Budget) -> _Closed:
    """Return the least set of cells that holds the start states and that all sets return to."""
    marks = np.zeros(prod(grid.shape), dtype=np.bool_)
    frontier = start_cells(flow, grid)
    marks[frontier] = True
    reached = len(frontier)
    while len(frontier):
        fresh: list[np.ndarray] = []
        for begin in range(0, len(frontier), BATCH):
            if budget.is_over():
                return _Closed(None, reached, stopped=True)
            sets = flow.boxes(*grid.boxes(frontier[begin : begin + BATCH]))
            if flow.may_fail(sets).any():
                return _Closed(None, reached)
            for landed, _, failing in follow(flow, sets, steps):
                if failing.any():
                    return _Closed(None, reached)
                first, last = grid.spans(*landed.ends)
                if float((last - first + 1).prod(axis=1).sum()) > MOST_TOUCHED:
                    return _Closed(None, reached)
                for block in cells_between(first, last, grid.shape):
                    new = np.unique(block[~marks[block]])
                    marks[new] = True
                    reached += len(new)
                    fresh.append(new)
        frontier = np.concatenate(fresh) if fresh else np.zeros(0, dtype=np.int64)
    return _Closed(marks, reached)


def _try_in_kernel(bound: Bound, grid: Grid, marks: np.ndarray, seed: int) -> None:
    """Raise a RuntimeError, which is a bug of polvet, where a run from a state of a listed cell fails."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(np.flatnonzero(marks), DRAWN)
    low, high = grid.boxes(cells)
    drawn = low + rng.random(low.shape) * (high - low)
    # The ends of cells are where rounding tells.
    drawn = np.where(rng.random(low.shape) < 0.25, low, np.where(rng.random(low.shape) < 0.25, high, drawn))
    drawn = np.where(grid.whole, np.floor(drawn), np.clip(drawn, low, high))
    kinds = [variable.kind for variable in bound.task.network.variables]
    states = [tuple(_value(kind, x) for kind, x in zip(kinds, point, strict=True)) for point in drawn.tolist()]
    ended = simulate(bound, bound.compiled.pack(states), max_steps=RUN_STEPS, seed=seed)
    if failed := np.flatnonzero(ended.ends == End.FAIL).tolist():
        shown = bound.compiled.semantics.show(states[failed[0]])
        raise RuntimeError(f"the grid lists the cell of {shown}, from which the kernel finds a run that fails")


def _value(kind: Kind, number: float) -> bool | int | float:
    return number if kind is Kind.REAL else bool(number) if kind is Kind.BOOL else int(number)


def _certificate(flow: Flow, grid: Grid, marks: np.ndarray, steps: int) -> Certificate:
    lines = {
        variable.name: line.tolist() if variable.kind is Kind.REAL else [int(x) for x in line]
        for variable, line in zip(flow.variables, grid.lines, strict=True)
    }
    return {"kind": "grid", "steps": steps, "lines": lines, "cells": pack_marks(marks)}


# -- where to draw the lines


def _seen(bound: Bound, flow: Flow, seed: int, budget: Budget) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and greatest values of each variable along some runs."""
    starts = drawable_starts(bound.task, budget=budget).sample(RUNS, random.Random(seed), budget=budget)
    low, high = flow.upper.copy(), flow.lower.copy()
    for number, start in enumerate(starts):
        states = np.array(trace(bound, start, number, max_steps=RUN_STEPS, seed=seed).states, dtype=np.float64)
        low, high = np.minimum(low, states.min(axis=0)), np.maximum(high, states.max(axis=0))
    return low, high


def _grid(flow: Flow, seen: tuple[np.ndarray, np.ndarray], cells: int, *, clocks: bool) -> Grid:
    cuts: list[set[float]] = [set() for _ in flow.variables]
    for place, cut in _tree_cuts(flow):
        if clocks or not _is_large(flow, place):
            cuts[place].add(cut)
    for place, cut in _condition_cuts(flow):
        cuts[place].add(cut)
    lines = []
    for k, variable in enumerate(flow.variables):
        low, high = flow.lower[k], flow.upper[k]
        mine = {float(low), *(cut for cut in cuts[k] if low < cut <= high)}
        if variable.kind is Kind.REAL:
            a, b = seen[0][k], seen[1][k]
            width = max(b - a, 1e-9 * (high - low)) / cells
            reach = MARGIN * (b - a)
            fine = np.arange(a - reach, b + reach + width, width)
            # Beyond what was seen, cells grow by half each.
            outer = width * 1.5 ** np.arange(1, 200)
            growing = np.cumsum(outer[outer < high - low])
            mine |= {float(x) for x in (*fine, *(fine[0] - growing), *(fine[-1] + growing)) if low < x <= high}
        elif not _is_large(flow, k):
            mine |= set(np.arange(low, high + 1).tolist())
        lines.append(np.array(sorted(mine)))
    return Grid(tuple(lines), flow.upper, tuple(v.kind is not Kind.REAL for v in flow.variables))


def _is_large(flow: Flow, place: int) -> bool:
    """Return whether a variable holds integers, but too many to tell them all apart: a clock, most often."""
    return flow.variables[place].kind is not Kind.REAL and flow.upper[place] - flow.lower[place] >= 64


def _tree_cuts(flow: Flow) -> Iterator[tuple[int, float]]:
    """Yield (variable, where a cell should begin): thresholds of trees."""
    policy = flow.fitted.policy
    if isinstance(policy, TreeEnsemble):
        for tree in policy.trees:
            for feature, threshold in zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True):
                if feature >= 0:
                    place = flow.fitted.variables[feature]
                    yield place, _first_right(threshold, policy.comparison, flow.variables[place].kind)


def _condition_cuts(flow: Flow) -> Iterator[tuple[int, float]]:
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
    "follows sets of states over a grid of cells, finer and finer, until no set may fail; for real-valued models",
    _verify,
    (ONLY_FAIL, STRICT_BOUNDS, NETWORK_OR_TREES, PLAIN_INPUTS),
)
