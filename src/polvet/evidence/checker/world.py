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
    **{f.__name__: (1, f) for f in (*FUNCTIONS, math.asinh, math.acosh, math.atanh, math.exp)},
}


class Language:
    """The variables of a text by name, and its expressions as functions of a state."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}
        self.defined: dict[str, Item] = {}

    def compile(self, item: Item, *, exact: bool = False) -> Function:
        """Return the function from a state to the expression's value; `exact`: in fractions, as weights are computed."""
        match item:
            case "error":
                return _error
            case str() if NUMBER.fullmatch(item):
                value = Fraction(number(item)) if exact and not item.lstrip("-").isdigit() else number(item)
                return lambda s: value
            case str() if item in self.defined:
                return self.compile(self.defined[item], exact=exact)
            case str() if (place := self.place.get(name(item))) is not None and not exact:
                return lambda s: s[place]
            case str() if place is not None:
                return lambda s: Fraction(s[place]) if isinstance(s[place], float) else s[place]
            case [str(sign), *operands] if operands:
                parts = [self.compile(operand, exact=exact) for operand in operands]
                return self._operation(sign, parts, exact)
        raise Unreadable(f"{str(item)[:60]} is not an expression")

    def _operation(self, sign: str, parts: list[Function], exact: bool) -> Function:
        first, second, third = (*parts, _error, _error)[:3]
        if sign == "and":
            return lambda s: all(part(s) for part in parts)
        if sign == "or":
            return lambda s: any(part(s) for part in parts)
        if sign == "=>" and len(parts) == 2:
            return lambda s: not first(s) or bool(second(s))
        if sign == "ite" and len(parts) == 3:
            return lambda s: second(s) if first(s) else third(s)
        if sign == "at" and len(parts) > 1:
            return lambda s: parts[1 + _within(first(s), len(parts) - 1)](s)
        count, apply = OPERATIONS.get(sign, (0, abs))
        if exact and sign == "/":
            apply = _exact_quotient
        if count == 1 == len(parts):
            return lambda s: finite(apply(first(s)))
        if count == len(parts) or (count < 0 and len(parts) > 1):
            return reduce(lambda f, g: lambda s: finite(apply(f(s), g(s))), parts)
        raise Unreadable(f"there is no operation {sign} of {len(parts)} operands")

    def reads(self, item: Item) -> set[str]:
        """Return the names of the variables that an expression reads."""
        if isinstance(item, list):
            return set().union(*map(self.reads, item[1:]))
        if item in self.defined:
            return self.reads(self.defined[item])
        return set() if item == "error" or NUMBER.fullmatch(item) else {name(item)}


def _error(s: Sequence[Any]) -> Any:
    raise ModelFault("an error that the model names")


def _within(place: Any, length: int) -> int:
    if not 0 <= place < length:
        raise ModelFault(f"place {place} is outside of a list of {length}")
    return int(place)


class Variable:
    """The bounds of a variable, and the values that it holds."""

    def __init__(self, kind: Item, word: Item, low: Item, high: Item) -> None:
        self.name, self.is_real = name(word), kind == "real"
        self.low, self.high = (None if end == "*" and kind != "variable" else number(end) for end in (low, high))

    def put(self, value: Any) -> Any:
        """Return the value as a state holds it."""
        if self.is_real:
            value = finite(float(value)) + 0.0  # -0.0 is 0.0
        elif isinstance(value, float | Fraction):
            raise ModelFault(f"{self.name} is assigned {value}, which is not an integer")
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise OutOfBounds(f"{self.name} is assigned {value}, outside of its bounds")
        return value if self.is_real else int(value)


