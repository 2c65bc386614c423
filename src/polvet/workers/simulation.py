"""Simulated runs by a crew: the same runs as `polvet.policy.runs.simulate` makes here, number by number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.kernel.compiled import Words
from polvet.policy.compiled import Bound
from polvet.policy.runs import Batch, End, simulate
from polvet.workers.parcel import Parcel, open_parcel
from polvet.workers.protocol import Crew

RUNS_PER_CHUNK = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Some of the start states, with the number of the first run from them."""

    starts: Words
    first_run: int
    runs_per_start: int
    max_steps: int
    seed: int


def simulate_share(parcel: Parcel, share: Share) -> Batch:
    """Return how the runs of one chunk end."""  # the starts are copied: what comes through Ray cannot be written to
    bound = bound_in(parcel)
    return simulate(
        bound,
        np.array(share.starts),
        runs_per_start=share.runs_per_start,
        max_steps=share.max_steps,
        seed=share.seed,
        first_run=share.first_run,
    )


def bound_in(parcel: Parcel) -> Bound:
    """Return the compiled policy of a parcel that has one."""
    bound = open_parcel(parcel).bound
    assert bound is not None, "the parcel has no policy"
    return bound


def simulate_by(
    crew: Crew, starts: Words, *, runs_per_start: int, max_steps: int, seed: int, budget: Budget = UNLIMITED
) -> Batch:
    """Return how runs from packed start states end; what a time limit leaves undone is UNFINISHED."""
    size = max(1, RUNS_PER_CHUNK // runs_per_start)
    cuts = range(0, len(starts), size)
    shares = [Share(starts[cut : cut + size], cut * runs_per_start, runs_per_start, max_steps, seed) for cut in cuts]
    count = len(starts) * runs_per_start
    ends = np.full(count, End.UNFINISHED, dtype=np.uint8)
    lengths = np.zeros(count, dtype=np.uint32)
    last = np.repeat(starts, runs_per_start, axis=0)
    steps, limit = 0, None
    try:
        for share, part in zip(shares, crew.map(simulate_share, shares, budget=budget), strict=True):
            place = slice(share.first_run, share.first_run + len(part.ends))
            ends[place], lengths[place], last[place] = part.ends, part.lengths, part.last
            steps += part.steps
    except LimitReached as reached:
        limit = reached
    return Batch(ends, lengths, last, steps, runs_per_start, limit)
