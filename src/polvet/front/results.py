"""What the front door answers: frozen results with a verdict, figures and, where there is some, evidence.

Every result says its `verdict` (an Enum that refuses to be a truth value: `if result:` is an error), the `reason` where it is
unknown, `figures` as the command line prints them, the `certificate`, and whether the independent checker accepted it before
the verdict was said (`checked`; where it was not asked, `figures["not_checked"]` says why); `to_dict()` is the command
line's JSON document, `save` writes the certificate. In a notebook a result shows itself (`_repr_html_`) with the report's own parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from polvet.confirm.outcome import Confirmation, told
from polvet.errors import InputError, MissingExtra

AnyResult = TypeVar("AnyResult", bound="Result")


class Verdict(Enum):
    """What a result may say; deliberately no truth value."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"
    TERMINATING = "terminating"
    NONTERMINATING = "nonterminating"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    FAULTS = "faults"
    NO_FAULTS = "no faults"
    FAULTS_REMAIN = "faults remain"
    REPAIRED = "repaired"
    IMPROVED = "improved"
    PERMITTED = "permitted"
    IMPOSSIBLE = "impossible"
    PASSED = "passed"
    FAILED = "failed"
    DONE = "done"

    def __bool__(self) -> bool:
        raise TypeError("a verdict is no truth value: write `result.verdict is polvet.Verdict.SAFE`")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """What all results have in common."""

    figures: Mapping[str, Any] = field(default_factory=dict, repr=False)
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)
    reason: str | None = None
    checked: bool | None = field(default=None, kw_only=True, repr=False)
    verdict: ClassVar[Verdict] = Verdict.DONE

    def __bool__(self) -> bool:
        raise TypeError("a result is no truth value: ask `result.verdict is polvet.Verdict.SAFE`, or match its class")

    def __repr__(self) -> str:
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr]
        told = [text for text in shown if not text.endswith(("=None", "=''", "=()"))]
        counts = [f"{name}={value}" for name, value in self.figures.items() if type(value) is int][:4]
        return f"{type(self).__name__}({', '.join(told or counts)})"

    def save(self, path: str | Path) -> Path:
        """Write the certificate to the file, as `polvet certify` reads it."""
        from polvet.files import write_whole

        if self.certificate is None:
            raise InputError(f"a {self.verdict.value} result has no certificate.", hint="Save a result that has one.")
        write_whole(path, json.dumps(self.certificate, ensure_ascii=False) + "\n")
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the command line's JSON document has it."""
        return {
            "verdict": self.verdict.value,
            "reason": self.reason,
            "certificate": None if self.certificate is None else dict(self.certificate),
            "figures": dict(self.figures),
            **({} if self.checked is None else {"checked": self.checked}),
        }

    def to_dataframe(self) -> Any:
        """Return what the result lists (states, faults, iterations, else its figures) as a pandas DataFrame."""
        return _pandas().DataFrame(list(self._rows()))

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield {name: value for name, value in self.figures.items() if isinstance(value, int | float | str)}

    def _repr_html_(self) -> str:
        from polvet.front.cards import result_card

        return result_card(self)


