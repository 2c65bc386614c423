"""A network's operators as linear data: where each may move, and where that leads.

`linear_network` multiplies joints out. An operator with its guard's cell and one destination is a *transition*: in the
cell the operator is enabled, the destination has a probability above 0, and the successor is affine in the state.
Cost     one transition per operator, cell of its guard and destination; LinearNetwork.transitions lists them all
Limits   what `symbolic.linear` reads; `NotLinear` names what it cannot
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from polvet.errors import LimitReached
from polvet.kernel.starts import Starts
from polvet.model.expressions import (
    Binary,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
    conjunction,
    literal,
    names,
    size,
)
from polvet.model.network import PROBABILITY_TOLERANCE, Branch, Kind, Network, Update, Variable
from polvet.model.possible import possible
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.symbolic.cells import Box, Cell, Region, cell_of, meet_regions, point_box, row_of
from polvet.symbolic.linear import Affine, NotLinear, Reader, integer_bounds, shown

MOST_OPERATORS = 200_000
SILENT = -1
LONG_CONDITION, MOST_LISTED = 800, 2_000


@dataclass(frozen=True, slots=True)
class Transition:
    """In `cell` the operator may lead to the state with x[v] := update for each pair (v, update); the rest stays."""

    label: int  # number among the network's labels, or SILENT
    edges: tuple[int, ...]
    cell: Cell
    updates: tuple[tuple[int, Affine], ...]
    branches: tuple[
        int, ...
    ] = ()  # the number of each edge's branch; all branches of an operator happen, each with its probability
    strays: Region = ()  # parts of the cell where an assignment that a later one makes good leaves its variable's bounds

    def successor(self, state: Sequence[int]) -> tuple[int, ...]:
        """Return where the transition leads, as integers."""
        values = [int(value) for value in state]
        for place, update in self.updates:
            values[place] = update.value(state)
        return tuple(values)


@dataclass(frozen=True)
class LinearNetwork:
    """Transitions, and per label the region where it is applicable. `bounds` holds every state."""

    network: Network
    bounds: Box
    transitions: tuple[Transition, ...]
    applicable: tuple[Region, ...]  # per label
    silent: Region  # where a silent operator is enabled

    @cached_property
    def leaving(self) -> tuple[tuple[Transition, Region], ...]:
        """Return the transitions that can leave the variables' bounds, each with the part of its cell where it does.

        SOUND: an operator that does so is an error of the model wherever it is enabled, whatever a policy chooses.
        """
        pairs = []
        for transition in self.transitions:
            cells = list(transition.strays)
            cells += _beyond(self.bounds, transition.cell, transition.updates)
            if cells:
                pairs.append((transition, tuple(cells)))
        return tuple(pairs)


@dataclass(frozen=True, slots=True)
class LinearTask:
    """A task as linear data. Runs end in `fail` and in `goal`."""

    task: Task
    system: LinearNetwork
    start: Region
    fail: Region
    goal: Region
    derived: dict[Any, Any] = field(init=False, default_factory=dict, compare=False, repr=False)
    """What others have made of it, once."""


def linear_task(task: Task) -> LinearTask:
    """Return the task as linear data, or raise NotLinear.

    >>> from polvet.domains.transport import transport
    >>> small = linear_task(transport(locations=3, packages=2).task())
    >>> small.start[0].rows[0].lower, len(small.system.transitions)
    (2, 10)
    """
    reader = Reader(task.network)
    system = linear_network(task.network)
    start = task.start
    if start is None:
        fixed = [
            Binary("=", Name(variable.name), _literal(variable))
            for variable in task.network.variables
            if variable.initial is not None
        ]
        start = conjunction(*fixed, task.network.initial_condition)
    begin = _listed_starts(task) if size(start) > LONG_CONDITION else None
    if begin is None:
        begin = reader.region(start)
    return LinearTask(task, system, begin, reader.region(task.fail), reader.region(task.goal))


def _listed_starts(task: Task) -> Region | None:
    """Return the start states one by one, None where they are many: a long condition may mean few states in many cells."""
    try:
        starts = Starts.of(task)
    except LimitReached:
        return None
    if starts.count is None or starts.count > MOST_LISTED:
        return None
    return tuple(Cell(point_box(state)) for state in starts.states())


def linear_network(network: Network) -> LinearNetwork:
    """Return the network's operators as transitions, or raise NotLinear naming the expression that is not linear.

    Where the network disables operators out of bounds, one is enabled only where all its destinations stay within the bounds.
    """
    reader = Reader(network)
    number = {label: k for k, label in enumerate(network.labels)}
    transitions: list[Transition] = []
    applicable: list[list[Cell]] = [[] for _ in network.labels]
    silent: list[Cell] = []
    for joint in network.joints:
        if prod(map(len, joint.participants)) > MOST_OPERATORS:
            raise NotLinear(f"the label '{joint.label}' has more than {MOST_OPERATORS} operators")
        label = SILENT if joint.label is None else number[joint.label]
        for edges in product(*joint.participants):
            guard = reader.region(conjunction(*(network.edges[edge].guard for edge in edges)))
            if not guard:
                continue
            for edge in edges:
                _check_distribution(reader, guard, [branch.probability for branch in network.edges[edge].branches])
            branches = [
                Transition(label, edges, cell, updates, numbers, strays)
                for numbers in product(*(range(len(network.edges[edge].branches)) for edge in edges))
                for cell, updates, strays in _destinations(reader, guard, _branches(network, edges, numbers))
            ]
            if network.disables_out_of_bounds:
                if any(one.strays for one in branches):
                    raise NotLinear("an assignment that leaves the bounds is made good by a later one")
                guard = _staying(reader.bounds, guard, branches)
                branches = [
                    Transition(label, edges, cell, one.updates, one.branches)
                    for one in branches
                    for cell in meet_regions(guard, (one.cell,))
                ]
            transitions += branches
            (silent if label == SILENT else applicable[label]).extend(guard)
        if len(transitions) > MOST_OPERATORS:
            raise NotLinear(f"the model has more than {MOST_OPERATORS} transitions")
    regions = tuple(tuple(dict.fromkeys(cells)) for cells in applicable)
    return LinearNetwork(network, reader.bounds, tuple(transitions), regions, tuple(dict.fromkeys(silent)))


def _branches(network: Network, edges: Sequence[int], numbers: Sequence[int]) -> list[Branch]:
    return [network.edges[edge].branches[number] for edge, number in zip(edges, numbers, strict=True)]


def probability_of(network: Network, transition: Transition) -> Fraction:
    """Return how likely the transition's branches are once its operator is taken, or raise NotLinear where that depends on the state."""
    probability = Fraction(1)
    for branch in _branches(network, transition.edges, transition.branches):
        match branch.probability:
            case RealLiteral(value) | IntLiteral(value):
                probability *= Fraction(value)
            case other:
                raise NotLinear(f"the probability {shown(other)} depends on the state")
    return probability


