"""Sliding tiles with failing moves; one tile must never come to one place.

Source  "policy predicate abstraction": the 8-puzzle; labels and names of the authors' own instance npuzzle_3_3 (empty,
        tile_i, cost_tile_i, step_cost). Places are numbered row by row from 0.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from polvet.domains.instance import Instance
from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.model.terms import Term, every

GROUPS = 3  # the tiles are dealt into so many groups, each of them ordered at the start


def board(n: int) -> tuple[int, int]:
    """Return the columns and rows of a board for n tiles and one gap: as square as possible.

    >>> board(8), board(5), board(11)
    ((3, 3), (3, 2), (4, 3))
    """
    places = n + 1
    rows = next(rows for rows in range(isqrt(places), 0, -1) if places % rows == 0)
    return places // rows, rows


def sliding_tiles(*, n: int = 8, cost: int = 12, failing: Fraction = Fraction(1, 2), wrap: bool = False) -> Instance:
    """Return the puzzle of n tiles; tile 3 on the last-but-one place is the failure.

    `move_left` moves the gap to the left, that is, the tile left of it to the right; and so on. A move fails with
    probability `failing`; then the cost of moving that tile grows by one. A tile whose cost has reached `cost` moves
    without failing. `cost` 0 leaves the costs out.
    Start: tiles i, i + 3, i + 6, ... stand in order of their places, for i = 1, 2, 3, and the puzzle is neither failed
    nor solved. Goal: all tiles in reverse order, the gap last, as the authors' start condition excludes.

    Facts   the 8-puzzle has 4,900 start states (the authors' own condition gives 4,900 as well).
    Differs in the authors' instance a move to the left or right also goes from one row to the next (places differ by
            one); `wrap` chooses that, otherwise tiles stay in their row. Failure place and groups are theirs; for other
            sizes it is the last-but-one place.
            The goal is not in their file; it is the arrangement their start condition takes out.
    """
    columns, rows = board(n)
    if rows < 2:
        raise InputError(f"{n} tiles and a gap fill no board.", Where("domains sliding-tiles"), "Use n=3, 5, 8, ...")
    m = ModelBuilder(f"sliding_tiles_{columns}_{rows}")
    m.note("description", "A sliding puzzle whose moves may fail.")
    empty = m.int("empty", 0, n, initial=0)
    tiles = [m.int(f"tile_{i}", 0, n, initial=i) for i in range(1, n + 1)]
    costs = [m.int(f"cost_tile_{i}", 0, cost, initial=0) for i in range(1, n + 1)] if cost else []
    step_cost = m.int("step_cost", 0, cost, initial=0) if cost else None
    column = empty % columns
    moves: list[tuple[str, int, Term]] = [  # label, where the tile is relative to the gap, where the move exists
        ("move_left", -1, empty >= 1 if wrap else column >= 1),
        ("move_right", 1, empty < n if wrap else column <= columns - 2),
        ("move_up", -columns, empty >= columns),
        ("move_down", columns, empty < n + 1 - columns),
    ]
    for i, tile in enumerate(tiles):
        for label, step, exists in moves:
            here = every(tile == empty + step, exists)
            done: dict[Term, Term] = {tile: empty, empty: tile}
            if step_cost is None:
                m.edge(label, guard=here, to=[o for o in ((1 - failing, done), (failing, {})) if o[0] != 0])
                continue
            paid: dict[Term, Term] = {step_cost: costs[i]}
            outcomes = [(1 - failing, {**done, **paid}), (failing, {**paid, costs[i]: costs[i] + 1})]
            m.edge(label, guard=every(here, costs[i] < cost), to=[one for one in outcomes if one[0] != 0])
            m.edge(label, guard=every(here, costs[i] == cost), to={**done, **paid})

    different = [one != other for k, one in enumerate((empty, *tiles)) for other in (empty, *tiles)[:k]]
    ordered = [tiles[i] < tiles[i + GROUPS] for i in range(n - GROUPS)]
    solved = every(empty == n, *(tile == n - 1 - i for i, tile in enumerate(tiles)))
    failed = tiles[min(2, n - 1)] == n - 1
    unspent = [one == 0 for one in (*costs, *([] if step_cost is None else [step_cost]))]
    start = every(*ordered, *different, ~failed, ~solved, *unspent)
    return Instance.of(m, start=start, fail=failed, goal=solved)
