"""`polvet flatten TASK [POLICY]`: the world and the policy, written out as one flat text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from polvet.cli.options import Avoid, Mode, Output, Plainly, Posed
from polvet.cli.parameters import Argument


@dataclass(frozen=True, kw_only=True)
class Subject(Posed):
    """A task, and perhaps a policy for it."""

    policy: Annotated[Path | None, Argument(metavar="[POLICY]", help="A policy, written out with its world.")] = None
    mode: Mode = None
    avoid: Avoid = ""


def flatten(subject: Subject, answering: Plainly, output: Output = None) -> int:
    """Write a task and its policy as the flat text that evidence speaks of. Example: `polvet flatten line.toml policy.json -o line.flat`.

    Without `-o` the text stands on stdout.
    """
    from polvet.front.writing import write_flat

    flat = write_flat(subject.load(), subject.policy, output)
    if output is None and not answering.json:
        print(flat.more["text"], end="")
        return 0
    lines = [
        f"text         {output} ({flat.figures['bytes']:,} bytes, {flat.figures['items']:,} items)",
        f"sha256       {flat.more['sha256']}",
    ]
    return answering.say(flat, lines)
