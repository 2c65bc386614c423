"""What a smaller game tells: a verdict for each combination of the values of a few variables, and perhaps why."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Told:
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
