"""The independent checker: `check(certificate)` accepts or rejects, by the checker of the certificate's kind.

A checker is a plain function `(certificate, subject) -> Accepted | Rejected`. It replays the claim in exact
arithmetic or in the slow interpreter and imports nothing of the engine that made it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """The certificate proves `claim`."""

    claim: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The certificate does not prove its claim; `reason` names the first thing that fails."""

    reason: str


CheckResult = Accepted | Rejected
