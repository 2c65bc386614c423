"""The start states of a task: how many there are, all of them, or some drawn uniformly.

`Starts` splits the condition into parts that share no variable. A part over finitely many values is compiled to a
decision diagram (`_core.Diagram`): variables are read one by one, equal remainders of the condition are one node, and
ranges of values are cut off or accepted whole by interval arithmetic. Counts below each node number the states, so
drawing a state uniformly is drawing a number; nothing is listed. Variables no part reads multiply.

Exact     every part is finite. `count` is the number of states, ranks go from 0 to count - 1.
Rejection a part reads a real variable with infinitely many values, or (only on demand) has too many different
          remainders: points of the box between the bounds are drawn until
          the part holds. Bounds such as `x >= 0.5` and equations such as `x == 1` in the condition narrow the box.
          A real variable that the condition pins to finitely many values (a list of states) is exact.
Differs   from Semantics.states_satisfying: a state for which a part of the condition is false is no start, even where
          evaluating another part would divide by zero.
Cost      one node per different remainder: at most (partial sums) x (variables) for sums, one per prefix for lists.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, ModelError, Where
from polvet.kernel.residuals import OP, Termwriter
from polvet.kernel.starts.ranked import SMALL, RankedPart, Ranks
from polvet.model.arithmetic import Value
from polvet.model.automata import NOWHERE
from polvet.model.evaluate import Evaluator, compile_expression
from polvet.model.expressions import FALSE, Expression, conjuncts
from polvet.model.infix import dump_expression
from polvet.model.network import Kind, Network, Variable
from polvet.model.semantics import Semantics, State
from polvet.model.start_parts import (
    independent_parts,
    names_in_order,
    narrowed_bounds,
    pinned_values,
    reading_order,
)
from polvet.model.task import Task

MAX_TRIES = 1_000_000
MAX_MEGABYTES = 2_000
BLOCK = 1 << 16
COUNTING_SHARE = 0.2
"""Part of the time after which start states are drawn without being counted."""
START = Where("start")
MOST_KEPT = 100_000
"""Start states whose diagrams have so many nodes in all are kept with their network; larger ones are counted anew."""
SHOWN = 160
"""Characters of a condition in an error."""


def is_start_of(task: Task) -> Callable[[State], bool]:
    """Return the function that tells whether a state is a start state of the task."""
    semantics = Semantics(task.network)
    if task.start is not None:
        holds = semantics.compile(task.start)
        return lambda state: bool(holds(state))
    holds = semantics.compile(task.network.initial_condition)
    fixed = [(k, v.initial) for k, v in enumerate(task.network.variables) if v.initial is not None]
    return lambda state: all(state[k] == value for k, value in fixed) and bool(holds(state))


def sample_starts(task: Task, n: int, seed: int) -> list[State]:
    """Return n start states drawn independently and uniformly; `drawable_starts(task).method` names how."""
    return drawable_starts(task).sample(n, random.Random(seed))


def drawable_starts(task: Task, *, megabytes: int = 500, budget: Budget = UNLIMITED) -> Starts:
    """Return the start states to draw from: exactly, or by rejection where counting would take too much memory or time."""
    network, initial = task.network, task.start is None

    def drawn() -> Starts:
        return Starts(
            network,
            network.initial_condition if task.start is None else task.start,
            initial=initial,
            megabytes=megabytes,
            budget=budget.share(COUNTING_SHARE),
            draw_beyond_limits=True,
            where=network.model.where.at("restrict-initial") if initial else START,
        )

    return _some(task, _counted_once(network, task.start, drawn))


def _counted_once(network: Network, start: Expression | None, count: Callable[[], Starts]) -> Starts:
    """Return the start states that the network keeps; where it has none yet, count them, and keep them if exact and small."""
    key = "start states", start
    starts: Starts = network.derived.get(key) or count()
    if starts.method == "exact" and sum(part.diagram.nodes for part, _ in starts._ranked) <= MOST_KEPT:
        network.derived[key] = starts
    return starts


def _some(task: Task, starts: Starts) -> Starts:
    """Return the start states, of which there must be some: without any, every claim about a policy holds."""
    if starts.count == 0:
        raise no_start(task, starts.where)
    return starts


def no_start(task: Task, where: Where) -> InputError:
    """Return the error that no state satisfies the start condition."""
    shown = dump_expression(task.network.initial_condition if task.start is None else task.start)
    return InputError(
        f"no state satisfies the start condition {shown if len(shown) <= SHOWN else shown[:SHOWN] + '...'}.",
        where,
        "Weaken it: without a start state there is nothing to say about a policy.",
    )


@dataclass(frozen=True, slots=True)
class _Box:
    """Values between which a variable is drawn in a part that cannot be counted."""

    place: int
    variable: Variable
    lower: int | float
    upper: int | float


@dataclass(frozen=True, slots=True)
class _DrawnPart:
    """A part of the condition with infinitely many solutions: points of a box, kept where the tests hold."""

    boxes: tuple[_Box, ...]
    tests: tuple[Evaluator, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether a variable has no value left."""
        return any(box.lower > box.upper for box in self.boxes)

    def draw(self, state: list[Value], rng: random.Random, budget: Budget) -> None:
        for number in range(MAX_TRIES):
            if number % 1024 == 1023:
                budget.check()
            for box in self.boxes:
                if box.variable.kind is Kind.REAL:
                    state[box.place] = min(max(rng.uniform(box.lower, box.upper) + 0.0, box.lower), box.upper)
                else:
                    value = rng.randint(int(box.lower), int(box.upper))
                    state[box.place] = bool(value) if box.variable.kind is Kind.BOOL else value
            if all(test(state) for test in self.tests):
                return
        shown = ", ".join(box.variable.name for box in self.boxes[:4])
        raise LimitReached(f"no start state among {MAX_TRIES} points drawn between the bounds of {shown}")


