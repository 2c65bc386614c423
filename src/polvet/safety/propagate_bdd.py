"""Prop-U with decision diagrams: the whole unsafe region at once, by regression from `fail`.

Source   Schmalz and Jain 2026, Algorithm 5 (`computeUnsafe` is `_Region.fixpoint`, TR is `_Operator.before`); integers
         as bits after Bartzis and Bultan, Efficient BDDs for Bounded Arithmetic Constraints, STTT 2006
Differs  as printed, a state must have *all* actions applicable to become unsafe, since TR contains the guard; here an
         action that is not applicable does not count, and one action must be. Goal states and states without actions
         are safe; silent operators are the environment's. Updates are functions, so preimages are substitutions, not
         relational products. States where the model leaves its bounds are counted once as unsafe and once as safe: a
         verdict that differs is unknown
Cost     as many rounds as the longest forced way to `fail`; diagrams may explode
Limits   bool and bounded int variables, constant probabilities; + - * min max abs, comparisons, ite, array accesses
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Select,
    Unary,
)
from polvet.model.network import Branch, Kind, NetworkEdge, Variable
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.safety.decide import Decided
from polvet.solvers.decision_diagrams import Diagram, Diagrams, Number
from polvet.verdict import Verdict

BYTES_PER_NODE = 60
Item = Diagram | Number  # a truth value or a number, by the expression's kind


def decide_by_diagrams(task: Task, states: Sequence[State], *, budget: Budget = UNLIMITED) -> tuple[list[Decided], int]:
    """Return the verdict on each state, and how many nodes the diagrams took."""
    if task.avoid.deadlock:  # SOUND: diagrams are asked about `fail` alone
        raise InputError("propagate-bdd knows no deadlocks.", Where("--avoid"), "Use another --algorithm.")
    failure: InputError | None = None
    try:
        return _decide(task, states, budget)
    except InputError as error:
        failure = InputError(error.what, error.where, error.hint)
    # Raised anew, out here: frames in a traceback would keep diagrams alive until their manager is gone.
    raise failure


def _decide(task: Task, states: Sequence[State], budget: Budget) -> tuple[list[Decided], int]:
    spent = stopwatch()
    encoder = _Encoder(task)
    try:
        region = _Region(task, encoder, _Watch(encoder.diagrams, budget))
        surely, perhaps = region.surely_unsafe(), region.perhaps_unsafe()
    except LimitReached as limit:
        reached = LimitReached(limit.limit, limit.kind)
        return [Decided(Verdict.UNKNOWN, 0, 0, spent(), reached)] * len(states), encoder.diagrams.nodes
    share = spent() / max(1, len(states))
    leaves = LimitReached("the model may leave the bounds of a variable on the way (see --out-of-bounds)")
    result = []
    for state in states:
        if encoder.holds(surely, state):
            verdict = Verdict.UNSAFE
        else:
            verdict = Verdict.UNKNOWN if encoder.holds(perhaps, state) else Verdict.SAFE
        unsure = leaves if verdict is Verdict.UNKNOWN else None
        result.append(Decided(verdict, region.operators * region.rounds, region.rounds, share, unsure))
    return result, encoder.diagrams.nodes


@dataclass(frozen=True, slots=True)
class _Watch:
    """Raises LimitReached when time or memory is used up; what counts are the nodes, not what others hold."""

    diagrams: Diagrams
    budget: Budget

    def check(self) -> None:
        if self.budget.is_over():
            raise self.budget.reached("time")
        if self.diagrams.nodes * BYTES_PER_NODE > self.budget.most_bytes:
            raise self.budget.reached("memory")


class _Encoder:
    """Variables as bits; expressions as diagrams over them."""

    def __init__(self, task: Task) -> None:
        self.diagrams = Diagrams()
        self.variables = task.network.variables
        self.bits: dict[str, list[str]] = {}
        self.start: dict[str, Item] = {}
        self.broken: Diagram = self.diagrams.false  # where an array index was out of range
        self.valid: Diagram = self.diagrams.true
        for variable in self.variables:
            self._declare(variable)
        for variable in task.network.scratch:
            initial = variable.initial if variable.initial is not None else 0
            if variable.kind is Kind.REAL:
                continue
            is_bool = variable.kind is Kind.BOOL
            self.start[variable.name] = self._truth(bool(initial)) if is_bool else self.diagrams.constant(int(initial))

    def _declare(self, variable: Variable) -> None:
        d = self.diagrams
        if variable.kind is Kind.BOOL:
            self.bits[variable.name] = [f"{variable.name}#0"]
            self.start[variable.name] = d.declare(self.bits[variable.name])[0]
            return
        if variable.kind is Kind.REAL or variable.lower is None or variable.upper is None:
            raise InputError(
                f"'{variable.name}' is a real or has no bounds.",
                variable.where,
                "Use another --algorithm, such as lazy.",
            )
        lower, size = int(variable.lower), int(variable.upper - variable.lower)
        self.bits[variable.name] = [f"{variable.name}#{k}" for k in range(size.bit_length())]
        raw = [*d.declare(self.bits[variable.name]), d.false]
        self.valid &= ~d.is_less(d.constant(size), raw)
        self.start[variable.name] = d.add(raw, d.constant(lower))

    def _truth(self, value: bool) -> Diagram:
        return self.diagrams.true if value else self.diagrams.false

    def raw_bits(self, variable: Variable, value: Item) -> tuple[dict[str, Diagram], Diagram]:
        """Return what each bit of the variable becomes, and where the value is between the bounds."""
        d = self.diagrams
        names = self.bits[variable.name]
        if variable.kind is Kind.BOOL:
            return {names[0]: value}, d.true
        assert variable.lower is not None
        assert variable.upper is not None
        raw = d.subtract(value, d.constant(int(variable.lower)))
        size = d.constant(int(variable.upper - variable.lower))
        inside = ~raw[-1] & ~d.is_less(size, raw)
        wide = raw + [raw[-1]] * max(0, len(names) - len(raw))
        return dict(zip(names, wide[: len(names)], strict=True)), inside

    def holds(self, region: Diagram, state: State) -> bool:
        """Return whether the state is in the region."""
        values: dict[str, bool] = {}
        for variable, value in zip(self.variables, state, strict=True):
            raw = int(value) - (0 if variable.kind is Kind.BOOL else int(variable.lower or 0))
            values |= {name: bool(raw >> k & 1) for k, name in enumerate(self.bits[variable.name])}
        return bool(self.diagrams.manager.let(values, region) == self.diagrams.true)

    def truth(self, expression: Expression, values: Mapping[str, Item]) -> Diagram:
        """Return where the expression of kind bool is true."""
        d = self.diagrams
        match expression:
            case BoolLiteral(value):
                return self._truth(value)
            case Unary("¬", operand):
                return ~self.truth(operand, values)
            case Binary("∧", left, right):
                return self.truth(left, values) & self.truth(right, values)
            case Binary("∨", left, right):
                return self.truth(left, values) | self.truth(right, values)
            case Binary("⇒", left, right):
                return ~self.truth(left, values) | self.truth(right, values)
            case Binary("=" | "≠" as sign, left, right):
                one, other = self.item(left, values), self.item(right, values)
                same = d.is_equal(one, other) if isinstance(one, list) else ~d.differ(one, other)
                return same if sign == "=" else ~same
            case Binary("<" | "≤" | ">" | "≥" as sign, left, right):
                one, other = self.number(left, values), self.number(right, values)
                if sign in ("<", "≥"):
                    less = d.is_less(one, other)
                    return less if sign == "<" else ~less
                more = d.is_less(other, one)
                return more if sign == ">" else ~more
            case _:
                item = self.item(expression, values)
                if isinstance(item, list):
                    raise _unsupported("a number as a condition")
                return item

    def number(self, expression: Expression, values: Mapping[str, Item]) -> Number:
        """Return the bits of an expression of kind int."""
        item = self.item(expression, values)
        if not isinstance(item, list):
            raise _unsupported("a truth value as a number")
        return item

    def item(self, expression: Expression, values: Mapping[str, Item]) -> Item:
        """Return the expression as a truth value or a number."""
        d = self.diagrams
        match expression:
            case IntLiteral(value):
                return d.constant(value)
            case RealLiteral(value) if value.denominator == 1:
                return d.constant(int(value))
            case Name(name):
                if name not in values:
                    raise _unsupported(f"the real variable '{name}'")
                return values[name]
            case Binary("+", left, right):
                return d.add(self.number(left, values), self.number(right, values))
            case Binary("-", left, right):
                return d.subtract(self.number(left, values), self.number(right, values))
            case Binary("*", left, right):
                return d.multiply(self.number(left, values), self.number(right, values))
            case Binary("min" | "max" as sign, left, right):
                one, other = self.number(left, values), self.number(right, values)
                first = d.is_less(one, other) if sign == "min" else d.is_less(other, one)
                return d.pick(first, one, other)
            case Unary("abs", operand):
                number = self.number(operand, values)
                return d.pick(number[-1], d.negate(number), number)
            case Unary("floor" | "ceil" | "trc", operand):
                return self.number(operand, values)
            case Conditional(condition, then, otherwise):
                test = self.truth(condition, values)
                return self._pick(test, self.item(then, values), self.item(otherwise, values))
            case Select(_, _, items):
                places = self.places(expression, values)
                result = self.item(items[0], values)
                for place, item in zip(places[1:], items[1:], strict=True):
                    result = self._pick(place, self.item(item, values), result)
                return result
            case Unary("¬", _) | Binary("∧" | "∨" | "⇒" | "=" | "≠" | "<" | "≤" | ">" | "≥", _, _) | BoolLiteral(_):
                return self.truth(expression, values)
            case Unary(operator, _) | Binary(operator, _, _):
                raise _unsupported(f"'{operator}'")
            case _:
                raise _unsupported(type(expression).__name__)

    def places(self, select: Select, values: Mapping[str, Item]) -> list[Diagram]:
        """Return for each item of an array where it is the selected one; where none is, the model is broken."""
        d = self.diagrams
        indices = [self.number(index, values) for index in select.indices]
        result = []
        for place in product(*(range(length) for length in select.shape)):
            here = d.true
            for index, k in zip(indices, place, strict=True):
                here &= d.is_equal(index, d.constant(k))
            result.append(here)
        anywhere = d.false
        for here in result:
            anywhere |= here
        self.broken |= ~anywhere
        return result

    def _pick(self, condition: Diagram, yes: Item, no: Item) -> Item:
        if isinstance(yes, list) and isinstance(no, list):
            return self.diagrams.pick(condition, yes, no)
        return self.diagrams.choose(condition, yes, no)


class _Operator:
    """One edge per participant: where it is enabled, and what each of its branches makes of the bits."""

    def __init__(self, encoder: _Encoder, edges: Sequence[NetworkEdge]) -> None:
        self._encoder = encoder
        d = encoder.diagrams
        self.guard = encoder.valid
        for edge in edges:
            self.guard &= encoder.truth(edge.guard, encoder.start)
        self.substitutions: list[dict[str, Diagram]] = []
        self.inside = d.true  # where no branch leaves a variable's bounds
        if self.guard == d.false:
            return
        for branches in product(*(_possible(edge) for edge in edges)):
            self._add_outcome(branches)

    def _add_outcome(self, branches: Sequence[Branch]) -> None:
        values = dict(self._encoder.start)
        updates = [update for branch in branches for update in branch.updates]
        for index in sorted({update.index for update in updates}):
            before = dict(values)
            for update in updates:
                if update.index != index:
                    continue
                if isinstance(update.target, Name):
                    if update.target.name in self._encoder.start:  # reals that only rewards read are left out
                        values[update.target.name] = self._encoder.item(update.value, before)
                    continue
                new = self._encoder.item(update.value, before)
                for place, item in zip(self._encoder.places(update.target, before), update.target.items, strict=True):
                    assert isinstance(item, Name)
                    values[item.name] = self._encoder._pick(place, new, before[item.name])
        substitution: dict[str, Diagram] = {}
        for variable in self._encoder.variables:
            if values[variable.name] is not self._encoder.start[variable.name]:
                bits, inside = self._encoder.raw_bits(variable, values[variable.name])
                substitution |= bits
                self.inside &= inside
        self.substitutions.append(substitution)

    def before(self, region: Diagram) -> Diagram:
        """Return from where the operator may lead into the region."""
        d = self._encoder.diagrams
        result = d.false
        for substitution in self.substitutions:
            result |= d.substitute(substitution, region) if substitution else region
        return result & self.guard


class _Region:
    """The operators by label, and the fixpoint over them."""

    def __init__(self, task: Task, encoder: _Encoder, budget: _Watch) -> None:
        self._encoder, self._budget = encoder, budget
        d = encoder.diagrams
        self.fail = encoder.truth(task.fail, encoder.start) & encoder.valid
        self.goal = encoder.truth(task.goal, encoder.start) & ~self.fail
        encoder.broken = d.false
        self.by_label: dict[str | None, list[_Operator]] = {}
        broken = d.false
        self.operators = self.rounds = 0
        for joint in task.network.joints:
            for edges in product(*joint.participants):
                budget.check()
                operator = _Operator(encoder, [task.network.edges[edge] for edge in edges])
                if operator.guard == d.false:
                    continue
                if task.network.disables_out_of_bounds:
                    operator.guard &= operator.inside
                else:
                    broken |= operator.guard & ~operator.inside
                self.by_label.setdefault(joint.label, []).append(operator)
                self.operators += 1
        self.broken = (broken | encoder.broken) & encoder.valid & ~self.fail & ~self.goal

    def surely_unsafe(self) -> Diagram:
        """Return the states that are unsafe even if broken ones were safe."""
        return self._fixpoint(self.fail, self._encoder.diagrams.false)

    def perhaps_unsafe(self) -> Diagram:
        """Return the states that are unsafe if broken ones are."""
        if self.broken == self._encoder.diagrams.false:
            return self._fixpoint(self.fail, self._encoder.diagrams.false)
        return self._fixpoint(self.fail | self.broken, self.broken)

    def _fixpoint(self, region: Diagram, given: Diagram) -> Diagram:
        while True:
            self.rounds += 1
            larger = region | (self._forced_into(region) & ~self.goal & ~(self.broken & ~given))
            if larger == region:
                return region
            region = larger

    def _forced_into(self, region: Diagram) -> Diagram:
        """Return where every action (of which there is one) may lead into the region."""
        d = self._encoder.diagrams
        silently = self._before(None, region)
        forced, some_label = d.true, d.false
        for label, operators in self.by_label.items():
            if label is None:
                continue
            applicable = d.false
            for operator in operators:
                applicable |= operator.guard
            some_label |= applicable
            forced &= ~applicable | self._before(label, region) | silently
        return d.choose(some_label, forced, silently) & self._encoder.valid

    def _before(self, label: str | None, region: Diagram) -> Diagram:
        result = self._encoder.diagrams.false
        for operator in self.by_label.get(label, ()):
            self._budget.check()
            result |= operator.before(region)
        return result


def _possible(edge: NetworkEdge) -> list[Branch]:
    """Return the branches with a probability above 0; it must be a constant."""
    branches = []
    for branch in edge.branches:
        match branch.probability:
            case IntLiteral(value) | RealLiteral(value):
                if value > 0:
                    branches.append(branch)
            case _:
                raise _unsupported("a probability that is not constant")
    return branches


def _unsupported(what: str) -> InputError:
    return InputError(f"decision diagrams do not support {what}.", "--algorithm", "Use another one, such as lazy.")