@dataclass(frozen=True, slots=True)
class Run:
    """A run by names: its states, the action of each step (None: a silent move), and how it ends."""

    states: tuple[Mapping[str, Any], ...]
    actions: tuple[str | None, ...]
    end: str
    world: Mapping[str, str] = field(default_factory=dict, repr=False)  # the model's metadata: how to draw it

    def __len__(self) -> int:
        return len(self.actions)

    def to_dict(self) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Safe(Result):
    """No run fails; the certificate proves it."""

    method: str = ""
    verdict: ClassVar[Verdict] = Verdict.SAFE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unsafe(Result):
    """Some run fails: of the policy (`run`), or, where a state is decided, of every policy (`run` is None)."""

    method: str = ""
    run: Run | None = field(default=None, repr=False)
    verdict: ClassVar[Verdict] = Verdict.UNSAFE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unknown(Result):
    """Not decided; the reason names the limit. `proved_starts` are conditions on starts from which no run fails."""

    method: str = ""
    proved_starts: tuple[str, ...] = ()
    verdict: ClassVar[Verdict] = Verdict.UNKNOWN


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Terminating(Result):
    """Every execution of the plan ends; the certificate is a ranking."""

    verdict: ClassVar[Verdict] = Verdict.TERMINATING


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Nonterminating(Result):
    """Some execution never ends; the certificate is a lasso."""

    verdict: ClassVar[Verdict] = Verdict.NONTERMINATING


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Accepted(Result):
    """The independent checker says that the certificate proves `claim`."""

    claim: str = ""
    accepted: ClassVar[bool] = True
    verdict: ClassVar[Verdict] = Verdict.ACCEPTED


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rejected(Result):
    """The independent checker says that the certificate does not prove its claim; the reason names what fails."""

    accepted: ClassVar[bool] = False
    verdict: ClassVar[Verdict] = Verdict.REJECTED


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exploration(Result):
    """The reachable states, counted."""

    states: int = 0
    transitions: int = 0
    deadlocks: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Value(Result):
    """The value of a property with bounds that hold; `exact` is a fraction where exact arithmetic was asked for."""

    value: Any = None
    lower: float | None = None
    upper: float | None = None
    exact: Any = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decisions(Result):
    """Which of several states are safe: `safe` has True, False or None (unknown) per state, in the given order."""

    states: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    safe: tuple[bool | None, ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return SAFE where all states are, UNSAFE where one is not, else UNKNOWN."""
        if False in self.safe:
            return Verdict.UNSAFE
        return Verdict.UNKNOWN if None in self.safe else Verdict.SAFE

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for state, safe in zip(self.states, self.safe, strict=True):
            yield {**state, "safe": safe}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(Result):
    """%Unsafe and %Goal with intervals that hold with 95% confidence (exact ones where nothing was sampled)."""

    unsafe_percent: float = 0.0
    goal_percent: float = 0.0
    unsafe_interval: tuple[float, float] = (0.0, 100.0)
    goal_interval: tuple[float, float] = (0.0, 100.0)
    ends: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return UNSAFE where a start is, SAFE where none is and nothing was left open, else UNKNOWN."""
        if self.unsafe_interval[0] > 0 or self.unsafe_percent > 0:
            return Verdict.UNSAFE
        return Verdict.SAFE if self.unsafe_interval[1] == 0 else Verdict.UNKNOWN


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulation(Result):
    """Simulated runs: how many ended how, and the runs themselves."""

    ends: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[Run, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for run in self.runs:
            yield {"end": run.end, "steps": len(run)}


@dataclass(frozen=True, slots=True)
class Fault:
    """A safe state where the policy's action may lead out of safety, what would be safe, and what may happen."""

    state: Mapping[str, Any]
    action: str
    safe_actions: tuple[str, ...]
    unsafe_outcomes: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Faults(Result):
    """The faults of a policy; `exhaustive`: there are no others. `source` is what `Policy.repair` reads."""

    faults: tuple[Fault, ...] = field(default=(), repr=False)
    exhaustive: bool = False
    source: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __getitem__(self, number: int) -> Fault:
        return self.faults[number]

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return FAULTS, NO_FAULTS (the search was exhaustive) or UNKNOWN."""
        if self.faults:
            return Verdict.FAULTS
        return Verdict.NO_FAULTS if self.exhaustive else Verdict.UNKNOWN

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for fault in self.faults:
            yield {**fault.state, "action": fault.action, "safe": " ".join(fault.safe_actions)}

    def save(self, path: str | Path) -> Path:
        """Write the faults as `polvet faults -o` does."""
        from polvet.records.fault_files import write_faults

        task, listed = self.source
        write_faults(task, listed, path)
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Gate(Result):
    """Whether a policy may be shipped: each check with what it says."""

    passing: str = "unknown"
    checks: tuple[Mapping[str, str], ...] = ()

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return PASSED, FAILED or UNKNOWN."""
        return Verdict(self.passing)

    @property
    def passed(self) -> bool:
        """Return whether every check passed."""
        return self.passing == "passed"

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield from self.checks


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Impossible(Result):
    """No scheduler keeps the probability of failing below the bound; the least that can be had lies in `minimum`."""

    minimum: tuple[float, float] = (0.0, 1.0)
    verdict: ClassVar[Verdict] = Verdict.IMPOSSIBLE

    def wrap(self, env: Any, **_: Any) -> Any:
        """Raise an InputError: there is no shield to wrap the environment in."""
        raise InputError(
            f"there is no shield: failing is at least {self.minimum[0]:.6g} likely, whatever is chosen.",
            hint="Call permit with a larger bound.",
        )


def with_check(result: AnyResult, confirmation: Confirmation | None) -> AnyResult:
    """Return the result with what became of its certificate."""
    said = told(confirmation)
    figures = {**result.figures, "not_checked": said["not_checked"]} if "not_checked" in said else result.figures
    return replace(result, checked=said.get("checked"), figures=figures)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingExtra("pandas", "pandas") from None
    return pandas
