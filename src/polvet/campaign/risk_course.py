"""What the policies of a campaign risk: from the first to the last, beside the bound that was asked for and the least there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polvet.campaign.record import RISKS, VERIFY, Figures, Record, VerificationFigures, WorldFigures
from polvet.files import Json
from polvet.numbers import exact

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RiskCourse:
    """The greatest probability of failing from any start state lies between two bounds, rounded outward."""

    allowed: str
    first: Bounds
    last: Bounds
    least: float | None  # of any policy, an upper bound; None: not known, or not asked for as the bound was kept

    def says(self) -> str:
        """Return the course in words."""
        beside = "" if self.least is None else f"; the least that any policy risks is {self.least:.6g}"
        return f"{_around(self.first)} -> {_around(self.last)}, at most {float(exact(self.allowed) or 0):g} allowed{beside}"

    def figures(self) -> Json:
        """Return the same as numbers."""
        return {
            "max_risk": self.allowed,
            "risk_lower": self.last[0],
            "risk_upper": self.last[1],
            "risk_lower_first": self.first[0],
            "risk_upper_first": self.first[1],
            "least_risk": self.least,
        }


def risk_course(records: Sequence[Record[Figures]], iteration: int, allowed: str | None) -> RiskCourse | None:
    """Return what the records tell about the policy of the iteration; None where nothing was asked, or found out yet."""
    if allowed is None:
        return None
    judged = {
        record.iteration: (record.figures.risk_lower or 0.0, record.figures.risk_upper)
        for record in records
        if record.step is VERIFY
        and isinstance(record.figures, VerificationFigures)
        and record.figures.risk_upper is not None
    }
    if 0 not in judged or iteration not in judged:
        return None
    worlds = [record.figures for record in records if record.step is RISKS and isinstance(record.figures, WorldFigures)]
    return RiskCourse(allowed, judged[0], judged[iteration], worlds[0].least_risk if worlds else None)


def _around(bounds: Bounds) -> str:
    low, high = (f"{one:.6g}" for one in bounds)
    return low if low == high else f"[{low}, {high}]"
