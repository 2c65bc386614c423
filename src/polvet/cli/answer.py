"""What a command answers: the front door's result, printed as text for people or as its own JSON document, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from polvet.cli.limits import net, raised
from polvet.cli.printable import heard, printable_json, say

if TYPE_CHECKING:
    from polvet.cli.options import Plainly
    from polvet.front.result import Result


class ExitCode(Enum):
    """How a command ended; part of the contract with scripts."""

    DONE = 0  # it holds: safe, terminating, repaired, permitted, accepted
    FOUND = 10  # unsafe, nonterminating, faults remain, rejected: the evidence is printed or written
    GOAL_LOST = 11  # safe or repaired, but the goal is reached less often than the budget allows
    UNKNOWN = 20  # a limit was reached; the message names it and the option that raises it
    INPUT = 30  # the input is wrong: where, what, what to do
    BUG = 40  # our fault; also where the checker rejects what was found


FOUND = frozenset(
    {
        "unsafe",
        "nonterminating",
        "faults",
        "faults remain",
        "faults added",
        "rejected",
        "impossible",
        "failed",
        "goal-missed",
        "not-strong-cyclic",
        "refuted",
    }
)
"""The verdicts that a script should not go on with; their evidence is printed or written."""


def say_result(
    answering: Plainly,
    result: Result,
    lines: Sequence[str],
    code: ExitCode | None,
    changes: Mapping[str, Any],
    without: Sequence[str],
) -> int:
    """Print a result of the front door, as text or as its own document, and return the exit code.

    From here on no alarm of a limit may contradict it.
    """
    net.fold()
    reason = None if result.reason is None else raised(result.reason, result.limit)
    if answering.json:
        document = {**result.to_dict(), "reason": reason, "seconds": round(answering.spent(), 6), **changes}
        if heard.messages:
            document["warnings"] = heard.messages
        for name in without:
            del document[name]
        print(printable_json(json.dumps(document, ensure_ascii=False, default=str)))
    else:
        say(result.word + (f" ({reason})" if reason else ""))
        for line in lines:
            say(line)
        if result.not_checked is not None:
            say(f"not checked here: {result.not_checked}")
    if code is not None:
        return int(code.value)
    if result.word in FOUND:
        return int(ExitCode.FOUND.value)
    return int((ExitCode.UNKNOWN if result.word == "unknown" else ExitCode.DONE).value)
