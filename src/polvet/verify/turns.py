"""Who has a turn in `auto`, when, and how long: small state spaces and cheap proofs at once, dear ones later.

First there are short turns for everybody, each `SHORTER` times as long as the one before, then long ones; explicit search goes on where
it stopped, and ends with all that is left. With five methods a long turn is a sixth of the limit, whatever the others do: simulation
takes at most `fuzzing.SHARE` of it, and explicit search has before its last turn what is then left beside the turns of the others.
So what a method decides alone within a sixth of the limit, reading the model as linear data included, it decides in `auto`. That is
read once, before the first turn that needs it, and in short rounds no longer than a turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import inf

from polvet.budget import Budget
from polvet.verify.fuzzing import SHARE as SIMULATION

EXPLICIT = "explicit"
SHORTER, SHORTEST = 8, 0.5
"""How much shorter the turns before are than a turn, and the fewest seconds that are worth one."""
WITHOUT_LIMIT = 384.0
"""The seconds that turns are cut from where there is no limit; explicit search then goes on without one."""
READING = 1 / 4
"""The most of the limit in which the model is read: what takes more than a sixth helps nobody who is owed a turn, but often others."""
EARLY_STATES = 3_000_000
"""The most states that explicit search stores before its last turn."""


@dataclass(frozen=True, slots=True)
class Order:
    """The methods in the order of their turns, and the part of the limit that a long turn is sure of."""

    methods: tuple[str, ...]
    part: float


ORDER = Order((EXPLICIT, "projection", "induction", "abstraction", "ic3"), 1 / 6)
REAL_ORDER = Order((EXPLICIT, "grid"), 0.6)
"""The same for models with real-valued variables, which are not read as linear data."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A method's turn: in which round, and the most seconds (None: all that are left) and states it may use.

    `reading`: the most seconds before it in which the model is read, where it was not.
    """

    method: str
    round: int
    seconds: float | None = None
    states: int | None = None
    reading: float = 0.0


def iter_turns(order: Order, budget: Budget, limit: float, waiting: Collection[str]) -> Iterator[Turn]:
    """Yield the turns of the methods that are waiting when theirs has come; the limit is what was left before simulation.

    >>> [(turn.method, round(turn.seconds or 0)) for turn in iter_turns(REAL_ORDER, Budget(), inf, REAL_ORDER.methods)]
    [('explicit', 4), ('grid', 4), ('explicit', 29), ('grid', 29), ('explicit', 73), ('grid', 230), ('explicit', 0)]
    """
    whole = WITHOUT_LIMIT if limit == inf else limit
    proofs = [name for name in order.methods if name != EXPLICIT]
    long = order.part * whole
    short = sorted(each for k in range(1, 10) if (each := long / SHORTER**k) >= SHORTEST)
    owed = len(proofs) * (long + sum(short))
    search = whole * (1 - SIMULATION) - owed - sum(short)
    for number, seconds in enumerate(short):
        for name in order.methods:
            if name in waiting:
                yield Turn(name, number, seconds, EARLY_STATES if name == EXPLICIT else None, seconds)
    last = len(short)
    if EXPLICIT in waiting:
        yield Turn(EXPLICIT, last, search, EARLY_STATES)
    for k, name in enumerate(proofs):
        if name in waiting:
            sharing = sum(other in waiting for other in (EXPLICIT, *proofs[k:]))
            fair = 0.0 if limit == inf else budget.left() / sharing
            yield Turn(name, last, max(long, fair), None, READING * whole)
    if EXPLICIT in waiting:
        yield Turn(EXPLICIT, last)