def _destinations(
    reader: Reader, guard: Region, branches: Sequence[Branch]
) -> Iterator[tuple[Cell, tuple[tuple[int, Affine], ...], Region]]:
    """Yield the cells in which these branches of a joint's edges happen together, with what they do there."""
    region = guard
    for branch in branches:
        region = tuple(_likely(reader, region, branch.probability))
    updates = [update for branch in branches for update in branch.updates]
    for cell in region:
        yield from _execute(reader, cell, updates)


def _likely(reader: Reader, region: Region, probability: Expression) -> Iterator[Cell]:
    match probability:
        case RealLiteral(value) | IntLiteral(value):
            if value > 0:
                yield from region
        case _ if not names(probability):
            raise NotLinear(f"the probability {shown(probability)} is no plain number")
        case _:
            # SOUND: the probabilities of an edge sum to 1 where the model is in order; what is not
            # above zero never happens, and a negative one is an error that running the model reports.
            # Probabilities are exact: what is no question about integers is answered with fractions.
            above = possible(probability, reader.kinds)
            if above is None:
                above, reader = Binary(">", probability, IntLiteral(0)), Reader(reader.network, exact=True)
            for cell in region:
                yield from reader.region(above, within=cell)


def _check_distribution(reader: Reader, guard: Region, probabilities: Sequence[Expression]) -> None:
    """Raise NotLinear where computed probabilities may be negative, or not sum to 1: that is an error of the model."""
    if all(isinstance(one, RealLiteral | IntLiteral) for one in probabilities):
        return
    total = probabilities[0]
    for one in probabilities[1:]:
        total = Binary("+", total, one)
    off = Binary(">", Unary("abs", Binary("-", total, IntLiteral(1))), RealLiteral(PROBABILITY_TOLERANCE))
    for wrong in (*(Binary("<", one, IntLiteral(0)) for one in probabilities if names(one)), off):
        if names(wrong) and any(reader.region(wrong, within=cell) for cell in guard):
            raise NotLinear(f"probabilities may be no distribution: {shown(wrong)}")


