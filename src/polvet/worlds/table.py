"""A world given state by state, made into a model: its variables and start states are declared, its rows stay a table.

What the variables are, and what a row means, stands in model/tables.py. A step can fail although its state is an ordinary one
(a fall that puts the walker back to the start). Probabilities and rewards given as doubles become the fractions they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import isfinite, nan, ulp
from typing import Any

from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.model.tables import REWARD, STATE, TransitionTable
from polvet.model.terms import Term, balanced, every

ROLES = {"fail": "failed", "goal": "reached"}
"""The conditions that the events of a table stand for."""
OBSERVED = (STATE,)
"""What a policy of such a world reads where nothing else is said: the number of the state, as an environment shows it."""
ROUNDINGS = 4
ROUNDING = Fraction(1, 10**9)
"""Probabilities of one action may miss the sum 1 by so much: doubles do."""


def build_table(table: TransitionTable) -> ModelBuilder:
    """Return the model in the making; its initial states are the table's starts."""
    m = ModelBuilder(table.name)
    m.table(table)
    first = table.starts[0] if len(table.starts) == 1 else None
    state = m.int(STATE, 0, max(1, table.states - 1), first)
    features = {
        name: m.int(name, min(values), max(max(values), min(values) + 1), None if first is None else values[first])
        for name, values in table.features.items()
    }
    for event in table.events:
        m.bool(event, initial=False)
    if table.is_rewarded:
        m.transient(REWARD)
    m.labels(*table.labels)
    if first is None:
        here = ((one, {name: table.features[name][one] for name in features}) for one in table.starts)
        parts = [every(state == one, *(features[name] == value for name, value in row.items())) for one, row in here]
        if not features:
            parts = [(state >= low) & (state <= high) for low, high in stretches(table.starts)]
        m.restrict_initial(Term(balanced("∨", [part.expression for part in parts])))
    return m


def stretches(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the numbers as stretches without gaps, each by its first and last one.

    >>> stretches([3, 0, 1, 2, 7])
    [(0, 3), (7, 7)]
    """
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def exact_distribution(given: Sequence[float | Fraction], where: Where) -> tuple[Fraction, ...]:
    """Return the probabilities as fractions that sum to 1, those that the doubles were computed from as far as can be told.

    Each double is read as the simplest fraction within a few roundings of it where these sum to 1 (so 0.33333333333333337 is a
    third); else as the simplest fraction that rounds to it, divided by the sum.

    >>> exact_distribution([1 / 3, 1 / 3, 1 / 3], Where("table"))
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    """
    for slack in (ROUNDINGS, 0):
        exact = [one if isinstance(one, Fraction) else simplest_fraction(float(one), slack) for one in given]
        total = sum(exact, Fraction(0))
        if total == 1:
            break
    if any(one < 0 for one in exact) or abs(total - 1) > ROUNDING:
        shown = " + ".join(str(one) for one in given)
        raise InputError(f"the probabilities {shown} are not a distribution.", where, "Make them sum to 1.")
    return tuple(one / total for one in exact)


def exact_reward(reward: Any, where: Where) -> Fraction:
    """Return the reward as the simplest fraction that rounds to it; refuse what is no number."""
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = nan
    if not isfinite(number):
        raise InputError(f"the reward {reward} is no finite number.", where, "Give finite rewards.")
    return simplest_fraction(number)


@lru_cache(maxsize=4_096)
def simplest_fraction(number: float, roundings: int = 0) -> Fraction:
    """Return the fraction with the least denominator that rounds to the double, or lies within so many roundings of it.

    >>> simplest_fraction(0.1), simplest_fraction(2 / 3), simplest_fraction(0.33333333333333337, roundings=4)
    (Fraction(1, 10), Fraction(2, 3), Fraction(1, 3))
    """
    exact = Fraction(number)
    slack = roundings * Fraction(ulp(number))

    def fits(bound: int) -> bool:
        nearest = exact.limit_denominator(bound)
        return abs(nearest - exact) <= slack if roundings else float(nearest) == number

    high = 1
    while not fits(high):
        high *= 10
    low = high // 10  # the least bound that is enough lies between: larger bounds never fit worse
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return exact.limit_denominator(high)
