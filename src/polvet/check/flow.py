"""Where sets of states go: one step of a policy from many sets at once, each a vector of affine forms.

Everything that some state of a set might do is followed: every choice that no rival surely beats, every operator whose guard
might hold, every silent operator, every outcome with a probability that might be positive. SOUND: what is left out happens
in no state of the set, in whatever order a network's scores are summed up. The interpreter runs every enabled operator, chosen or
not: sets in which one might break a rule of the model are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np

from polvet.check.affine_forms import Bools, Floats, Form, Truth, truth_of, value_of
from polvet.check.box_view import Unreadable, effects, refuse_hidden_errors
from polvet.check.chances import may_be_positive
from polvet.check.flow_errors import draws_of, error_conditions
from polvet.check.guarded import guarded_ends
from polvet.check.narrowing import ranges_where
from polvet.check.policy_bounds import NetworkBounds, TreeBounds
from polvet.check.state_sets import Sets, joined
from polvet.check.unit_bounds import UnitBounds
from polvet.model.expressions import Binary, BoolLiteral, Expression, IntLiteral, Name, RealLiteral
from polvet.model.network import Kind, Network, Variable
from polvet.model.possible import possible
from polvet.model.task import Task
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.networks import Network as NeuralNetwork
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph


@dataclass(frozen=True, slots=True, eq=False)
class Went:
    """The sets after a step, for each the number of the set it comes from, and which sets before it might break a rule."""

    sets: Sets
    source: np.ndarray
    broken: Bools


@dataclass(frozen=True, slots=True)
class Way:
    """An outcome of an operator: the number of its label (None: silent), its guard, what it assigns.

    It happens where the conditions `happens` hold and the probabilities `chances` are above 0, exactly.
    `ends`: (variable, least, greatest) values after it that the guard sees to.
    """

    label: int | None
    guard: int
    happens: tuple[Expression, ...]
    chances: tuple[Expression, ...]
    after: Mapping[str, Expression]
    ends: tuple[tuple[int, float, float], ...] = ()


class Moves:
    """A task over sets of states, whoever chooses. Unreadable where it cannot be followed so."""

    def __init__(self, task: Task) -> None:
        self.task, self.network = task, task.network
        self.variables = self.network.variables
        self.place = {variable.name: k for k, variable in enumerate(self.variables)}
        self.kinds = {variable.name: variable.kind for variable in (*self.variables, *self.network.scratch)}
        self.lower, self.upper = domain(self.network)
        self.whole = tuple(variable.kind is not Kind.REAL for variable in self.variables)
        self.guards: list[Expression] = []
        self.guards_of: dict[int | None, list[int]] = {}  # by the number of the label; None: silent
        self.ways = list(self._ways())

    def _ways(self) -> Iterator[Way]:
        for joint in self.network.joints:
            label = None if joint.label is None else self.network.labels.index(joint.label)
            for edges in product(*joint.participants):
                parts = [self.network.edges[edge] for edge in edges]
                guard: Expression = BoolLiteral(True)
                for part in parts:
                    guard = Binary("∧", guard, part.guard)
                self.guards_of.setdefault(label, []).append(len(self.guards))
                self.guards.append(guard)
                for branches in product(*(range(len(part.branches)) for part in parts)):
                    happens, chances = [], []
                    for part, k in zip(parts, branches, strict=True):
                        likely = part.branches[k].probability
                        if isinstance(likely, RealLiteral | IntLiteral):
                            if likely.value <= 0:
                                break
                        elif (condition := possible(likely, self.kinds)) is not None:
                            happens.append(condition)
                        else:
                            chances.append(likely)
                    else:
                        refuse_hidden_errors(parts, branches)
                        after = effects(self.network, parts, branches)
                        ends = self._ends(guard, after)
                        yield Way(label, len(self.guards) - 1, tuple(happens), tuple(chances), after, ends)

    def _ends(self, guard: Expression, after: Mapping[str, Expression]) -> tuple[tuple[int, float, float], ...]:
        ends = []
        for name, value in after.items():
            low, high = guarded_ends(guard, value)
            if low is not None or high is not None:
                least = -np.inf if low is None else float(low)
                greatest = np.inf if high is None else float(high)
                ends.append((self.place[name], least, greatest))
        return tuple(ends)

    # -- sets

    def boxes(self, lower: Floats, upper: Floats) -> Sets:
        """Return the boxes [n, variables] as sets; a symbol per variable."""
        count, size = lower.shape
        center = lower / 2 + upper / 2
        # SOUND: the radius covers both ends, whatever halving and subtracting lost.
        radius = np.maximum(upper - center, center - lower) * (1 + 2.0**-50)
        slopes = np.zeros((count, size, size))
        slopes[:, np.arange(size), np.arange(size)] = radius
        return Sets(center, slopes, np.zeros((count, size)), (lower, upper))

    def forms(self, sets: Sets) -> dict[str, Form]:
        """Return each variable's values."""
        return {
            variable.name: Form(
                sets.center[:, k],
                sets.slopes[:, k],
                sets.error[:, k],
                variable.kind is not Kind.REAL,
                (sets.ends[0][:, k], sets.ends[1][:, k]),
            )
            for k, variable in enumerate(self.variables)
        }

    def happens(self, way: Way, sets: Sets, forms: Mapping[str, Form]) -> Truth:
        """Return where the outcome surely, and where it possibly has a probability above 0."""
        surely, possibly = np.ones(len(sets), dtype=np.bool_), np.ones(len(sets), dtype=np.bool_)
        for condition in way.happens:
            a, b = truth_of(condition, forms)
            surely, possibly = surely & a, possibly & b
        for chance in way.chances:
            surely, possibly = np.zeros_like(surely), possibly & may_be_positive(chance, self.ends_of(sets))
        return surely, possibly

    def ends_of(self, sets: Sets) -> dict[str, tuple[Floats, Floats]]:
        """Return bounds of each variable, by its name."""
        low, high = sets.ends
        return {variable.name: (low[:, k], high[:, k]) for k, variable in enumerate(self.variables)}

    def may_fail(self, sets: Sets) -> Bools:
        """Return which sets may hold a state of `fail`, or a value outside a variable's bounds."""
        return self.may_leave(sets) | truth_of(self.task.fail, self.forms(sets))[1]

    def may_leave(self, sets: Sets) -> Bools:
        """Return which sets may hold a value outside a variable's bounds."""
        low, high = sets.ends
        return np.asarray(((low < self.lower) | (high > self.upper)).any(axis=1))

    def moved(self, sets: Sets, way: Way) -> tuple[Sets, np.ndarray]:
        """Return the sets after the step, and which there are: others the guard excludes."""
        forms = self.forms(sets)
        center, slopes, error = sets.center.copy(), sets.slopes.copy(), sets.error.copy()
        low, high = (ends.copy() for ends in sets.ends)
        for name, value in way.after.items():
            place = self.place[name]
            form = value_of(value, forms)
            center[:, place], slopes[:, place], error[:, place] = form.center, form.slopes, form.error
            low[:, place], high[:, place] = self._stored(form, place)
        for place, least, greatest in way.ends:
            low[:, place], high[:, place] = np.maximum(low[:, place], least), np.minimum(high[:, place], greatest)
        left = np.flatnonzero((low <= high).all(axis=1))
        return Sets(center, slopes, error, (low, high)).take(left), left

    def _stored(self, form: Form, place: int) -> tuple[Floats, Floats]:
        """Return the bounds of a value as its variable holds it."""
        low, high = form.bounds()
        return (low, high) if self.variables[place].kind is Kind.REAL else (np.ceil(low), np.floor(high))


