"""What all answers of the front door share: a frozen result with a verdict, figures and, where there is some, evidence.

Every result says its `verdict` (an Enum that refuses to be a truth value: `if result:` is an error), the `reason` where it is
unknown, `figures` as the command line prints them, the `certificate`, and whether the independent checker accepted it before
the verdict was said (`checked`; where it was not asked, `not_checked` says why); `to_dict()` is the command line's JSON
document, `save` writes the certificate. In a notebook a result shows itself (`_repr_html_`) with the report's own parts.
The kinds of answers stand in `results.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, TypedDict, TypeVar, overload

from polvet.confirm.outcome import Checked, Confirmation, NotChecked, confirmation_json
from polvet.errors import InputError, Limit, LimitReached, MissingExtra
from polvet.files import Json
from polvet.verdict import Verdict

T = TypeVar("T")
MOST = 100
"""How many characters a value takes in the short form of a result."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Result:
    """What all results have in common."""

    figures: Mapping[str, Any] = field(default_factory=dict, repr=False)
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)
    reason: str | None = None
    limit: Limit | None = field(default=None, repr=False)  # which limit the reason speaks of
    written: Any = field(default=None, repr=False)  # where the certificate was written: a path, or paths by verdict
    seconds: float = field(default=0.0, repr=False)
    seed: int | None = field(default=None, repr=False)
    confirmation: Confirmation | None = field(
        default=None, repr=False
    )  # what became of the certificate; None: there is none
    source: Any = field(default=None, repr=False)  # the engine's own answer, which may change from version to version
    verdict: ClassVar[Verdict] = Verdict.DONE

    def __bool__(self) -> bool:
        raise TypeError("a result is no truth value: ask `result.verdict is polvet.Verdict.SAFE`, or match its class")

    def __repr__(self) -> str:
        shown = [(one.name, getattr(self, one.name)) for one in fields(self) if one.repr]
        fields_ = [f"{name}={_short(value)}" for name, value in shown if value not in (None, "", ())]
        return f"{type(self).__name__}({', '.join([*fields_, *self._main_figures()])})"

    def _main_figures(self) -> Iterator[str]:
        """Yield what else stands in the short form: figures that say most."""
        known = ((name, value) for name, value in self.figures.items() if type(value) is int)
        if not any(one.repr and getattr(self, one.name) not in (None, "", ()) for one in fields(self)):
            yield from (f"{name}={value}" for name, value in islice(known, 4))

    @property
    def checked(self) -> bool | None:
        """Whether the independent checker accepted the certificate before this was said; None: there was nothing to check."""
        return None if self.confirmation is None else isinstance(self.confirmation, Checked)

    @property
    def not_checked(self) -> str | None:
        """Why the checker was not asked, where it was not."""
        return str(self.confirmation) if isinstance(self.confirmation, NotChecked) else None

    @property
    def word(self) -> str:
        """The verdict as the command line says it."""
        return self.verdict.value

    def save(self, path: str | Path) -> Path:
        """Write the certificate to the file, as `polvet certify` reads it."""
        if self.certificate is None:
            raise InputError(f"a {self.word} result has no certificate.", hint="Save a result that has one.")
        return write_certificate(self.certificate, path)

    def to_dict(self) -> Json:
        """Return the JSON document that the command line prints with `--json`."""
        return {
            "verdict": self.word,
            "reason": self.reason,
            "seconds": round(self.seconds, 6),
            "seed": self.seed,
            "certificate": self.certificate if self.written is None else self.written,
            "figures": dict(self.figures),
            **confirmation_json(self.confirmation),
            **self._more(),
        }

    def _more(self) -> Mapping[str, Any]:
        """Return further keys of the document."""
        return {}

    def to_dataframe(self) -> Any:
        """Return what the result lists (states, faults, iterations, else its figures) as a pandas DataFrame."""
        return _pandas().DataFrame(list(self._rows()))

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield {name: value for name, value in self.figures.items() if isinstance(value, int | float | str)}

    def _pictures(self) -> str:
        """Return what the card shows below its words: a run to step through, a course, a map."""
        return ""

    def _repr_html_(self) -> str:
        from polvet.front.cards import result_card

        return result_card(self)


class Figure(Generic[T]):
    """One of a result's figures, by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, result: None, owner: Any) -> Figure[T]: ...
    @overload
    def __get__(self, result: Result, owner: Any) -> T: ...
    def __get__(self, result: Result | None, owner: Any) -> Any:
        return self if result is None else result.figures[self.name]


def _short(value: Any) -> str:
    """Return the value as Python writes it, a long one by its beginning."""
    text = repr(value)
    return text if len(text) <= MOST else f"{text[: MOST - 4]} ..."


def write_certificate(certificate: Mapping[str, Any], path: str | Path) -> Path:
    """Write the certificate to the file, as `polvet certify` reads it, and return its path."""
    from polvet.files import write_whole

    write_whole(path, json.dumps(certificate, ensure_ascii=False) + "\n")
    return Path(path)


def write_certificate_to(output: Path | None, certificate: Mapping[str, Any] | None) -> str | None:
    """Write the certificate where there is one and it has a place, and return the place as results say it."""
    return None if output is None or certificate is None else str(write_certificate(certificate, output))


class Halt(TypedDict, total=False):
    """Why a result is not all that it could be: which limit was reached."""

    reason: str
    limit: Limit | None


def why(limit: LimitReached | None) -> Halt:
    """Return the reason and the kind of a limit that was reached, as results hold them."""
    return {} if limit is None else {"reason": str(limit), "limit": limit.kind}


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A run by names: its states, the action of each step (None: a silent move), and how it ends."""

    states: tuple[Mapping[str, Any], ...]
    actions: tuple[str | None, ...]
    end: str
    world: Mapping[str, str] = field(default_factory=dict, repr=False)  # the model's metadata: how to draw it

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        return f"Run({len(self)} steps, end={self.end!r})"

    def to_dict(self) -> Json:
        """Return the run as a line of a run file holds it."""
        return {"states": [dict(state) for state in self.states], "actions": list(self.actions), "end": self.end}

    def to_dataframe(self) -> Any:
        """Return the states as a pandas DataFrame with the action taken in each."""
        actions = [*self.actions, None]
        rows = [{**state, "action": action} for state, action in zip(self.states, actions, strict=True)]
        return _pandas().DataFrame(rows)

    def _repr_html_(self) -> str:
        from polvet.front.cards import run_player

        return run_player([self])


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingExtra("pandas", "pandas") from None
    return pandas
