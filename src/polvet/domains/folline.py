"""A machine follows a line, at a speed it chooses; the faster, the more it strays.

Source  "safety-constrained reinforcement learning", FolLine: 30,15 has 455 states, 1265 choices, 3693 branches, and
        40,15 has 625, 1775, 5223.
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.model.terms import Term, every, when

STRAYS = {1: Fraction(1, 20), 2: Fraction(3, 20), 3: Fraction(6, 20)}  # speed: how likely to each side
SOFT_START = {"start_softly": Fraction(1, 100), "start_hard": Fraction(2, 5)}


def folline(*, length: int = 30, width: int = 15, stray: int = 0) -> Instance:
    """Return the line of `length` steps with `width` tolerable deviations from its centre; one more is the failure.

    `speed_1` to `speed_3` move on by so many positions; the deviation stays, or changes by one to either side, which is
    more likely at higher speed. The last three positions are the end, where nothing moves any more. Cost `time`: 30
    divided by the speed. `stray` is how many per cent more likely it strays to each side than by the numbers below, at any speed.

    Facts   all three numbers of both rows of Table 1.
    Differs the paper leaves speeds, probabilities and costs open. A machine that strayed too far goes on from there
            (beyond the last deviation it is reflected), as the numbers of the table ask for. They also ask for two more
            choices with three branches each, which the text does not explain: here the machine may start softly or hard
            at the very beginning. With these probabilities the bounds of Table 1 forbid nothing; with `stray` 20 they do.
    """
    if width % 2 == 0:
        raise InputError(f"the width {width} is even, so it has no centre.", Where("domains folline"), "Use 15, ...")
    reach = width // 2 + 1
    m = ModelBuilder(f"folline_{length}_{width}" + (f"_{stray}" if stray else ""))
    more = Fraction(stray, 100)
    m.note("description", "Follow a line; higher speed strays more.")
    position, deviation = m.int("position", 0, length, initial=0), m.int("deviation", -reach, reach, initial=0)
    time = m.transient("time")
    last = length - 3

    def run(label: str, guard: Term, speed: int, strays: Fraction, cost: int) -> None:
        outcomes = [
            (strays, {position: position + speed, deviation: when(deviation == -reach, 1 - reach, deviation - 1)}),
            (1 - 2 * strays, {position: position + speed}),
            (strays, {position: position + speed, deviation: when(deviation == reach, reach - 1, deviation + 1)}),
        ]
        m.edge(label, guard=guard, to=outcomes, assign={time: cost})

    for speed, strays in STRAYS.items():
        run(f"speed_{speed}", position <= last, speed, strays + more, 30 // speed)
    for label, strays in SOFT_START.items():
        run(label, every(position == 0, deviation == 0), 1, strays, 60 if label == "start_softly" else 20)
    at_end = position > last
    m.edge("stay", guard=at_end)
    strayed = abs(deviation) == reach
    m.cost("time", time, at_end)
    return Instance.of(m, fail=strayed, goal=every(at_end, ~strayed))