class Starts:
    """The states satisfying a condition over a network's variables (or, with `initial`, its initial states)."""

    def __init__(
        self,
        network: Network,
        condition: Expression,
        *,
        initial: bool = False,
        megabytes: int = MAX_MEGABYTES,
        budget: Budget = UNLIMITED,
        draw_beyond_limits: bool = False,
        where: Where = NOWHERE,
    ) -> None:
        self.network = network
        self._draw_beyond_limits = draw_beyond_limits
        self._budget, self._megabytes = budget, min(megabytes, budget.megabytes or megabytes)
        self.where = where
        parts = list(conjuncts(condition))
        self._fixed: dict[str, Value] = {}
        self._pinned: dict[str, list[float]] = {}
        for variable in network.variables:
            if initial and variable.initial is not None:
                self._fixed[variable.name] = _stored(variable, variable.initial)
        self._position = {variable.name: place for place, variable in enumerate(network.variables)}
        self._boxes = {v.name: narrowed_bounds(v, parts) for v in network.variables if v.name not in self._fixed}
        self._unusual = [place for place, v in enumerate(network.variables) if v.kind is not Kind.INT]
        self._ranked: list[tuple[RankedPart, tuple[int, ...]]] = []
        self._drawn: list[_DrawnPart] = []
        self._known_reads: dict[int, list[str]] = {}
        self.method, self.count = "exact", None if FALSE not in parts else 0
        if self.count is None:
            self._split(parts)
            self.method = "rejection" if self._drawn else "exact"
            self.count = prod((part.total for part, _ in self._ranked), start=1)
            if self._drawn and self.count:
                self.count = 0 if any(part.is_empty for part in self._drawn) else None

    @classmethod
    def of(cls, task: Task, budget: Budget = UNLIMITED) -> Starts:
        """Return the start states of a task: those satisfying `start`, or the model's initial states; none are an InputError."""
        if task.start is None:
            return _some(task, cls.initial(task.network, budget))
        start = task.start
        counted = _counted_once(task.network, start, lambda: cls(task.network, start, budget=budget, where=START))
        return _some(task, counted)

    @classmethod
    def initial(cls, network: Network, budget: Budget = UNLIMITED) -> Starts:
        """Return the initial states of a network."""
        where = network.model.where.at("restrict-initial")
        return _counted_once(
            network,
            None,
            lambda: cls(network, network.initial_condition, initial=True, budget=budget, where=where),
        )

    # -- splitting the condition

    def _split(self, parts: list[Expression]) -> None:
        groups = independent_parts([(part, self._reads(part)) for part in parts])
        used: set[str] = set()
        for variables, members in groups:
            used |= set(variables)
            self._add_part(variables, members)
        for variable in self.network.variables:
            if variable.name in self._boxes and variable.name not in used:
                self._add_part([variable.name], [])

    def _reads(self, part: Expression) -> list[str]:
        """Return the variables without a fixed value that a part reads, in order of appearance."""
        if id(part) not in self._known_reads:
            self._known_reads[id(part)] = [name for name in names_in_order(part) if name in self._boxes]
        return self._known_reads[id(part)]

    def _add_part(self, variables: Sequence[str], members: list[Expression]) -> None:
        by_name = self.network.variables
        open_ended = []
        for name in variables:
            variable, (lower, upper) = by_name[self._position[name]], self._boxes[name]
            if variable.kind is Kind.REAL and (lower is None or lower != upper):
                values = pinned_values(members, name)
                if values is None:
                    open_ended.append(name)
                else:
                    least, most = -inf if lower is None else lower, inf if upper is None else upper
                    self._pinned[name] = [value for value in values if least <= value <= most]
            if lower in (None, -inf) or upper in (None, inf):
                if name in self._pinned:
                    continue
                raise InputError(
                    f"'{name}' has infinitely many values to start with.",
                    self.where,
                    "Bound it in the start condition or in the model.",
                )
        if open_ended:
            self._draw_part(variables, members)
            return
        order = reading_order(variables, [self._reads(member) for member in members])
        diagram, leaves = _core.Diagram(), {}
        for name in order:
            leaves[name] = self._leaf(diagram, by_name[self._position[name]])
        for name, value in self._fixed.items():
            kind = by_name[self._position[name]].kind
            term = diagram.number(float(value)) if kind is Kind.REAL else diagram.integer(int(value))
            leaves[name] = term, kind
        writer = Termwriter(diagram, leaves)
        try:
            terms = [writer.write(member)[0] for member in members]
        except InputError as error:
            raise InputError(error.what, self.where, error.hint) from None
        root = diagram.term(OP["AND"], 0, 0, terms, []) if terms else diagram.integer(1)
        diagram.compile(root, self._budget.left(), self._megabytes * 2**20, None)
        stopped = diagram.status in (_core.Status.MEMORY, _core.Status.TIME)
        if stopped and self._draw_beyond_limits and not any(name in self._pinned for name in variables):
            self._draw_part(variables, members)
            return
        self._check(diagram, order)
        part = RankedPart.of(diagram, [self._domain(by_name[self._position[name]]) for name in order])
        self._ranked.append((part, tuple(self._position[name] for name in order)))

    def _leaf(self, diagram: _core.Diagram, variable: Variable) -> tuple[int, Kind]:
        values = self._values_of(variable)
        if values is None:
            return diagram.variable(*self._domain(variable)), variable.kind
        index = diagram.variable(0, max(len(values) - 1, 0))
        numbers = [diagram.number(value) for value in values]
        return diagram.term(OP["SELECT"], 1, 0, [index, *numbers], [len(values)]), Kind.REAL

    def _values_of(self, variable: Variable) -> list[float] | None:
        if variable.kind is not Kind.REAL:
            return None
        if variable.name in self._pinned:
            return self._pinned[variable.name] or [0.0]  # no value fits: the condition itself is false
        return [float(self._boxes[variable.name][0] or 0.0)]

    def _domain(self, variable: Variable) -> tuple[int, int]:
        values = self._values_of(variable)
        if values is not None:
            return 0, max(len(values) - 1, 0)
        lower, upper = self._boxes[variable.name]
        assert lower is not None
        assert upper is not None
        return int(lower), int(upper)

    def _draw_part(self, variables: Sequence[str], members: list[Expression]) -> None:
        boxes = []
        for name in variables:
            lower, upper = self._boxes[name]
            assert lower is not None
            assert upper is not None
            boxes.append(_Box(self._position[name], self.network.variables[self._position[name]], lower, upper))
        tests = tuple(compile_expression(member, self._position) for member in members)
        self._drawn.append(_DrawnPart(tuple(boxes), tests))

    def _check(self, diagram: _core.Diagram, order: Sequence[str]) -> None:
        match diagram.status:
            case _core.Status.FAULT:
                what = diagram.fault.name.lower().replace("_", " ")
                level = diagram.fault_level
                place = f" with {order[level]} = {diagram.fault_value}" if level >= 0 else ""
                raise ModelError(
                    f"the condition cannot be evaluated in some state{place} ({what}).",
                    self.where,
                    "Guard the operation.",
                )
            case _core.Status.INTERRUPTED:
                raise KeyboardInterrupt
            case _core.Status.MEMORY:
                limit = f"counting start states needs more than {self._megabytes} MB ({diagram.nodes} nodes)"
                raise LimitReached(limit, "memory")
            case _core.Status.TIME:
                reached = self._budget.reached("time")
                raise LimitReached(f"{reached} while start states were counted", reached.kind)

    # -- using it

    def rows(self, ranks: Sequence[int]) -> NDArray[np.int64]:
        """Return one row of values per rank, in the kernel's form: reals as the bits of a double."""
        if self.count is None:
            raise InputError("there are infinitely many start states.", self.where, "Sample them instead.")
        result = np.zeros((len(ranks), len(self.network.variables)), dtype=np.int64)
        self._write_fixed(result)
        rest: Ranks = np.asarray(ranks, dtype=np.int64) if self.count <= SMALL else list(ranks)
        for part, places in reversed(self._ranked):
            if isinstance(rest, np.ndarray):
                rest, mine = np.divmod(rest, part.total)
                self._write_part(result, part, places, mine)
            else:
                self._write_part(result, part, places, [rank % part.total for rank in rest])
                rest = [rank // part.total for rank in rest]
        return result

    def _write_fixed(self, rows: NDArray[np.int64]) -> None:
        for name, value in self._fixed.items():
            place = self._position[name]
            rows[:, place] = _bits(value) if self.network.variables[place].kind is Kind.REAL else int(value)

    def _write_part(self, rows: NDArray[np.int64], part: RankedPart, places: tuple[int, ...], ranks: Ranks) -> None:
        values = part.rows(ranks)
        for column, place in enumerate(places):
            table = self._values_of(self.network.variables[place])
            if table is None:
                rows[:, place] = values[:, column]
            else:
                rows[:, place] = np.array([_bits(value) for value in table], dtype=np.int64)[values[:, column]]

    def blocks(self, limit: int | None = None, budget: Budget = UNLIMITED) -> Iterator[NDArray[np.int64]]:
        """Yield all start states (at most `limit`) as blocks of rows, in the order of their ranks."""
        if self.count is None:
            raise InputError("there are infinitely many start states.", self.where, "Sample them instead.")
        end = self.count if limit is None else min(limit, self.count)
        for begin in range(0, end, BLOCK):
            if begin:  # a block is little work: what is small is listed however little time is left
                budget.check()
            yield self.rows(range(begin, min(begin + BLOCK, end)))

    def states(self, limit: int | None = None, budget: Budget = UNLIMITED) -> Iterator[State]:
        """Yield all start states (at most `limit`), in the order of their ranks."""
        for block in self.blocks(limit, budget):
            yield from map(self._state, block.tolist())

    def state(self, rank: int) -> State:
        """Return the start state of that rank."""
        if self.count is not None and not 0 <= rank < self.count:
            raise InputError(
                f"there are {self.count} start states; none has the rank {rank}.", self.where, "Ranks begin at 0."
            )
        return self._state(self.rows([rank])[0].tolist())

    def _state(self, row: list[int]) -> State:
        state: list[Value] = [*row]
        for place in self._unusual:
            state[place] = _value(row[place], self.network.variables[place].kind)
        return tuple(state)

    def sample(self, n: int, rng: random.Random, *, distinct: bool = False, budget: Budget = UNLIMITED) -> list[State]:
        """Return n start states, independent and uniform; with `distinct` no two are the same (uniform among those)."""
        result: list[State] = []
        if self.count is not None:
            ranks = draw_ranks(self.count, n, rng, distinct=distinct, where=self.where, budget=budget)
            for begin in range(0, len(ranks), BLOCK):
                if begin:
                    budget.check()
                result += map(self._state, self.rows(ranks[begin : begin + BLOCK]).tolist())
            return result
        seen: set[State] = set()
        while len(result) < n:
            if len(result) % 256 == 255:
                budget.check()
            state = self._draw(rng, budget)
            if not distinct or state not in seen:
                seen.add(state)
                result.append(state)
        return result

    def _draw(self, rng: random.Random, budget: Budget) -> State:
        row = np.zeros((1, len(self.network.variables)), dtype=np.int64)
        self._write_fixed(row)
        for part, places in self._ranked:
            self._write_part(row, part, places, [rng.randrange(part.total)])
        state = list(self._state(row[0].tolist()))
        for drawn in self._drawn:
            drawn.draw(state, rng, budget)
        return tuple(state)


def draw_ranks(
    count: int,
    n: int,
    rng: random.Random,
    *,
    distinct: bool = False,
    where: Where = NOWHERE,
    budget: Budget = UNLIMITED,
) -> list[int]:
    """Return n numbers below `count`, uniform and independent; with `distinct`, all different.

    >>> sorted(draw_ranks(5, 5, random.Random(0), distinct=True))
    [0, 1, 2, 3, 4]
    """
    if count == 0 and n > 0:
        raise InputError("no state satisfies the start condition.", where, "Weaken it.")
    if not distinct:
        ranks: list[int] = []
        while len(ranks) < n:
            if ranks:
                budget.check()
            ranks += [rng.randrange(count) for _ in range(min(BLOCK, n - len(ranks)))]
        return ranks
    if n > count:
        raise InputError(f"{n} different start states are wanted, and there are {count}.", where, "Ask for fewer.")
    chosen: dict[int, None] = {}
    for top in range(count - n, count):  # Floyd's algorithm: every set of n numbers is equally likely
        if len(chosen) % BLOCK == BLOCK - 1:
            budget.check()
        rank = rng.randrange(top + 1)
        chosen[top if rank in chosen else rank] = None
    ranks = list(chosen)
    rng.shuffle(ranks)
    return ranks


def _stored(variable: Variable, value: Value) -> Value:
    return float(value) + 0.0 if variable.kind is Kind.REAL else value


def _bits(value: Value) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", float(value) + 0.0))[0]
    return bits


def _value(bits: int, kind: Kind) -> bool | int | float:
    if kind is Kind.REAL:
        real: float = struct.unpack("<d", struct.pack("<q", bits))[0]
        return real
    return bool(bits) if kind is Kind.BOOL else bits
