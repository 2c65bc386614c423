"""What a command answers: a verdict, figures and lines for people; printed as text or as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from polvet.cli.limits import net
from polvet.cli.printable import printable_json, say
from polvet.confirm.outcome import Confirmation, NotChecked, told


class ExitCode(Enum):
    """How a command ended; part of the contract with scripts."""

    DONE = 0  # it holds: safe, terminating, repaired, permitted, accepted
    FOUND = 10  # unsafe, nonterminating, faults remain, rejected: the evidence is printed or written
    GOAL_LOST = 11  # safe or repaired, but the goal is reached less often than the budget allows
    UNKNOWN = 20  # a limit was reached; the message names it and the option that raises it
    INPUT = 30  # the input is wrong: where, what, what to do
    BUG = 40  # our fault; also where the checker rejects what was found


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
    checked: Confirmation | None = (
        None  # what became of the certificate before the verdict is said; None: there is none
    )

    def show(self, *, as_json: bool) -> int:
        """Print the answer on stdout and return the exit code; from here on no alarm of a limit may contradict it."""
        net.fold()
        if as_json:
            document = {
                "verdict": self.verdict, "reason": self.reason, "seconds": round(self.seconds, 6), "seed": self.seed,
                "certificate": self.certificate, "figures": dict(self.figures),
                **told(self.checked), **self.more,
            }  # fmt: skip
            print(printable_json(json.dumps(document, ensure_ascii=False, default=str)))
        else:
            say(self.verdict + (f" ({self.reason})" if self.reason else ""))
            for line in self.lines:
                say(line)
            if isinstance(self.checked, NotChecked):
                say(f"not checked here: {self.checked}")
        return self.code.value
