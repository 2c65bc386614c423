"""What a campaign's final policy is still good for: its %Goal beside that of the policies before it and the best possible one.

The budget (`--max-goal-loss`) is counted from the best policy so far, safe or not. Where it is broken, the loss is part of
the outcome; where even the best of all safe policies stays below what the budget allows, the loss is *forced*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polvet.campaign.record import Figures, Interval, Record
from polvet.campaign.rows import fold
from polvet.files import Json

ROUNDING = 1e-6
"""Points of %Goal within which exact figures may differ."""
TOLD = 0.05
"""Steps are told with one decimal."""


@dataclass(frozen=True, slots=True)
class Usefulness:
    """%Goal of the first, the best and the last policy on the evaluation starts, in points, each with its interval."""

    first: float
    best: float
    last: float
    first_interval: Interval
    best_interval: Interval
    last_interval: Interval
    allowed_loss: float
    possible: float | None = None  # of any safe policy, an upper bound; None: not known
    first_length: float | None = None  # mean number of steps of the runs that reach the goal
    last_length: float | None = None
    possible_length: float | None = (
        None  # of a safe policy that always reaches the goal, a lower bound; None: not known, or none
    )

    @property
    def lost(self) -> bool:
        """Whether the budget is broken."""
        return self.last < self.best - self.allowed_loss - ROUNDING

    @property
    def forced(self) -> bool:
        """Whether no safe policy at all keeps the budget."""
        return self.possible is not None and self.possible < self.best - self.allowed_loss - ROUNDING

    def warning(self) -> str | None:
        """Return what is to be said where the budget is broken, or the goal is reached less often than it could be; else None."""
        if not self.lost:
            return self._shortfall()
        allowed = f"{self.allowed_loss:g} point" + ("" if self.allowed_loss == 1 else "s")
        says = f"%Goal fell from {self.best:.2f} to {self.last:.2f}, by more than the {allowed} that --max-goal-loss allows"
        if self.possible is None:
            return says
        limit = f"no safe policy reaches the goal in more than {self.possible:.2f}% of the runs"
        return (
            f"{says}; {limit}: a loss is forced" if self.forced else f"{says}, although {self.possible:.2f} is possible"
        )

    def _shortfall(self) -> str | None:
        """What a safe policy could reach that this one does not, although nothing was lost."""
        never = self.last <= ROUNDING
        says = "no run reaches the goal" if never else f"%Goal is {self.last:.2f}"
        if self.possible is not None and self.last < self.possible - self.allowed_loss - ROUNDING:
            limit = f"although {self.possible:.2f} is possible for a safe policy"
            return f"{says}, {limit}; `polvet faults --kind goal` says where it is given up"
        return says if never else None

    @property
    def longer(self) -> str | None:
        """Return how much longer the runs are that reach the goal, with the fewest steps beside it; None where they are not."""
        if self.first_length is None or self.last_length is None or self.last_length <= self.first_length + TOLD:
            return None
        says = f"{self.first_length:.1f} -> {self.last_length:.1f} on runs that reach the goal"
        if self.possible_length is None:
            return says
        return f"{says}; a safe policy that always reaches it needs {self.possible_length:.1f} or more"

    def figures(self) -> Json:
        """Return the same as numbers."""
        return {
            "goal_percent": self.last,
            "goal_percent_interval": list(self.last_interval),
            "goal_percent_first": self.first,
            "goal_percent_first_interval": list(self.first_interval),
            "goal_percent_best": self.best,
            "goal_percent_best_interval": list(self.best_interval),
            "goal_percent_possible": self.possible,
            "max_goal_loss": self.allowed_loss,
            "goal_lost": self.lost,
            "goal_loss_forced": self.lost and self.forced,
            "run_length": self.last_length,
            "run_length_first": self.first_length,
            "run_length_possible": self.possible_length,
        }


def usefulness(records: Sequence[Record[Figures]], iteration: int, allowed_loss: float) -> Usefulness | None:
    """Return what the records of a campaign's steps tell about the policy of the iteration; None where it was not evaluated."""
    rows = [row for row in fold(records) if row.iteration <= iteration]
    course = {row.iteration: row.evaluation for row in rows if row.evaluation is not None}
    if 0 not in course or iteration not in course:
        return None
    first, last = course[0], course[iteration]
    best = max(course.values(), key=lambda one: one.goal_percent)
    possible = rows[0].possible
    return Usefulness(
        first=first.goal_percent,
        best=best.goal_percent,
        last=last.goal_percent,
        first_interval=first.goal_percent_interval,
        best_interval=best.goal_percent_interval,
        last_interval=last.goal_percent_interval,
        allowed_loss=allowed_loss,
        possible=None if possible is None else possible.goal_percent_possible,
        first_length=first.run_length,
        last_length=last.run_length,
        possible_length=None if possible is None else possible.run_length_possible,
    )
