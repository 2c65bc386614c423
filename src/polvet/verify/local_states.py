"""Abstract states with predicates of their own: the leaves of a tree of boxes, cut where a refinement needs it and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from polvet.symbolic.cells import Box

Point = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Arrival:
    """A step of the policy that enters an abstract state: from where, and the state that takes it."""

    source: LocalState
    state: Point
    step: int


@dataclass(slots=True, eq=False)
class LocalState:
    """A box of states: an abstract state while it is a leaf, afterwards the two that it was cut into.

    What was asked of its steps: `is_harmless`, none fails; `is_closed`, none leads where nothing is reached; else `asked`, up to where
    in the search's list of what was set free that was so.
    """

    box: Box
    above: LocalState | None = None
    halves: tuple[LocalState, LocalState] | None = None
    reached: int = 0  # how many leaves below it are
    holds_starts: bool = False
    arrival: Arrival | None = None
    leads_to: dict[LocalState, None] = field(default_factory=dict)  # whose arrival comes from here, in order
    is_harmless: bool = False
    is_closed: bool = False
    asked: int = 0

    def leaf_of(self, point: Sequence[int]) -> LocalState:
        """Return the leaf that holds the point."""
        here = self
        while here.halves is not None:
            here = here.halves[0] if here.halves[0].box.holds(point) else here.halves[1]
        return here

    def unreached(self) -> Iterator[LocalState]:
        """Yield the largest parts without a reached leaf."""
        waiting = [self]
        while waiting:
            here = waiting.pop()
            if not here.reached:
                yield here
            elif here.halves is not None:
                waiting += here.halves[::-1]

    def reached_in(self, box: Box) -> LocalState | None:
        """Return a reached leaf that meets the box, if there is one."""
        waiting = [self]
        while waiting:
            here = waiting.pop()
            if here.reached and not here.box.meet(box).is_empty:
                if here.halves is None:
                    return here
                waiting += here.halves
        return None

    def leaves(self) -> Iterator[LocalState]:
        """Yield the leaves."""
        waiting = [self]
        while waiting:
            here = waiting.pop()
            if here.halves is None:
                yield here
            else:
                waiting += here.halves[::-1]

    def mark(self, reached: bool) -> None:
        """Say whether this leaf is reached."""
        change = int(reached) - self.reached
        here: LocalState | None = self
        while here is not None:
            here.reached += change
            here = here.above

    def cut_out(self, box: Box) -> LocalState:
        """Cut the leaf along the sides of a box in it, one after the other, and return the leaf that is the box.

        >>> whole = LocalState(Box((0, 0), (9, 9)))
        >>> whole.cut_out(Box((3, 0), (5, 9))).box, [leaf.box.lower for leaf in whole.leaves()]
        (Box(lower=(3, 0), upper=(5, 9)), [(0, 0), (3, 0), (6, 0)])
        """
        here = self
        for place, (low, high) in enumerate(zip(box.lower, box.upper, strict=True)):
            if low > here.box.lower[place]:
                here = here._cut(place, low - 1)[1]
            if high < here.box.upper[place]:
                here = here._cut(place, high)[0]
        return here

    def _cut(self, place: int, value: int) -> tuple[LocalState, LocalState]:
        lower, upper = self.box.lower, self.box.upper
        low = Box(lower, (*upper[:place], value, *upper[place + 1 :]))
        high = Box((*lower[:place], value + 1, *lower[place + 1 :]), upper)
        self.halves = LocalState(low, self), LocalState(high, self)
        return self.halves
