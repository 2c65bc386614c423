"""An explorer crosses a field and must report over lossy channels now and then.

Source  "safety-constrained reinforcement learning", ComExp: 6,6,6 has 823 states, 2603 choices, 3726 branches, and
        8,8,6 has 1495, 4859, 6953.
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.model.build import Assignments, ModelBuilder
from polvet.model.terms import Term, every, least

ATTEMPTS = 3
MOVE_COST, CHANNEL_COST = Fraction(3, 100), {"near": Fraction(4), "far": Fraction(10)}


def comexp(*, width: int = 6, height: int = 6, distance: int = 6) -> Instance:
    """Return the field; `distance` - 1 moves without a message through is the failure, the far corner the goal.

    The explorer moves `left`, `right`, `up` or `down`, or talks over the channel `near` or `far`. A message that gets
    through sets the moves since the last one to 0; one that is lost may be repeated, three attempts in all, and until
    then there is only talking. `near` gets worse away from the start, `far` is worse but does not; along the left side
    the base is in sight and `far` never fails. On the relay in the middle a message always gets through, and an
    explorer who arrives with news sends it. At the goal everything ends. Cost `energy`: 0.03 a move, 4 or 10 a message.

    Facts   823 states and 2603 choices, 1495 states and 4859 choices, as in Table 1; 3719 and 6947 branches (the table:
            3726 and 6953). Ten and fourteen moves at 0.03 are the table's lower bounds 0.3 and 0.42.
    Differs the paper does not give the relays, the loss of each channel, nor what counts as too far; relay and rules of
            talking were chosen to meet the table. The branches are not met exactly: they depend on where a message is
            certain to arrive, which the text does not say.
    """
    m = ModelBuilder(f"comexp_{width}_{height}_{distance}")
    m.note("description", "Cross a field, and report often enough over lossy channels.")
    x, y = m.int("x", 0, width - 1, initial=0), m.int("y", 0, height - 1, initial=0)
    moved = m.int("moved", 0, distance - 1, initial=0)
    tried = m.int("tried", 0, ATTEMPTS, initial=0)
    energy = m.transient("energy")
    goal = width - 1, height - 1
    relay = width // 2, height // 2

    def talk(channel: str, here: Term, loss: Fraction) -> None:
        through: Assignments = {moved: 0, tried: 0}
        outcomes = [(1 - loss, through), (loss, {tried: tried + 1})]
        m.edge(
            channel,
            guard=every(here, tried < ATTEMPTS),
            to=[one for one in outcomes if one[0] != 0],
            assign={energy: CHANNEL_COST[channel]},
        )

    for column in range(width):
        for row in range(height):
            cell = column, row
            here = every(x == column, y == row)
            if cell == goal:
                m.edge("stay", guard=here)
                continue
            may_move = moved == 0 if cell == relay else (tried == 0) | (tried == ATTEMPTS)
            for label, dx, dy in (("left", -1, 0), ("right", 1, 0), ("down", 0, -1), ("up", 0, 1)):
                to = column + dx, row + dy
                if not (0 <= to[0] < width and 0 <= to[1] < height):
                    continue
                count: object = 0 if to == goal else least(moved + 1, distance - 1)
                target: dict[Term, object] = {moved: count, tried: 0}
                target[x if dx else y] = to[0] if dx else to[1]
                m.edge(label, guard=every(here, may_move), to=target, assign={energy: MOVE_COST})
            if cell == relay:
                talk("near", here, Fraction(0))
            else:
                talk("near", here, Fraction(1, 10) + Fraction(8, 10) * Fraction(column + row, width + height))
                talk("far", here, Fraction(0) if column == 0 else Fraction(3, 10))
    arrived = every(x == goal[0], y == goal[1])
    m.cost("energy", energy, arrived)
    return Instance.of(m, fail=moved == distance - 1, goal=arrived)
