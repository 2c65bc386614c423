"""A world given state by state: for each state and action its outcomes, made into a model.

The model has a variable `s`, the number of the state, one variable per *feature* (what the number means, such as `row`
and `column`: always the same function of `s`), and the flags `failed`, `reached` and `ended` as far as they occur: an
outcome with such an *event* ends the run. So a step can fail although its state is an ordinary one (a fall that puts the
walker back to the start). Rewards become the transient variable `reward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite, nan, ulp
from typing import Any

from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.model.terms import Term, balanced, every

EVENTS = ("failed", "reached", "ended")
STATE = "s"
ROUNDINGS = 4
ROUNDING = Fraction(1, 10**9)
"""Probabilities of one action may miss the sum 1 by so much: doubles do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way an action may turn out; `event` is one of EVENTS where the run ends with this step."""

    probability: Fraction
    state: int
    reward: Fraction = Fraction(0)
    event: str | None = None


@dataclass(frozen=True, slots=True)
class TransitionTable:
    """A finite world; `rows[state, action]` are the outcomes of an action, absent where it is not applicable."""

    name: str
    states: int
    labels: tuple[str, ...]
    rows: Mapping[tuple[int, int], tuple[Outcome, ...]]
    starts: tuple[int, ...]
    features: Mapping[str, Sequence[int]] = field(default_factory=dict)  # per feature, its value in each state

    def events(self) -> tuple[str, ...]:
        """Return the events that occur, in the order of EVENTS."""
        seen = {outcome.event for outcomes in self.rows.values() for outcome in outcomes}
        return tuple(event for event in EVENTS if event in seen)


def build_table(table: TransitionTable) -> ModelBuilder:
    """Return the model in the making; its initial states are the table's starts."""
    _check(table)
    m = ModelBuilder(table.name)
    first = table.starts[0] if len(table.starts) == 1 else None
    state = m.int(STATE, 0, max(1, table.states - 1), first)
    features = {
        name: m.int(name, min(values), max(max(values), min(values) + 1), None if first is None else values[first])
        for name, values in table.features.items()
    }
    flags = {event: m.bool(event, initial=False) for event in table.events()}
    rewarded = any(outcome.reward for outcomes in table.rows.values() for outcome in outcomes)
    if rewarded:
        m.transient("reward")
    m.labels(*table.labels)
    going = [~flag for flag in flags.values()]
    for (source, action), outcomes in sorted(table.rows.items()):
        to = []
        for outcome in outcomes:
            # SOUND: the guard names the state, and features are functions of it: what stays the same needs no assignment.
            assigned: dict[str, Any] = {STATE: outcome.state} if outcome.state != source else {}
            for name, values in table.features.items():
                if values[outcome.state] != values[source]:
                    assigned[name] = values[outcome.state]
            if outcome.event is not None:
                assigned[outcome.event] = True
            if rewarded and outcome.reward:
                assigned["reward"] = outcome.reward
            to.append((outcome.probability, assigned))
        m.edge(table.labels[action], guard=every(state == source, *going), to=to)
    if first is None:
        here = ((one, {name: table.features[name][one] for name in features}) for one in table.starts)
        parts = [every(state == one, *(features[name] == value for name, value in row.items())) for one, row in here]
        m.restrict_initial(Term(balanced("∨", [part.expression for part in parts])))
    return m


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


def simplest_fraction(number: float, roundings: int = 0) -> Fraction:
    """Return the fraction with the least denominator that rounds to the double, or lies within so many roundings of it.

    >>> simplest_fraction(0.1), simplest_fraction(2 / 3), simplest_fraction(0.33333333333333337, roundings=4)
    (Fraction(1, 10), Fraction(2, 3), Fraction(1, 3))
    """
    exact = Fraction(number)
    slack = roundings * Fraction(ulp(number))

    def fits(bound: int) -> bool:
        found = exact.limit_denominator(bound)
        return abs(found - exact) <= slack if roundings else float(found) == number

    high = 1
    while not fits(high):
        high *= 10
    low = high // 10  # the least bound that is enough lies between: larger bounds never fit worse
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return exact.limit_denominator(high)


def _check(table: TransitionTable) -> None:
    where = Where(table.name)
    if not table.starts or not all(0 <= one < table.states for one in table.starts):
        raise InputError(
            "there is no start state, or one that is no state.", where, f"Name states from 0 to {table.states - 1}."
        )
    if not table.labels or len(set(table.labels)) != len(table.labels):
        raise InputError("the labels are not different names.", where, "Give each action a name of its own.")
    reserved = {STATE, "reward", *EVENTS}
    for name, values in table.features.items():
        if name in reserved or len(values) != table.states:
            raise InputError(
                f"the feature '{name}' has a reserved name, or not one value per state.",
                where,
                f"Give {table.states} values, and another name than {', '.join(sorted(reserved))}.",
            )
    for (source, action), outcomes in table.rows.items():
        place = where.at(source).at(action)
        if not 0 <= source < table.states or not 0 <= action < len(table.labels):
            raise InputError("no such state or action.", place, "Number states and actions from 0.")
        if sum(outcome.probability for outcome in outcomes) != 1:
            raise InputError("the probabilities do not sum to 1.", place, "Make them a distribution.")
        for outcome in outcomes:
            if not 0 <= outcome.state < table.states or outcome.event not in (None, *EVENTS):
                raise InputError(f"{outcome} leads nowhere.", place, "Number states from 0.")
