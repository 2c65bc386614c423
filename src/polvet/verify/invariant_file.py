"""Writing an `invariant` certificate: rows that hold, boxes that are never entered, all over names of variables.

The invariant is the set of states within the variables' bounds that satisfy every row, are not in `fail` and are in no
box of `blocked`. A row bounds the sum of its terms, coefficient * variable, and marks, coefficient * [variable = value]. A box
lists only the variables it restricts: {"x": [lower, upper]}. `check/invariant_claim.py` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from polvet.check.invariant_space import variable_bounds
from polvet.model.task import Task
from polvet.records.certificate_files import Certificate


class RowLike(Protocol):
    """A row of `symbolic.cells`, seen from here."""

    @property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """Pairs (variable, coefficient)."""

    @property
    def marks(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (variable, value, coefficient) that count equalities."""

    @property
    def lower(self) -> int | None:
        """The least value."""

    @property
    def upper(self) -> int | None:
        """The greatest value."""


class BoxLike(Protocol):
    """A box of `symbolic.cells`, seen from here."""

    @property
    def lower(self) -> tuple[int, ...]:
        """The least value of each variable."""

    @property
    def upper(self) -> tuple[int, ...]:
        """The greatest value of each variable."""


def invariant_certificate(
    task: Task, policy_sha256: str | None, rows: Sequence[RowLike], blocked: Sequence[BoxLike]
) -> Certificate:
    """Return the certificate that runs of the policy stay in the invariant; `options` are added by who knows them."""
    variables = task.network.variables
    bounds = [variable_bounds(variable) for variable in variables]
    return {
        "kind": "invariant",
        "format": "certificate/1",
        "task_sha256": task.sha256,
        "policy_sha256": policy_sha256,
        "rows": [
            {
                "terms": {variables[place].name: coefficient for place, coefficient in row.terms},
                "marks": [[variables[place].name, value, coefficient] for place, value, coefficient in row.marks],
                "lower": row.lower,
                "upper": row.upper,
            }
            for row in rows
        ],
        "blocked": [
            {
                variables[place].name: [low, high]
                for place, (low, high) in enumerate(zip(box.lower, box.upper, strict=True))
                if (low, high) != bounds[place]
            }
            for box in blocked
        ],
    }