class Flow(Moves):
    """A policy and its task over sets of states. Unreadable where the task or the policy cannot be followed so."""

    def __init__(self, task: Task, fitted: Fitted) -> None:
        super().__init__(task)
        self.fitted = fitted
        policy = fitted.policy
        if isinstance(policy, NeuralNetwork):
            self.bounds: NetworkBounds | TreeBounds | UnitBounds = NetworkBounds(
                policy, fitted.variables, len(self.variables), rounded=True
            )
        elif isinstance(policy, UnitGraph):
            self.bounds = UnitBounds(policy, fitted.variables, len(self.variables), rounded=True)
        elif isinstance(policy, TreeEnsemble):
            self.bounds = TreeBounds(policy, fitted.variables)
        else:
            raise Unreadable("only networks and tree ensembles are followed over sets of states")
        self.output_of = {k: output for output, k in enumerate(fitted.labels) if k != UNKNOWN_LABEL}
        self.applicable = [[] if label == UNKNOWN_LABEL else self.guards_of.get(label, []) for label in fitted.labels]
        # What breaks no rule anywhere in the domain needs no second look.
        everywhere = self.boxes(self.lower[None, :], self.upper[None, :])
        self.leaving = {k for k, way in enumerate(self.ways) if self.may_leave(self.moved(everywhere, way)[0]).any()}
        self.errors = [
            error
            for error in map(tuple, error_conditions(task))
            if self._hold_together(error, self.forms(everywhere))[0]
        ]
        self.draws = [draw for draw in draws_of(self.network) if not draw.is_sure(self.ends_of(everywhere))[0]]

    # -- a step

    def step(self, sets: Sets) -> Went:
        """Return what may follow, one set per source, operator and outcome; none where all states have ended."""
        forms = self.forms(sets)
        ended = truth_of(self.task.goal, forms)[0]
        guards = [truth_of(guard, forms) for guard in self.guards]
        chosen = self._possible_outputs(sets, guards)
        taken: list[Sets] = []
        sources: list[np.ndarray] = []
        broken = self._may_break(sets, forms)
        for k, way in enumerate(self.ways):
            moving: Bools = guards[way.guard][1] & ~ended
            if way.label is None:
                followed = np.ones(len(sets), dtype=np.bool_)
            elif way.label in self.output_of:
                followed = chosen[:, self.output_of[way.label]]
            else:  # applicable, but the policy never chooses it
                followed = np.zeros(len(sets), dtype=np.bool_)
            if k not in self.leaving:
                moving = moving & followed
            if moving.any():
                moving = moving & self.happens(way, sets, forms)[1]
            source = np.flatnonzero(moving)
            if not len(source):
                continue
            moved, source = self._moved_from(sets, source, way, guards[way.guard][0])
            on = followed[source]
            broken[source[~on]] |= self.may_leave(moved)[~on]
            taken.append(moved.take(on))
            sources.append(source[on])
        broken &= ~ended
        if not taken:
            return Went(sets.take([]), np.zeros(0, dtype=np.intp), broken)
        return Went(joined(taken), np.concatenate(sources), broken)

    def _moved_from(self, sets: Sets, source: np.ndarray, way: Way, surely: Bools) -> tuple[Sets, np.ndarray]:
        """Return where the way leads from some sets, and from which: where its guard need not hold, from the part in which it can."""
        part, unsure = sets.take(source), np.flatnonzero(~surely[source])
        if len(unsure):
            open_ = part.take(unsure)
            inside, there = open_.within(*ranges_where(self.guards[way.guard], self.forms(open_)))
            sure = np.flatnonzero(surely[source])
            part = joined([part.take(sure), inside.take(there)])
            source = source[np.concatenate([sure, unsure[there]])]
        moved, left = self.moved(part, way)
        return moved, source[left]

    def _may_break(self, sets: Sets, forms: Mapping[str, Form]) -> Bools:
        """Return the sets in which something may have no value, or probabilities may be no distribution."""
        broken = np.zeros(len(sets), dtype=np.bool_)
        for error in self.errors:
            broken |= self._hold_together(error, forms)
        for draw in self.draws:
            broken |= truth_of(draw.guard, forms)[1] & ~draw.is_sure(self.ends_of(sets))
        return broken

    def _hold_together(self, conditions: Sequence[Expression], forms: Mapping[str, Form]) -> Bools:
        """Return in which sets all conditions may hold; those that are not followed may always."""
        possibly = np.ones(len(next(iter(forms.values())).center), dtype=np.bool_)
        for condition in conditions:
            with suppress(Unreadable):
                possibly = possibly & truth_of(condition, forms)[1]
        return possibly

    def _possible_outputs(self, sets: Sets, guards: Sequence[tuple[Bools, Bools]]) -> Bools:
        """Return [n, outputs]: which outputs some state of the set may choose, in some order of evaluation."""
        count, outputs = len(sets), len(self.applicable)
        surely, possibly = np.zeros((count, outputs), dtype=np.bool_), np.zeros((count, outputs), dtype=np.bool_)
        for output, mine in enumerate(self.applicable):
            for guard in mine:
                surely[:, output] |= guards[guard][0]
                possibly[:, output] |= guards[guard][1]
        if not self.fitted.filtered:
            surely[:] = True
        open_ = np.flatnonzero(possibly.sum(axis=1) + (not self.fitted.filtered) > 1)
        if len(open_) and outputs > 1:
            low, high = sets.take(open_).ends
            low, high = np.maximum(low, self.lower), np.minimum(high, self.upper)
            beaten = self.bounds.beaten(low, high)
            possibly[open_] &= ~(beaten & surely[open_][:, None, :]).any(axis=2)
        return possibly


