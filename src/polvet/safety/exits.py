"""Exits: actions that may lead out of what is won, in cells of equal values of the few variables that decide `fail`.

The restricted game over these variables (`restrictions.py`) says which cells are won whatever the others hold. In a won cell
either some action that is always applicable stays among won cells, or all actions do. So a policy that takes no exit is safe
from every start in a won cell, and there is always another action to take: `repair/fence.py` makes such policies.
Limits   as for restricted games, and models that `symbolic` reads; what is assigned to the few variables depends on them alone
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.model.network import Variable
from polvet.model.tables import TableMoves
from polvet.model.task import Task
from polvet.safety.game_verdicts import GameVerdicts
from polvet.safety.projections import count_of
from polvet.safety.restrictions import iter_won
from polvet.symbolic.cells import Box, cell_of
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, LinearTask, Transition, linear_task

Key = tuple[int, ...]
"""The number of a value of each variable, from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Exits:
    """The won cells, one per row, and the labels that may lead to cells that are not."""

    variables: tuple[int, ...]
    won: NDArray[np.bool_]  # [values of the first variable, of the second, ...]
    cells: NDArray[np.int64]  # [cells, variables]: their values
    labels: NDArray[np.bool_]  # [cells, labels of the network]

    def marked(self, label: int) -> NDArray[np.bool_]:
        """Return, as `won`, the cells in which the label is an exit."""
        marks = np.zeros_like(self.won)
        marks[self.won] = self.labels[:, label]
        return marks

    def boxes(self, label: int) -> list[tuple[Key, Key]]:
        """Return boxes of cells that together hold exactly those in which the label is an exit."""
        return boxes_around(self.marked(label))


def find_exits(task: Task, *, linear: LinearTask | None = None, budget: Budget = UNLIMITED) -> Exits:
    """Return the exits of all won cells; raise NotLinear where they cannot be told."""
    if isinstance(task.network.edges, TableMoves):
        raise NotLinear("in a table every state is a cell of its own")
    system = (linear_task(task) if linear is None else linear).system
    told = _won(task, budget)
    kept = told.variables
    if not is_closed(system.transitions, kept):
        raise NotLinear("what is assigned to the variables that decide fail depends on others")
    variables = [task.network.variables[k] for k in kept]
    won = told.verdicts.reshape([count_of(variable) for variable in variables]) != 0
    least = np.array([least_of(variable) for variable in variables])
    cells = np.argwhere(won) + least
    labels = np.zeros((len(cells), len(task.network.labels)), dtype=np.bool_)
    for transition in system.transitions:
        box = transition.cell.box
        first, near = 0, cells
        if kept:  # cells are sorted: those with the right first value lie together
            first = int(np.searchsorted(cells[:, 0], box.lower[kept[0]]))
            end = int(np.searchsorted(cells[:, 0], box.upper[kept[0]], side="right"))
            near = cells[first:end]
        inside = ((near >= [box.lower[k] for k in kept]) & (near <= [box.upper[k] for k in kept])).all(axis=1)
        if transition.label != SILENT:
            inside &= ~labels[first : first + len(near), transition.label]
        index = _after(transition, kept, near) - least
        beyond: NDArray[np.bool_] = np.any((index < 0) | (index >= won.shape), axis=1)
        stays = won[tuple(np.where(beyond[:, None], 0, index).T)] & ~beyond
        for number in (first + np.flatnonzero(inside & ~stays)).tolist():
            if not _is_possible(transition, system.bounds, kept, cells[number].tolist()):
                continue
            if transition.label == SILENT:
                raise NotLinear("a silent operator leaves the cells that are won")
            labels[number, transition.label] = True
    return Exits(kept, won, cells, labels)


def is_closed(transitions: Iterable[Transition], kept: Collection[int]) -> bool:
    """Return whether what transitions assign to the kept variables depends on these alone."""
    return all(
        not update.marks and all(place in kept for place, _ in update.terms)
        for transition in transitions
        for target, update in transition.updates
        if target in kept
    )


def least_of(variable: Variable) -> int:
    """Return the least value of an integer variable or of a truth value."""
    return 0 if variable.lower is None else int(variable.lower)


def _won(task: Task, budget: Budget) -> GameVerdicts:
    """Return the game over the fewest variables that wins as much as any."""
    games = [told for told in iter_won(task, budget=budget) if told.share]
    if not games:
        raise NotLinear("nothing is won whatever the variables hold that do not decide fail")
    return max(games, key=lambda told: told.share)


def _after(transition: Transition, kept: tuple[int, ...], cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values after the transition, for each cell."""
    after = cells.copy()
    for target, update in transition.updates:
        if target in kept:
            values = np.full(len(cells), update.constant, dtype=np.int64)
            for place, factor in update.terms:
                values += factor * cells[:, kept.index(place)]
            after[:, kept.index(target)] = values
    return after


def _is_possible(transition: Transition, bounds: Box, kept: tuple[int, ...], values: list[int]) -> bool:
    """Return whether the transition may be possible in some state with these values."""
    lower, upper = list(bounds.lower), list(bounds.upper)
    for k, value in zip(kept, values, strict=True):
        lower[k] = upper[k] = value
    cell = transition.cell
    return cell_of(cell.box.meet(Box(tuple(lower), tuple(upper))), cell.rows, cell.holes) is not None


def boxes_around(marks: NDArray[np.bool_]) -> list[tuple[Key, Key]]:
    """Return boxes of marked cells that together hold all of them; they may overlap.

    >>> boxes_around(np.array([[True, True], [False, True]]))
    [((0, 0), (0, 1)), ((0, 1), (1, 1))]
    """
    left = marks.copy()
    boxes = []
    while left.any():
        low = [int(at) for at in np.unravel_index(int(np.argmax(left)), left.shape)]
        high = list(low)
        for axis in range(marks.ndim):
            for ends, by in ((high, 1), (low, -1)):
                while 0 <= (beyond := ends[axis] + by) < marks.shape[axis]:
                    place = tuple(
                        beyond if d == axis else slice(a, b + 1) for d, (a, b) in enumerate(zip(low, high, strict=True))
                    )
                    if not marks[place].all():
                        break
                    ends[axis] = beyond
        left[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] = False
        boxes.append((tuple(low), tuple(high)))
    return boxes
