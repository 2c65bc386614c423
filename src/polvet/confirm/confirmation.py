"""Before a verdict is said, its certificate goes through the independent checker: as text, the way a file would hold it.

Checking takes at most as long as finding did and `BESIDES` seconds, for a small certificate at least `A_MINUTE`, and never
more than the limits that were given leave. Where that is not enough the verdict is said as *not checked*, with the command
that checks it. A rejected certificate is never a verdict: it is a bug of polvet, and FalseCertificate names the bundle to send.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polvet.budget import Budget
from polvet.check.checker import Rejected, Subjects, check, is_by_execution
from polvet.check.proves import PROVES
from polvet.confirm.bundle import write_bundle
from polvet.confirm.outcome import Checked, Confirmation, NotChecked
from polvet.errors import FalseCertificate, InputError, LimitReached, MissingExtra, Where
from polvet.files import MAX_BYTES, parse_json, sha256
from polvet.model.task import NO_OPTIONS, Task, TaskOptions
from polvet.policy.functions import fickle
from polvet.policy.identity import policy_sha256
from polvet.sources import read_parts

SMALL_BYTES, SMALL_STATES = 1_000_000, 10_000
"""A small certificate has no more bytes, and speaks of no more states: one may list a million states by their count alone."""
A_MINUTE = 60.0
BESIDES = 2.0
"""Seconds besides those that finding took."""
GIVEN_FUNCTION = Path("the given function")
"""What a policy in memory is called in claims."""


@dataclass(frozen=True, slots=True)
class About:
    """The files that a certificate must speak about, with the digests they had when they were read."""

    task: Path
    task_sha256: str | None
    policy: Path | None = None
    policy_sha256: str | None = None
    options: TaskOptions = NO_OPTIONS
    is_plan: bool = False  # a finite-memory policy: the file is no task
    function: Callable[[Any], Any] | None = None  # a policy in memory, which has no file: `policy` is what it is called

    def subjects(self, budget: Budget) -> Subjects:
        """Return them as the checker takes them."""
        given = self.options
        return Subjects(self.task, self.policy, given, budget, given.domain, self.function, given.allow_code)

    def command(self, certificate: Path | None) -> str:
        """Return the words that check the certificate, which `-o` writes where it has no file yet."""
        if self.function is not None:
            return "polvet.certify(CERTIFICATE, task, function)"
        words = ["polvet", "certify", str(certificate or "CERTIFICATE"), "--task", str(self.task)]
        words += [] if self.policy is None else ["--policy", str(self.policy)]
        words += ["--avoid", ",".join(avoided)] if (avoided := self.options.avoid.names) else []
        return shlex.join([*words, *self.options.arguments()])

    def is_as_read(self) -> bool:
        """Return whether the files still hold what was read."""
        try:
            digest = sha256(self.task) if self.is_plan else read_parts(self.task, self.options).source.sha256
            same = self.policy is None or self.function is not None or policy_sha256(self.policy) == self.policy_sha256
        except InputError:
            return False
        return same and digest == self.task_sha256


def about_task(task: Task) -> About | NotChecked:
    """Return what certificates about a task must speak about."""
    if task.source is None:
        return NotChecked("the task has no file that the checker could read")
    return About(task.source.file, task.source.sha256, options=replace(task.options, avoid=task.avoid))


def about_policy(
    task: Task, file: Path | None, digest: str | None, function: Callable[[Any], Any] | None = None
) -> About | NotChecked:
    """Return what certificates about a policy in a task must speak about: its file, or a function in memory."""
    about = about_task(task)
    if isinstance(about, NotChecked):
        return about
    if function is not None:
        return replace(about, policy=GIVEN_FUNCTION, function=function)
    if file is None or digest is None:
        return NotChecked("the policy has no file that the checker could read")
    return replace(about, policy=file, policy_sha256=digest)


def about_plan(plan: Path, policy: Path | None) -> About:
    """Return what certificates about a finite-memory policy must speak about."""
    return About(plan, sha256(plan), policy, None if policy is None else policy_sha256(policy), is_plan=True)


def seconds_for(found: float, *, small: bool) -> float:
    """Return how long checking may take."""
    return max(found + BESIDES, A_MINUTE if small else 0.0)


def confirm(
    verdict: str,
    certificate: Mapping[str, Any] | None,
    about: About | NotChecked,
    *,
    found: float,
    budget: Budget,
    output: Path | None = None,
) -> Confirmation | None:
    """Return whether the certificate of the verdict, which took so many seconds to find, was checked; None: there is none.

    `output` is where it will be written. A rejected one raises FalseCertificate, with a bundle beside the output.
    """
    if certificate is None:
        return None
    if isinstance(about, NotChecked):
        return about
    proof = certificate.get("proof", certificate)
    if proof.get("kind") == "invariant" and "tree" not in proof:
        return NotChecked("its split tree was not found in time", about.command(output))
    text = json.dumps(certificate, ensure_ascii=False)
    if len(text) > MAX_BYTES:
        return NotChecked(f"the certificate has {len(text):,} characters, more than are read")
    allowed = seconds_for(found, small=len(text) <= SMALL_BYTES and proof.get("count", 0) <= SMALL_STATES)
    within = budget.at_most(allowed)
    try:
        within.check()
        result = check(parse_json(text, Where("certificate")), about.subjects(within), Where("certificate"))
        why = result.reason if isinstance(result, Rejected) else _other_claim(verdict, certificate, about)
    except (LimitReached, MemoryError) as limit:
        return NotChecked(_used_up(limit, allowed, budget), about.command(output))
    except MissingExtra as missing:
        return NotChecked(str(missing), about.command(output))
    except InputError as unreadable:
        why = str(unreadable)
    if why is None:
        return Checked()
    return refuse(certificate, why, about, output)


def refuse(evidence: Mapping[str, Any], why: str, about: About, output: Path | None) -> NotChecked:
    """Raise FalseCertificate with a bundle; where the files are no longer those that were read, nothing can be said.

    A Python function that answers otherwise when it is asked again is an error of that function.
    """
    if not about.is_as_read():
        return NotChecked("the files it speaks about have changed since they were read, or are gone")
    if is_by_execution(about.subjects(Budget())):
        raise fickle(about.policy, why)
    text = json.dumps(evidence, ensure_ascii=False)
    raise FalseCertificate(str(evidence.get("kind")), why, write_bundle(text, why, about, output))


def _other_claim(verdict: str, certificate: Mapping[str, Any], about: About) -> str | None:
    """Return why an accepted certificate does not prove this verdict about this policy, else None."""
    if certificate["kind"] not in PROVES[verdict]:
        return f"a certificate of kind '{certificate['kind']}' does not prove the verdict '{verdict}'"
    if about.policy is not None and certificate.get("policy_sha256") != about.policy_sha256:
        return "it does not name the policy that it is about"
    if verdict == "unsafe policy" and certificate["end"] not in ("fail", *about.options.avoid.names):
        return f"to end in {certificate['end']} is not unsafe here"
    return None


def _used_up(limit: LimitReached | MemoryError, allowed: float, budget: Budget) -> str:
    if isinstance(limit, MemoryError):
        return "checking it takes more memory than there is"
    if limit.kind == "time" and not budget.is_over():
        return f"checking it takes longer than {max(0.0, allowed):.1f} s"
    return str(limit)
