"""What each action may lead to in many listed states at once, for claims about what somebody can choose.

Labels are columns, silent operators the last one. As for the slow interpreter (`Arena.outcomes`), what silent operators do is added to
every label, and where nothing but them is enabled they are a pseudo-action. SOUND: of `doubtful` states something may be missing or wrong:
the interpreter has to judge them, and whatever breaks a rule here is judged by it, too, before anything is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.check.arena import Arena
from polvet.check.box_view import Unreadable
from polvet.check.listed_moves import ListedMoves
from polvet.check.listed_states import Bools, Ints, ListedStates
from polvet.model.semantics import State
from polvet.model.tables import TableMoves

FEW = 2_000
"""Up to so many states are checked one by one in any case."""
MOST = 2**28
"""Of states times labels."""
INT64 = 2**63


class ListedActions:
    """The actions of listed states: `applicable` [label, state], and the steps of the operators behind them."""

    def __init__(self, arena: Arena, states: Sequence[State]) -> None:
        network = arena.task.network
        self.count, self.silent = len(states), len(network.labels)
        if isinstance(network.edges, TableMoves):
            raise Unreadable("the rows of a table are read state by state")
        if self.count * (self.silent + 1) > MOST or self.count**2 * (self.silent + 1) >= INT64:
            raise Unreadable("there are too many states")
        moves = ListedMoves(arena, ListedStates(network, list(np.array(states, dtype=np.int64).T)))
        self.column: dict[str | None, int] = {label: k for k, label in enumerate([*network.labels, None])}
        self.applicable: Bools = np.zeros((self.silent + 1, self.count), dtype=np.bool_)
        self.steps: list[tuple[int, Ints, Ints]] = []
        """Columns, states, and the places of their outcomes [state, outcome]; -1: not listed."""
        for block in moves.blocks():
            column = self.column[block.label]
            self.applicable[column, block.source] = True
            self.steps.append((column, block.source, block.target))
        self.applicable[self.silent] &= ~self.applicable[: self.silent].any(axis=0)
        self.fail, self.goal, self.doubtful = moves.fail, moves.goal, moves.doubtful

    def follow(self, actions: Sequence[str | None]) -> tuple[Bools, Ints, Ints]:
        """Return in which states the action is not applicable, and (state, outcome) for all outcomes of the actions."""
        columns = np.array([self.column.get(action, -1) for action in actions], dtype=np.int64)
        wrong = (columns < 0) | ~self.applicable[columns, np.arange(self.count)]
        states, outcomes = [], []
        for column, source, target in self.steps:
            mine = slice(None) if column == self.silent else columns[source] == column
            states.append(np.repeat(source[mine], target.shape[1]))
            outcomes.append(target[mine].reshape(-1))
        return wrong, _joined(states), _joined(outcomes)

    def leads_to(self, states: Ints, columns: Ints, places: Ints) -> Bools:
        """Return whether each place is an outcome of the action with this column in this state."""
        known = [
            ((source * (self.silent + 1) + column)[:, None] * self.count + target)[target >= 0]
            for column, source, target in self.steps
        ]
        edges = np.unique(_joined(known))
        labelled = (states * (self.silent + 1) + columns) * self.count + places
        silently = (states * (self.silent + 1) + self.silent) * self.count + places
        return np.isin(labelled, edges) | np.isin(silently, edges)


def actions_in_bulk(arena: Arena, states: Sequence[State], avoids: object) -> ListedActions | None:
    """Return the actions of the states, if these are many and the model allows it."""
    if len(states) <= FEW or avoids:  # deadlocks that count as fail states are told by the interpreter
        return None
    try:
        return ListedActions(arena, states)
    except (Unreadable, OverflowError):
        return None  # state by state, then


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
