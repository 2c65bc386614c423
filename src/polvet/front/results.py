"""The kinds of answers of the front door, each a frozen `Result` (`result.py`) with what its question asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from polvet.errors import InputError, LimitReached, Where
from polvet.front.result import Figure, Result, Run, write_certificate
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.front.limits import Limits
    from polvet.front.policy import Policy

SHOWN = 10
"""How many faults a document lists; the file has all."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Safe(Result):
    """No run fails, or, with `max_risk`, none with a greater probability; the certificate proves it."""

    method: str = ""
    verdict: ClassVar[Verdict] = Verdict.SAFE


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Unsafe(Result):
    """Some run fails: of the policy (`run`), or, where a state is decided, of every policy (`run` is None).

    With `max_risk`: runs fail with a greater probability (`run` is None).

    `proved_starts` are conditions on starts from which no run fails all the same.
    """

    method: str = ""
    run: Run | None = None
    proved_starts: tuple[str, ...] = ()
    verdict: ClassVar[Verdict] = Verdict.UNSAFE

    def _pictures(self) -> str:
        return "" if self.run is None else self.run._repr_html_()

    def _more(self) -> Mapping[str, Any]:
        return {"proved_starts": list(self.proved_starts)} if self.proved_starts else {}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Unknown(Result):
    """Not decided; the reason names the limit. `proved_starts` are conditions on starts from which no run fails."""

    method: str = ""
    proved_starts: tuple[str, ...] = ()
    verdict: ClassVar[Verdict] = Verdict.UNKNOWN

    def _more(self) -> Mapping[str, Any]:
        return {"proved_starts": list(self.proved_starts)} if self.proved_starts else {}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Accepted(Result):
    """The independent checker says that the certificate proves `claim`; `about` is that claim as data."""

    claim: str = ""
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    accepted: ClassVar[bool] = True
    verdict: ClassVar[Verdict] = Verdict.ACCEPTED

    def _more(self) -> Mapping[str, Any]:
        return {"claim": self.claim, "about": self.about}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Rejected(Result):
    """The independent checker says that the certificate does not prove its claim; the reason names what fails."""

    accepted: ClassVar[bool] = False
    verdict: ClassVar[Verdict] = Verdict.REJECTED


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Exploration(Result):
    """The reachable states, counted."""

    states = Figure[int]("states")
    transitions = Figure[int]("transitions")
    deadlocks = Figure[int]("deadlocks")

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return EXPLORED, or UNKNOWN where a limit was reached before all states were."""
        return Verdict.EXPLORED if self.reason is None else Verdict.UNKNOWN

    def save(self, path: str | Path) -> Path:
        """Write every state as one line of JSON."""
        from polvet.files import write_whole
        from polvet.model.task import state_to_names

        compiled, space = self.source
        lines = []
        for begin in range(0, len(space), 65536):
            for state in compiled.unpack(space.states(begin, begin + 65536)):
                lines.append(json.dumps(state_to_names(compiled.network, state), ensure_ascii=False) + "\n")
        write_whole(path, "".join(lines))
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Value(Result):
    """The value of a property with bounds that hold; `exact` is a fraction where exact arithmetic was asked for."""

    value: Any = None
    lower: float | None = None
    upper: float | None = None
    exact: Any = None

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return DONE, or UNKNOWN where a limit was reached."""
        return Verdict.DONE if self.reason is None else Verdict.UNKNOWN

    @property
    def word(self) -> str:
        """The value itself."""
        if self.reason is not None:
            return self.verdict.value
        return str(self.value).lower() if isinstance(self.value, bool) else repr(self.value)

    def save(self, path: str | Path) -> Path:
        """Write a scheduler that attains the value: the label (null: silent) and the choice in every state that has one."""
        from polvet.mdp.scheduler_files import dump_scheduler

        network, name, value = self.source
        dump_scheduler(network, value, name, Path(path))
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Evaluation(Result):
    """%Unsafe and %Goal with intervals that hold with 95% confidence (exact ones where nothing was sampled)."""

    unsafe_percent = Figure[float]("unsafe_percent")
    goal_percent = Figure[float]("goal_percent")
    unsafe_interval = Figure[list[float]]("unsafe_percent_interval")
    goal_interval = Figure[list[float]]("goal_percent_interval")
    ends = Figure[Mapping[str, int]]("ends")

    def _main_figures(self) -> Iterator[str]:
        yield f"unsafe={self.unsafe_percent:.4g}%"
        from polvet.policy.runs import within_steps

        yield f"goal={self.goal_percent:.4g}%{within_steps(self.figures['max_steps'])}"
        yield f"starts={self.figures['starts']}"

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return UNSAFE where a start is, SAFE where none of all starts is, EVALUATED where none of a sample is, else UNKNOWN."""
        if self.unsafe_percent > 0:
            return Verdict.UNSAFE
        if self.figures["near_tie_starts"] or self.figures["undecided"] or self.reason is not None:
            return Verdict.UNKNOWN
        return Verdict.SAFE if self.figures["starts_complete"] else Verdict.EVALUATED

    def save(self, path: str | Path) -> Path:
        """Write an unsafe run from each start that the search found unsafe, one line of JSON each."""
        from polvet.records.run_files import write_runs

        write_runs(
            self.source.inspection.bound.task, map(self.source.inspection.witness, self.source.unsafe_starts), path
        )
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Simulation(Result):
    """Simulated runs: how many ended how, and the runs themselves, made again one by one when they are looked at."""

    ends = Figure[Mapping[str, int]]("ends")

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return UNSAFE where a run fails, SIMULATED where none does, UNKNOWN where a limit was reached before all ended."""
        if self.ends.get("fail"):
            return Verdict.UNSAFE
        return Verdict.SIMULATED if self.reason is None else Verdict.UNKNOWN

    def _main_figures(self) -> Iterator[str]:
        yield ", ".join(f"{end}={count}" for end, count in self.ends.items())

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that ended."""
        return tuple(self)

    def __iter__(self) -> Iterator[Run]:
        return self.source.runs()  # type: ignore[no-any-return]

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for run in self:
            yield {"end": run.end, "steps": len(run)}

    def save(self, path: str | Path) -> Path:
        """Write the runs that ended, one line of JSON each."""
        self.source.write(path)
        return Path(path)


@dataclass(frozen=True, slots=True)
class Fault:
    """A safe state where the policy's action may lead out of safety, what would be safe, and what may happen.

    Of another `kind` ("dead end", "livelock", "stuck", "risk"): what would keep the goal or the risk, and what gives it up.
    """

    state: Mapping[str, Any]
    action: str
    safe_actions: tuple[str, ...]
    unsafe_outcomes: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    kind: str = "unsafe"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Faults(Result):
    """The faults of a policy; `exhaustive`: there are no others."""

    faults: tuple[Fault, ...] = field(default=(), repr=False)
    exhaustive: bool = False

    def __repr__(self) -> str:
        reason = "" if self.reason is None else f", reason={self.reason!r}"
        return f"Faults({len(self)}, exhaustive={self.exhaustive}{reason})"

    def __len__(self) -> int:
        return len(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __getitem__(self, number: int) -> Fault:
        return self.faults[number]

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return FAULTS, NO_FAULTS (where it was looked: `exhaustive` says whether that is everywhere) or UNKNOWN."""
        if self.faults:
            return Verdict.FAULTS
        return Verdict.NO_FAULTS if self.reason is None else Verdict.UNKNOWN

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for fault in self.faults:
            yield {**fault.state, "action": fault.action, "safe": " ".join(fault.safe_actions)}

    def _more(self) -> Mapping[str, Any]:
        from polvet.records.fault_files import fault_to_json

        bound, _, analysis = self.source
        return {"faults": None, "first_faults": [fault_to_json(bound.task, one) for one in analysis.faults[:SHOWN]]}

    def listed(self) -> Any:
        """Return the faults as `polvet faults -o` writes them."""
        from polvet.records.fault_files import FaultList

        bound, _, analysis = self.source
        return FaultList(analysis.faults, bound.task.sha256, bound.fitted.sha256, analysis.exhaustive)

    def explain(self, number: int) -> Any:
        """Return why this one is a fault: `.lines()` for people, `.to_json()` as data."""
        from polvet.debug.explain import explain_fault

        bound, decider, analysis = self.source
        if self.figures["kind"] != "safety":
            what = "only safety faults are explained."
            raise InputError(
                what, Where("explain"), "The outcomes that give the goal or the risk up stand in the list."
            )
        if not 0 <= number < len(analysis.faults):
            raise InputError(f"there is no fault {number}.", Where("explain"), f"There are {len(analysis.faults)}.")
        return explain_fault(bound, decider, analysis.faults[number])

    def prove(self, **limits: Unpack[Limits]) -> Mapping[str, Mapping[str, Any]]:
        """Return two certificates: the faulty states are `safe`, an outcome of each is `unsafe`.

        Of goal faults: from the states the goal can be kept in reach (`won`), from the outcomes that give it up it cannot (`lost`).
        """
        from polvet.front import limits as keywords
        from polvet.safety import Decider, prove_states

        bound, _, analysis = self.source
        if self.figures["kind"] != "safety":
            from polvet.front.faulting import prove_goal_faults

            return prove_goal_faults(self, keywords.Work.begin(limits, keywords.Limits).budget)
        questions = {
            "safe": [one.state for one in analysis.faults],
            "unsafe": [one.unsafe_outcomes[0] for one in analysis.faults],
        }
        return prove_states(Decider(bound.task), questions, budget=keywords.Work.begin(limits, keywords.Limits).budget)

    def save(self, path: str | Path) -> Path:
        """Write the faults as `polvet faults -o` does."""
        from polvet.records.fault_files import write_faults

        write_faults(self.source[0].task, self.listed(), path)
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Fuzzing(Result):
    """Unsafe runs of a policy, shrunk and each once, among the runs that were tried."""

    runs: tuple[Run, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return UNSAFE where an unsafe run was found, FUZZED where none was, UNKNOWN where a limit stopped the search before."""
        if self.figures["unsafe_runs"]:
            return Verdict.UNSAFE
        return Verdict.FUZZED if self.reason is None else Verdict.UNKNOWN

    def _more(self) -> Mapping[str, Any]:
        return {"runs": None, "stopped_by": self.source.stopped_by}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Repair(Result):
    """What a repair did: faults fixed and left, how much was changed, and whether the policy's library confirms it."""

    left: tuple[str, ...] = ()  # why faults are left, where some are
    not_kept: LimitReached | None = None  # the limit for which no runs were kept

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return REPAIRED where every fault is fixed, else FAULTS_REMAIN."""
        return Verdict.FAULTS_REMAIN if self.figures["faults_left"] else Verdict.REPAIRED

    def save(self, path: str | Path) -> Path:
        """Write the `repair` certificate: each fixed fault with the scores before and after."""
        return write_certificate(self.source[2], path)

    def _more(self) -> Mapping[str, Any]:
        return {"policy": None}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Fence(Result):
    """A policy with its exits from the safe region forbidden, proved safe; without a proof it is UNKNOWN."""

    policy: Policy | None = field(default=None, repr=False)

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return SAFE or UNKNOWN."""
        return Verdict.SAFE if self.certificate is not None else Verdict.UNKNOWN

    def _more(self) -> Mapping[str, Any]:
        return {"policy": None}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Comparison(Result):
    """Where two policies choose differently, and which differences remove or add a fault."""

    differences = Figure[int]("differences")

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return FAULTS_ADDED, EQUAL, DIFFERENT, or UNKNOWN where a limit was reached."""
        if self.figures["faults_added"]:
            return Verdict.FAULTS_ADDED
        if self.reason is not None:
            return Verdict.UNKNOWN
        return Verdict.DIFFERENT if self.differences else Verdict.EQUAL

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        task, comparison = self.source
        yield from (one.to_json(task) for one in comparison.differences)

    def save(self, path: str | Path) -> Path:
        """Write the differences, one line of JSON each."""
        from polvet.files import write_whole

        write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self._rows()))
        return Path(path)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Training(Result):
    """A policy that was trained, and how well it does afterwards."""

    policy: Policy | None = field(default=None, repr=False)
    verdict: ClassVar[Verdict] = Verdict.TRAINED

    def _more(self) -> Mapping[str, Any]:
        return {"policy": None if self.policy is None else str(self.policy.file)}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Description(Result):
    """What is in a model or in a policy's file."""

    verdict: ClassVar[Verdict] = Verdict.READ


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Gate(Result):
    """Whether a policy may be shipped: each check with what it says."""

    passing: str = "unknown"
    checks: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    only_goal_lost: bool = field(
        default=False, repr=False
    )  # all is well but that the goal is reached less often than before

    def _main_figures(self) -> Iterator[str]:
        yield from (str(check["says"]) for check in self.checks if check["passing"] != "passed")

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return PASSED, FAILED or UNKNOWN."""
        return Verdict(self.passing)

    @property
    def passed(self) -> bool:
        """Return whether every check passed."""
        return self.passing == "passed"

    def _more(self) -> Mapping[str, Any]:
        return {"checks": [dict(check) for check in self.checks]}

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield from self.checks


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Impossible(Result):
    """No scheduler keeps the probability of failing below the bound; the least that can be had lies in `minimum`.

    Its certificate are states in which that already shows: the `conflict`.
    """

    minimum: tuple[float, float] = (0.0, 1.0)
    verdict: ClassVar[Verdict] = Verdict.IMPOSSIBLE

    @property
    def conflict(self) -> Mapping[str, Fraction]:
        """The states that explain it, as people write them, and what is at least risked from each if all others were safe."""
        rows = () if self.certificate is None else self.certificate["states"]
        from polvet.model.task import show_names

        return {show_names(row["state"]): Fraction(row["value"]) for row in rows}

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield from ({"state": state, "value": float(value)} for state, value in self.conflict.items())

    def wrap(self, env: Any, **_: Any) -> Any:
        """Raise an InputError: there is no shield to wrap the environment in."""
        raise InputError(
            f"there is no shield: failing is at least {self.minimum[0]:.6g} likely, whatever is chosen.",
            hint="Call permit with a larger bound.",
        )
