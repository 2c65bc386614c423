"""What a flat text means: where runs start and end, and what may happen in a state. The one slow interpreter.

Integers have any size, reals are doubles, weights are computed in fractions. An error of the model is a `ModelFault`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

from .text import NUMBER, Item, Unreadable, integer, name, number, parse

State: TypeAlias = tuple[Any, ...]  # an int or a float for each variable
Outcomes: TypeAlias = list[tuple[Any, State]]  # weights, and the states after them
Function: TypeAlias = Callable[[Sequence[Any]], Any]
Stages: TypeAlias = list[list[tuple[int, Function]]]  # of assignments: the place of a variable, and its value
Operator: TypeAlias = tuple[str | None, Function, list[tuple[Function, Stages]]]  # label, guard, weights with stages
ARITHMETIC_ERRORS = (ZeroDivisionError, OverflowError, ValueError)


class ModelFault(Exception):
    """An error of the model in a state."""


class OutOfBounds(ModelFault):
    """An assignment leaves its variable's bounds."""


def finite(value: Any) -> Any:
    """Return the value, unless an operation on doubles had no finite result."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ModelFault("an operation has no finite result")
    return value


def _alike(join: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: join(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else join(a, b)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0 or (b > 63 and abs(a) > 1):
            raise ModelFault("a power of integers is out of range")
        return a**b
    exact = isinstance(a, Fraction) and not isinstance(b, float) and b == int(b) and abs(b) <= 1024
    return a ** int(b) if exact else math.pow(a, b)


def _exact_quotient(a: Any, b: Any) -> Any:
    return a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / Fraction(b)


FUNCTIONS = (math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.sinh, math.cosh, math.tanh)
OPERATIONS: dict[str, tuple[int, Callable[..., Any]]] = {  # how many operands; -1: two or more, from the left
    "not": (1, lambda a: not a),
    "=": (2, lambda a, b: a == b),
    "<": (2, lambda a, b: a < b),
    "<=": (2, lambda a, b: a <= b),
    "+": (-1, lambda a, b: a + b),
    "-": (2, lambda a, b: a - b),
    "*": (-1, lambda a, b: a * b),
    "min": (-1, _alike(min)),
    "max": (-1, _alike(max)),
    "/": (2, lambda a, b: float(a) / float(b)),
    "%": (2, lambda a, b: a % abs(b)),
    "pow": (2, _power),
    "log": (2, lambda a, b: math.log(float(a)) / math.log(float(b))),
    "abs": (1, abs),
    "sgn": (1, lambda a: (a > 0) - (a < 0)),
    "floor": (1, math.floor),
    "ceil": (1, math.ceil),
    "trc": (1, math.trunc),
    "exact": (1, Fraction),
    **{f.__name__: (1, f) for f in (*FUNCTIONS, math.asinh, math.acosh, math.atanh, math.exp)},
}


class World:
    """A flat text as a world; `policy` are the parts of its policy, if it has one."""

    def __init__(self, text: str) -> None:
        self.names: list[str] = []
        self._places: dict[str, int] = {}  # of the variables by name, scratch variables last
        self.meaning: dict[str, list[str]] = {}
        self.policy: list[Item] | None = None
        self.only: list[int] | None = None  # the listed states that are to be judged; None: all, and the start states
        self.watch: Callable[[], None] | None = None  # called with every state that is looked at; it may raise
        self._bounds: list[tuple[bool, Any, Any]] = []  # whether it is a double, least and greatest value
        self._scratch: list[Any] = []
        self._defined: dict[str, Item] = {}
        self._made: dict[
            tuple[str, bool], tuple[Function, set[str]]
        ] = {}  # abbreviations, with the variables they read
        self._known: set[str] = set()  # the variables that the start item has named so far
        self._touched: set[str] = set()  # those that expressions have read since this was emptied
        self._operators: list[Operator] = []
        self._rows: dict[int, dict[Any, list[Operator]]] = {}  # by the variable that they test, and its value
        self._features: dict[int, list[tuple[int, list[int]]]] = {}
        self._events: dict[int, list[int]] = {}
        self._conditions: dict[str, Function] = {}
        self._start: list[tuple[int, Any, Any, list[Function]]] | None = None
        self._starts: list[State] | None = None
        first, *items = parse(text) or [None]
        if first != ["flat", "1"]:
            raise Unreadable("the text does not begin with (flat 1)")
        for item in items:
            self._read(item)
        self.is_chance = self.says("choice", "policy", "chance") == "chance"
        self._disables = self.says("bounds", "error", "disable") == "disable"
        self.is_fair = self.says("environment", "adversarial", "fair") == "fair"
        self.avoided = {*self.meaning.get("avoid", ())}
        if not self.avoided <= {"deadlock", "stuck", "loop"} or self.meaning.get("errors", [""])[0] not in (
            "all",
            "aside",
        ):
            raise Unreadable("the meaning avoids something unknown, or does not say which errors count")

    def says(self, key: str, *known: str) -> str:
        """Return which of the known words the meaning says."""
        if (words := self.meaning.get(key)) is None or len(words) != 1 or words[0] not in known:
            raise Unreadable(f"the meaning does not say ({key} ...) as one of {', '.join(known)}")
        return words[0]

    def _read(self, item: Item) -> None:
        place = self._place
        match item:
            case ["variable" | "integer" | "real" as kind, word, low, high] if not self._scratch:
                self._declare(kind, word, low, high)
                self.names = [*self._places]
            case ["scratch", [kind, word, low, high], initial]:
                self._declare(kind, word, low, high)
                self._scratch.append(self._put(place(word), number(initial)))
            case ["define", word, expression] if name(word) not in self._defined and name(word) not in self._places:
                self.compile(expression)
                self._defined[name(word)] = expression
            case ["operator", label, guard, *branches] if branches:
                made: list[tuple[Function, Stages]] = []
                for keyword, weight, *stages in branches:
                    if keyword != "branch" or any(stage[0] != "then" for stage in stages):
                        raise Unreadable(f"{str(item)[:60]} has a part that is neither a branch nor a stage")
                    assigned = [[(place(word), self.compile(value)) for word, value in stage[1:]] for stage in stages]
                    made.append((self.compile(weight, exact=True), assigned))
                self._operators.append((_label(label), self.compile(guard), made))
            case ["feature", word, table, *values]:
                self._features.setdefault(place(table), []).append((place(word), [*map(integer, values)]))
            case ["event", table, *words]:
                self._events.setdefault(place(table), []).extend(map(place, words))
            case ["rows", table, [source, label], *outcomes] if outcomes:
                key, events = place(table), self._events.get(place(table), [])
                made = [
                    (_constant(integer(w)), self._stage(key, integer(source), integer(s), event))
                    for w, s, *event in outcomes
                ]
                operator = _label(label), lambda s: not any(s[event] for event in events), made
                self._rows.setdefault(key, {}).setdefault(integer(source), []).append(operator)
            case ["fail" | "goal" as key, expression] if key not in self._conditions:
                self._conditions[key] = self.compile(expression)
            case ["start", *ranges] if self._start is None is self._starts:
                self._start = [self._range(*entry) for entry in ranges]
                if sorted(place for place, *_ in self._start) != [*range(len(self.names))]:
                    raise Unreadable("the start item does not name each variable once")
            case ["starts", *states] if self._start is None is self._starts:
                self._starts = [*map(self.checked, states)]
            case ["meaning", *parts] if not self.meaning:
                self.meaning = {key: [word.removeprefix('"') for word in words] for key, *words in parts}
            case ["policy", *parts] if self.policy is None and parts:
                self.policy = parts
            case _:
                raise Unreadable(f"{str(item)[:60]} is not an item, or stands twice or too late")

    def _declare(self, kind: Item, word: Item, low: Item, high: Item) -> None:
        if name(word) in self._defined or name(word) in self._places or kind not in ("variable", "integer", "real"):
            raise Unreadable(f"{name(word)} is declared twice, or is no kind of variable")
        low, high = (None if end == "*" and kind != "variable" else number(end) for end in (low, high))
        self._bounds.append((kind == "real", low, high))
        self._places[name(word)] = len(self._places)

    def _place(self, word: Item) -> int:
        if (place := self._places.get(name(word))) is None:
            raise Unreadable(f"there is no variable {name(word)}")
        return place

    def _stage(self, table: int, source: int, target: int, event: list[Item]) -> Stages:
        """Return what an outcome of a row assigns: the next number, what it determines otherwise, and the event."""
        columns = self._features.get(table, ())
        values = [
            (table, target),
            *((place, column[target]) for place, column in columns if column[target] != column[source]),
        ]
        return [[(place, _constant(value)) for place, value in [*values, *((self._place(word), 1) for word in event)]]]

    def _range(self, word: Item, low: Item, high: Item, *conditions: Item) -> tuple[int, Any, Any, list[Function]]:
        """Return what the start item says of a variable, whose conditions read it and those before it alone."""
        place = self._place(word)
        try:
            low, high = (None if end == "*" else self._put(place, number(end)) for end in (low, high))
        except ModelFault as fault:
            raise Unreadable(f"the start range of {name(word)}: {fault}") from None
        self._known.add(name(word))
        self._touched.clear()
        tests = [self.compile(condition) for condition in conditions]
        if not self._touched <= self._known:
            raise Unreadable(f"a start condition of {name(word)} reads a variable that comes later")
        return place, low, high, tests

    # -- expressions

    def compile(self, item: Item, *, exact: bool = False) -> Function:
        """Return the function from a state to the expression's value; `exact`: in fractions, as weights are computed."""
        match item:
            case "error":
                return _error
            case str() if NUMBER.fullmatch(item):
                value = _exactly(number(item)) if exact else number(item)
                return lambda s: value
            case str() if name(item) in self._defined and item[0] != '"':
                return self._abbreviated(item, exact)
            case str() if name(item) in self._places:
                place = self._place(item)
                self._touched.add(name(item))
                return (lambda s: _exactly(s[place])) if exact else lambda s: s[place]
            case [str(sign), *operands] if operands:
                return self._operation(sign, [self.compile(operand, exact=exact) for operand in operands], exact)
        raise Unreadable(f"{str(item)[:60]} is not an expression")

    def _abbreviated(self, word: str, exact: bool) -> Function:
        """Return the function that an abbreviation stands for, made once: they may stand in one another."""
        if (word, exact) not in self._made:
            touched, self._touched = self._touched, set()
            self._made[word, exact] = self.compile(self._defined[word], exact=exact), self._touched
            self._touched = touched
        function, reads = self._made[word, exact]
        self._touched |= reads
        return function

    def _operation(self, sign: str, parts: list[Function], exact: bool) -> Function:
        first, second, third = (*parts, _error, _error)[:3]
        match sign, len(parts):
            case "and", _:
                return lambda s: all(part(s) for part in parts)
            case "or", _:
                return lambda s: any(part(s) for part in parts)
            case "=>", 2:
                return lambda s: not first(s) or bool(second(s))
            case "ite", 3:
                return lambda s: second(s) if first(s) else third(s)
            case "at", _:
                return lambda s: parts[1 + _within(first(s), len(parts) - 1)](s)
        count, apply = (2, _exact_quotient) if exact and sign == "/" else OPERATIONS[sign]
        if count == 1 == len(parts):
            one: Callable[..., Any] = apply
            return lambda s: finite(one(first(s)))
        if count == len(parts) or (count < 0 and len(parts) > 1):
            return reduce(lambda f, g: lambda s: finite(apply(f(s), g(s))), parts)
        raise Unreadable(f"{sign} does not have {len(parts)} operands")

    # -- states

    def _put(self, place: int, value: Any) -> Any:
        """Return the value as a state holds it."""
        is_real, low, high = self._bounds[place]
        if is_real:
            value = finite(float(value)) + 0.0  # -0.0 is 0.0
        elif isinstance(value, float | Fraction):
            raise ModelFault(f"{[*self._places][place]} is assigned {value}, which is not an integer")
        if (low is not None and value < low) or (high is not None and value > high):
            raise OutOfBounds(f"{[*self._places][place]} is assigned {value}, outside of its bounds")
        return value if is_real else int(value)

    def checked(self, values: Any) -> State:
        """Return the state that a list of values, or an object by names, is; Unreadable where it is none of this world."""
        if isinstance(values, dict) and values.keys() == set(self.names):
            values = [values[word] for word in self.names]
        if not isinstance(values, list) or len(values) != len(self.names):
            raise Unreadable(f"{str(values)[:60]} does not give {len(self.names)} values")
        numbers = [value if isinstance(value, int | float) else number(value) for value in values]
        try:
            return tuple(self._put(place, value) for place, value in enumerate(numbers))
        except (ModelFault, OverflowError) as fault:
            raise Unreadable(f"{str(values)[:60]} is not a state: {fault}") from None

    def show(self, state: State) -> str:
        """Return the state as `x=1,y=2`."""
        return ",".join(f"{word}={value}" for word, value in zip(self.names, state, strict=False))

    def is_fail(self, state: State) -> bool:
        """Return whether the state is a fail state."""
        return bool(self._asked(self._conditions["fail"], state))

    def is_goal(self, state: State) -> bool:
        """Return whether the state satisfies the goal; fail beats it."""
        return bool(self._asked(self._conditions["goal"], state))

    def _asked(self, function: Function, state: State) -> Any:
        try:
            return function(state)
        except (ModelFault, *ARITHMETIC_ERRORS) as fault:
            raise ModelFault(f"{fault}, in {self.show(state)}") from None

    # -- what may happen

    def moves(self, state: State) -> list[tuple[str | None, Outcomes]]:
        """Return every enabled operator, None for a silent one, with its outcomes; of a Markov chain the one move that is drawn."""
        if self.watch is not None:
            self.watch()
        moves: list[tuple[str | None, Outcomes]] = self._asked(self._enabled, state)
        if not self.is_chance or not moves:
            return moves
        shares = [Fraction(1) / sum(weight for weight, _ in outcomes) for _, outcomes in moves]
        mixed = [(w * share, after) for share, (_, out) in zip(shares, moves, strict=True) for w, after in out]
        return [(None, mixed)]

    def _enabled(self, state: Sequence[Any]) -> list[tuple[str | None, Outcomes]]:
        full, moves = (*state, *self._scratch), []
        rows = [operator for place, rows in self._rows.items() for operator in rows.get(state[place], ())]
        for label, guard, branches in (*self._operators, *rows):
            if guard(full):
                weights = [weight(full) for weight, _ in branches]
                if min(weights) < 0 or not any(weights):
                    raise ModelFault("the weights of an operator are below 0, or all 0")
                try:
                    possible = [(w, stages) for w, (_, stages) in zip(weights, branches, strict=True) if w]
                    moves.append((label, [(weight, self._after(full, stages)) for weight, stages in possible]))
                except OutOfBounds:
                    if not self._disables:
                        raise
        return moves

    def _after(self, state: State, stages: Stages) -> State:
        for stage in stages:
            after = list(state)
            if len({place for place, _ in stage}) < len(stage):
                raise ModelFault("a variable is assigned twice at once")
            for place, value in stage:
                after[place] = self._put(place, value(state))
            state = tuple(after)
        return state[: len(self.names)]

    # -- where runs start

    def starts(self) -> Iterator[State]:
        """Yield every start state; a condition that is an error counts as true."""
        if self._starts is not None:
            yield from self._starts
            return
        state: list[Any] = [None] * len(self.names)
        ranges = self._start or []
        for place, low, high, _ in ranges:
            if low is None or high is None or (self._bounds[place][0] and low != high):
                raise Unreadable(f"{self.names[place]} has infinitely many values to start with")

        def extend(depth: int) -> Iterator[State]:
            if depth == len(ranges):
                yield tuple(state)
                return
            place, low, high, conditions = ranges[depth]
            for state[place] in (low,) if low == high else range(low, high + 1):
                if all(_may_hold(condition, state) for condition in conditions):
                    yield from extend(depth + 1)

        yield from extend(0) if self._start is not None else ()

    def is_start(self, state: State) -> bool:
        """Return whether the state surely is a start state; a condition that is an error counts as false."""
        if self._starts is not None or self._start is None:
            return state in (self._starts or ())
        return all(
            (low is None or low <= state[place])
            and (high is None or state[place] <= high)
            and all(self._asked(condition, state) for condition in conditions)
            for place, low, high, conditions in self._start
        )


def _exactly(value: Any) -> Any:
    return Fraction(value) if isinstance(value, float) else value


def _error(s: Sequence[Any]) -> Any:
    raise ModelFault("an error that the model names")


def _within(place: Any, length: int) -> int:
    if not 0 <= place < length or place != int(place):
        raise ModelFault(f"place {place} is outside of a list of {length}")
    return int(place)


def _label(word: Item) -> str | None:
    return None if word == "-" else name(word)


def _constant(value: int) -> Function:
    return lambda s: value


def _may_hold(condition: Function, state: list[Any]) -> bool:
    try:
        return bool(condition(state))
    except (ModelFault, *ARITHMETIC_ERRORS):
        return True
