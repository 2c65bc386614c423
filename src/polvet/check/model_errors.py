"""Where running an operator breaks a rule of the model, as conditions over the state before it.

The interpreter runs every enabled operator of a state, whatever the policy chooses, and calls each of these an error: an assignment
outside its variable's bounds, also where a later one makes it good; two assignments to one variable at one index; an index outside
its array; a division by zero; probabilities that are no distribution. Conditions that hold together are a list.
SOUND: each state where the interpreter reports an error satisfies all conditions of some list; the first part that fails is
evaluated where the parts before it were, with the truth they had. A list may hold in other states, too: the interpreter decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil, lcm

from polvet.check.box_view import substituted
from polvet.errors import InputError
from polvet.model.arithmetic import INT64_MAX
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
    children,
    literal,
)
from polvet.model.kinds import kind_of
from polvet.model.network import PROBABILITY_TOLERANCE, Kind, Network, NetworkEdge, Update, Variable

Conditions = list[Expression]
TOTAL = frozenset(("¬", "abs", "sgn", "floor", "ceil", "trc", "sin", "cos", "atan", "tanh", "asinh"))
FINITE = 2**1000
"""Real operations on numbers up to this have finite results."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The variables of a network by name, and how large each can be: what tells which operations may fail."""

    network: Network
    variables: Mapping[str, Variable]
    kinds: Mapping[str, Kind]
    sizes: Mapping[str, int]


def rules_of(network: Network, sizes: Mapping[str, int]) -> Rules:
    """Return the rules of a network whose variables are no larger than the sizes."""
    variables = {variable.name: variable for variable in (*network.variables, *network.scratch)}
    kinds = {name: variable.kind for name, variable in variables.items()}
    return Rules(network, variables, kinds, sizes)


def errors_in(expression: Expression, context: Conditions, rules: Rules) -> Iterator[Conditions]:
    """Yield where evaluating the expression is an error, given what holds when it is evaluated."""
    match expression:
        case Binary(("∧" | "⇒"), left, right):
            yield from errors_in(left, context, rules)
            yield from errors_in(right, [*context, left], rules)
            return
        case Binary("∨", left, right):
            yield from errors_in(left, context, rules)
            yield from errors_in(right, [*context, Unary("¬", left)], rules)
            return
        case Conditional(test, then, otherwise):
            yield from errors_in(test, context, rules)
            yield from errors_in(then, [*context, test], rules)
            yield from errors_in(otherwise, [*context, Unary("¬", test)], rules)
            return
        case Select(indices, shape, items):
            yield from _outside(indices, shape, context, rules)
            place = _position(expression)
            for k, item in enumerate(items):
                yield from errors_in(item, [*context, Binary("=", place, IntLiteral(k))], rules)
            return
        case _:
            for part in children(expression):
                yield from errors_in(part, context, rules)
    match expression:
        case Binary(("/" | "%"), _, right):
            if not (isinstance(right, IntLiteral | RealLiteral) and right.value):
                yield [*context, Binary("=", right, IntLiteral(0))]
        case Binary("pow", _, IntLiteral(value)) if 0 <= value <= 63:
            pass
        case Binary("pow" | "log"):
            yield context
        case Unary(operator, _) if operator not in TOTAL:
            yield context
    if _may_be_infinite(expression, rules):
        yield context


def _outside(
    indices: Sequence[Expression], shape: Sequence[int], context: Conditions, rules: Rules
) -> Iterator[Conditions]:
    for index, length in zip(indices, shape, strict=True):
        yield from errors_in(index, context, rules)
        yield [*context, Binary("<", index, IntLiteral(0))]
        yield [*context, Binary("≥", index, IntLiteral(length))]


def _position(select: Select) -> Expression:
    """Return the number of the selected item as an expression."""
    place: Expression = IntLiteral(0)
    for index, length in zip(select.indices, select.shape, strict=True):
        place = Binary("+", Binary("*", place, IntLiteral(length)), index)
    return place


