"""Flappy Bird: fly for ever through a tunnel of walls, with a wind that carries the bird on when it likes.

Source  "deciding state safety": the domain made to be hard for depth-first oracles.
"""

from __future__ import annotations

import random
from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.model.terms import Term, every, some, when

HALF = Fraction(1, 2)


def layout(width: int, height: int, walls: int, seed: int) -> list[tuple[int, int, int]]:
    """Return the walls as (column, lowest open row, highest open row), such that a safe way through always exists.

    The bird moves by one row for every column at most, so a gap is at most that far from the gaps beside it, also
    around the end of the world; a gap has at least two rows, so that the bird can flap in it.

    >>> layout(12, 6, 2, seed=1)
    [(4, 1, 2), (8, 4, 5)]
    """
    if walls > (width - 1) // 2:
        raise InputError(
            f"{walls} walls do not fit into {width} columns.",
            Where("domains flappy-bird"),
            f"Use at most {(width - 1) // 2}.",
        )
    if walls == 0:
        return []
    rng = random.Random(seed)
    columns = [(k + 1) * width // (walls + 1) for k in range(walls)]
    gap = max(2, height // 4)
    rows = [rng.randrange(height - gap + 1)]
    reach = [columns[k + 1] - columns[k] for k in range(walls - 1)] + [columns[0] + width - columns[-1]]
    for k in range(1, walls):
        # Not further from the one before than flying allows, and near enough to the first to come round.
        ahead = sum(max(0, one - 1) for one in reach[k:])
        least = max(0, rows[-1] - (reach[k - 1] - 1), rows[0] - ahead)
        most = min(height - gap, rows[-1] + (reach[k - 1] - 1), rows[0] + ahead)
        rows.append(rng.randint(least, most))
    return [(column, row, row + gap - 1) for column, row in zip(columns, rows, strict=True)]


def flappy_bird(*, width: int = 50, height: int = 20, walls: int = 5, seed: int = 1) -> Instance:
    """Return a world of width x height places with walls, each with a gap; being in a wall is the failure.

    `up` and `down` move the bird by one row, and the wind may or may not carry it one column to the right (probability
    1/2 each). Beyond the right side it comes in again on the left. There is no goal: a safe policy flies for ever.
    Start: in the first column, in a row from which the first gap is still within reach.

    Differs the paper gives neither walls nor sizes: walls stand evenly, gaps (a quarter of the height, at least two
            rows) are drawn from `seed` so that every start is safe. At the top the bird cannot go up, at the bottom it
            cannot go down; hitting the ceiling is no failure.
    """
    m = ModelBuilder(f"flappy_bird_{width}_{height}_{walls}")
    m.note("description", "Fly through gaps for ever; the wind carries the bird to the right when it likes.")
    x, y = m.int("x", 0, width - 1, initial=0), m.int("y", 0, height - 1, initial=height // 2)
    onward = when(x == width - 1, 0, x + 1)
    for label, step, exists in (("up", 1, y < height - 1), ("down", -1, y > 0)):
        m.edge(label, guard=exists, to=[(HALF, {y: y + step}), (HALF, {y: y + step, x: onward})])
    blocked: list[Term] = []
    places = layout(width, height, walls, seed)
    for column, low, high in places:
        beside = [y < low] * (low > 0) + [y > high] * (high < height - 1)
        blocked.append(every(x == column, some(*beside)))
    near = [every(y >= low - column, y <= high + column) for column, low, high in places[:1]]
    return Instance.of(m, start=every(x == 0, *near), fail=some(*blocked))
