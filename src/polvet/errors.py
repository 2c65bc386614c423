"""Where something is wrong, what is wrong, and what to do about it: the family of polvet's errors.

PolvetError
├── InputError      the user's file or option is wrong      exit code 30
│   ├── MissingExtra    an optional package is not installed
│   └── ModelError      the model breaks a rule while it runs (a value out of bounds, probabilities off 1)
├── LimitReached    a limit on time, memory or size was hit  exit code 20
└── FalseCertificate    the checker rejects what an engine of polvet's own found: a bug  exit code 40
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Where:
    """A place in an input: a file with a JSON path, or with a line and column.

    >>> str(Where("racetrack.jani").at("automata").at(0).at("edges").at(17).at("guard"))
    'racetrack.jani: automata[0].edges[17].guard'
    >>> str(Where("die.pm", line=3, column=7))
    'die.pm:3:7'
    """

    file: str
    path: tuple[str | int, ...] = ()
    line: int | None = None
    column: int | None = None

    def at(self, key: str | int) -> Where:
        """Return the place one step deeper."""
        return Where(self.file, (*self.path, key), self.line, self.column)

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f":{self.line}" + (f":{self.column}" if self.column is not None else "")
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).removeprefix(".")
        return f"{place}: {steps}" if steps else place


NOWHERE = Where("model")
"""The place of what was made in memory."""


class PolvetError(Exception):
    """Every error that polvet raises on purpose."""


class InputError(PolvetError):
    """The input is wrong: `where` it is, `what` is wrong, and `hint`, what to do."""

    def __init__(self, what: str, where: Where | str | None = None, hint: str | None = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__((f"{where}: " if where else "") + what + (f" {hint}" if hint else ""))

    def __reduce__(self) -> tuple[type[InputError], tuple[Any, ...]]:
        return type(self), (self.what, self.where, self.hint)  # errors travel from workers


class MissingExtra(InputError):
    """An optional package is needed and not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"this needs the package '{package}'.", hint=f"Install it with: pip install 'polvet[{extra}]'")

    def __reduce__(self) -> tuple[type[InputError], tuple[Any, ...]]:
        return type(self), (self.package, self.extra)


class ModelError(InputError):
    """The model breaks one of its own rules in a state that was reached."""


Limit = Literal["time", "memory", "states", "steps", "radius"]
"""What may run out. Which option of which command raises it, only the command line knows."""


class LimitReached(PolvetError):
    """A limit was reached: `limit` says which, with its value; `kind` is None for a limit that nobody can raise."""

    def __init__(self, limit: str, kind: Limit | None = None) -> None:
        self.limit, self.kind = limit, kind
        super().__init__(limit)

    def __reduce__(self) -> tuple[type[LimitReached], tuple[Any, ...]]:
        return type(self), (self.limit, self.kind)


class FalseCertificate(PolvetError):
    """A bug of polvet: its own checker rejects a certificate, so that there is no verdict. `bundle` is what to send."""

    def __init__(self, kind: str, reason: str, bundle: Path | None) -> None:
        self.kind, self.reason, self.bundle = kind, reason, bundle
        what = "no bundle could be written" if bundle is None else f"everything to see it again is in {bundle}"
        super().__init__(
            f"this is a bug in polvet: its checker rejects the certificate that was found (kind '{kind}'): {reason}. "
            f"No verdict is given, as it may be wrong. Please report it; {what} (certificate, task, policy, options)."
        )

    def __reduce__(self) -> tuple[type[FalseCertificate], tuple[Any, ...]]:
        return type(self), (self.kind, self.reason, self.bundle)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint naming the known word nearest to `name`, if one is near.

    >>> did_you_mean("sped", ["speed", "x"])
    "Did you mean 'speed'?"
    """
    # Each comparison takes microseconds: a list of a hundred thousand names is not searched to its end.
    near = get_close_matches(name, list(islice(known, 2000)), n=1)
    return f"Did you mean '{near[0]}'?" if near else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the known word nearest to `name`, or else the first of those that there are.

    >>> suggest("speed", ["x", "y"])
    'There are: x, y.'
    """
    words = list(islice(known, 2000))
    listed = ", ".join(words[:12]) + (", ..." if len(words) > 12 else "")
    return did_you_mean(name, words) or (f"There are: {listed}." if words else "There are none.")