def errors_of(
    edges: Sequence[NetworkEdge], ways: Sequence[tuple[Sequence[int], Conditions]], rules: Rules
) -> Iterator[Conditions]:
    """Yield where the edges' guards cannot be evaluated, or moving together is an error; `ways` are the branches that may happen."""
    guards: Conditions = []
    for edge in edges:
        yield from errors_in(edge.guard, guards, rules)
        guards = [*guards, edge.guard]
    for edge in edges:
        for branch in edge.branches:
            yield from errors_in(branch.probability, guards, rules)
        yield from ([*guards, *wrong] for wrong in _no_distribution([branch.probability for branch in edge.branches]))
    for branches, happens in ways:
        updates = [update for edge, k in zip(edges, branches, strict=True) for update in edge.branches[k].updates]
        yield from errors_of_updates(updates, [*guards, *happens], rules)


def errors_of_updates(
    updates: Sequence[Update], context: Conditions, rules: Rules, *, bounded: Set[str] | None = None
) -> Iterator[Conditions]:
    """Yield where making the assignments is an error; `bounded`: the variables whose bounds are looked at, None is all."""
    now: dict[str, Expression] = {
        variable.name: literal(variable.initial) for variable in rules.network.scratch if variable.initial is not None
    }
    for index in sorted({update.index for update in updates}):
        before = dict(now)
        mine = [_Write.of(update, before) for update in updates if update.index == index]
        for one, other in combinations(mine, 2):
            yield from ([*context, *same] for same in one.meets(other))
        for write in mine:
            if write.place is not None:
                yield from _outside(write.indices, write.shape, context, rules)
            yield from errors_in(write.value, context, rules)
            if bounded is None or not bounded.isdisjoint(write.targets):
                yield from ([*context, *wrong] for wrong in _outside_bounds(write, rules))
            write.assign(now)


@dataclass(frozen=True, slots=True)
class _Write:
    """An assignment over the state before the step: its value, its target or the targets that its place numbers."""

    value: Expression
    targets: tuple[str, ...]
    place: Expression | None  # None: there is one target
    indices: tuple[Expression, ...]
    shape: tuple[int, ...]

    @staticmethod
    def of(update: Update, before: Mapping[str, Expression]) -> _Write:
        value = substituted(update.value, before)
        if isinstance(update.target, Name):
            return _Write(value, (update.target.name,), None, (), ())
        items = tuple(item.name if isinstance(item, Name) else "" for item in update.target.items)
        indices = tuple(substituted(index, before) for index in update.target.indices)
        place = _position(Select(indices, update.target.shape, update.target.items))
        return _Write(value, items, place, indices, update.target.shape)

    def at(self, k: int) -> Conditions:
        return [] if self.place is None else [Binary("=", self.place, IntLiteral(k))]

    def meets(self, other: _Write) -> Iterator[Conditions]:
        """Yield where both assign one variable."""
        if self.place is not None and other.place is not None and self.targets == other.targets:
            yield [Binary("=", self.place, other.place)]
            return
        for name in sorted(set(self.targets) & set(other.targets)):
            yield [*self.at(self.targets.index(name)), *other.at(other.targets.index(name))]

    def assign(self, now: dict[str, Expression]) -> None:
        for k, name in enumerate(self.targets):
            if self.place is None:
                now[name] = self.value
            elif name:
                now[name] = Conditional(self.at(k)[0], self.value, now.get(name, Name(name)))


def _outside_bounds(write: _Write, rules: Rules) -> Iterator[Conditions]:
    """Yield where the value is outside the bounds of a variable it may be given to."""
    ends: dict[tuple[int | Fraction | None, int | Fraction | None], Kind] = {}
    for name in write.targets:
        if name and (variable := rules.variables[name]).kind is not Kind.BOOL:
            ends[variable.lower, variable.upper] = variable.kind
    for (low, high), kind in ends.items():
        if isinstance(write.value, IntLiteral):
            given = write.value.value
            outside = (low is not None and given < low) or (high is not None and given > high)
            if outside and not rules.network.disables_out_of_bounds:
                yield []
        elif not rules.network.disables_out_of_bounds:
            if low is not None:
                yield [Binary("<", write.value, literal(low))]
            if high is not None:
                yield [Binary(">", write.value, literal(high))]
        size = _size(write.value, rules)
        if kind is Kind.INT and (low is None or high is None) and (size is None or size >= INT64_MAX):
            yield []