def _execute(
    reader: Reader, cell: Cell, updates: Sequence[Update]
) -> Iterator[tuple[Cell, tuple[tuple[int, Affine], ...], Region]]:
    """Run the assignments symbolically: by ascending index, those of one index reading the values from before it.

    Yield cells, what is changed there, and the parts of the cell where a value on the way is outside its variable's bounds.
    """
    network = reader.network
    sources = {name for update in updates for name in names(update.value)}
    for update in updates:
        if not isinstance(update.target, Name):
            sources |= {name for index in update.target.indices for name in names(index)}
    scratch = {variable.name: variable for variable in network.scratch}
    start = dict(reader.plain)
    for variable in network.scratch:
        if variable.name in sources:
            start[variable.name] = _initial(variable)
    paths: list[tuple[Cell, dict[str, Affine], list[tuple[int, Affine]]]] = [(cell, start, [])]
    place_of = {variable.name: place for place, variable in enumerate(network.variables)}
    indices = sorted({update.index for update in updates})
    for index in indices:
        now = [update for update in updates if update.index == index]
        following = []
        for before_cell, before, history in paths:
            branches: list[tuple[Cell, dict[str, Affine]]] = [(before_cell, {})]
            for update in now:
                branches = [
                    more
                    for one, values in branches
                    for more in _assign(reader, one, values, before, update, scratch, sources)
                ]
            for one, values in branches:
                on_the_way = [(place_of[name], value) for name, value in values.items() if name in place_of]
                more = [] if index == indices[-1] else on_the_way
                following.append((one, {**before, **values}, [*history, *more]))
        paths = following
    for one, after, history in paths:
        changes = tuple(
            (place, after[variable.name])
            for place, variable in enumerate(network.variables)
            if after[variable.name] != reader.plain[variable.name]
        )
        yield one, changes, tuple(_beyond(reader.bounds, one, history))


def _beyond(bounds: Box, cell: Cell, values: Sequence[tuple[int, Affine]]) -> Iterator[Cell]:
    """Yield the parts of the cell where a value is outside the bounds of its variable."""
    for place, value in values:
        low, high = bounds.lower[place], bounds.upper[place]
        below = row_of(dict(value.terms), None, low - 1 - value.constant, value.marks)
        above = row_of(dict(value.terms), high + 1 - value.constant, None, value.marks)
        for row in (below, above):
            part = cell_of(cell.box, (*cell.rows, row), cell.holes)
            if part is not None:
                yield part


def _assign(
    reader: Reader,
    cell: Cell,
    values: dict[str, Affine],
    before: dict[str, Affine],
    update: Update,
    scratch: dict[str, Variable],
    sources: set[str],
) -> Iterator[tuple[Cell, dict[str, Affine]]]:
    target = update.target
    places: list[tuple[Cell, str]]
    if isinstance(target, Name):
        places = [(cell, target.name)]
    else:
        items = [item.name if isinstance(item, Name) else "" for item in target.items]
        places = [(one, items[k]) for one, k in reader.elements(target, cell, before)]
    for one, name in places:
        if name in values:
            raise NotLinear(f"'{name}' may be assigned twice at once")
        variable = scratch.get(name)
        if variable is not None and name not in sources:
            _ignore(reader, variable, update)
            yield one, values
            continue
        for case in reader.cases(update.value, within=one, names=before):
            if variable is not None:
                _stay_within(variable, case.cell, case.value)
            yield case.cell, {**values, name: case.value}


