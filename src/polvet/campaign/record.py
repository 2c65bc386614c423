"""What a campaign writes about each step it has done: a record of the step's figures, its seconds and its files.

A step is known by its name on the disk and by the kind of its figures, so that whoever asks the store for a step knows
what is in its record. The fields of the figures are the keys in the journal and in `figures.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.records.shape import HINT, later, record_from_json, record_to_json

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """What the campaign works on."""

    debugging_starts: int
    evaluation_starts: int
    same_starts: bool
    starts_total: int | None  # None: infinitely many, or not counted
    start_method: str


@dataclass(frozen=True, slots=True)
class PossibleFigures:
    """The best %Goal of any safe policy, an upper bound; None: not known, and why.

    `run_length_possible` bounds from below the mean number of steps of safe policies that reach the goal surely; None: there are none.
    """

    goal_percent_possible: float | None
    goal_percent_possible_reason: str | None = None
    goal_percent_possible_interval: Interval | None = None
    run_length_possible: float | None = later()


@dataclass(frozen=True, slots=True)
class EvaluationFigures:
    """%Unsafe and %Goal over the evaluation starts, in points, each with its interval."""

    unsafe_percent: float
    unsafe_percent_interval: Interval
    goal_percent: float
    goal_percent_interval: Interval
    undecided: int
    unsafe_by_runs: int
    certain: bool  # every start has one run only
    goal_exact: bool | None = later()
    run_length: float | None = later()  # mean number of steps of the runs that reach the goal; None where none does


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Unsafe runs from the debugging starts and the faults on them."""

    faults: int
    states: int
    safe_states: int
    open: int  # states that could not be judged
    unsafe_starts: int  # from which no policy is safe
    runs: int
    runs_never_safe: int
    runs_with_fault: int
    exhaustive: bool
    near_ties: int
    unjudged: int
    unsafe_runs: int
    steps: int
    ends: Mapping[str, int]
    new_faults: int
    faults_so_far: int
    policy_sha256: str | None
    unsafe_start_proof: str | None = None  # why there is no proof about a start from which no policy is safe
    checked: bool | None = None  # whether the checker accepted the certificate; None: there is none
    not_checked: str | None = None  # why it was not asked
    fuzz_seconds: float | None = later()  # of the step's seconds, those until the unsafe runs were there


@dataclass(frozen=True, slots=True)
class VerificationFigures:
    """A verdict, and the faults on the unsafe runs where there are any."""

    verdict: str
    method: str
    reason: str | None
    faults: int
    new_faults: int | None = None
    faults_so_far: int | None = None
    checked: bool | None = None  # whether the checker accepted the certificate; None: there is none
    not_checked: str | None = None  # why it was not asked
    risk_lower: float | None = None  # bounds on the greatest probability of failing; None: not asked for
    risk_upper: float | None = None


@dataclass(frozen=True, slots=True)
class WorldFigures:
    """Faults that only all of the world tells: goal faults, or those relative to a bound on the risk."""

    faults: int
    states: int  # that the policy reaches
    good_states: int  # with the goal in reach, or within the bound
    lost_starts: int  # from which no policy reaches the goal so, or keeps the bound
    open: int
    exhaustive: bool
    near_ties: int
    new_faults: int
    faults_so_far: int
    least_risk: float | None = None  # the least that any policy risks at worst; None: not asked for


@dataclass(frozen=True, slots=True)
class RepairFigures:
    """What a repair fixed, what it changed, and what it cost of the goal."""

    faults_fixed: int
    faults_left: int
    objective: float
    trees_added: int
    method: str
    attempts: int
    kept_states: int
    repair_seconds: float
    gap: float | None
    goal_percent_before: float
    goal_percent_after: float
    run_length_before: float | None = later()
    run_length_after: float | None = later()
    faults_given: int | None = None  # where not all faults so far were given to the repair
    risk_after: float | None = None  # an upper bound on the risk; None: not asked for
    refused: str | None = None  # why there is no new policy


@dataclass(frozen=True, slots=True)
class FenceFigures:
    """What a fence forbids and adds, or why there is none; one that was tried and not taken has both."""

    reason: str | None
    exits: int | None = None
    won_cells: int | None = None
    fence_trees: int | None = None
    fence_units: int | None = None
    goal_percent_before: float | None = None
    goal_percent_after: float | None = None
    run_length_before: float | None = None
    run_length_after: float | None = None


Figures = (
    SizeFigures
    | PossibleFigures
    | EvaluationFigures
    | SearchFigures
    | VerificationFigures
    | WorldFigures
    | RepairFigures
    | FenceFigures
)
F = TypeVar("F", bound=Figures)
G = TypeVar("G", bound=Figures, covariant=True)


@dataclass(frozen=True, slots=True)
class Step(Generic[G]):
    """A step of the loop: its name on the disk, and the kind of its figures."""

    name: str
    kind: type[G]


BEGIN = Step("begin", SizeFigures)
POSSIBLE = Step("possible", PossibleFigures)
EVALUATE = Step("evaluate", EvaluationFigures)
PROVE = Step("prove", VerificationFigures)  # of a policy that just got its fence
SEARCH = Step("search", SearchFigures)
VERIFY = Step("verify", VerificationFigures)
GOALS = Step("goals", WorldFigures)
RISKS = Step("risks", WorldFigures)
STRENGTHEN = Step("strengthen", FenceFigures)
REPAIR = Step("repair", RepairFigures)
STEPS: Mapping[str, Step[Figures]] = {
    one.name: one for one in (BEGIN, POSSIBLE, EVALUATE, PROVE, SEARCH, VERIFY, GOALS, RISKS, STRENGTHEN, REPAIR)
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a step: its name in the campaign's folder, and its checksum."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Record(Generic[G]):
    """A step that is done; `files` are by role, as in "policy" or "faults"."""

    iteration: int
    step: Step[G]
    figures: G
    seconds: float
    files: Mapping[str, StoredFile]

    def line(self) -> Json:
        """Return the figures as one flat JSON object."""
        return {"iteration": self.iteration, "step": self.step.name, **self._figures()}

    def to_json(self) -> Json:
        """Return the record as the journal holds it."""
        files = {role: record_to_json(file) for role, file in self.files.items()}
        return {"iteration": self.iteration, "step": self.step.name, "figures": self._figures(), "files": files}

    def _figures(self) -> Json:
        return {**record_to_json(self.figures), "seconds": self.seconds}

    @classmethod
    def from_json(cls, document: Any, where: Where) -> Record[Figures]:
        """Return the record that the journal holds."""
        stored = record_from_json(_Stored, document, where)
        step = STEPS.get(stored.step)
        if step is None:
            raise InputError(f"there is no step '{stored.step}'.", where.at("step"), HINT)
        place = where.at("figures")
        seconds = record_from_json(_Seconds, stored.figures, place).seconds
        figures = record_from_json(step.kind, stored.figures, place)
        return Record(stored.iteration, step, figures, seconds, stored.files)


@dataclass(frozen=True, slots=True)
class _Stored:
    iteration: int
    step: str
    figures: Mapping[str, Any]
    files: Mapping[str, StoredFile]


@dataclass(frozen=True, slots=True)
class _Seconds:
    seconds: float
