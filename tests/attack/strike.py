"""Handing false claims of one kind to the checker until enough were tried."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from polvet.check.checker import Accepted, check
from polvet.errors import LimitReached, Where
from tests.attack import (
    action_risk,
    conflict,
    ends,
    general,
    goals,
    grid,
    invariant,
    its_run,
    lasso,
    lex_rank,
    lost_projection,
    permissive,
    reachable_set,
    recurrent_set,
    repair,
    risk_bound,
    run,
    safe_policy,
    safe_region,
    solves,
    strong_cyclic,
    unsafe_rank,
    won_projection,
)

KINDS = {
    "action-risk": action_risk.false_claims,
    "conflict": conflict.false_claims,
    "general": general.false_claims,
    "general-refuted": general.false_runs,
    "goal-missed": goals.false_missing,
    "goal-reaching": goals.false_reaching,
    "grid": grid.false_claims,
    "invariant": invariant.false_claims,
    "its-run": its_run.false_claims,
    "lasso": lasso.false_claims,
    "lex-rank": lex_rank.false_claims,
    "livelock": ends.false_livelocks,
    "lost-projection": lost_projection.false_claims,
    "no-strong-cyclic": strong_cyclic.false_rounds,
    "permissive": permissive.false_claims,
    "reachable-set": reachable_set.false_claims,
    "recurrent-set": recurrent_set.false_claims,
    "repair": repair.false_claims,
    "risk-bound": risk_bound.false_bounds,
    "risk-exceeds": risk_bound.false_excesses,
    "run": run.false_claims,
    "safe-policy": safe_policy.false_claims,
    "safe-region": safe_region.false_claims,
    "solves": solves.false_claims,
    "strong-cyclic": strong_cyclic.false_policies,
    "sure-end": ends.false_ends,
    "unsafe-rank": unsafe_rank.false_claims,
    "won-projection": won_projection.false_claims,
}


@dataclass
class Struck:
    """How many false claims were tried, and the seeds of those that were accepted."""

    tried: int = 0
    accepted: list[int] = field(default_factory=list)


def strike(kind, claims, seed):
    """Try at least so many false claims; any other answer than a rejection, or a limit that is named, is raised or counted."""
    found = Struck()
    with tempfile.TemporaryDirectory() as folder:
        while found.tried < claims:
            for certificate, subjects, context in KINDS[kind](random.Random(seed), Path(folder)):
                found.tried += 1
                try:
                    with context:
                        answer = check(certificate, subjects, Where("certificate"))
                except LimitReached:
                    continue
                if isinstance(answer, Accepted):
                    found.accepted.append(seed)
            seed += 1
    return found