class World:
    """A flat text as a world; `policy` are the parts of its policy, if it has one."""

    def __init__(self, text: str) -> None:
        self.language = Language()
        self.variables: list[Variable] = []
        self.scratch: list[Any] = []
        self.meaning: dict[str, list[str]] = {}
        self.policy: list[Item] | None = None
        self._operators: list[Operator] = []
        self._rows: dict[int, dict[Any, list[Operator]]] = {}  # by the variable that they test, and its value
        self._features: dict[int, list[tuple[int, list[int]]]] = {}
        self._events: dict[int, list[int]] = {}
        self._items: dict[str, list[Item]] = {}
        first, *items = parse(text) or [None]
        if first != ["flat", "1"]:
            raise Unreadable("the text does not begin with (flat 1)")
        for item in items:
            self._read(item)
        if not {"fail", "goal", "meaning"} <= self._items.keys():
            raise Unreadable("the text lacks one of fail, goal, meaning")
        self.names = [variable.name for variable in self.variables[: len(self.variables) - len(self.scratch)]]
        self.is_chance = self.says("choice", "policy", "chance") == "chance"
        self._disables = self.says("bounds", "error", "disable") == "disable"
        self._fail, self._goal = (self.language.compile(self._items[key][1]) for key in ("fail", "goal"))

    def says(self, key: str, *known: str) -> str:
        """Return which of the known words the meaning says; the first where it says none."""
        words = self.meaning.get(key, [known[0]])
        if len(words) != 1 or words[0] not in known:
            raise Unreadable(f"the meaning says ({key} {' '.join(words)}), not one of {', '.join(known)}")
        return words[0]

    def _read(self, item: Item) -> None:
        compiled, place = self.language.compile, self.place
        match item:
            case ["variable" | "integer" | "real" as kind, word, low, high] if not self.scratch:
                self._declare(Variable(kind, word, low, high))
            case ["scratch", [kind, word, low, high], initial]:
                self._declare(variable := Variable(kind, word, low, high))
                self.scratch.append(variable.put(number(initial)))
            case ["define", str(word), expression] if name(word) not in {
                **self.language.defined,
                **self.language.place,
            }:
                compiled(expression)
                self.language.defined[name(word)] = expression
            case ["operator", label, guard, *branches] if branches:
                made: list[tuple[Function, Stages]] = []
                for keyword, weight, *stages in branches:
                    if keyword != "branch" or any(stage[:1] != ["then"] for stage in stages):
                        raise Unreadable(f"{str(item)[:60]} has a part that is neither a branch nor a stage")
                    assigned = [[(place(word), compiled(value)) for word, value in stage[1:]] for stage in stages]
                    made.append((compiled(weight, exact=True), assigned))
                self._operators.append((_label(label), compiled(guard), made))
            case ["feature", word, table, *values]:
                self._features.setdefault(place(table), []).append((place(word), [*map(integer, values)]))
            case ["event", table, *words]:
                self._events.setdefault(place(table), []).extend(map(place, words))
            case ["rows", table, [source, label], *outcomes] if outcomes:
                key, events = place(table), self._events.get(place(table), [])
                made = [(_constant(integer(w)), self._stage(key, integer(s), event)) for w, s, *event in outcomes]
                operator = _label(label), lambda s: not any(s[event] for event in events), made
                self._rows.setdefault(key, {}).setdefault(integer(source), []).append(operator)
            case ["policy", *parts] if self.policy is None and parts:
                self.policy = parts
            case ["fail" | "goal", _] | ["start" | "starts" | "meaning", *_] if item[0] not in self._items:
                self._items[item[0]] = item
                if item[0] == "meaning":
                    self.meaning = {key: [word.removeprefix('"') for word in words] for key, *words in item[1:]}
            case _:
                raise Unreadable(f"{str(item)[:60]} is not an item, or stands twice or too late")

    def _declare(self, variable: Variable) -> None:
        if variable.name in self.language.place or variable.name in self.language.defined:
            raise Unreadable(f"the name {variable.name} stands twice")
        self.language.place[variable.name] = len(self.variables)
        self.variables.append(variable)

    def place(self, word: Item) -> int:
        """Return the place of the variable that a word names."""
        if (place := self.language.place.get(name(word))) is None:
            raise Unreadable(f"there is no variable {name(word)}")
        return place

    def _stage(self, table: int, target: int, event: list[Item]) -> Stages:
        """Return what an outcome of a row assigns: the next number, what it determines, and the event."""
        values = [(table, target), *((word, column[target]) for word, column in self._features.get(table, ()))]
        return [[(word, _constant(value)) for word, value in [*values, *((self.place(word), 1) for word in event)]]]

    def checked(self, values: Any) -> State:
        """Return the state that a list of values, or an object by names, is; Unreadable where it is none of this world."""
        if isinstance(values, dict) and values.keys() == set(self.names):
            values = [values[word] for word in self.names]
        if not isinstance(values, list) or len(values) != len(self.names):
            raise Unreadable(f"{str(values)[:60]} does not give {len(self.names)} values")
        try:
            numbers = [number(value) if isinstance(value, str) else value for value in values]
            if not all(isinstance(value, int | float) for value in numbers):
                raise Unreadable(f"{str(values)[:60]} is not a state")
            return tuple(variable.put(value) for variable, value in zip(self.variables, numbers, strict=False))
        except (ModelFault, OverflowError) as fault:
            raise Unreadable(f"{str(values)[:60]} is not a state: {fault}") from None

    def show(self, state: State) -> str:
        """Return the state as `x=1,y=2`."""
        return ",".join(f"{word}={value}" for word, value in zip(self.names, state, strict=False))

    def is_fail(self, state: State) -> bool:
        """Return whether the state is a fail state."""
        return bool(self._asked(self._fail, state))

    def is_goal(self, state: State) -> bool:
        """Return whether the state satisfies the goal; fail beats it."""
        return bool(self._asked(self._goal, state))

    def _asked(self, function: Function, state: State) -> Any:
        try:
            return function(state)
        except (ModelFault, *ARITHMETIC_ERRORS) as fault:
            raise ModelFault(f"{fault}, in {self.show(state)}") from None

    # -- what may happen

    def moves(self, state: State) -> list[tuple[str | None, Outcomes]]:
        """Return every enabled operator, None for a silent one, with its outcomes; of a Markov chain the one move that is drawn."""
        moves: list[tuple[str | None, Outcomes]] = self._asked(self._enabled, state)
        if not self.is_chance or not moves:
            return moves
        shares = [Fraction(1) / sum(weight for weight, _ in outcomes) for _, outcomes in moves]
        mixed = [(w * share, after) for share, (_, out) in zip(shares, moves, strict=True) for w, after in out]
        return [(None, mixed)]

    def _enabled(self, state: State) -> list[tuple[str | None, Outcomes]]:
        full, moves = (*state, *self.scratch), []
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
                after[place] = self.variables[place].put(value(state))
            state = tuple(after)
        return state[: len(self.names)]

    # -- where runs start

    def starts(self) -> Iterator[State]:
        """Yield every start state; a condition that is an error counts as true."""
        if "starts" in self._items:
            yield from map(self.checked, self._items["starts"][1:])
            return
        steps, known = [], set()
        for place, low, high, conditions in self._ranges():
            known.add(self.names[place])
            if low is None or high is None or (self.variables[place].is_real and low != high):
                raise Unreadable(f"{self.names[place]} has infinitely many values to start with")
            if not all(self.language.reads(condition) <= known for condition in conditions):
                raise Unreadable(f"a start condition of {self.names[place]} reads a variable that comes later")
            steps.append(
                (place, (low,) if low == high else range(low, high + 1), [*map(self.language.compile, conditions)])
            )
        state: list[Any] = [None] * len(steps)

        def extend(depth: int) -> Iterator[State]:
            if depth == len(steps):
                yield tuple(state)
                return
            place, values, conditions = steps[depth]
            for state[place] in values:
                if all(_may_hold(condition, state) for condition in conditions):
                    yield from extend(depth + 1)

        yield from extend(0)

    def is_start(self, state: State) -> bool:
        """Return whether the state surely is a start state; a condition that is an error counts as false."""
        if "starts" in self._items:
            return any(self.checked(item) == state for item in self._items["starts"][1:])
        return all(
            (low is None or low <= state[place])
            and (high is None or state[place] <= high)
            and all(self._asked(self.language.compile(condition), state) for condition in conditions)
            for place, low, high, conditions in self._ranges()
        )

    def _ranges(self) -> list[tuple[int, Any, Any, list[Item]]]:
        """Return the place, the range and the conditions that the start item gives for each variable."""
        found = []
        for word, low, high, *conditions in self._items.get("start", ["start"])[1:]:
            put = self.variables[self.place(word)].put
            ends = (None if end == "*" else put(number(end)) for end in (low, high))
            found.append((self.place(word), *ends, conditions))
        if sorted(place for place, *_ in found) != [*range(len(self.names))]:
            raise Unreadable("the start item does not name each variable once")
        return found


def _label(word: Item) -> str | None:
    return None if word == "-" else name(word)


def _constant(value: int) -> Function:
    return lambda s: value


def _may_hold(condition: Function, state: list[Any]) -> bool:
    try:
        return bool(condition(state))
    except (ModelFault, *ARITHMETIC_ERRORS):
        return True
