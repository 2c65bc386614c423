"""Safe start states by explicit search: each is judged, boxes tell the safe ones from the rest, and what they reach is the proof.

`Inspection` judges the start states in blocks and keeps what it learns, so that a limit leaves the blocks before it judged.
Start states that only some order of evaluation takes to `fail` are open. A decision tree (symbolic/cover.py) makes boxes of the
judgements; the proof lists every state that is reached from the safe ones (kind `reachable-set`).
Cost     one expansion per reachable state, twice; a pass over the start states per box
Limits   finitely many start states, which are listed: at most MOST_STARTS
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.kernel.starts import Starts
from polvet.model.network import Kind, Network
from polvet.policy.compiled import Bound
from polvet.policy.runs import Inspection, Judgement
from polvet.records.start_regions import NamedBox, Region, Rest
from polvet.symbolic.cover import LabelledBox, cover
from polvet.verify.explicit import Search
from polvet.verify.method import Request
from polvet.verify.verdicts import Safe

METHOD = "explicit"
MOST_STARTS = 3_000_000
MOST_RUNS = 200
"""Boxes of unsafe start states of which a run is told."""
NEAR_TIE = "runs depend on the order of evaluation"


def tell_starts_apart(bound: Bound, request: Request) -> Region:
    """Return which start states are safe, as far as the limits allow."""
    nothing = Region("in", (), None, (), METHOD)
    try:
        starts = Starts.of(bound.task, request.budget)
    except LimitReached as limit:
        return replace(nothing, reason=str(limit))
    if starts.count is None or starts.count > MOST_STARTS:
        many = "infinitely many" if starts.count is None else f"{starts.count:,}"
        return replace(nothing, reason=f"{many} start states", starts=starts.count)
    rows = np.concatenate(list(starts.blocks()))
    inspection = Inspection(bound)
    judged = _judged(bound, inspection, rows, request.budget.share(0.6))
    region = replace(
        nothing, starts=len(rows), failing=int((judged == Judgement.UNSAFE).sum()), figures=inspection.figures
    )
    if inspection.limit is not None:
        region = replace(region, reason=str(inspection.limit))
    safe = rows[judged == Judgement.SAFE]
    proof = None
    if len(safe):
        closed = Search(bound, some=safe).go_on(request.budget.share(0.8), threads=request.parallelism.threads)
        if isinstance(closed, Safe):
            proof = {key: value for key, value in closed.certificate.items() if key != "format"}
        else:
            region = replace(region, reason=f"explicit: {getattr(closed, 'reason', 'the proof')}")
    boxes = cover(_columns(bound.task.network, rows), judged, budget=request.budget)
    return _told(bound, region, proof, boxes, inspection, rows)


def _judged(bound: Bound, inspection: Inspection, rows: NDArray[np.int64], budget: Budget) -> NDArray[np.int64]:
    """Return a judgement per row; OPEN from where a limit came first."""
    judgements = np.full(len(rows), Judgement.OPEN, dtype=np.int64)
    for begin, end in _blocks(len(rows)):
        packed = bound.compiled.machine.pack(rows[begin:end])
        judgements[begin:end] = [int(one) for one in inspection.judge(packed, budget=budget)]
        if inspection.limit is not None:
            break
    return judgements


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    begin, size = 0, 64
    while begin < count:
        yield begin, min(begin + size, count)
        begin, size = begin + size, min(2 * size, 1 << 16)


def _told(
    bound: Bound,
    region: Region,
    proof: dict[str, object] | None,
    boxes: Sequence[LabelledBox],
    inspection: Inspection,
    rows: NDArray[np.int64],
) -> Region:
    """Return the region with the boxes on the side where they are fewer, and a run for boxes of unsafe start states."""
    network = bound.task.network
    safe = [_named(network, box) for box in boxes if box.label == Judgement.SAFE]
    others = [box for box in boxes if box.label != Judgement.SAFE]
    rest, runs = [], 0
    for box in others:
        named, count = _named(network, box), len(box.rows)
        if box.label == Judgement.UNSAFE and runs < MOST_RUNS:
            runs += 1
            state = bound.compiled.unpack(bound.compiled.machine.pack(rows[box.rows[:1]]))[0]
            rest.append(Rest(named, inspection.witness(state), None, count))
            continue
        reason = NEAR_TIE if box.label == Judgement.NEAR_TIE else region.reason or f"runs are told of {MOST_RUNS} boxes"
        rest.append(Rest(named, None, reason, count))
    if proof is None or not safe:
        rest += [Rest(box, None, region.reason, None) for box in safe]
        return replace(region, rest=tuple(rest), proved=0)
    proved = sum(len(box.rows) for box in boxes if box.label == Judgement.SAFE)
    outside = len(others) < len(safe)
    sides: tuple[NamedBox, ...] = tuple(one.box for one in rest) if outside else tuple(safe)
    return replace(region, side="out" if outside else "in", boxes=sides, proof=proof, rest=tuple(rest), proved=proved)


def _columns(network: Network, rows: NDArray[np.int64]) -> list[NDArray[np.int64] | NDArray[np.float64]]:
    return [
        np.ascontiguousarray(rows[:, place]).view(np.float64) if variable.kind is Kind.REAL else rows[:, place]
        for place, variable in enumerate(network.variables)
    ]


def _named(network: Network, box: LabelledBox) -> NamedBox:
    return {network.variables[place].name: list(ends) for place, ends in box.ends.items()}
