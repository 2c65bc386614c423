"""What a verification answers: safe with a certificate, unsafe with an executed run, or unknown with what was proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from polvet.errors import Limit
from polvet.model.expressions import Expression
from polvet.model.semantics import State
from polvet.policy.runs import Run
from polvet.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Safe:
    """No run from a start state reaches `fail`, for any float32 evaluation order; the certificate can be checked."""

    certificate: Mapping[str, Any]
    method: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    verdict: ClassVar[Verdict] = Verdict.SAFE


@dataclass(frozen=True, slots=True)
class Unsafe:
    """A run of the policy, in the reference order of evaluation, from a start state to `fail` or to what else is avoided.

    `proved_starts`: as of `Unknown`; other start states may be safe all the same. `closed`, of a run that loops: what it never leaves.
    """

    run: Run
    method: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    proved_starts: tuple[Expression, ...] = ()
    closed: Mapping[str, Any] | None = None
    verdict: ClassVar[Verdict] = Verdict.UNSAFE


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not decided: the reason names the limit that was reached, or begins with `near-tie` and names `tie`.

    `proved_starts`: conditions over the task's variables; runs from start states that satisfy one of them are safe.
    """

    reason: str
    method: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    proved_starts: tuple[Expression, ...] = ()
    tie: State | None = None
    limit: Limit | None = None  # which limit the reason speaks of, where it is one that can be raised
    verdict: ClassVar[Verdict] = Verdict.UNKNOWN


SafetyResult = Safe | Unsafe | Unknown
