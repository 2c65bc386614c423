"""Sets of states as vectors of affine forms, many at once; and what is left of them where symbols are kept in parts of their ranges.

A set is all states whose values are center + slopes e + error d for some symbols e and d within [-1, 1] and that lie in its box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polvet.check.affine_forms import Bools, Floats

SLACK = 2.0**-44
"""Far more than a sum over the symbols and a few operations lose, relative to their magnitudes."""
LEAST = 2.0**-1000
"""More than what underflow can lose here."""


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """n sets of states: center [n, variables], slopes [n, variables, symbols], error [n, variables], boxes around them."""

    center: Floats
    slopes: Floats
    error: Floats
    ends: tuple[Floats, Floats]

    def __len__(self) -> int:
        return len(self.center)

    def take(self, chosen: Sequence[int] | Bools | np.ndarray) -> Sets:
        """Return some of them."""
        ends = self.ends[0][chosen], self.ends[1][chosen]
        return Sets(self.center[chosen], self.slopes[chosen], self.error[chosen], ends)

    def within(self, low: Floats, high: Floats) -> tuple[Sets, Bools]:
        """Return what is left with the symbols in these ranges [n, symbols], and of which sets something is (others mean nothing).

        SOUND: the parts of the ranges are made [-1, 1] again; what rounding loses is part of the error.
        """
        same = (low == -1.0) & (high == 1.0)
        middle = np.where(same, 0.0, low / 2 + high / 2)
        half = np.where(same, 1.0, np.maximum(high / 2 - low / 2, 0.0) * (1 + SLACK))
        slopes = self.slopes * half[:, None, :]
        size = np.abs(self.center) + np.abs(self.slopes).sum(axis=2) + self.error
        center = self.center + (self.slopes * middle[:, None, :]).sum(axis=2)
        changed = ~same.all(axis=1)
        error = self.error + np.where(changed[:, None], SLACK * size + LEAST, 0.0)
        radius = np.abs(slopes).sum(axis=2) + error + SLACK * size + LEAST
        least, most = np.maximum(self.ends[0], center - radius), np.minimum(self.ends[1], center + radius)
        there = (low <= high).all(axis=1) & (least <= most).all(axis=1)
        return Sets(center, slopes, error, (least, most)), there


def joined(parts: Sequence[Sets]) -> Sets:
    """Return the sets of several lists in one."""
    return Sets(
        np.concatenate([one.center for one in parts]),
        np.concatenate([one.slopes for one in parts]),
        np.concatenate([one.error for one in parts]),
        (np.concatenate([one.ends[0] for one in parts]), np.concatenate([one.ends[1] for one in parts])),
    )
