"""The faults of a policy wherever it can come: by exhaustive search where limits allow it, else on fuzzed unsafe runs."""

from __future__ import annotations

from dataclasses import replace

from polvet.budget import Budget
from polvet.debug.faults import FaultAnalysis, all_faults, find_faults, nothing_judged
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
    searched, why = None, LimitReached("there are infinitely many start states")
    try:
        searching = budget.share(SEARCH_SHARE)
        if Starts.of(bound.task, searching).count is not None:
            searched = all_faults(bound, decider, budget=searching)
            if searched.limit is None:
                return searched, "in all states the policy reaches"
            why = searched.limit
    except LimitReached as limit:
        searched, why = nothing_judged(limit), limit
    try:
        fuzzing = budget.share(FUZZING_SHARE)
        fuzzer = Fuzzer(bound, RoundOptions(seed, max_steps=max_steps), threads=threads, budget=fuzzing)
        campaign = run_campaign(fuzzer, Target(tries), budget=fuzzing)
        analysis = find_faults(bound, decider, PackedRuns.of(bound, campaign.runs), budget=budget)
    except LimitReached as limit:
        return searched or nothing_judged(limit), f"in some of the states the policy reaches ({why})"
    if searched is not None and len(searched.faults) > len(analysis.faults):
        return searched, f"in some of the states the policy reaches ({why})"
    ended = analysis.limit or campaign.limit
    if ended is None and not analysis.faults and searched is not None:
        ended = (
            why  # no faults on some runs is not "no faults": the limit that ended the search is what there is to say
        )
    how = f"on {len(campaign.runs):,} unsafe runs of {campaign.tried:,} fuzzed ones ({why})"
    return replace(analysis, limit=ended), how
