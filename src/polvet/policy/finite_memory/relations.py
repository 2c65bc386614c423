"""Relations between counters that hold in a control state, such as `x <= y` or `x + y = 5`, and what they say of intervals.

A relation bounds a sum: `sum(coefficient * variable) <= bound`; an equation is two of them. A box of intervals is tightened by
bounding each term with the smallest values of the others: exact on integers, and an over-approximation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Interval = tuple[int | None, int | None]
Box = tuple[Interval, ...]
Form = tuple[tuple[int, int], ...]
"""(index of the variable, coefficient), in the order of the variables, without zeros."""
PASSES = 2


@dataclass(frozen=True, slots=True)
class Relation:
    """`sum(coefficient * variable) <= bound`."""

    form: Form
    bound: int


Relations = Mapping[str, Sequence[Relation]]
"""By control state."""


def least(form: Iterable[tuple[int, int]], box: Sequence[Interval]) -> int | None:
    """Return the smallest value of the sum over the box, None if it has none."""
    total = 0
    for variable, coefficient in form:
        end = box[variable][0 if coefficient > 0 else 1]
        if end is None:
            return None
        total += coefficient * end
    return total


def greatest(form: Form, box: Sequence[Interval]) -> int | None:
    """Return the largest value of the sum over the box, None if it has none."""
    value = least([(variable, -coefficient) for variable, coefficient in form], box)
    return None if value is None else -value


def tightened(box: Box, relations: Sequence[Relation]) -> Box | None:
    """Return the box without values that contradict a relation; None if no point is left.

    >>> tightened(((2, None), (None, 7)), [Relation(((0, 1), (1, -1)), 0)])
    ((2, 7), (2, 7))
    """
    cut = list(box)
    for _ in range(PASSES):
        for relation in relations:
            for variable, coefficient in relation.form:
                rest = least([term for term in relation.form if term[0] != variable], cut)
                if rest is None:
                    continue
                low, high = cut[variable]
                if coefficient > 0:  # variable <= (bound - rest) / coefficient
                    end = (relation.bound - rest) // coefficient
                    high = end if high is None else min(high, end)
                else:
                    end = -((relation.bound - rest) // -coefficient)
                    low = end if low is None else max(low, end)
                if low is not None and high is not None and low > high:
                    return None
                cut[variable] = low, high
    return tuple(cut)
