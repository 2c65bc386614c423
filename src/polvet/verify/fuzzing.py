"""A quick look for an unsafe run before anything is proved: simulated runs from start states drawn uniformly.

Not the fuzzer of `fuzz/`, which is biased and shrinks: this one only spares a proof attempt that cannot succeed.
"""

from __future__ import annotations

import random

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.kernel.starts import drawable_starts
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Run, simulate, trace

RUNS, MAX_STEPS, SECONDS, SHARE = 2_000, 1_000, 5.0, 1 / 24


def find_unsafe_run(
    bound: Bound,
    *,
    seed: int = 0,
    threads: int = 1,
    budget: Budget = UNLIMITED,
    runs: int = RUNS,
    max_steps: int = MAX_STEPS,
) -> Run | None:
    """Return a shortest of the unsafe runs met, if one was."""
    try:
        starts = drawable_starts(bound.task, budget=budget).sample(runs, random.Random(seed), budget=budget)
    except LimitReached:
        return None  # a start cannot even be drawn in time
    batch = simulate(
        bound,
        bound.compiled.pack(starts),
        max_steps=max_steps,
        seed=seed,
        threads=threads,
        budget=budget.share(SHARE).at_most(SECONDS),
    )
    bad = batch.ends == End.FAIL
    if bound.task.avoid.stuck:
        bad |= batch.ends == End.STUCK
    if bound.task.avoid.deadlock:
        bad |= batch.ends == End.DEADLOCK
    if not bad.any():
        return None
    shortest = int(np.where(bad, batch.lengths, np.iinfo(np.uint32).max).argmin())
    return trace(bound, starts[shortest], shortest, max_steps=max_steps, seed=seed)
