"""The slow, obvious interpreter: what a network does, step by step. Together with `check/` it is what users trust.

An *operator* is one edge per participant of a joint, all guards true. Its outcomes are the products of the edges'
branches. Assignments are executed by ascending index; those of one index all read the values from before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import TypeAlias, TypeVar

from polvet.errors import InputError, LimitReached, ModelError, Where
from polvet.model.arithmetic import INT64_MAX, INT64_MIN, Value
from polvet.model.atoms import METADATA, show_atoms
from polvet.model.evaluate import Evaluator, compile_expression, compile_position
from polvet.model.expressions import Expression, Name, conjuncts, first_equality, names
from polvet.model.network import (
    MOST_BRANCHES,
    PROBABILITY_TOLERANCE,
    Joint,
    Kind,
    Network,
    NetworkEdge,
    Update,
    Variable,
)
from polvet.model.tables import REWARD, STATE, TableMoves

State: TypeAlias = tuple[Value, ...]
T = TypeVar("T")
FEW_EDGES = 8
"""So many edges are simply asked one after the other."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A state that an operator may lead to, with its exact probability and the scratch values on the way."""

    probability: Fraction
    state: State
    scratch: State


@dataclass(frozen=True, slots=True)
class Move:
    """An enabled operator, or the draw of a Markov chain: its label (None: silent), its edges, its outcomes with probability > 0."""

    label: str | None
    edges: tuple[int, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class _Write:
    position: Callable[[Sequence[Value]], int]
    value: Evaluator
    index: int
    update: Update


class _OnDemand(dict[int, T]):
    """What is made of an edge when it is first asked for: of thousands of edges a run meets few."""

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make

    def __missing__(self, edge: int) -> T:
        item = self[edge] = self._make(edge)
        return item


class Semantics:
    """Runs a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.slots: tuple[Variable, ...] = (*network.variables, *network.scratch)
        self.position: Mapping[str, int] = {variable.name: i for i, variable in enumerate(self.slots)}
        self._scratch = tuple(_stored(variable, variable.initial) for variable in network.scratch)
        self._guards = _OnDemand(lambda edge: self.compile(network.edges[edge].guard))
        self._branches = _OnDemand(lambda edge: self._compile_branches(network.edges[edge]))
        self._everywhere: dict[int, list[tuple[Fraction, list[_Write]]]] = {}
        self._table = network.edges if isinstance(network.edges, TableMoves) else None
        self._candidates = (
            [[self._find_candidates(edges) for edges in joint.participants] for joint in network.joints]
            if self._table is None
            else []
        )

    def compile(self, expression: Expression, *, exact: bool = False, exact_tests: bool = True) -> Evaluator:
        """Return the function from a state to the value of a resolved expression."""
        return compile_expression(expression, self.position, exact=exact, exact_tests=exact_tests)

    def initial_states(self) -> Iterator[State]:
        """Yield every initial state: all values of variables without an initial one that satisfy the condition."""
        return self.states_satisfying(self.network.initial_condition, initial=True)

    def states_satisfying(self, condition: Expression, *, initial: bool = False) -> Iterator[State]:
        """Yield every state that satisfies the condition, by trying all values between the bounds.

        With `initial`, variables that have an initial value keep it. Each conjunct is tested as soon as its variables
        are known.
        """
        variables = self.network.variables
        ranges = [
            (_stored(variable, variable.initial),) if initial and variable.initial is not None else _values(variable)
            for variable in variables
        ]
        tests: list[list[Evaluator]] = [[] for _ in range(len(variables) + 1)]
        for part in conjuncts(condition):
            depth = max((self.position[name] + 1 for name in names(part)), default=0)
            tests[depth].append(self.compile(part))
        chosen: list[Value] = []

        def extend() -> Iterator[State]:
            if not all(test(chosen) for test in tests[len(chosen)]):
                return
            if len(chosen) == len(variables):
                yield tuple(chosen)
                return
            for value in ranges[len(chosen)]:
                chosen.append(value)
                yield from extend()
                chosen.pop()

        return extend()

    def moves(self, state: State) -> list[Move]:
        """Return what may be done in the state: every enabled operator, with its outcomes; in a Markov chain the draw among them."""
        enabled = self.operators(state)
        if not self.network.is_chain or len(enabled) < 2:
            return enabled
        share = Fraction(1, len(enabled))
        drawn = (replace(one, probability=share * one.probability) for move in enabled for one in move.outcomes)
        return [Move(None, tuple(edge for move in enabled for edge in move.edges), tuple(drawn))]

    def operators(self, state: State) -> list[Move]:
        """Return every operator enabled in the state, with its outcomes."""
        if self._table is not None:
            return self._rows(self._table, state)
        enabled: dict[int, bool] = {}

        def is_enabled(edge: int) -> bool:
            if edge not in enabled:
                try:
                    enabled[edge] = self._guards[edge](state)
                except (InputError, OverflowError) as error:
                    raise self._placed(error, state, edge) from None
            return enabled[edge]

        result = []
        room = MOST_BRANCHES
        for joint, candidates in zip(self.network.joints, self._candidates, strict=True):
            ready: list[list[int]] = []
            for candidates_in in candidates:
                ready.append([edge for edge in candidates_in(state) if is_enabled(edge)])
                if not ready[-1]:
                    break  # whoever comes later is not asked
            if not ready[-1]:
                continue
            if len(ready) > 1:
                room -= prod(sum(len(self.network.edges[edge].branches) for edge in edges) for edges in ready)
                if room < 0:
                    raise self._too_many(joint, ready, state)
            for edges in product(*ready):
                try:
                    result.append(Move(joint.label, edges, tuple(self._outcomes(state, edges))))
                except LeavesBounds:
                    if not self.network.disables_out_of_bounds:
                        raise
                except (InputError, OverflowError) as error:
                    raise self._placed(error, state, edges[0]) from None
        return result

    def _too_many(self, joint: Joint, ready: list[list[int]], state: State) -> LimitReached:
        what = f"{prod(map(len, ready)):,} operators" + (f" of label '{joint.label}'" if joint.label else "")
        return LimitReached(
            f"limit of {MOST_BRANCHES:,} branches of joint operators reached: {what} are enabled in {self.show(state)}"
        )

    def _rows(self, moves: TableMoves, state: State) -> list[Move]:
        """Return what the rows of the state do; they mean what their edges do, and a test compares the two."""
        table = moves.table
        if any(state[self.position[event]] for event in table.events):
            return []
        moves_of_rows = []
        for number in moves.by_state.get(int(state[self.position[STATE]]), ()):
            source, action, outcomes = table.moves[number]
            following = []
            for outcome in outcomes:
                values = [*state, *self._scratch]
                for name, value in table.changes(source, outcome):
                    values[self.position[name]] = value
                if moves.is_rewarded and outcome.reward:
                    values[self.position[REWARD]] = float(outcome.reward)
                after, scratch = tuple(values[: len(state)]), tuple(values[len(state) :])
                following.append(Outcome(outcome.probability, after, scratch))
            moves_of_rows.append(Move(table.labels[action], (number,), tuple(following)))
        return moves_of_rows

    def applicable(self, state: State) -> tuple[str, ...]:
        """Return the labels of the enabled operators, in the model's order."""
        enabled = {move.label for move in self.moves(state)}
        return tuple(label for label in self.network.labels if label in enabled)

    def outcomes(self, state: State, label: str | None) -> frozenset[State]:
        """Return every state that may follow when `label` is chosen: its own outcomes and those of silent operators."""
        return frozenset(
            outcome.state
            for move in self.moves(state)
            if move.label == label or move.label is None
            for outcome in move.outcomes
        )

    def _find_candidates(self, edges: tuple[int, ...]) -> Callable[[State], Sequence[int]]:
        """Return the function from a state to the edges that may be enabled there, in their order.

        Many edges whose guards begin with `x = 3`, as in a world given state by state, are looked up by the value of `x`.
        """
        # SOUND: a guard is read from the left, so an edge is left out only where the first part of its guard is false.
        firsts = {edge: first_equality(self.network.edges[edge].guard) for edge in edges}
        tested = Counter(first[0] for first in firsts.values() if first is not None)
        if not tested or len(edges) < FEW_EDGES:
            return lambda state: edges
        ((name, _),) = tested.most_common(1)
        others = tuple(edge for edge, first in firsts.items() if first is None or first[0] != name)
        if len(others) > FEW_EDGES:
            return lambda state: edges
        of_value: dict[Value, list[int]] = {}
        for edge, first in firsts.items():
            if first is not None and first[0] == name:
                of_value.setdefault(first[1], []).append(edge)
        order = {edge: k for k, edge in enumerate(edges)}
        by_value = {value: sorted((*mine, *others), key=order.__getitem__) for value, mine in of_value.items()}
        place = self.position[name]
        return lambda state: by_value.get(state[place], others)

    def _placed(self, error: InputError | OverflowError, state: State, edge: int) -> InputError:
        """Return an error of arithmetic, such as a division by zero, with its state and its edge."""
        where = self.network.edges[edge].where
        if isinstance(error, OverflowError):  # a fraction or an integer of any length meets a double
            what = f"a real operation has no finite result, in state {self.show(state)}."
            return ModelError(what, where, "Guard the operation.")
        if error.where is not None:
            return error
        return ModelError(f"{error.what.removesuffix('.')}, in state {self.show(state)}.", where, error.hint)

    def _compile_branches(self, edge: NetworkEdge) -> list[tuple[Evaluator, list[_Write]]]:
        return [
            (
                self.compile(branch.probability, exact=True),
                [
                    _Write(self._position_of(update), self.compile(update.value), update.index, update)
                    for update in branch.updates
                ],
            )
            for branch in edge.branches
        ]

    def _position_of(self, update: Update) -> Callable[[Sequence[Value]], int]:
        if isinstance(update.target, Name):
            place = self.position[update.target.name]
            return lambda state: place
        item_of = compile_position(update.target, self.position)
        places = [self.position[item.name] for item in update.target.items if isinstance(item, Name)]
        return lambda state: places[item_of(state)]

    def _outcomes(self, state: State, edges: tuple[int, ...]) -> Iterator[Outcome]:
        start = (*state, *self._scratch)
        distributions = [self._distribution(start, edge) for edge in edges]
        for branches in product(*distributions):
            probability = prod((share for share, _ in branches[1:]), start=branches[0][0])
            writes = [write for _, updates in branches for write in updates]
            values = self._execute(start, writes, state)
            size = len(state)
            yield Outcome(probability, values[:size], values[size:])

    def _distribution(self, start: State, edge: int) -> list[tuple[Fraction, list[_Write]]]:
        # SOUND: remembered only where no probability reads a variable, and after it was seen to be a distribution.
        if edge in self._everywhere:
            return self._everywhere[edge]
        where = self.network.edges[edge].where
        shares = [(Fraction(probability(start)), writes) for probability, writes in self._branches[edge]]
        total = sum((share for share, _ in shares), Fraction(0))
        if any(share < 0 for share, _ in shares) or abs(total - 1) > PROBABILITY_TOLERANCE:
            shown = " + ".join(str(share) for share, _ in shares)
            raise ModelError(
                f"the probabilities {shown} in state {self.show(start)} are not a distribution.",
                where,
                "Make them sum to 1.",
            )
        distribution = [(share / total, writes) for share, writes in shares if share > 0]
        if not any(names(branch.probability) for branch in self.network.edges[edge].branches):
            self._everywhere[edge] = distribution
        return distribution

    def _execute(self, start: State, writes: list[_Write], state: State) -> State:
        values = list(start)
        for index in sorted({write.index for write in writes}):
            before = tuple(values)
            written: set[int] = set()
            for write in writes:
                if write.index != index:
                    continue
                place = write.position(before)
                variable = self.slots[place]
                if place in written:
                    raise ModelError(
                        f"'{variable.name}' is assigned twice at once in state {self.show(state)}.",
                        write.update.where,
                        "Give the assignments different indices.",
                    )
                written.add(place)
                values[place] = self._checked(variable, write.value(before), write.update.where, state)
        return tuple(values)

    def _checked(self, variable: Variable, value: Value, where: Where, state: State) -> Value:
        low = variable.lower is not None and value < variable.lower
        if low or (variable.upper is not None and value > variable.upper):
            raise LeavesBounds(
                f"'{variable.name}' is assigned {value}, outside [{variable.lower}, {variable.upper}], in state "
                f"{self.show(state)}.",
                where,
                "Widen the bounds, guard the edge, or use --out-of-bounds disable.",
            )
        if variable.kind is Kind.INT and not INT64_MIN < value < INT64_MAX:
            raise ModelError(f"'{variable.name}' leaves 64 bits in state {self.show(state)}.", where, "Bound it.")
        return _stored(variable, value)

    def show(self, state: Sequence[Value]) -> str:
        """Return the state as `x=1,y=2`, the way the command line takes it."""
        return show_state(self.network, state)


class LeavesBounds(ModelError):
    """An assignment leaves its variable's bounds."""


def show_state(network: Network, state: Sequence[Value]) -> str:
    """Return the state as `x=1,y=2`, or by the atoms that are true in a planning problem: the way the command line takes it."""
    if METADATA in network.model.metadata:
        return show_atoms(network.variables, state)
    return ",".join(
        f"{variable.name}={show_value(variable, value)}"
        for variable, value in zip(network.variables, state, strict=False)
    )


def show_value(variable: Variable, value: Value) -> str:
    """Return the value as people write it: locations and values that have names by them, truth values in small letters."""
    if (named := variable.locations or variable.values) is not None:
        return named[int(value)]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stored(variable: Variable, value: Value | None) -> Value:
    if value is None:
        raise InputError(
            f"'{variable.name}' has no value.",
            variable.where,
            "Give it an initial value or a condition in 'restrict-initial'.",
        )
    return float(value) + 0.0 if variable.kind is Kind.REAL else value  # adding 0.0 makes -0.0 the plain zero


def _values(variable: Variable) -> Sequence[Value]:
    if variable.kind is Kind.BOOL:
        return (False, True)
    if variable.lower is not None and variable.lower == variable.upper:
        return (_stored(variable, variable.lower),)
    if variable.kind is Kind.REAL or variable.lower is None or variable.upper is None:
        raise InputError(
            f"'{variable.name}' has no initial value and infinitely many to start with.",
            variable.where,
            "Give it an initial value or bounds.",
        )
    return range(int(variable.lower), int(variable.upper) + 1)
