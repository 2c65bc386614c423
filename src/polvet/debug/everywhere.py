"""The faults of a policy wherever it can come: by exhaustive search where limits allow it, else on fuzzed unsafe runs."""

from __future__ import annotations

import time
from dataclasses import replace

from polvet.debug.faults import FaultAnalysis, all_faults, find_faults
from polvet.errors import LimitReached
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.rounds import Budget, Fuzzer, RoundOptions, run_campaign
from polvet.kernel.compiled import Limits
from polvet.kernel.starts import Starts
from polvet.policy.binding import Bound
from polvet.safety.decide import Decider

SEARCH_SHARE = 0.5
"""The share of the time limit that exhaustive search may use before fuzzing takes over."""


def find_everywhere(
    bound: Bound, decider: Decider, *, limits: Limits, tries: int, max_steps: int, seed: int, threads: int
) -> tuple[FaultAnalysis, str]:
    """Return the faults in all states the policy reaches, or on the unsafe ones of `tries` runs, and which of the two."""
    begun = time.monotonic()
    why = "there are infinitely many start states"
    try:
        finite = Starts.of(bound.task).count is not None
        if finite:
            share = None if limits.seconds is None else SEARCH_SHARE * limits.seconds
            found = all_faults(bound, decider, limits=replace(limits, seconds=share))
            if found.limit is None:
                return found, "in all states the policy reaches"
            why = str(found.limit)
    except LimitReached as limit:
        why = str(limit)
    left = None if limits.seconds is None else max(0.1, limits.seconds - (time.monotonic() - begun))
    fuzzing = None if left is None else left / 2
    fuzzer = Fuzzer(bound, RoundOptions(seed, max_steps=max_steps), threads=threads)
    campaign = run_campaign(fuzzer, Budget(tries), limits=replace(limits, seconds=fuzzing))
    left = None if limits.seconds is None else max(0.1, limits.seconds - (time.monotonic() - begun))
    packed = PackedRuns.of(bound, campaign.runs)
    found = find_faults(bound, decider, packed, limits=replace(limits, seconds=left))
    if campaign.limit is not None and found.limit is None:
        found = replace(found, limit=campaign.limit)
    return found, f"on {len(campaign.runs):,} unsafe runs of {campaign.tried:,} fuzzed ones ({why})"
