"""What a command answers: a verdict, figures and lines for people; printed as text or as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from polvet.cli.limits import raised
from polvet.cli.printable import printable_json, say

if TYPE_CHECKING:
    from polvet.cli.options import Plainly
    from polvet.front.results import Result


class ExitCode(Enum):
    """How a command ended; part of the contract with scripts."""

    DONE = 0  # it holds: safe, terminating, repaired, permitted, accepted
    FOUND = 10  # unsafe, nonterminating, faults remain, rejected: the evidence is printed or written
    GOAL_LOST = 11  # safe or repaired, but the goal is reached less often than the budget allows
    UNKNOWN = 20  # a limit was reached; the message names it and the option that raises it
    INPUT = 30  # the input is wrong: where, what, what to do
    BUG = 40  # our fault


@dataclass(frozen=True, slots=True)
class Answer:
    """A command's answer, before it is printed."""

    verdict: str
    code: ExitCode
    seconds: float
    figures: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()  # for people; the verdict itself is printed first
    reason: str | None = None  # for `unknown`: the limit that was reached
    seed: int | None = None
    certificate: Any = None  # a path or the certificate itself
    more: Mapping[str, Any] = field(default_factory=dict)  # further top-level keys of the JSON document

    def show(self, *, as_json: bool) -> int:
        """Print the answer on stdout and return the exit code."""
        if as_json:
            document = {
                "verdict": self.verdict, "reason": self.reason, "seconds": round(self.seconds, 6), "seed": self.seed,
                "certificate": self.certificate, "figures": dict(self.figures), **self.more,
            }  # fmt: skip
            print(printable_json(json.dumps(document, ensure_ascii=False, default=str)))
        else:
            say(self.verdict + (f" ({self.reason})" if self.reason else ""))
            for line in self.lines:
                say(line)
        return self.code.value


FOUND = frozenset(
    {
        "unsafe", "nonterminating", "faults", "faults remain", "faults added", "rejected", "impossible", "failed",
        "goal-missed", "not-strong-cyclic",
    }
)  # fmt: skip
"""The verdicts that a script should not go on with; their evidence is printed or written."""


def say_result(
    answering: Plainly,
    result: Result,
    lines: Sequence[str],
    code: ExitCode | None,
    changes: Mapping[str, Any],
    without: Sequence[str],
) -> int:
    """Print a result of the front door, as text or as its own document, and return the exit code."""
    reason = None if result.reason is None else raised(result.reason, result.limit)
    if answering.json:
        document = {**result.to_dict(), "reason": reason, "seconds": round(answering.spent(), 6), **changes}
        for name in without:
            del document[name]
        print(printable_json(json.dumps(document, ensure_ascii=False, default=str)))
    else:
        say(result.word + (f" ({reason})" if reason else ""))
        for line in lines:
            say(line)
    if code is not None:
        return int(code.value)
    if result.word in FOUND:
        return int(ExitCode.FOUND.value)
    return int((ExitCode.UNKNOWN if result.word == "unknown" else ExitCode.DONE).value)
