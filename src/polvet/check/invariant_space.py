"""The states that a certificate speaks about: rows and boxes as arrays over the variables of a task, and the task's operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np

from polvet.check.arena import Arena
from polvet.check.box_view import Unreadable, effects, row_of
from polvet.check.invariant_rows import Claim, Ints, Row, row_between
from polvet.model.expressions import TRUE, Binary, Expression, IntLiteral, RealLiteral, conjunction, conjuncts
from polvet.model.folding import value_of
from polvet.model.network import Kind, Network, NetworkEdge
from polvet.model.possible import possible
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.state_json import Malformed

ANYTHING = -1
"""The output of an operator without a label: it does not ask the policy."""
NEVER = -2
"""The output of an operator whose label the policy does not know."""
MOST_MARKS = 256
"""Of what a condition counts."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Edges that move together, where they are enabled, and the policy's output for their label."""

    output: int
    edges: tuple[NetworkEdge, ...]
    guard: Expression
    kinds: Mapping[str, Kind]

    def ways(self) -> list[tuple[tuple[int, ...], list[Expression]]]:
        """Return each choice of branches with the conditions under which it may happen, besides the guard.

        SOUND: a probability that is no question about integers counts as possible.
        """
        ways = []
        for branches in product(*(range(len(edge.branches)) for edge in self.edges)):
            happens: list[Expression] = []
            for edge, k in zip(self.edges, branches, strict=True):
                likely = edge.branches[k].probability
                if not isinstance(likely, RealLiteral | IntLiteral):
                    condition = possible(likely, self.kinds)
                    happens += [] if condition is None else [condition]
                elif likely.value <= 0:
                    break
            else:
                ways.append((branches, happens))
        return ways


@dataclass(frozen=True, eq=False)
class Space:
    """The bounded states of an arena that satisfy a claim, with the variables' bounds, and the operators of the network."""

    arena: Arena
    place: Mapping[str, int]
    lower: Ints
    upper: Ints
    claim: Claim
    operators: tuple[Operator, ...]

    @cached_property
    def sizes(self) -> list[int]:
        """The greatest absolute value of each variable and mark."""
        return greatest_sizes(self.lower, self.upper, len(self.claim.marks))

    @cached_property
    def rows_read(self) -> dict[int, tuple[Expression, Row | None]]:
        """Conditions by their identity, and what row each is."""
        return {}

    @property
    def task(self) -> Task:
        """The task."""
        return self.arena.task

    @property
    def network(self) -> Network:
        """The task's network."""
        return self.arena.task.network

    def state(self, point: Ints) -> State:
        """Return a point as a state of the interpreter."""
        return tuple(
            bool(x) if variable.kind is Kind.BOOL else int(x)
            for variable, x in zip(self.network.variables, point, strict=True)
        )


def read_space(
    arena: Arena, output_of: Mapping[str | None, int], rows: Any, blocked: Any, counted: Expression = TRUE
) -> Space:
    """Return the states that satisfy the rows and are in no blocked box, and the operators with the outputs of their labels.

    Equalities that the condition `counted` counts are columns of the rows, too.
    """
    network = arena.task.network
    place = {variable.name: k for k, variable in enumerate(network.variables)}
    bounds = [variable_bounds(variable) for variable in network.variables]
    for variable, (low, high) in zip(network.variables, bounds, strict=True):
        if variable.kind is Kind.REAL or low is None or high is None:
            raise Malformed(f"'{variable.name}' is no bounded integer")
    lower = np.array([low for low, _ in bounds], dtype=np.int64)
    upper = np.array([high for _, high in bounds], dtype=np.int64)
    if len(bounds) and max(np.abs(lower).max(), np.abs(upper).max()) > 2**40:
        raise Malformed("a variable's bounds are beyond 2^40")
    claim = _Reader(place, lower, upper).claim(rows, blocked, counted)
    return Space(arena, place, lower, upper, claim, _operators(arena, output_of, place, lower, upper))


def variable_bounds(variable: Any) -> tuple[int | None, int | None]:
    """Return the integer bounds of a variable; truth values are 0 and 1."""
    if variable.kind.value == "bool":
        return 0, 1
    if variable.locations is not None:
        return 0, len(variable.locations) - 1
    return (
        None if variable.lower is None else int(variable.lower),
        None if variable.upper is None else int(variable.upper),
    )


def leaving_bounds(
    network: Network, place: Mapping[str, int], lower: Ints, upper: Ints, after: Mapping[str, Expression]
) -> list[Expression]:
    """Return the ways in which values after a step are outside the variables' bounds."""
    conditions: list[Expression] = []
    for name, value in after.items():
        k = place[name]
        if network.variables[k].kind is not Kind.BOOL:
            conditions.append(Binary("<", value, IntLiteral(int(lower[k]))))
            conditions.append(Binary(">", value, IntLiteral(int(upper[k]))))
    return conditions


def _operators(
    arena: Arena, output_of: Mapping[str | None, int], place: Mapping[str, int], lower: Ints, upper: Ints
) -> tuple[Operator, ...]:
    network = arena.task.network
    kinds = {variable.name: variable.kind for variable in (*network.variables, *network.scratch)}
    operators = []
    for joint in network.joints:
        for numbers in product(*joint.participants):
            edges = tuple(network.edges[number] for number in numbers)
            guard = conjunction(*(edge.guard for edge in edges))
            one = Operator(output_of.get(joint.label, NEVER), edges, guard, kinds)
            if arena.task.network.disables_out_of_bounds:
                guard = conjunction(guard, *_staying(network, one, place, lower, upper))
                one = Operator(one.output, edges, guard, kinds)
            operators.append(one)
    return tuple(operators)


