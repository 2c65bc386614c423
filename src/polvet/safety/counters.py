"""A counted variable that `fail` bounds: found in the model, with the proof that states differ in nothing else that depends on it.

`fail` is, besides what does not read it, `v >= c` (or `v <= c`) for an integer v that never falls (never rises). Until then
nothing may depend on v: no guard, no probability, no other assignment, neither goal nor the rest of `fail`. Then a state is safe
iff v plus the *need* of the state without v stays below c (`safety/margins.py`).
Limits   what `symbolic` reads as linear data; `NotCounted` says what stands in the way
"""

from __future__ import annotations

from dataclasses import dataclass

from polvet.model.expressions import FALSE
from polvet.model.task import Task
from polvet.symbolic.cells import Box, Cell, Region
from polvet.symbolic.linear import NotLinear, Reader
from polvet.symbolic.operators import LinearNetwork, Transition, linear_network


class NotCounted(Exception):
    """`fail` does not bound a counted variable; `why` says what stands in the way."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Counter:
    """The variable by its place, whether it falls, and how far it is from its first value to `fail`."""

    variable: int
    falls: bool
    ceiling: int

    def growth(self, transition: Transition) -> int:
        """Return by how much the transition moves it towards `fail`."""
        for place, update in transition.updates:
            if place == self.variable:
                return -update.constant if self.falls else update.constant
        return 0


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """The counter, and the operators that are enabled before `fail`."""

    counter: Counter
    system: LinearNetwork
    transitions: tuple[Transition, ...]
    goal: Region


def find_counter(task: Task) -> Counted:
    """Return the counter of the task, or raise NotCounted."""
    if task.avoid.names:
        raise NotCounted("more than fail is avoided")
    if task.network.disables_out_of_bounds:
        raise NotCounted("bounds disable operators")
    try:
        reader = Reader(task.network)
        fail = reader.region(task.fail)
        system = linear_network(task.network)
        goal = reader.region(task.goal) if task.goal != FALSE else ()
    except NotLinear as unread:
        raise NotCounted(unread.why) from None
    why = "fail puts no bound on a single variable"
    for cell in fail:
        place = _half_space(cell, reader.bounds)
        if place is None:
            continue
        try:
            return _checked(task, place, cell, fail, system, goal)
        except NotCounted as reason:
            why = reason.why
    raise NotCounted(why)


def _half_space(cell: Cell, bounds: Box) -> int | None:
    """Return the only variable that the cell bounds, on one side; None where it is not so plain."""
    if cell.rows or cell.holes:
        return None
    bounded = [
        place
        for place, ends in enumerate(zip(cell.box.lower, cell.box.upper, bounds.lower, bounds.upper, strict=True))
        if ends[:2] != ends[2:]
    ]
    if len(bounded) != 1:
        return None
    place = bounded[0]
    sides = (cell.box.lower[place] == bounds.lower[place], cell.box.upper[place] == bounds.upper[place])
    return place if sum(sides) == 1 else None


def _checked(task: Task, place: int, cell: Cell, fail: Region, system: LinearNetwork, goal: Region) -> Counted:
    name = task.network.variables[place].name
    falls = cell.box.lower[place] == system.bounds.lower[place]
    if falls:
        before = (cell.box.upper[place] + 1, system.bounds.upper[place])
    else:
        before = (system.bounds.lower[place], cell.box.lower[place] - 1)
    counter = Counter(place, falls, before[1] - before[0] + 1)

    def is_met(other: Cell, what: str) -> bool:
        """Return whether the cell has states before `fail`; raise where that depends on the counter."""
        low, high = max(before[0], other.box.lower[place]), min(before[1], other.box.upper[place])
        if low > high:
            return False
        rows = [*other.rows, *(row for hole in other.holes for row in hole.rows)]
        read = any(place in {p for p, _ in row.terms} | {p for p, _, _ in row.marks} for row in rows)
        ends = (other.box.lower[place], other.box.upper[place])
        read |= any((hole.box.lower[place], hole.box.upper[place]) != ends for hole in other.holes)
        if read or (low, high) != before:
            raise NotCounted(f"{what} depends on '{name}'")
        return True

    for other in fail:
        if other != cell:
            is_met(other, "another part of fail")
    for other in goal:
        is_met(other, "goal")
    kept = []
    for transition in system.transitions:
        label = "a silent operator" if transition.label < 0 else f"'{task.network.labels[transition.label]}'"
        if not is_met(transition.cell, f"whether {label} is enabled"):
            continue
        for target, update in transition.updates:
            read = {p for p, _ in update.terms} | {p for p, _, _ in update.marks}
            if target != place and place in read:
                raise NotCounted(f"what {label} assigns depends on '{name}'")
            if target == place and (update.terms != ((place, 1),) or update.marks or counter.growth(transition) < 0):
                raise NotCounted(f"{label} does not only {'lower' if falls else 'raise'} '{name}' by a number")
        kept.append(transition)
    return Counted(counter, system, tuple(kept), goal)
