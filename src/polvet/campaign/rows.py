"""The course of a campaign: its records folded into one row per iteration, for tables on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from polvet.campaign.record import (
    EvaluationFigures,
    FenceFigures,
    Figures,
    PossibleFigures,
    Record,
    RepairFigures,
    SearchFigures,
    SizeFigures,
    VerificationFigures,
    WorldFigures,
)
from polvet.files import Json
from polvet.records.shape import record_to_json


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of all steps of an iteration; None: the step is not done."""

    iteration: int
    seconds: float = 0.0
    sizes: SizeFigures | None = None
    possible: PossibleFigures | None = None
    evaluation: EvaluationFigures | None = None
    search: SearchFigures | None = None
    verification: VerificationFigures | None = None
    world: WorldFigures | None = None  # goal faults, or those relative to a bound on the risk
    strengthening: FenceFigures | None = None
    fenced: bool = False  # whether strengthening gave a policy
    repair: RepairFigures | None = None
    new_faults: int | None = None  # of the search and of the verification after it
    faults_so_far: int | None = None

    @property
    def fence(self) -> FenceFigures | None:
        """Return what the policy's fence is, if it got one here."""
        return self.strengthening if self.fenced else None

    @property
    def change(self) -> FenceFigures | RepairFigures | None:
        """Return what made a new policy in this iteration: its fence or its repair."""
        is_new = self.repair is not None and self.repair.refused is None
        return self.fence or (self.repair if is_new else None)

    def to_json(self) -> Json:
        """Return the row as one JSON object; what a proof tried and what a fence cost stand in objects of their own."""
        row: Json = {"iteration": self.iteration, "seconds": self.seconds}
        for part in (self.sizes, self.possible, self.evaluation, self.search, self.repair):
            row |= {} if part is None else record_to_json(part)
        if self.new_faults is not None:
            row |= {"new_faults": self.new_faults, "faults_so_far": self.faults_so_far}
        if self.verification is not None:
            row["verification"] = record_to_json(self.verification)
        if self.world is not None:
            row["world"] = record_to_json(self.world)
        if self.strengthening is not None:
            row["strengthened"] = record_to_json(self.strengthening) | {"taken": self.fenced}
        return row


def fold(records: Iterable[Record[Figures]]) -> tuple[Row, ...]:
    """Return one row for each iteration, in their order."""
    rows: dict[int, Row] = {}
    for record in records:
        row = rows.get(record.iteration, Row(record.iteration))
        rows[record.iteration] = _add(replace(row, seconds=round(row.seconds + record.seconds, 3)), record)
    return tuple(row for _, row in sorted(rows.items()))


def _add(row: Row, record: Record[Figures]) -> Row:
    match record.figures:
        case SizeFigures() as sizes:
            return replace(row, sizes=sizes)
        case PossibleFigures() as possible:
            return replace(row, possible=possible)
        case EvaluationFigures() as evaluation:
            return replace(row, evaluation=evaluation)
        case SearchFigures() as search:
            return _with_faults(replace(row, search=search), search.new_faults, search.faults_so_far)
        case VerificationFigures() as verification:
            row = replace(row, verification=verification)
            return _with_faults(row, verification.new_faults, verification.faults_so_far)
        case WorldFigures() as world:
            return _with_faults(replace(row, world=world), world.new_faults, world.faults_so_far)
        case FenceFigures() as fence:
            return replace(row, strengthening=fence, fenced="policy" in record.files)
        case RepairFigures() as repair:
            return replace(row, repair=repair)


def _with_faults(row: Row, new: int | None, so_far: int | None) -> Row:
    return row if new is None else replace(row, new_faults=(row.new_faults or 0) + new, faults_so_far=so_far)
