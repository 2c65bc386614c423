"""Exits: actions that may lead out of what is won, in cells of equal values of the few variables that decide `fail`.

The restricted game over these variables (`restrictions.py`) says which cells are won whatever the others hold. In a won cell
either some action that is always applicable stays among won cells, or all actions do. So a policy that takes no exit is safe
from every start in a won cell, and there is always another action to take: `repair/guard.py` makes such policies.
Limits   as for restricted games, and models that `symbolic` reads; what is assigned to the few variables depends on them alone
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet.kernel.compiled import Limits
from polvet.model.network import Variable
from polvet.model.task import Task
from polvet.safety.projections import Told, count_of
from polvet.safety.restrictions import iter_won
from polvet.symbolic.cells import Box, Cell, cell_of
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, LinearTask, Transition, linear_task


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


def find_exits(task: Task, *, linear: LinearTask | None = None, limits: Limits | None = None) -> Exits:
    """Return the exits of all won cells; raise NotLinear where they cannot be told."""
    system = (linear_task(task) if linear is None else linear).system
    told = _won(task, limits)
    kept = told.variables
    for transition in system.transitions:
        for target, update in transition.updates:
            if target in kept and (update.marks or any(place not in kept for place, _ in update.terms)):
                raise NotLinear("what is assigned to the variables that decide fail depends on others")
    variables = [task.network.variables[k] for k in kept]
    won = told.verdicts.reshape([count_of(variable) for variable in variables]) != 0
    least = np.array([least_of(variable) for variable in variables])
    cells = np.argwhere(won) + least
    labels = np.zeros((len(cells), len(task.network.labels)), dtype=np.bool_)
    for transition in system.transitions:
        box = transition.cell.box
        inside = (cells >= [box.lower[k] for k in kept]) & (cells <= [box.upper[k] for k in kept])
        for number in np.flatnonzero(inside.all(axis=1)).tolist():
            if transition.label != SILENT and labels[number, transition.label]:
                continue
            after = _after(transition, system.bounds, kept, cells[number])
            if after is None:
                continue
            index = after - least
            if (index < 0).any() or (index >= won.shape).any() or not won[tuple(index)]:
                if transition.label == SILENT:
                    raise NotLinear("a silent operator leaves the cells that are won")
                labels[number, transition.label] = True
    return Exits(kept, won, cells, labels)


def least_of(variable: Variable) -> int:
    """Return the least value of an integer variable or of a truth value."""
    return 0 if variable.lower is None else int(variable.lower)


def _won(task: Task, limits: Limits | None) -> Told:
    """Return the game over the fewest variables that wins as much as any."""
    games = [told for told in iter_won(task, limits=limits) if told.share]
    if not games:
        raise NotLinear("nothing is won whatever the variables hold that do not decide fail")
    return max(games, key=lambda told: told.share)


def _after(
    transition: Transition, bounds: Box, kept: tuple[int, ...], cell: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the kept values after the transition from the cell, None where it is not possible there."""
    lower, upper = list(bounds.lower), list(bounds.upper)
    for k, value in zip(kept, cell.tolist(), strict=True):
        lower[k] = upper[k] = value
    part: Cell | None = cell_of(
        transition.cell.box.meet(Box(tuple(lower), tuple(upper))), transition.cell.rows, transition.cell.holes
    )
    if part is None:
        return None
    after = transition.successor(part.box.lower)
    return np.array([after[k] for k in kept], dtype=np.int64)
