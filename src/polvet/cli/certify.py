"""`polvet certify`: the independent checker; it dispatches on the certificate's kind and imports no engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from polvet.cli.limits import budget_of
from polvet.cli.options import (
    AllowCode,
    Avoid,
    Constants,
    Domain,
    Fail,
    Goal,
    MemoryLimit,
    Mode,
    OutOfBounds,
    Plainly,
    Start,
    Timed,
)
from polvet.cli.parameters import Argument, Option
from polvet.errors import Where
from polvet.model.task import TaskOptions
from polvet.sources import parse_avoid, parse_constants, parse_mode, parse_out_of_bounds


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions that the certificate must be about, where they are not the task's own."""

    domain: Domain = None
    constants: Constants = ""
    start: Start = None
    fail: Fail = None
    goal: Goal = None
    out_of_bounds: OutOfBounds = "error"
    mode: Mode = None
    avoid: Avoid = ""
    allow_code: AllowCode = False

    def options(self) -> TaskOptions:
        """Return them as a task has them."""
        return TaskOptions(
            parse_constants(self.constants),
            self.start,
            self.fail,
            self.goal,
            parse_out_of_bounds(self.out_of_bounds, Where("out_of_bounds")),
            parse_mode(self.mode, Where("mode")),
            parse_avoid(self.avoid, Where("avoid")),
            self.domain,
            self.allow_code,
        )


@dataclass(frozen=True, kw_only=True)
class CheckingLimits(Timed):
    """How long, and how many megabytes."""

    memory_limit: MemoryLimit = None


def certify(
    certificate: Annotated[Path, Argument(help="The certificate, a JSON file.")],
    conditions: Conditions,
    limits: CheckingLimits,
    answering: Plainly,
    task: Annotated[Path | None, Option("--task", help="The task, model or finite-memory policy.")] = None,
    policy: Annotated[Path | None, Option("--policy", help="The policy it speaks about.")] = None,
    expect: Annotated[
        str | None, Option("--expect", help="What it must prove: safe, unsafe, ... or a kind, or several with commas.")
    ] = None,
    allow_options: Annotated[
        bool, Option("--allow-options", help="Accept conditions that the certificate puts in the task's place.")
    ] = False,
) -> int:
    """Check a certificate without trusting whoever made it: accepted (0) or rejected (10).

    It must be about the task's own conditions, or about those given here.

    Example: `polvet certify safe.json --task line.toml --policy policy.json --expect safe`.
    """
    from polvet.front.certifying import judge, subjects_of
    from polvet.front.results import Accepted

    budget = budget_of(limits.time_limit, limits.memory_limit).in_machine()
    subjects = subjects_of(task, policy, conditions.options(), allow_options=allow_options, budget=budget)
    words = None if expect is None else [word.strip() for word in expect.split(",")]
    verdict = judge(certificate, subjects, words)
    lines = [f"  proved: {verdict.claim}"] if isinstance(verdict, Accepted) else []
    return answering.say(verdict, lines)
