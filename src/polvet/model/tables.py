"""Worlds given state by state: one table of rows stands for thousands of guarded edges.

The variables are `s`, the number of the state, one variable per *feature* (what the number means, such as `row` and `column`: always
the same function of `s`), and the flags `failed`, `reached` and `ended` as far as they occur: an outcome with such an *event* ends
the run. Rewards become the transient variable `reward`.

A table means its edges: a row is the edge with the guard `s = source` and no flag set, which assigns the next state, the features
that differ there, the event and the reward. `TableEdges` (of an automaton, in `table_edges.py`) and `TableMoves` (of a network)
are sequences of these edges, each made where somebody looks at it; the interpreter and the kernel read the rows themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

from polvet.errors import InputError, Where
from polvet.model.expressions import Binary, Expression, IntLiteral, Name, RealLiteral, Unary, conjunction, literal
from polvet.model.network import Branch, NetworkEdge, Update

EVENTS = ("failed", "reached", "ended")
STATE = "s"
REWARD = "reward"
RESERVED = (STATE, REWARD, *EVENTS)
"""Names that are no feature's."""
HERE = "here"
"""The one location of the automaton."""
TABLE_FORMAT = "table-world/1"
TABLE_FILE = re.compile(r'\{\s*"format"\s*:\s*"table-world/1"')
"""How the file of a table begins."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way an action may turn out; `event` is one of EVENTS where the run ends with this step."""

    probability: Fraction
    state: int
    reward: Fraction = Fraction(0)
    event: str | None = None


Row = tuple[int, int, tuple[Outcome, ...]]
"""A state, the number of an action, and its outcomes there."""


