"""What a certificate is checked against, and the two answers: all that checkers of every kind share.

`check.checker` picks the checker of a kind; it reads task files, and so it is no part of what a checker imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.files import sha256
from polvet.model.options import NO_OPTIONS, TaskOptions


@dataclass(frozen=True, slots=True)
class Accepted:
    """The certificate proves `claim`."""

    claim: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The certificate does not prove its claim; `reason` names the first thing that fails."""

    reason: str


CheckResult = Accepted | Rejected


@dataclass(frozen=True, slots=True)
class Subjects:
    """What a certificate must speak about: a task, model or finite-memory policy, and a policy, by their files.

    `options` stand for what the task's file says; a certificate about other conditions is rejected. None: any are allowed.
    A checker that uses the budget up raises LimitReached: that is no rejection. A policy that is a `function` in memory has no file and
    no digest: what is accepted is about the function that is given, which is asked again; `policy` is then what it is called.
    """

    task: Path | None = None
    policy: Path | None = None
    options: TaskOptions | None = NO_OPTIONS
    budget: Budget = UNLIMITED
    domain: Path | None = None  # of a PDDL problem
    function: Callable[[Any], Any] | None = None
    allow_code: bool = False  # whether Python functions that the task names may run

    def read_with(self, options: TaskOptions) -> TaskOptions:
        """Return the options with what no certificate can say: where the domain is, and whether code may run."""
        return replace(options, domain=self.domain, allow_code=self.allow_code)


def find_other_file(certificate: Mapping[str, Any], subjects: Subjects) -> Rejected | None:
    """Return why the given files are not those the certificate was made for, by their SHA-256, or None if they are."""
    for key, path in (("task_sha256", subjects.task), ("policy_sha256", subjects.policy)):
        if path is not None and certificate.get(key) is not None and sha256(path) != certificate[key]:
            return Rejected(f"{path} is not the file the certificate was made for ({key} differs)")
    return None
