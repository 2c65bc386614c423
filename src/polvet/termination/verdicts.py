"""What a termination test answers: terminating with a ranking, nonterminating with a lasso, or unknown and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from polvet.errors import Limit
from polvet.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Terminating:
    """Every execution ends, from every valuation; the certificate is a `lex-rank`, absent where a sieve has none."""

    certificate: Mapping[str, Any] | None
    method: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    verdict: ClassVar[Verdict] = Verdict.TERMINATING


@dataclass(frozen=True, slots=True)
class Nonterminating:
    """Some execution never ends; the certificate is a `lasso`."""

    certificate: Mapping[str, Any]
    method: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    verdict: ClassVar[Verdict] = Verdict.NONTERMINATING


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not decided; the reason names the limit or what was tried."""

    reason: str
    method: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    limit: Limit | None = None
    verdict: ClassVar[Verdict] = Verdict.UNKNOWN


TerminationResult = Terminating | Nonterminating | Unknown
