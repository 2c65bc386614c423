"""The edges of an automaton that is a table of states; what a table means stands in `model/tables.py`."""

from __future__ import annotations

from polvet.errors import Where
from polvet.model.automata import NOWHERE, Assignment, Destination, Edge
from polvet.model.expressions import Name, literal
from polvet.model.tables import HERE, REWARD, Outcome, Rows, TransitionTable
from polvet.model.terms import expression_of


class TableEdges(Rows[Edge]):
    """The edges of an automaton that is a table."""

    def __init__(self, table: TransitionTable, where: Where = NOWHERE) -> None:
        table.check()
        super().__init__(table, self._edge)
        self.where = where

    def _edge(self, index: int) -> Edge:
        source, action, outcomes = self.table.moves[index]
        where = self.where.at("edges").at(index)
        destinations = []
        for one in outcomes:
            chance = None if len(outcomes) == 1 else expression_of(one.probability, where)
            destinations.append(Destination(HERE, chance, self._assignments(source, one), where))
        return Edge(HERE, self.table.labels[action], self.table.guard(source), tuple(destinations), where=where)

    def _assignments(self, source: int, outcome: Outcome) -> tuple[Assignment, ...]:
        written = [Assignment(Name(name), literal(value)) for name, value in self.table.changes(source, outcome)]
        if outcome.reward:
            written.append(Assignment(Name(REWARD), expression_of(outcome.reward, self.where)))
        return tuple(written)