@dataclass(frozen=True)
class TransitionTable:
    """A finite world; `rows[state, action]` are the outcomes of an action, absent where it is not applicable."""

    name: str
    states: int
    labels: tuple[str, ...]
    rows: Mapping[tuple[int, int], tuple[Outcome, ...]]
    starts: tuple[int, ...]
    features: Mapping[str, Sequence[int]] = field(default_factory=dict)  # per feature, its value in each state
    others: tuple[Row, ...] = ()  # more distributions of an action: the environment picks

    def __post_init__(self) -> None:
        """Make tables that say the same equal."""
        object.__setattr__(self, "features", {name: tuple(values) for name, values in self.features.items()})
        object.__setattr__(self, "others", tuple(sorted(self.others, key=lambda move: move[:2])))

    @cached_property
    def moves(self) -> tuple[Row, ...]:
        """Every state and action with each of its distributions, by state and action."""
        rows: list[Row] = [(state, action, outcomes) for (state, action), outcomes in self.rows.items()]
        return tuple(sorted([*rows, *self.others], key=lambda move: move[:2]))

    @cached_property
    def events(self) -> tuple[str, ...]:
        """The events that occur, in the order of EVENTS."""
        seen = {outcome.event for *_, outcomes in self.moves for outcome in outcomes}
        return tuple(event for event in EVENTS if event in seen)

    @cached_property
    def is_rewarded(self) -> bool:
        """Whether some step has a reward other than 0."""
        return any(outcome.reward for *_, outcomes in self.moves for outcome in outcomes)

    @cached_property
    def used_labels(self) -> tuple[str, ...]:
        """The labels of the actions that are applicable somewhere, in the order of the labels."""
        used = {action for _, action, _ in self.moves}
        return tuple(label for action, label in enumerate(self.labels) if action in used)

    def changes(self, source: int, outcome: Outcome) -> Iterator[tuple[str, int | bool]]:
        """Yield the variables that a step writes, with their values.

        SOUND: the guard names the state, and features are functions of it: what stays the same needs no assignment.
        """
        if outcome.state != source:
            yield STATE, outcome.state
            for name, values in self.features.items():
                if values[outcome.state] != values[source]:
                    yield name, values[outcome.state]
        if outcome.event is not None:
            yield outcome.event, True

    def completed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with what the number of the state, or its features, say besides; no event has occurred where none is given."""
        try:
            number = int(
                values[STATE] if STATE in values else self._numbers[tuple(int(values[name]) for name in self.features)]
            )
            known = {name: column[number] for name, column in self.features.items() if number >= 0}
        except (KeyError, TypeError, ValueError, IndexError):
            return dict(values)  # whoever reads them says what is wrong
        return {STATE: number, **known, **dict.fromkeys(self.events, False), **values}

    @cached_property
    def _numbers(self) -> dict[tuple[int, ...], int]:
        """The number of the state with these features; empty where they do not tell all states apart."""
        numbers = {row: number for number, row in enumerate(zip(*self.features.values(), strict=True))}
        return numbers if len(numbers) == self.states else {}

    def check(self) -> None:
        """Raise an InputError, with its place, where the table is none."""
        where = Where(self.name)
        if not self.starts or not all(0 <= one < self.states for one in self.starts):
            what = "there is no start state, or one that is no state."
            raise InputError(what, where, f"Name states from 0 to {self.states - 1}.")
        if not self.labels or len(set(self.labels)) != len(self.labels) or not all(self.labels):
            raise InputError("the labels are not different names.", where, "Give each action a name of its own.")
        for name, values in self.features.items():
            if name in RESERVED or not name or len(values) != self.states:
                raise InputError(
                    f"the feature '{name}' has a reserved name, or not one value per state.",
                    where,
                    f"Give {self.states} values, and another name than {', '.join(sorted(RESERVED))}.",
                )
        for source, action, outcomes in self.moves:
            if not 0 <= source < self.states or not 0 <= action < len(self.labels):
                raise InputError("no such state or action.", where.at(source).at(action), "Number both from 0.")
            sure = len(outcomes) == 1 and outcomes[0].probability == 1
            if not sure and (
                sum(one.probability for one in outcomes) != 1 or any(o.probability <= 0 for o in outcomes)
            ):
                what = "the probabilities are not above 0, or do not sum to 1."
                raise InputError(what, where.at(source).at(action), "Make them a distribution.")
            for outcome in outcomes:
                if not 0 <= outcome.state < self.states or (outcome.event is not None and outcome.event not in EVENTS):
                    raise InputError(f"{outcome} leads nowhere.", where.at(source).at(action), "Number states from 0.")

    def guard(self, source: int) -> Expression:
        """Return when the rows of this state move."""
        here = Binary("=", Name(STATE), IntLiteral(source))
        return conjunction(here, *(Unary("¬", Name(event)) for event in self.events))


class Rows(Sequence[T], Generic[T]):
    """A sequence of what is made of each row of a table, when it is first looked at."""

    def __init__(self, table: TransitionTable, make: Callable[[int], T]) -> None:
        self.table = table
        self._make = make
        self._items: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self.table.moves)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(len(self))[index])
        place = range(len(self))[index]
        if place not in self._items:
            self._items[place] = self._make(place)
        return self._items[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows) and type(other) is type(self):
            return self.table == other.table
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash((len(self), self.table.name))


class TableMoves(Rows[NetworkEdge]):
    """The edges of a network that is a table; `is_rewarded` is false where the reward was left out."""

    def __init__(self, table: TransitionTable, where: Where, origin: str) -> None:
        super().__init__(table, self._edge)
        self._origin, self._where = origin, where
        self.is_rewarded = table.is_rewarded

    @cached_property
    def by_state(self) -> Mapping[int, Sequence[int]]:
        """The numbers of each state's rows, by label as the network has them."""
        numbers: dict[int, list[int]] = {}
        for index, (source, _, _) in enumerate(self.table.moves):
            numbers.setdefault(source, []).append(index)
        return numbers

    def by_label(self) -> dict[str | None, tuple[int, ...]]:
        """Return the numbers of the rows by label."""
        numbers: dict[str | None, list[int]] = {label: [] for label in self.table.used_labels}
        for index, (_, action, _) in enumerate(self.table.moves):
            numbers[self.table.labels[action]].append(index)
        return {label: tuple(indices) for label, indices in numbers.items()}

    def writing(self, names: Collection[str]) -> Iterator[NetworkEdge]:
        """Yield the edges that may write one of these variables."""
        for index, (source, _, outcomes) in enumerate(self.table.moves):
            if any(name in names for one in outcomes for name, _ in self.table.changes(source, one)) or (
                self.is_rewarded and REWARD in names and any(one.reward for one in outcomes)
            ):
                yield self[index]

    def restricted(self, kept: set[str]) -> TableMoves:
        """Return the rows over these variables alone: features, and perhaps the reward, are left out."""
        features = {name: values for name, values in self.table.features.items() if name in kept}
        smaller = replace(self.table, features=features)
        other = TableMoves(smaller, self._where, self._origin)
        other.is_rewarded = self.is_rewarded and REWARD in kept
        return other

    def _edge(self, index: int) -> NetworkEdge:
        source, _, outcomes = self.table.moves[index]
        where = self._where.at("edges").at(index)
        sure = len(outcomes) == 1
        branches = tuple(
            Branch(IntLiteral(1) if sure else literal(one.probability), tuple(self._updates(source, one, where)))
            for one in outcomes
        )
        return NetworkEdge(self.table.guard(source), branches, self._origin, where)

    def _updates(self, source: int, outcome: Outcome, where: Where) -> Iterator[Update]:
        for name, value in self.table.changes(source, outcome):
            yield Update(Name(name), literal(value), 0, where)
        if self.is_rewarded and outcome.reward:
            yield Update(Name(REWARD), RealLiteral(outcome.reward), 0, where)
