"""Safe start states by backward blocking: what is blocked leads to `fail`, so all other start states are safe, however many.

The loop is that of `verify/ic3.py`, but a start state in a box that leads to `fail` does not end it: the box is blocked like any other,
and is grown only where that adds no start state which might be safe. What is left in the end is an invariant; the region is
the start states outside `fail` and the blocked boxes that hold any. One start state of each of these is executed.
Cost, Limits   as there
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.kernel.starts import Starts, drawable_starts
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Inspection, Judgement, Run
from polvet.records.start_regions import NamedBox, Region, Rest, named_box
from polvet.records.state_json import state_to_json
from polvet.symbolic.cells import Box, meet_regions
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import state_of
from polvet.verify.ic3 import IC3, Blocking, what_to_block
from polvet.verify.invariant_file import invariant_certificate
from polvet.verify.linearized import linearized, stopped_after
from polvet.verify.method import GRACE, Request
from polvet.verify.safe_starts_explicit import MOST_RUNS, NEAR_TIE

METHOD = "ic3"
FEW_STATES = 200_000
"""That the search for an unsafe run from one start state may visit."""
MOST_COUNTED, DRAWN = 2_000_000, 20_000
"""Up to so many start states are counted one by one; of more, so many are drawn to estimate the share that is proved."""


def block_all_that_fails(bound: Bound, request: Request) -> Region:
    """Return the start states that are not blocked, with the invariant that proves them safe."""
    nothing = Region("out", (), None, (), METHOD)
    if (reason := IC3.refusal(bound)) is not None:
        return replace(nothing, reason=reason)
    linear = linearized(bound, request.budget.share(0.3))
    if isinstance(linear, str):
        return replace(nothing, reason=linear)
    try:
        with stopped_after(request.budget, GRACE):
            return _blocked(bound, replace(request, linear=linear))
    except NotLinear as error:
        return replace(nothing, reason=f"not linear: {error.why}")
    except LimitReached as limit:
        return replace(nothing, reason=str(limit))


def _blocked(bound: Bound, request: Request) -> Region:
    engine, fail = what_to_block(bound.fitted, request)
    blocking = Blocking(engine, request.budget.share(0.8), random.Random(request.seed), past_starts=True)
    failure = blocking.close(fail)
    if failure is not None:
        blocking.conclude(failure, METHOD)  # raises the error of the model that a start state runs into
    needed = blocking.needed(fail)
    bounds = list(zip(*(engine.linear.system.bounds.lower, engine.linear.system.bounds.upper), strict=True))
    network, rest, boxes = bound.task.network, [], []
    for cell in meet_regions(engine.linear.start, fail):
        reply = engine.find([cell], budget=request.budget)
        if reply.state is not None:
            run = Run((state_of(network, reply.state),), (), End.FAIL)
            rest.append(Rest(named_box(network, cell.box.lower, cell.box.upper, bounds), run))
    inspection = Inspection(bound)
    for box in needed:
        point = blocking.start_in(box)
        if point is None:
            continue
        named = named_box(network, box.lower, box.upper, bounds)
        boxes.append(named)
        rest.append(_executed(bound, inspection, state_of(network, point), named, len(rest), request.budget))
    certificate = invariant_certificate(bound.task, None, engine.rows, needed)
    proof = {key: certificate[key] for key in ("kind", "rows", "blocked")}
    region = Region("out", tuple(boxes), proof, tuple(rest), METHOD, figures=blocking.figures)
    region = _counted(bound, region, needed, request)
    return replace(region, proof=None) if region.proved == 0 else region


def _executed(bound: Bound, inspection: Inspection, state: State, box: NamedBox, told: int, budget: Budget) -> Rest:
    """Return the box with an unsafe run from a start state in it, or open where none is found in time."""
    if told >= MOST_RUNS:
        return Rest(box, None, f"runs are told of {MOST_RUNS} boxes")
    packed = bound.compiled.pack([state])
    judgement = inspection.judge(packed, budget=budget.at_most(states=FEW_STATES))[0]
    match judgement:
        case Judgement.UNSAFE:
            return Rest(box, inspection.witness(state))
        case Judgement.NEAR_TIE:
            return Rest(box, None, NEAR_TIE)
        case _:
            return Rest(box, None, f"no run was found ({inspection.limit})")


def _counted(bound: Bound, region: Region, blocked: list[Box], request: Request) -> Region:
    """Return the region with its counts, or with shares estimated from a sample where start states are many."""
    if not region.rest:
        return region
    try:
        starts = Starts.of(bound.task, request.budget.share(0.5))
        count = starts.count
    except LimitReached:
        count = None
    fails = bound.compiled.semantics.compile(bound.task.fail)
    if count is not None and count <= MOST_COUNTED:
        proved = 0
        for block in starts.blocks():
            mine = ~_in_boxes(block, blocked)
            mine[mine] = [not fails(row) for row in block[mine].tolist()]
            region = _witnessed(bound, region, block[mine][:1].tolist() if not proved else [])
            proved += int(mine.sum())
        return replace(region, starts=count, proved=proved)
    drawn = drawable_starts(bound.task, budget=request.budget).sample(DRAWN, random.Random(request.seed))
    rows = np.array([[int(x) for x in state] for state in drawn], dtype=np.int64)
    mine = ~_in_boxes(rows, blocked)
    mine[mine] = [not fails(drawn[k]) for k in np.flatnonzero(mine)]
    region = _witnessed(bound, region, [drawn[k] for k in np.flatnonzero(mine)[:1]])
    return replace(region, starts=count, figures={**region.figures, "proved_share_of_drawn": float(mine.mean())})


def _witnessed(bound: Bound, region: Region, found: Sequence[Sequence[int]]) -> Region:
    """Return the region whose proof names the state, if there is one: so the checker need not look for a start state."""
    if not found:
        return region
    state = state_of(bound.task.network, found[0])
    return replace(region, proof={**(region.proof or {}), "witness": state_to_json(bound.task, state)})


def _in_boxes(rows: NDArray[np.int64], boxes: list[Box]) -> NDArray[np.bool_]:
    inside = np.zeros(len(rows), dtype=np.bool_)
    for box in boxes:
        inside |= ((rows >= np.array(box.lower)) & (rows <= np.array(box.upper))).all(axis=1)
    return inside