def _staying(
    network: Network, operator: Operator, place: Mapping[str, int], lower: Ints, upper: Ints
) -> list[Expression]:
    """Return the conditions under which no outcome leaves the bounds: with them, the operator is enabled."""
    if len({update.index for edge in operator.edges for branch in edge.branches for update in branch.updates}) > 1:
        raise Unreadable("operators that leave the bounds are disabled, and assignments follow one another")
    chances = [branch.probability for edge in operator.edges for branch in edge.branches]
    if any(value_of(chance) is None and possible(chance, operator.kinds) is None for chance in chances):
        raise Unreadable("operators that leave the bounds are disabled, and a probability is not read over integers")
    conditions: list[Expression] = []
    for branches, happens in operator.ways():
        for outside in leaving_bounds(network, place, lower, upper, effects(network, operator.edges, branches)):
            assert isinstance(outside, Binary)
            inside = Binary("≥" if outside.operator == "<" else "≤", outside.left, outside.right)
            conditions.append(Binary("⇒", conjunction(*happens), inside) if happens else inside)
    return conditions


def greatest_sizes(lower: Ints, upper: Ints, marks: int) -> list[int]:
    """Return the greatest absolute value of each variable, and of each mark behind them."""
    ends = zip(lower.tolist(), upper.tolist(), strict=True)
    return [*(max(abs(low), abs(high)) for low, high in ends), *[1] * marks]


class _Reader:
    def __init__(self, place: Mapping[str, int], lower: Ints, upper: Ints) -> None:
        self.names, self.lower, self.upper = place, lower, upper

    def claim(self, rows: Any, blocked: Any, counted: Expression) -> Claim:
        if not isinstance(rows, list) or not isinstance(blocked, list):
            raise Malformed("'rows' and 'blocked' must be lists")
        marks: dict[tuple[int, int], int] = {}
        sums = [self._sum(item, f"rows[{k}]", marks) for k, item in enumerate(rows)]
        for key in islice(self._marks(counted), MOST_MARKS):
            marks.setdefault(key, len(marks))
        most = greatest_sizes(self.lower, self.upper, len(marks))
        read: list[Row] = []
        for columns, low, high in sums:
            row = row_between(columns, low, high, most)
            if row is None:
                raise Malformed("a row's sum may be beyond 2^60")
            read.append(row)
        lower, upper = read_boxes(blocked, "blocked", self.names, self.lower, self.upper)
        return Claim(tuple(read), lower, upper, tuple(marks))

    def _marks(self, counted: Expression) -> Iterator[tuple[int, int]]:
        """Yield the marks that a condition counts: with a column for each, its parts are rows, too."""
        sizes = greatest_sizes(self.lower, self.upper, 0)
        for part in conjuncts(counted):
            sides = row_of(part, self.names, sizes)
            yield from (key for key in sides[0] if isinstance(key, tuple)) if sides is not None else ()

    def _sum(
        self, item: Any, what: str, marks: dict[tuple[int, int], int]
    ) -> tuple[dict[int, int], int | None, int | None]:
        """Return coefficients per column and the bounds of a row; columns of marks come behind those of variables."""
        terms, counted = (item.get("terms"), item.get("marks", [])) if isinstance(item, dict) else (None, None)
        if not isinstance(terms, dict) or not isinstance(counted, list) or not (terms or counted):
            raise Malformed(f"{what} has no 'terms'")
        columns = {place_of(name, self.names, what): read_integer(value, what) for name, value in terms.items()}
        for mark in counted:
            if not isinstance(mark, list) or len(mark) != 3:
                raise Malformed(f"{what} has a mark that is no triple")
            key = place_of(mark[0], self.names, what), read_integer(mark[1], what)
            column = len(self.names) + marks.setdefault(key, len(marks))
            columns[column] = columns.get(column, 0) + read_integer(mark[2], what)
        low, high = item.get("lower"), item.get("upper")
        return (
            columns,
            None if low is None else read_integer(low, what),
            None if high is None else read_integer(high, what),
        )


def read_boxes(items: Any, what: str, names: Mapping[str, int], lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """Return the bounds of listed boxes; what a box does not name is between the given bounds."""
    if not isinstance(items, list):
        raise Malformed(f"'{what}' is no list")
    low, high = np.tile(lower, (len(items), 1)), np.tile(upper, (len(items), 1))
    for k, item in enumerate(items):
        if not isinstance(item, dict):
            raise Malformed(f"{what}[{k}] is no box")
        for name, pair in item.items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise Malformed(f"{what}[{k}] gives '{name}' no pair of bounds")
            at = place_of(name, names, f"{what}[{k}]")
            low[k, at], high[k, at] = (read_integer(value, f"{what}[{k}]") for value in pair)
    return low, high


def place_of(name: Any, names: Mapping[str, int], what: str) -> int:
    """Return the place of the variable, or raise Malformed."""
    if not isinstance(name, str) or name not in names:
        raise Malformed(f"{what} names '{name}', which is no variable")
    return names[name]


def read_integer(value: Any, what: str) -> int:
    """Return the integer, or raise Malformed."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**40:
        raise Malformed(f"{what} holds {value!r}, which is no integer up to 2^40")
    return value
