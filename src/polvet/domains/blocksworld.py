"""Blocksworld with failing moves and little space on the table.

Source  "policy predicate abstraction": 6 and 8 blocks; encoding, labels and names of the authors' own instances
        blocksworld_<blocks>_<table limit> (hand-empty, table-counter, block_i, clear_i, cost_block_i, step_cost).
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.model.build import Assignments, ModelBuilder
from polvet.model.terms import Term, every, total, when

HAND, TABLE = 0, 1  # positions of a block; from 2 on: on top of another block


def on(block: int, below: int) -> int:
    """Return the position of `block` when it stands on `below`: the other blocks are numbered from 2, in order.

    >>> [on(1, below) for below in (0, 2, 3)]
    [2, 3, 4]
    """
    return below + 2 if below < block else below + 1


def blocksworld(*, n: int = 6, cost: int = 12, failing: Fraction = Fraction(1, 2)) -> Instance:
    """Return the world of n blocks; more than n - 1 of them on the table is the failure.

    A policy chooses a block or the table: with an empty hand `choose_block_i` grasps block i, with a full hand
    `choose_block_i` and `choose_table` put the block in the hand there. A move fails with probability `failing`; then
    the cost of moving that block grows by one, and at `cost` the block cannot be moved any more. `cost` 0 leaves the
    costs out (what a cost-ignoring policy sees): a failed move then changes nothing.
    Start: the hand is empty and every block stands on the table or on a block with a larger index, not all on the
    table. Goal: one tower, block i on block i - 1.

    Facts   6 blocks have 202 start states, 8 have 4,139 (set partitions without the all-single one).
    Differs the paper does not say how large costs grow: 12 as in the authors' instance with 6 blocks.
    """
    m = ModelBuilder(f"blocksworld_{n}_{n - 1}")
    m.note("description", "Non-deterministic Blocksworld with limited table space.")
    empty = m.int("hand-empty", 0, 1, initial=1)
    on_table = m.int("table-counter", 0, n, initial=1)
    place = [m.int(f"block_{i}", 0, n, initial=on(i, i + 1) if i < n - 1 else TABLE) for i in range(n)]
    clear = [m.int(f"clear_{i}", 0, 1, initial=int(i == 0)) for i in range(n)]
    costs = [m.int(f"cost_block_{i}", 0, cost, initial=0) for i in range(n)] if cost else []
    step_cost = m.int("step_cost", 0, cost, initial=0) if cost else None
    m.labels("choose_table", *(f"choose_block_{i}" for i in range(n)))

    def move(label: str, block: int, guard: list[Term], effect: Assignments) -> None:
        done: dict[Term, object] = dict(effect)
        failed: dict[Term, object] = {}
        if step_cost is not None:
            guard = [*guard, costs[block] < cost]
            done[step_cost] = failed[step_cost] = costs[block]
            failed[costs[block]] = costs[block] + 1
        outcomes = [(1 - failing, done), (failing, failed)]
        m.edge(label, guard=every(*guard), to=[one for one in outcomes if one[0] != 0])

    for b in range(n):
        grasped: Assignments = {empty: 0, place[b]: HAND, clear[b]: 0}
        put: Assignments = {empty: 1, clear[b]: 1}
        holding = [place[b] == HAND, empty == 0, clear[b] == 0]
        move(
            f"choose_block_{b}", b, [empty == 1, clear[b] == 1, place[b] == TABLE], {**grasped, on_table: on_table - 1}
        )
        move("choose_table", b, holding, {**put, place[b]: TABLE, on_table: on_table + 1})
        for below in range(n):
            if below != b:
                position = on(b, below)
                move(
                    f"choose_block_{below}",
                    b,
                    [clear[below] == 1, *holding],
                    {**put, place[b]: position, clear[below]: 0},
                )
                move(
                    f"choose_block_{b}",
                    b,
                    [empty == 1, clear[b] == 1, place[b] == position, clear[below] == 0],
                    {**grasped, clear[below]: 1},
                )

    stacked = [(place[b] == TABLE) | (place[b] >= on(b, b + 1)) if b < n - 1 else place[b] == TABLE for b in range(n)]
    topped = [clear[b] + total(*(when(place[o] == on(o, b), 1, 0) for o in range(n) if o != b)) == 1 for b in range(n)]
    counted = on_table == total(*(when(one == TABLE, 1, 0) for one in place))
    unspent = [one == 0 for one in (*costs, *([] if step_cost is None else [step_cost]))]
    start = every(empty == 1, *stacked, *topped, counted, on_table <= n - 1, *unspent)
    goal = every(place[0] == TABLE, *(place[b] == on(b, b - 1) for b in range(1, n)))
    return Instance.of(m, start=start, fail=on_table >= n, goal=goal)
