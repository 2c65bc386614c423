"""What a smaller game tells: a verdict for each combination of the values of a few variables, and perhaps why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

FAR = 2**63 - 1
"""Beyond every top."""


@dataclass(frozen=True, slots=True, eq=False)
class GameVerdicts:
    """A pattern and, for each combination of its variables' values (the last one fastest), the verdict; 0 where there is none.

    A real variable has a line: the lower end, cells per unit, cells. A clock, (variable, value), says up to when all this holds.
    A top, (variable, value), makes all values from there on one. Ranks, one axis per variable, say how many steps `fail` can be put
    off at most where that is lost (-1 where it is not); they are the evidence.
    """

    variables: tuple[int, ...]
    verdicts: NDArray[np.uint8]
    tops: tuple[tuple[int, int], ...] = ()
    lines: tuple[tuple[float, float, int], ...] = ()
    clocks: tuple[tuple[int, int], ...] = ()
    ranks: NDArray[np.int32] | None = None

    @property
    def share(self) -> Fraction:
        """Return the share of combinations with a verdict."""
        return Fraction(int(np.count_nonzero(self.verdicts)), len(self.verdicts))

    def loses(self, least: Sequence[int], values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which states, rows of values, are lost and have a rank above 0; `least` are the variables' least values."""
        if self.ranks is None:
            return np.zeros(len(values), dtype=np.bool_)
        tops = dict(self.tops)
        index = tuple(np.minimum(values[:, k], tops.get(k, FAR)) - least[k] for k in self.variables)
        lost: NDArray[np.bool_] = self.ranks[index] > 0
        return lost
