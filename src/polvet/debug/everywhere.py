"""The faults of a policy wherever it can come: by exhaustive search where limits allow it, else on fuzzed unsafe runs."""

from __future__ import annotations

from dataclasses import replace

from polvet.budget import Budget
from polvet.debug.faults import FaultAnalysis, all_faults, find_faults
from polvet.errors import LimitReached
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, run_campaign
from polvet.kernel.starts import Starts
from polvet.policy.compiled import Bound
from polvet.safety.decide import Decider

SEARCH_SHARE, FUZZING_SHARE = 0.5, 0.5
"""The share of the time that exhaustive search may use before fuzzing takes over, and fuzzing's share of the rest."""


def find_everywhere(
    bound: Bound, decider: Decider, *, budget: Budget, tries: int, max_steps: int, seed: int, threads: int
) -> tuple[FaultAnalysis, str]:
    """Return the faults in all states the policy reaches, or on the unsafe ones of `tries` runs, and which of the two."""
    why: str | LimitReached = "there are infinitely many start states"
    try:
        searching = budget.share(SEARCH_SHARE)
        if Starts.of(bound.task, searching).count is not None:
            analysis = all_faults(bound, decider, budget=searching)
            if analysis.limit is None:
                return analysis, "in all states the policy reaches"
            why = analysis.limit
    except LimitReached as limit:
        why = limit
    fuzzing = budget.share(FUZZING_SHARE)
    fuzzer = Fuzzer(bound, RoundOptions(seed, max_steps=max_steps), threads=threads, budget=fuzzing)
    campaign = run_campaign(fuzzer, Target(tries), budget=fuzzing)
    analysis = find_faults(bound, decider, PackedRuns.of(bound, campaign.runs), budget=budget)
    # Where nothing is found, whatever ended the search has to be said: no faults on a few runs is not "no faults".
    limit = analysis.limit or campaign.limit or (None if analysis.faults or isinstance(why, str) else why)
    analysis = replace(analysis, limit=limit)
    return analysis, f"on {len(campaign.runs):,} unsafe runs of {campaign.tried:,} fuzzed ones ({why})"
