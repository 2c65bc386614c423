"""Journeys: how much a counter must grow until each variable holds a value that it has in the goal.

A variable moves along the values that operators assign to it; an operator that raises the counter makes such a move cost that
much. The cheapest way to a value of the goal is the variable's *journey*. Variables of which no operator that raises the counter
changes two pay for different steps, so that what their journeys cost adds up: a lower bound on what runs to the goal cost.
Source   pattern databases of single variables, additive as in Korf and Felner, Disjoint pattern database heuristics, 2002
Limits   says nothing about runs that go on for ever, or end, outside the goal without failing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet.safety.counters import Counted

MOST_VALUES = 512
Costs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Journey:
    """What is left to pay for a variable, by its value (the least one first)."""

    variable: int
    costs: Costs


def find_journeys(counted: Counted) -> list[Journey]:
    """Return journeys that cost something, of variables that pay for different steps; the dearest are chosen first."""
    if not counted.goal:
        return []
    bounds = counted.system.bounds
    found = []
    for place, (low, high) in enumerate(zip(bounds.lower, bounds.upper, strict=True)):
        if place == counted.counter.variable or high - low >= MOST_VALUES:
            continue
        costs = _costs(counted, place, low, high)
        if costs.any():
            found.append(Journey(place, costs))
    payers = [
        {place for place, _ in transition.updates}
        for transition in counted.transitions
        if counted.counter.growth(transition) > 0
    ]
    chosen: list[Journey] = []
    for journey in sorted(found, key=lambda one: -int(one.costs.sum())):
        if _pays_alone(journey.variable, [one.variable for one in chosen], payers):
            chosen.append(journey)
    return chosen


def _pays_alone(variable: int, others: Iterable[int], payers: Sequence[set[int]]) -> bool:
    return not any(variable in changed and changed & set(others) for changed in payers)


@dataclass(frozen=True, slots=True)
class _Move:
    """What a transition does to a variable between `first` and `last`; without `shift` and `value` it may take any value."""

    first: int
    last: int
    growth: int
    shift: int | None = None
    value: int | None = None

    def cheapest(self, costs: Costs, low: int) -> Costs:
        """Return for each value from first to last what it costs to go this way, given what values cost afterwards."""
        count = self.last - self.first + 1
        if self.value is not None:
            after = costs[[self.value - low] * count] if 0 <= self.value - low < len(costs) else None
        elif self.shift is not None:
            places = np.arange(self.first, self.last + 1) + self.shift - low
            inside = (places >= 0) & (places < len(costs))
            after = np.where(inside, costs[np.where(inside, places, 0)], costs.max())
        else:
            after = np.full(count, costs.min())
        return np.full(count, costs.max()) if after is None else after + self.growth


def _costs(counted: Counted, place: int, low: int, high: int) -> Costs:
    """Return the cheapest way from each value to one that the goal may have; the ceiling where there is none."""
    costs = np.full(high - low + 1, counted.counter.ceiling, dtype=np.int64)
    for cell in counted.goal:
        costs[cell.box.lower[place] - low : cell.box.upper[place] - low + 1] = 0
    moves = list(dict.fromkeys(_moves(counted, place)))
    before = None
    while before is None or (costs < before).any():
        before = costs.copy()
        for move in moves:
            part = slice(move.first - low, move.last - low + 1)
            costs[part] = np.minimum(costs[part], move.cheapest(costs, low))
    return costs


def _moves(counted: Counted, place: int) -> Iterator[_Move]:
    for transition in counted.transitions:
        update = dict(transition.updates).get(place)
        if update is None:
            continue
        first, last = transition.cell.box.lower[place], transition.cell.box.upper[place]
        growth = counted.counter.growth(transition)
        if update.is_constant:
            yield _Move(first, last, growth, value=update.constant)
        elif update.terms == ((place, 1),) and not update.marks:
            yield _Move(first, last, growth, shift=update.constant)
        else:
            yield _Move(first, last, growth)
