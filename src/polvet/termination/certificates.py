"""The evidence of a termination test as a file holds it, checked before the verdict is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polvet.budget import Budget
from polvet.confirm.confirmation import about_plan, confirm
from polvet.confirm.outcome import Confirmation, NotChecked

Proof = Mapping[str, Any]


def confirmed(
    verdict: str,
    proof: Proof | None,
    plan: Path,
    policy: Path | None,
    *,
    found: float,
    budget: Budget,
    output: Path | None = None,
) -> tuple[Proof | None, Confirmation | None]:
    """Return the certificate with the digests of what it speaks about, and whether it was checked."""
    if proof is None:
        without = NotChecked("this method has no certificate to be checked; --method auto has one")
        return None, None if verdict == "unknown" else without
    about = about_plan(plan, policy)
    digests = {"task_sha256": about.task_sha256, "policy_sha256": about.policy_sha256}
    certificate = {"kind": proof["kind"], "claim": verdict, **digests, **proof}
    return certificate, confirm(verdict, certificate, about, found=found, budget=budget, output=output)