def _ignore(reader: Reader, variable: Variable, update: Update) -> None:
    """Leave out a scratch variable that no assignment reads; it must not be able to break a rule."""
    if variable.lower is not None or variable.upper is not None:
        raise NotLinear(f"the transient variable '{variable.name}' has bounds that an assignment may leave")
    if variable.kind is not Kind.BOOL and not isinstance(update.value, IntLiteral | RealLiteral | Name):
        reader.cases(update.value)  # raises where the value may not exist


def _stay_within(variable: Variable, cell: Cell, value: Affine) -> None:
    if variable.kind is Kind.REAL:
        raise NotLinear(f"the transient variable '{variable.name}' is real and read")
    if variable.lower is None and variable.upper is None:
        return
    low, high = integer_bounds(variable)
    least, most = value.span(cell.box)
    if least < low or most > high:
        raise NotLinear(f"the transient variable '{variable.name}' may leave its bounds")


def _initial(variable: Variable) -> Affine:
    if variable.initial is None or variable.initial != int(variable.initial):
        raise NotLinear(f"the transient variable '{variable.name}' has no integer to begin with")
    return Affine((), int(variable.initial))


def _staying(bounds: Box, guard: Region, transitions: Sequence[Transition]) -> Region:
    """Return the part of a guard in which no destination leaves the bounds."""
    for one in transitions:
        parts: list[Cell] = []
        rows = [
            row_of(dict(u.terms), bounds.lower[p] - u.constant, bounds.upper[p] - u.constant, u.marks)
            for p, u in one.updates
        ]
        inside = cell_of(one.cell.box, (*one.cell.rows, *rows), one.cell.holes)
        if inside == one.cell:
            continue
        for cell in guard:
            parts += _without(cell, one.cell)
            if inside is not None:
                parts += meet_regions((cell,), (inside,))
        guard = tuple(parts)
    return guard


def _without(cell: Cell, other: Cell) -> Iterator[Cell]:
    """Yield cells that cover exactly what of the cell is not in the other one."""
    for hole in other.holes:
        yield from meet_regions((cell,), (hole,))
    rest: Cell | None = cell
    cuts = [
        *(
            row_of({p: 1}, low, high)
            for p, (low, high) in enumerate(zip(other.box.lower, other.box.upper, strict=True))
        ),
        *other.rows,
    ]
    for row in cuts:
        if rest is None:
            return
        outside = []
        if row.lower is not None:
            outside.append(row_of(dict(row.terms), None, row.lower - 1, row.marks))
        if row.upper is not None:
            outside.append(row_of(dict(row.terms), row.upper + 1, None, row.marks))
        for one in outside:
            part = cell_of(rest.box, (*rest.rows, one), rest.holes)
            if part is not None:
                yield part
        rest = cell_of(rest.box, (*rest.rows, row), rest.holes)


def without_holes(cell: Cell) -> tuple[Cell, ...]:
    """Return the cell as cells without holes that do not overlap; NotLinear where there are too many."""
    parts: list[Cell] = [Cell(cell.box, cell.rows)]
    for hole in cell.holes:
        parts = [part for one in parts for part in _without(one, hole)]
        if len(parts) > MOST_OPERATORS:
            raise NotLinear("a condition has too many holes")
    return tuple(parts)


def _literal(variable: Variable) -> Expression:
    assert variable.initial is not None
    return literal(variable.initial)


def state_of(network: Network, values: Sequence[int]) -> State:
    """Return integers as a state of the network: truth values as such."""
    return tuple(
        bool(value) if variable.kind is Kind.BOOL else int(value)
        for variable, value in zip(network.variables, values, strict=True)
    )
