"""Verification as people ask for it: the verdict with its evidence, and where it is asked for a bound on the probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polvet.front.limits import Work
from polvet.front.results import Safe, Unknown, Unsafe
from polvet.model.infix import dump_expression
from polvet.verify import verdicts
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify

if TYPE_CHECKING:
    from polvet.front.policy import Policy


def verify_policy(policy: Policy, method: str, probability: bool, work: Work) -> Safe | Unsafe | Unknown:
    """Return the verdict on the policy, with a certificate or a run."""
    bound, budget = policy.bound, work.budget
    threads = work.threads() if not work.is_cluster else 1
    with work.cluster() as elsewhere:
        found = verify(
            bound, method=method, seed=work.chance, threads=threads, workers=elsewhere,
            budget=budget.share(0.5) if probability else budget,
        )  # fmt: skip
    figures = {**found.figures, "method": found.method, "policy": policy.fitted.describe()}
    certificate = certificate_of(bound, found)
    match found:
        case verdicts.Safe():
            return Safe(figures=figures, certificate=certificate, method=found.method, **work.told())
        case verdicts.Unsafe(run):
            return Unsafe(
                figures=figures, certificate=certificate, method=found.method, run=policy.named(run), **work.told()
            )
        case verdicts.Unknown():
            proved = tuple(dump_expression(region) for region in found.proved_starts)
            return Unknown(
                figures=figures, certificate=certificate, reason=found.reason, method=found.method, proved_starts=proved,
                **work.told(),
            )  # fmt: skip