def domain(network: Network) -> tuple[Floats, Floats]:
    """Return the variables' bounds; Unreadable where one has none."""
    ends = [_ends(variable) for variable in network.variables]
    return np.array([low for low, _ in ends]), np.array([high for _, high in ends])


def _ends(variable: Variable) -> tuple[float, float]:
    if variable.kind is Kind.BOOL:
        return 0.0, 1.0
    if variable.lower is None or variable.upper is None:
        raise Unreadable(f"'{variable.name}' has no bounds")
    low, high = float(variable.lower), float(variable.upper)
    if max(abs(low), abs(high)) > 2**40:
        raise Unreadable(f"the bounds of '{variable.name}' are beyond 2^40")
    # SOUND: doubles between the bounds as written; a bound that is no double is rounded inwards.
    low = np.nextafter(low, np.inf) if low < variable.lower else low
    return float(low), float(np.nextafter(high, -np.inf) if high > variable.upper else high)


def is_start_of(network: Network, start: Expression | None) -> Expression:
    """Return the condition of start states: `start`, or initial values and the model's initial condition."""
    if start is not None:
        return start
    condition = network.initial_condition
    for variable in network.variables:
        if variable.initial is not None:
            from polvet.model.expressions import literal

            condition = Binary("∧", Binary("=", Name(variable.name), literal(variable.initial)), condition)
    return condition
