"""The states that an abstraction does not reach, as boxes: so its result is written like every other box invariant.

Predicates on one variable cut its range into segments, so an abstract state is a cell of a grid. Predicates on several variables must
have the same truth value in all reached states; then they are rows that hold.
Cost     at most one box per reached abstract state and variable
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polvet.symbolic.cells import Box, Row
from polvet.verify.predicates import AbstractState, Predicate

Segment = tuple[int, int]


def rows_and_unreached(
    predicates: Sequence[Predicate], reached: Collection[AbstractState], bounds: Box
) -> tuple[list[Row], list[Box]] | None:
    """Return rows that hold in all reached abstract states, and boxes around all others; None where that is impossible.

    >>> inside = [Predicate(((0, 1),), 2), Predicate(((0, 1),), 4)]
    >>> rows_and_unreached(inside, [(False, True)], Box((0,), (9,)))
    ([], [Box(lower=(0,), upper=(2,)), Box(lower=(5,), upper=(9,))])
    """
    rows = []
    cuts: list[dict[int, int]] = [{} for _ in bounds.lower]  # per variable: bound -> number of the predicate
    for number, predicate in enumerate(predicates):
        if len(predicate.terms) == 1 and predicate.terms[0][1] == 1:
            cuts[predicate.terms[0][0]][predicate.bound] = number
            continue
        values = {state[number] for state in reached}
        if len(values) > 1:
            return None
        rows += [predicate.row(value) for value in values]
    segments = [
        _segments(low, high, sorted(mine)) for low, high, mine in zip(bounds.lower, bounds.upper, cuts, strict=True)
    ]
    tails = set()
    for state in reached:
        # The first predicate x <= b that is true tells the segment.
        tails.add(
            tuple(
                sum(not state[mine[b]] for b in mine if _cuts(b, low, high))
                for low, high, mine in zip(bounds.lower, bounds.upper, cuts, strict=True)
            )
        )
    boxes = [
        Box(tuple(low for low, _ in sides), tuple(high for _, high in sides))
        for sides in _unreached(segments, frozenset(tails))
    ]
    return rows, boxes


def _cuts(bound: int, low: int, high: int) -> bool:
    return low <= bound < high


def _segments(low: int, high: int, bounds: Sequence[int]) -> list[Segment]:
    ends = [bound for bound in bounds if _cuts(bound, low, high)]
    return list(zip([low, *(end + 1 for end in ends)], [*ends, high], strict=True))


def _unreached(segments: Sequence[list[Segment]], tails: frozenset[tuple[int, ...]]) -> list[list[Segment]]:
    """Return boxes around the grid cells that are not among the tails; neighbours with equal rests are one."""
    if not tails:
        return [[(side[0][0], side[-1][1]) for side in segments]]
    if not segments:
        return []
    boxes: list[list[Segment]] = []
    before: frozenset[tuple[int, ...]] | None = None
    run: Segment | None = None
    for number, (low, high) in [*enumerate(segments[0]), (-1, (0, 0))]:
        rest = None if number < 0 else frozenset(tail[1:] for tail in tails if tail[0] == number)
        if run is not None and rest == before:
            run = run[0], high
            continue
        if run is not None and before is not None:
            boxes += [[run, *other] for other in _unreached(segments[1:], before)]
        before, run = rest, (low, high)
    return boxes
