"""The evidence of a verification as a file holds it: what `polvet certify` reads."""

from __future__ import annotations

import random

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.kernel.starts import drawable_starts
from polvet.policy.compiled import Bound
from polvet.policy.runs import End
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.run_files import run_to_json
from polvet.records.state_json import state_to_json
from polvet.verify.split_tree import with_tree
from polvet.verify.verdicts import Safe, SafetyResult, Unsafe

A_WHILE = 10.0
"""Seconds that the search for a split tree may take besides those that finding the proof took."""


def certificate_of(bound: Bound, result: SafetyResult, budget: Budget = UNLIMITED) -> Certificate | None:
    """Return the certificate of safety, or the run; None where there is none.

    Where the split tree of an invariant is not found in time, the certificate has none; `polvet certify` then looks for it.
    """
    conditions = conditions_of(bound.fitted)
    match result:
        case Safe(certificate) if certificate["kind"] == "invariant":
            try:
                within = budget.at_most(A_WHILE + float(result.figures.get("seconds", 0.0)))
                return {**with_tree(certificate, bound.fitted, within), **conditions}
            except LimitReached:
                return {**certificate, **conditions}
        case Safe(certificate):
            return {**certificate, **conditions, **(a_start(bound, budget) if certificate["kind"] == "grid" else {})}
        case Unsafe(run, closed=closed) if run.end is not End.LOOP or closed is not None:
            head = certificate_head("run", bound.fitted)
            return {**head, **conditions, **(closed or {}), **run_to_json(bound.task, run)}
        case _:
            return None


def a_start(bound: Bound, budget: Budget) -> Certificate:
    """Return a start state as a certificate names it where the checker might look for one in vain: among real values."""
    (start,) = drawable_starts(bound.task, budget=budget).sample(1, random.Random(0), budget=budget)
    return {"witness": state_to_json(bound.task, start)}
