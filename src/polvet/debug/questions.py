"""Which faults are asked for: those of safety, those of the goal, or those relative to a bound on the risk."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from polvet.choices import one_of
from polvet.errors import InputError, Where
from polvet.files import Figures
from polvet.model.options import ADVERSARIAL, DRAWN, FAIR
from polvet.numbers import exact
from polvet.safety.bound import parse_risk

KINDS = ("safety", "goal", "risk")
BEST = "best"


@dataclass(frozen=True, slots=True)
class Question:
    """Which faults are asked for."""

    kind: str
    goal_chance: Fraction | None  # None: the best there is
    max_risk: Fraction | None
    delta: Fraction

    @classmethod
    def of(cls, kind: str, goal_chance: str | float, max_risk: str | float | None, delta: str | float) -> Question:
        """Return the question in a user's words, or raise an InputError; a bound on the risk alone asks for risks."""
        one_of(kind, KINDS, "--kind")
        kind = "risk" if max_risk is not None and kind == "safety" else kind
        if (kind == "risk") != (max_risk is not None):
            what = (
                "faults relative to a risk need its bound."
                if kind == "risk"
                else "goal faults know no bound on the risk."
            )
            raise InputError(what, Where("--max-risk"), "Give --max-risk B with --kind risk, and only there.")
        best = str(goal_chance) == BEST
        chance, room = 1 if best else exact(str(goal_chance)), exact(str(delta))
        if kind != "goal" and chance not in (None, 1):
            raise InputError(
                "belongs to goal faults.", Where("--goal-chance"), "Give --kind goal, too, or leave it out."
            )
        if kind != "risk" and room not in (None, 0):
            raise InputError(
                "belongs to faults relative to a risk.", Where("--delta"), "Give --max-risk, too, or leave it out."
            )
        if chance is None or not 0 < chance <= 1:
            raise InputError(
                f"{str(goal_chance)[:40]!r} is no probability.", Where("--goal-chance"), "Give one above 0, or best."
            )
        if room is None or not 0 <= room < 1:
            raise InputError(f"{str(delta)[:40]!r} is no probability.", Where("--delta"), "Give one from 0 to below 1.")
        most = None if max_risk is None else parse_risk(max_risk, Where("--max-risk"))
        return cls(kind, None if best else Fraction(chance), most, Fraction(room))

    @property
    def figures(self) -> Figures:
        """Return what was asked as JSON documents hold it."""
        if self.kind == "goal":
            chance = BEST if self.goal_chance is None else str(self.goal_chance)
            return {"kind": self.kind, "goal_chance": chance, "environment": FAIR if chance == "1" else DRAWN}
        if self.kind == "risk":
            asked = {"max_risk": str(self.max_risk), "delta": str(self.delta), "environment": ADVERSARIAL}
            return {"kind": self.kind, **asked}
        return {"kind": self.kind}
