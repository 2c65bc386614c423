"""A robot crosses a grid in which a janitor wanders about.

Source  "safety-constrained reinforcement learning", Janitor: 5,5 has 625 states, 1125 choices, 3545 branches.
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.model.build import Assignments, ModelBuilder
from polvet.model.terms import Term, every


def waiting_cells(width: int, height: int) -> list[tuple[int, int]]:
    """Return the cells where the robot may wait: the start and three others, never the goal."""
    cells = [(0, 0), (width // 2, 0), (0, height // 2), (width // 2, height // 2)]
    return [cell for cell in dict.fromkeys(cells) if cell != (width - 1, height - 1)]


def janitor(*, width: int = 5, height: int = 5) -> Instance:
    """Return the grid; robot and janitor on one cell is the failure, the opposite corner the goal.

    The robot goes `right` or `up`, or waits on one of four cells (`wait`); in the same step the janitor moves to one of
    its neighbouring cells, all equally likely. At the goal nothing moves any more. Cost `fuel`: what the surface the
    robot leaves is worth.

    Facts   625 states, 1125 choices, 3545 branches for 5,5, as in Table 1; the least fuel is its lower bound 84.
    Differs the paper speaks of turning and of moving forward; the numbers of its table come out when the robot turns
            and moves at once, only towards the goal, and may wait on four cells. Which cells, and the fuel
            (9, 12 or 15 in stripes), are decided here.
    """
    m = ModelBuilder(f"janitor_{width}_{height}")
    m.note("description", "Cross a grid past a janitor who wanders about.")
    x, y = m.int("x", 0, width - 1, initial=0), m.int("y", 0, height - 1, initial=0)
    jx, jy = m.int("jx", 0, width - 1, initial=width - 1), m.int("jy", 0, height - 1, initial=height - 1)
    fuel = m.transient("fuel")
    at_goal = every(x == width - 1, y == height - 1)
    ways: list[tuple[str, Term, Assignments]] = [
        ("right", every(x < width - 1, ~at_goal), {x: x + 1}),
        ("up", every(y < height - 1, ~at_goal), {y: y + 1}),
        *(("wait", every(x == cx, y == cy), {}) for cx, cy in waiting_cells(width, height)),
    ]
    burnt = 9 + 3 * ((x + 2 * y) % 3)
    for jc in range(width):
        for jr in range(height):
            steps: list[Assignments] = []
            if jc > 0:
                steps.append({jx: jc - 1})
            if jc < width - 1:
                steps.append({jx: jc + 1})
            if jr > 0:
                steps.append({jy: jr - 1})
            if jr < height - 1:
                steps.append({jy: jr + 1})
            share = Fraction(1, len(steps))
            for label, guard, moved in ways:
                outcomes = [(share, {**moved, **step}) for step in steps]
                m.edge(label, guard=every(guard, jx == jc, jy == jr), to=outcomes, assign={fuel: burnt})
    m.edge("wait", guard=at_goal)
    met = every(x == jx, y == jy)
    m.cost("fuel", fuel, at_goal)
    return Instance.of(m, fail=met, goal=every(at_goal, ~met))
