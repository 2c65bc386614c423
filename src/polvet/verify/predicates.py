"""Predicates over integer states, abstract states as truth values for them, and the cells they mean.

Source   Definition 3 of policy predicate abstraction: a predicate state assigns every predicate a truth value
Differs  a predicate is one linear inequality `terms <= bound`; an equation is two of them. So an abstract state is a cell: a
         box with rows, without holes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polvet.model.expressions import Expression
from polvet.model.network import Network
from polvet.symbolic.cells import Box, Cell, Region, Row, Terms, cell_of, row_of
from polvet.symbolic.linear import Reader
from polvet.symbolic.operators import Transition


@dataclass(frozen=True, slots=True)
class Predicate:
    """sum(coefficient * x[variable]) <= bound."""

    terms: Terms
    bound: int

    def holds(self, state: Sequence[int]) -> bool:
        """Return its truth value in a state."""
        return sum(factor * int(state[place]) for place, factor in self.terms) <= self.bound

    def row(self, truth: bool) -> Row:
        """Return the row that says it has that truth value."""
        return row_of(dict(self.terms), None, self.bound) if truth else row_of(dict(self.terms), self.bound + 1, None)

    def row_before(self, transition: Transition, truth: bool) -> Row:
        """Return the row over the state before the transition that gives it that value after."""
        updates = dict(transition.updates)
        coefficients: dict[int, int] = {}
        constant = 0
        marks: dict[tuple[int, int], int] = {}
        for place, factor in self.terms:
            if place not in updates:
                coefficients[place] = coefficients.get(place, 0) + factor
                continue
            constant += factor * updates[place].constant
            for source, weight in updates[place].terms:
                coefficients[source] = coefficients.get(source, 0) + factor * weight
            for source, value, weight in updates[place].marks:
                marks[source, value] = marks.get((source, value), 0) + factor * weight
        kept = {place: factor for place, factor in coefficients.items() if factor}
        counted = tuple((place, value, factor) for (place, value), factor in sorted(marks.items()) if factor)
        lower, upper = (None, self.bound - constant) if truth else (self.bound + 1 - constant, None)
        return row_of(kept, lower, upper, counted)


AbstractState = tuple[bool, ...]


def predicates_of(region: Region, bounds: Box) -> list[Predicate]:
    """Return the inequalities that make up a region, each once; rows that count equalities give none."""
    predicates: dict[Predicate, None] = {}
    for cell in region:
        for place, (low, high) in enumerate(zip(cell.box.lower, cell.box.upper, strict=True)):
            if high < bounds.upper[place]:
                predicates[Predicate(((place, 1),), high)] = None
            if low > bounds.lower[place]:
                predicates[Predicate(((place, 1),), low - 1)] = None
        for row in cell.rows:
            if not row.marks:
                if row.upper is not None:
                    predicates[Predicate(row.terms, row.upper)] = None
                if row.lower is not None:
                    predicates[Predicate(row.terms, row.lower - 1)] = None
    return list(predicates)


def read_predicates(network: Network, conditions: Iterable[Expression], bounds: Box) -> list[Predicate]:
    """Return the inequalities of the given conditions, each once."""
    reader = Reader(network)
    predicates: dict[Predicate, None] = {}
    for condition in conditions:
        predicates.update(dict.fromkeys(predicates_of(reader.region(condition), bounds)))
    return list(predicates)


def abstraction_of(predicates: Sequence[Predicate], state: Sequence[int]) -> AbstractState:
    """Return the abstract state of a concrete one."""
    return tuple(predicate.holds(state) for predicate in predicates)


def cell_of_state(
    predicates: Sequence[Predicate], truths: AbstractState, bounds: Box, facts: Sequence[Row] = ()
) -> Cell | None:
    """Return the concrete states of an abstract one that satisfy the known facts; None if there are surely none."""
    return cell_of(bounds, (*facts, *(p.row(truth) for p, truth in zip(predicates, truths, strict=True))))
