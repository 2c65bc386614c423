"""All start states of a task, for checkers: values are tried variable by variable, cut off where a conjunct can no longer hold.

Whether a conjunct can hold is asked of intervals: known variables have their value, the others their bounds. What intervals do
not understand is taken as possible, and is tested when all its variables are known. A long disjunction, such as a list of states, is
followed case by case: those that say another value of a variable are left behind.
Cost     a few hundred thousand tries per second; nothing is stored
Limits   variables between finite bounds, or with an initial value
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import floor, inf
from typing import Any

from polvet.check.arena import Arena
from polvet.model.arithmetic import Value
from polvet.model.evaluate import Evaluator
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
    conjuncts,
    disjuncts,
    names,
    parts_of,
)
from polvet.model.network import Kind, Variable
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Interval = tuple[float, float]
ANYTHING: Interval = (-inf, inf)
MOST_EXACT = 2**53
FAR = 2.0**1000
NO_START = "there is no start state that it is about, and of nothing everything is true"
MANY_CASES = 8
"""A disjunction with so many cases is followed case by case."""
Case = Mapping[str, Value]
"""The values that a case of a disjunction says of variables; there may be more to it."""


def is_start(arena: Arena, state: State) -> bool:
    """Return whether runs start in the state, as far as the claim is about them."""
    if arena.region is not None and not arena.region.holds(state):
        return False
    pairs = zip(arena.task.network.variables, state, strict=True)
    if arena.task.start is None and not all(one.initial is None or one.initial == value for one, value in pairs):
        return False
    return bool(arena.semantics.compile(_condition(arena))(state))


def iter_all_starts(arena: Arena) -> Iterator[State]:
    """Yield every start state that the claim is about once; Malformed where there is none, or infinitely many."""
    missing = True
    for state in _iter_starts(arena, ()):
        missing = False
        yield state
    if missing:
        raise Malformed(NO_START)


def check_some_start(arena: Arena, witness: Any = None) -> None:
    """Raise Malformed unless the claim is about some start state: of one about none, everything is true.

    It is the witness, if one is named, else one that is found: where a variable has infinitely many values, among those that conditions,
    bounds and the region name, and those between them.
    """
    if witness is not None:
        if not is_start(arena, arena.read(witness, "'witness'")):
            raise Malformed("'witness' is not a start state that it is about")
        return
    numbers: list[Any] = [0]
    for part in parts_of(_condition(arena)):
        if isinstance(part, IntLiteral | RealLiteral):
            numbers.append(part.value)
    for variable in arena.task.network.variables:
        numbers += [end for end in (variable.lower, variable.upper) if end is not None]
    for box in () if arena.region is None else arena.region.boxes:
        numbers += [end for ends in box.values() for end in ends]
    named = sorted({float(number) for number in numbers if abs(number) < FAR})
    between = [one / 2 + other / 2 for one, other in pairwise(named)]
    if next(_iter_starts(arena, [named[0] - 1, *named, *between, named[-1] + 1]), None) is None:
        raise Malformed(NO_START)


def _condition(arena: Arena) -> Expression:
    task = arena.task
    return task.network.initial_condition if task.start is None else task.start


def _iter_starts(arena: Arena, tried: Sequence[float]) -> Iterator[State]:
    """Yield start states that the claim is about; of variables with infinitely many values only the ones to be tried."""
    starts = _iter_all_starts(arena, tried)
    return starts if arena.region is None else arena.region.among(starts)


def _iter_all_starts(arena: Arena, tried: Sequence[float]) -> Iterator[State]:
    task, variables = arena.task, arena.task.network.variables
    parts = list(conjuncts(_condition(arena)))
    values_of = [_range(variable, parts, tried, initial=task.start is None) for variable in variables]
    # Variables with one value come first: nothing is tried for them again and again.
    order = sorted(_reading_order(variables, parts), key=lambda place: len(values_of[place]) > 1)
    ranges = [values_of[place] for place in order]
    bounds = {variables[place].name: _bounds(values) for place, values in zip(order, ranges, strict=True)}
    level = {variables[place].name: k for k, place in enumerate(order)}
    tests: list[list[Evaluator]] = [[] for _ in range(len(order) + 1)]
    hopes: list[list[Expression]] = [[] for _ in range(len(order) + 1)]
    lists: list[Sequence[Case]] = []
    for part in parts:
        levels = sorted(level[name] + 1 for name in names(part))
        tests[levels[-1] if levels else 0].append(arena.semantics.compile(part))
        cases = [_case(one) for one in disjuncts(part)]
        if len(cases) >= MANY_CASES:
            lists.append(cases)
            continue
        for k in levels[:-1]:
            hopes[k].append(part)
    chosen: list[Value] = [0] * len(variables)

    def extend(depth: int, lists: Sequence[Sequence[Case]]) -> Iterator[State]:
        if not all(test(chosen) for test in tests[depth]) or any(not _can_hold(part, bounds) for part in hopes[depth]):
            return
        if depth == len(order):
            yield tuple(chosen)
            return
        name, before = variables[order[depth]].name, bounds[variables[order[depth]].name]
        by_value = [_Cases(name, cases) for cases in lists]
        values = ranges[depth]
        for one in by_value:
            if not one.others:
                values = [value for value in one.said if value in values]
        for value in values:
            arena.budget.check()
            left = [one.saying(value) for one in by_value]
            if not all(left):
                continue
            chosen[order[depth]] = value
            bounds[name] = _bounds((value,))
            yield from extend(depth + 1, left)
        bounds[name] = before

    return extend(0, lists)


class _Cases:
    """The cases of a disjunction by what they say of one variable."""

    def __init__(self, name: str, cases: Sequence[Case]) -> None:
        self.others: list[Case] = []  # that say nothing of it
        by_value: dict[Value, list[Case]] = {}
        for case in cases:
            (by_value.setdefault(case[name], []) if name in case else self.others).append(case)
        self.said = dict(sorted(by_value.items()))

    def saying(self, value: Value) -> list[Case]:
        # SOUND: a case that says another value is false; that the condition holds is tested besides.
        return [*self.said.get(value, ()), *self.others]


def _case(condition: Expression) -> Case:
    """Return the values that a case says; one that says two of a variable keeps the first, and is false anyway."""
    said: dict[str, Value] = {}
    for part in conjuncts(condition):
        match part:
            case Binary("=", Name(name), IntLiteral(value)) | Binary("=", IntLiteral(value), Name(name)):
                said.setdefault(name, value)
            case Name(name):
                said.setdefault(name, True)
            case Unary("¬", Name(name)):
                said.setdefault(name, False)
    return said


def _reading_order(variables: Sequence[Variable], parts: Sequence[Expression]) -> list[int]:
    """Return the places of the variables, those of small conjuncts first."""
    place = {variable.name: k for k, variable in enumerate(variables)}
    order: dict[int, None] = {}
    for part in sorted(parts, key=lambda part: len(names(part))):
        order.update(dict.fromkeys(sorted(place[name] for name in names(part))))
    order.update(dict.fromkeys(range(len(variables))))
    return list(order)


def _range(
    variable: Variable, parts: Sequence[Expression], tried: Sequence[float], *, initial: bool
) -> Sequence[Value]:
    if initial and variable.initial is not None:
        return (float(variable.initial) + 0.0 if variable.kind is Kind.REAL else variable.initial,)
    if variable.kind is Kind.BOOL:
        return (False, True)
    for part in parts:  # `x == 3` pins a variable, a real one too
        match part:
            case Binary("=", Name(name), IntLiteral(value) | RealLiteral(value)) if name == variable.name:
                number: Any = value
                if variable.kind is Kind.REAL:
                    return (float(number) + 0.0,)
                if abs(number) <= MOST_EXACT:  # the interpreter compares with doubles
                    return (int(number),)
    if variable.kind is not Kind.REAL and variable.lower is not None and variable.upper is not None:
        return range(int(variable.lower), int(variable.upper) + 1)
    if not tried:
        raise Malformed(f"'{variable.name}' has infinitely many values to start with")
    low = -inf if variable.lower is None else variable.lower
    high = inf if variable.upper is None else variable.upper
    return [value if variable.kind is Kind.REAL else floor(value) for value in tried if low <= value <= high]


def _bounds(values: Sequence[Value]) -> Interval:
    ends = (min(values), max(values)) if values else (-inf, inf)
    # SOUND: what is not exactly a double is not judged.
    return (float(ends[0]), float(ends[1])) if all(float(end) == end for end in ends) else ANYTHING


def _can_hold(condition: Expression, bounds: dict[str, Interval]) -> bool:
    # SOUND: an interval encloses all values; intervals of integers up to 2^53 are exact, larger ones are not judged.
    low, high = _interval(condition, bounds)
    return high != 0 or low != 0


def _interval(expression: Expression, bounds: dict[str, Interval]) -> Interval:
    match expression:
        case BoolLiteral(value) | IntLiteral(value):
            return (float(value), float(value)) if abs(value) <= MOST_EXACT else ANYTHING
        case Name(name):
            return bounds.get(name, ANYTHING)
        case Unary("¬", operand):
            low, high = _interval(operand, bounds)
            return 1 - min(high, 1), 1 - max(low, 0)
        case Conditional(condition, then, otherwise):
            low, high = _interval(condition, bounds)
            if low == high:
                return _interval(then if low else otherwise, bounds)
            one, other = _interval(then, bounds), _interval(otherwise, bounds)
            return min(one[0], other[0]), max(one[1], other[1])
        case Binary(operator, left, right):
            return _joined(operator, _interval(left, bounds), _interval(right, bounds))
        case _:
            return ANYTHING


def _joined(operator: str, a: Interval, b: Interval) -> Interval:
    match operator:
        case "∧":
            return min(_truth(a)[0], _truth(b)[0]), min(_truth(a)[1], _truth(b)[1])
        case "∨":
            return max(_truth(a)[0], _truth(b)[0]), max(_truth(a)[1], _truth(b)[1])
        case "⇒":
            return max(1 - _truth(a)[1], _truth(b)[0]), max(1 - _truth(a)[0], _truth(b)[1])
        case "<":
            return float(a[1] < b[0]), float(a[0] < b[1])
        case "≤":
            return float(a[1] <= b[0]), float(a[0] <= b[1])
        case ">" | "≥":
            return _joined({">": "<", "≥": "≤"}[operator], b, a)
        case "=":
            return float(a[0] == a[1] == b[0] == b[1]), float(a[0] <= b[1] and b[0] <= a[1])
        case "≠":
            low, high = _joined("=", a, b)
            return 1 - high, 1 - low
        case "+":
            return _exact(a[0] + b[0], a[1] + b[1])
        case "-":
            return _exact(a[0] - b[1], a[1] - b[0])
        case "*" if all(abs(end) <= MOST_EXACT for end in (*a, *b)):
            ends = [x * y for x in a for y in b]
            return _exact(min(ends), max(ends))
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case _:
            return ANYTHING


def _truth(interval: Interval) -> Interval:
    return max(interval[0], 0.0), min(interval[1], 1.0)


def _exact(low: float, high: float) -> Interval:
    """Return the interval where float64 arithmetic on integers was exact; otherwise anything."""
    exact = abs(low) <= MOST_EXACT and abs(high) <= MOST_EXACT and low.is_integer() and high.is_integer()
    return (low, high) if exact else ANYTHING
