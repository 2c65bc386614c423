"""What whoever speaks about a task adds to what its file says: other conditions, and what else counts as unsafe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polvet.model.arithmetic import Value

ROLES = ("start", "fail", "goal")


class OutOfBounds(Enum):
    """What an assignment outside its variable's bounds means."""

    ERROR = "error"  # the model is wrong
    DISABLE = "disable"  # its operator is not enabled there


@dataclass(frozen=True, slots=True)
class Avoid:
    """What counts as unsafe besides `fail`: runs of a raw policy that get stuck, deadlocks outside the goal, runs that cannot end.

    With `delay` also runs that the environment may keep from ending (`loop` is part of it): it need not be fair.
    """

    stuck: bool = False
    deadlock: bool = False
    loop: bool = False
    delay: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return what is avoided, as users and certificates name it."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name))


NOTHING_ELSE = Avoid()

FAIR, ADVERSARIAL, DRAWN = "fair", "adversarial", "drawn"
ENVIRONMENT = {
    FAIR: "if the environment is fair: what is possible again and again comes in the end",
    ADVERSARIAL: "whatever the environment does",
    DRAWN: "if operators that may move are equally likely",
}
"""Where several operators may move, what a claim counts on, and how it says so."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What is added to, or put in the place of, what a task's source says."""

    constants: Mapping[str, Value] = field(default_factory=dict)
    start: str | None = None
    fail: str | None = None
    goal: str | None = None
    out_of_bounds: OutOfBounds = OutOfBounds.ERROR
    mode: str | None = None  # how a policy's choice is read
    avoid: Avoid = NOTHING_ELSE
    domain: Path | None = None  # the domain of a PDDL problem; None: the source says where it is
    allow_code: bool = field(default=False, compare=False)  # whether Python functions that the source names may run

    def to_json(self) -> dict[str, str]:
        """Return the options as certificates hold them; empty where the source says everything.

        What else is avoided is part of a certificate's own claim; a domain is a file that it speaks about.
        """
        document: dict[str, str] = {}
        if self.constants:
            document["constants"] = ",".join(
                f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                for name, value in self.constants.items()
            )
        document |= {role: text for role in ROLES if (text := getattr(self, role)) is not None}
        if self.out_of_bounds is not OutOfBounds.ERROR:
            document["out_of_bounds"] = self.out_of_bounds.value
        if self.mode is not None:
            document["mode"] = self.mode
        return document

    def arguments(self) -> list[str]:
        """Return the words that give these options on the command line."""
        words = [word for name, text in self.to_json().items() for word in (f"--{name.replace('_', '-')}", text)]
        words += [] if self.domain is None else ["--domain", str(self.domain)]
        return [*words, "--allow-code"] if self.allow_code else words


NO_OPTIONS = TaskOptions()
"""The task's own conditions."""