def _no_distribution(probabilities: Sequence[Expression]) -> Iterator[Conditions]:
    """Yield where one is negative or their sum is not 1."""
    sums = [_rational(one) for one in probabilities]
    known = [one for one in sums if one is not None]
    if len(known) < len(sums):
        yield []
        return
    total: dict[str, Fraction] = {}
    for one in known:
        negative = _negative(one)
        if negative is not None:
            yield [negative]
        for name, share in one.items():
            total[name] = total.get(name, Fraction(0)) + share
    if (
        any(share for name, share in total.items() if name)
        or abs(total.get("", Fraction(0)) - 1) > PROBABILITY_TOLERANCE
    ):
        yield []


def _negative(terms: Mapping[str, Fraction]) -> Expression | None:
    """Return the condition that a rational sum is below 0, None if it never is."""
    scale = lcm(*(share.denominator for share in terms.values()))
    total: Expression = IntLiteral(0)
    for name, share in terms.items():
        factor = IntLiteral(int(share * scale))
        total = Binary("+", total, factor if not name else Binary("*", factor, Name(name)))
    if not any(share for name, share in terms.items() if name):
        return None if terms.get("", Fraction(0)) >= 0 else BoolLiteral(True)
    return Binary("<", total, IntLiteral(0))


def _rational(expression: Expression) -> dict[str, Fraction] | None:
    """Return coefficients by name, and the constant by the empty name, of what is affine in exact arithmetic; None if it is not."""
    match expression:
        case IntLiteral(value) | RealLiteral(value):
            return {"": Fraction(value)}
        case Name(name):
            return {name: Fraction(1)}
        case Binary(("+" | "-") as operator, left, right):
            one, other = _rational(left), _rational(right)
            if one is None or other is None:
                return None
            sign = 1 if operator == "+" else -1
            return {n: one.get(n, Fraction(0)) + sign * other.get(n, Fraction(0)) for n in {*one, *other}}
        case Binary(("*" | "/") as operator, left, right):
            one, other = _rational(left), _rational(right)
            if operator == "*" and one is not None and set(one) <= {""}:
                one, other = other, one
            if one is None or other is None or not set(other) <= {""}:
                return None
            factor = other.get("", Fraction(0))
            if operator == "/" and not factor:
                return None
            return {n: c * factor if operator == "*" else c / factor for n, c in one.items()}
        case _:
            return None


def _may_be_infinite(expression: Expression, rules: Rules) -> bool:
    """Return whether a real operation may have no finite result."""
    if not isinstance(expression, Binary | Unary):
        return False
    try:
        if kind_of(expression, rules.kinds) is not Kind.REAL:
            return False
    except InputError:  # a truth value where its number is meant
        return False
    size = _size(expression, rules)
    return size is None or size > FINITE


def _size(expression: Expression, rules: Rules) -> int | None:
    """Return no less than the absolute value, None where it is not known."""
    match expression:
        case Name(name):
            return rules.sizes.get(name)
        case BoolLiteral(value) | IntLiteral(value) | RealLiteral(value):
            return ceil(abs(Fraction(value))) + 1
        case MathConstant():
            return 4
        case Unary(("¬" | "sgn" | "sin" | "cos" | "tanh"), _):
            return 1
        case Binary(("∧" | "∨" | "⇒" | "=" | "≠" | "<" | "≤" | ">" | "≥"), _, _):
            return 1
        case Binary("/", left, IntLiteral(value) | RealLiteral(value)) if value:
            size = _size(left, rules)
            return None if size is None else ceil(size / abs(Fraction(value))) + 1
        case Unary(("abs" | "floor" | "ceil" | "trc" | "atan" | "asinh"), operand):
            size = _size(operand, rules)
            return None if size is None else size + 2
    parts = [_size(part, rules) for part in children(expression)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    match expression:
        case Binary("+" | "-"):
            return sum(known) + 1
        case Binary("*"):
            return known[0] * known[1] + 1
        case Binary("min" | "max" | "%") | Conditional() | Select():
            return max(known)
        case Binary("/", _, right) if kind_of(right, rules.kinds) is Kind.INT:
            return known[0]  # the divisor is at least 1 wherever there is a quotient
        case Binary("pow", _, IntLiteral(value)) if 0 <= value <= 63:
            return int(max(known[0], 1) ** value) + 1
        case _:
            return None
