"""Debug a robot that crosses a warehouse in which two people walk: safe, and still useful.

The world: 12 x 12 cells with shelves, some of them slippery; two people walk up and down an aisle each, which every way crosses, and
stop now and then. The policy is XGBoost fitted to shortest ways that look at nobody. Debugging makes it safe, and each repair is
judged by the best policy so far: how often it reaches the goal, and in how many steps. Only runs that reach the goal count for the
steps, and those of the careless policy are quick; the fewest that a safe one needs stand beside. Run: python examples/warehouse.py
"""

from __future__ import annotations

import argparse
from collections import deque
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import polvet

MAP = (
    "...........G",
    ".##.####.##.",
    "............",
    ".~~......~~.",
    ".##.####.##.",
    "............",
    ".##.####.##.",
    "..~......~..",
    "............",
    ".##.####.##.",
    "............",
    "............",
)
SIZE = len(MAP)
WAYS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0), "wait": (0, 0)}
WALK = SIZE - 1
"""Each person goes so many cells and back; one along row 6, one along row 9."""
STOPS, SLIPS = Fraction(1, 2), Fraction(1, 5)
Cell = tuple[int, int]


def ground(x: int, y: int) -> str:
    """Return what is on the cell; row 0 is the last line of the map."""
    return MAP[SIZE - 1 - y][x] if 0 <= x < SIZE and 0 <= y < SIZE else "#"


FREE: list[Cell] = [(x, y) for x, y in product(range(SIZE), repeat=2) if ground(x, y) != "#"]
GOAL: Cell = next(cell for cell in FREE if ground(*cell) == "G")


def moved(cell: Cell, way: Cell) -> Cell:
    """Return where one step leads; shelves and walls are not entered."""
    there = cell[0] + way[0], cell[1] + way[1]
    return there if ground(*there) != "#" else cell


def world(start: int) -> polvet.Task:
    """Return the task; the robot starts in the lowest rows, so many of them, and people are anywhere on their ways."""
    m = polvet.ModelBuilder("warehouse")
    x, y = m.int("x", 0, SIZE - 1, initial=0), m.int("y", 0, SIZE - 1, initial=0)
    ann, bob = (m.int(name, 0, 2 * WALK - 1, initial=0) for name in ("ann", "bob"))
    m.labels(*WAYS)
    for cell, (label, way) in product(FREE, WAYS.items()):
        once = moved(cell, way)
        outcomes: dict[Cell, Fraction] = {once: Fraction(1)}
        if ground(*cell) == "~" and moved(once, way) != once:
            outcomes = {once: 1 - SLIPS, moved(once, way): SLIPS}
        people = [
            ((1 - STOPS) ** (a + b) * STOPS ** (2 - a - b), {ann: (ann + a) % (2 * WALK), bob: (bob + b) % (2 * WALK)})
            for a, b in product((0, 1), repeat=2)
        ]
        to = [(p * q, {x: tx, y: ty, **walked}) for (tx, ty), p in outcomes.items() for q, walked in people]
        m.edge(label, guard=(x == cell[0]) & (y == cell[1]), to=to)
    met = f"(y == 6 && x == min(ann, {2 * WALK} - ann)) || (y == 9 && x == min(bob, {2 * WALK} - bob))"
    return polvet.load(
        m, fail=met, goal=f"x == {GOAL[0]} && y == {GOAL[1]}",
        start=f"y < {start} && ann % 2 == 0 && bob % 2 == 0 && !({met})",
    )  # fmt: skip


def shortest_ways() -> dict[Cell, str]:
    """Return for each cell the first step of a shortest way to the goal, people or not."""
    step, queue = {GOAL: "wait"}, deque([GOAL])
    while queue:
        here = queue.popleft()
        for label, way in WAYS.items():
            before = here[0] - way[0], here[1] - way[1]
            if before in FREE and before not in step and moved(before, way) == here:
                step[before] = label
                queue.append(before)
    return step


def learn(task: polvet.Task, rounds: int) -> Any:
    """Return XGBoost fitted to the shortest ways."""
    import numpy as np
    import xgboost

    labels, ways = list(task.labels), shortest_ways()
    rows = [(*cell, a, b) for cell in FREE for a, b in product(range(0, 2 * WALK, 3), repeat=2)]
    wanted = {"objective": "multi:softprob", "num_class": len(labels), "max_depth": 6, "seed": 0, "nthread": 1}
    data = xgboost.DMatrix(np.array(rows, dtype=float), label=np.array([labels.index(ways[row[:2]]) for row in rows]))
    return xgboost.train(wanted, data, num_boost_round=rounds)


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=1, help="rows in which the robot starts")
    parser.add_argument("--rounds", type=int, default=15, help="of XGBoost")
    parser.add_argument("--max-risk", help="a probability of failing that is allowed, such as 0.05")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/warehouse"))
    options = parser.parse_args()
    task = world(options.start)
    policy = task.policy(learn(task, options.rounds))
    campaign = policy.debug(options.output, max_risk=options.max_risk)
    print("repairs  %Unsafe   %Goal  steps  new faults")
    for row in campaign.iterations:
        print(
            f"{row['iteration']:7}  {row['unsafe_percent']:7.2f}  {row['goal_percent']:6.2f}  {row['run_length']:5.1f}"
            f"  {row.get('new_faults') or 0:10}"
        )
    print("outcome:", campaign.outcome)
    best, fewest = campaign.figures["goal_percent_possible"], campaign.figures["run_length_possible"]
    print(f"best possible for a safe policy: %Goal {best:.2f}, in {fewest:.1f} steps or more")
    if campaign.figures.get("risk_upper") is not None:
        print(f"risk: {campaign.figures['risk_upper_first']:.4f} -> {campaign.figures['risk_upper']:.4f}")
    print("checker:", polvet.certify(campaign, task, campaign.policy))


if __name__ == "__main__":
    main()
