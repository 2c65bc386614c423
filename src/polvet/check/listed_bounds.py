"""Which outputs a table or a rule list cannot choose anywhere in a box: the checker's own view, in numpy over many boxes at once.

Tables: every row is compared by itself. A box has as many rows as states, or else states that are not listed and get the default.
Rules: conditions are three-valued over a box (`check.box_view`); the label may be that of every rule that may hold, up to the first that
surely does. SOUND: where a state of a box may have neither a row nor a rule, or a value that float32 rounds, nothing is said of the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import interval
from polvet.check.policy_bounds import Bools, Floats, Rows
from polvet.errors import Where
from polvet.model.infix import parse_expression
from polvet.policy.rules import Rules
from polvet.policy.tables import Table

EXACT = 2.0**24
"""Integers up to this are float32 numbers."""
AT_ONCE = 4_000_000
"""Rows times boxes that are compared in one piece."""


def wins(scores: npt.ArrayLike, output: int, rival: int) -> Bools:
    """Return in which rows of scores [n, outputs] the rival is preferred to the output: ties go to the lower number."""
    table = np.asarray(scores, dtype=np.float64)
    ahead: Bools = table[:, rival] >= table[:, output] if rival < output else table[:, rival] > table[:, output]
    return ahead


class TableBounds:
    """What rows and the default of one table say of boxes; its inputs are the given variables."""

    def __init__(self, table: Table, places: Sequence[int]) -> None:
        self.places = list(places)
        count = len(table.inputs)
        self.points = np.array(list(table.rows), dtype=np.float64).reshape(len(table.rows), count)
        self.scores = np.array(list(table.rows.values()), dtype=np.float64).reshape(len(table.rows), len(table.outputs))
        self.default = None if table.default is None else np.eye(len(table.outputs))[[table.default]]

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: is the rival preferred to the output everywhere; [n, variables]: which of them rows tell apart."""
        beaten = np.zeros((len(lower), len(rivals)), dtype=np.bool_)
        matters = np.zeros(lower.shape)
        matters[:, self.places] = 1.0
        low, high = lower[:, self.places], upper[:, self.places]
        lost = np.stack([~wins(self.scores, output, rival) for rival in rivals], axis=1) if rivals else None
        step = max(1, AT_ONCE // max(1, len(self.points)))
        for begin in range(0, len(lower) if lost is not None else 0, step):
            part = slice(begin, begin + step)
            inside = np.ones((len(low[part]), len(self.points)), dtype=np.bool_)
            for column in range(len(self.places)):
                values = self.points[:, column]
                inside &= (values >= low[part, column, None]) & (values <= high[part, column, None])
                inside &= np.floor(values) == values
            full = inside.sum(axis=1) == np.prod(high[part] - low[part] + 1, axis=1)
            assert lost is not None
            beaten[part] = ~(inside.astype(np.float32) @ lost.astype(np.float32) > 0)
            for column, rival in enumerate(rivals):
                others = False if self.default is None else bool(wins(self.default, output, rival)[0])
                beaten[part, column] &= full | others
        beaten &= _exact(low, high)[:, None] & (len(set(self.places)) == len(self.places))
        return beaten, matters


class RuleBounds:
    """What the conditions of one rule list say of boxes."""

    def __init__(self, rules: Rules, places: Sequence[int]) -> None:
        self.places = list(places)
        self.place: Mapping[str, int] = dict(zip(rules.inputs, places, strict=True))
        self.conditions = [parse_expression(rule.when, Where("rules")) for rule in rules.rules]
        self.labels = [rules.outputs.index(rule.action) for rule in rules.rules]
        self.count = len(rules.outputs)

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: is the rival preferred to the output everywhere; [n, variables]: which of them are read."""
        beaten = np.zeros((len(lower), len(rivals)), dtype=np.bool_)
        matters = np.zeros(lower.shape)
        matters[:, self.places] = 1.0
        ahead = np.ones((len(lower), len(rivals)), dtype=np.bool_)  # of every label that rules so far may give
        pending = np.ones(len(lower), dtype=np.bool_)
        for condition, label in zip(self.conditions, self.labels, strict=True):
            surely, possibly = interval(condition, self.place, lower, upper)
            better = np.array(
                [bool(wins(np.eye(self.count)[[label]], output, rival)[0]) for rival in rivals], dtype=np.bool_
            )
            ahead &= better | ~(pending & (possibly != 0))[:, None]
            ended = pending & (surely == 1)
            beaten[ended] = ahead[ended]
            pending &= ~ended
        beaten &= _exact(lower[:, self.places], upper[:, self.places])[:, None]
        return beaten, matters


def _exact(low: Floats, high: Floats) -> Bools:
    """Return which boxes have no value of an input that float32 rounds."""
    if not low.shape[1]:
        return np.ones(len(low), dtype=np.bool_)
    exact: Bools = np.maximum(np.abs(low), np.abs(high)).max(axis=1) <= EXACT
    return exact
