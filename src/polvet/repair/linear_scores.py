"""What the linear programs know about a policy: its scores on some rows are linear in a change of its numbers."""

from __future__ import annotations

from typing import Protocol

from polvet.policy.protocol import Policy
from polvet.repair.demands import Reals
from polvet.solvers.highs import Row


class LinearScores(Protocol):
    """Scores on fixed rows as a linear function of a change (one number per column, 0: the policy as it is)."""

    @property
    def columns(self) -> int:
        """How many numbers may be changed."""

    def scores(self, change: Reals) -> Reals:
        """Return [rows, outputs]: the scores after the change, in doubles."""

    def terms(self, row: int, output: int) -> Row:
        """Return the columns and coefficients of the output's score in that row."""

    def apply(self, change: Reals) -> Policy:
        """Return the policy with the change made."""
