"""What a flat text means: `World` says where runs start and end, and what may happen in a state. The one slow interpreter.

An expression is compiled to the Python expression of a function of the state: integers stay integers of any size, doubles are
doubles, weights are exact fractions. Names are replaced by places and numbers are read before, so nothing of the text is executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from .text import Item, Unreadable, double, integer, is_number, listed, name, number, parse, show

State: TypeAlias = tuple[int | float, ...]
Move: TypeAlias = tuple[str | None, list[tuple[int | Fraction, State]]]
"""A label, or None for a silent operator, and the outcomes with their weights."""
Function: TypeAlias = Callable[[Sequence[Any]], Any]
DEEPEST = 20
"""Expressions that nest deeper are cut into functions: Python reads only so many brackets in one another."""


class ModelFault(Exception):
    """An error of the model in a state."""


class OutOfBounds(ModelFault):
    """An assignment leaves its variable's bounds."""


# -- arithmetic that Python's signs do not say


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ModelFault("an operation has no finite result")
    return value


def _quotient(a: Any, b: Any) -> float:
    return float(_finite(float(a) / float(b)))


def _ratio(a: Any, b: Any) -> Any:
    return _quotient(a, b) if isinstance(a, float) or isinstance(b, float) else Fraction(a) / Fraction(b)


def _modulo(a: Any, b: Any) -> Any:
    return a % abs(b)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0 or (b > 63 and abs(a) > 1):
            raise ModelFault("a power of integers is out of range")
        return a**b
    if isinstance(a, Fraction) and not isinstance(b, float) and b == int(b) and abs(b) <= 1024:
        return a ** int(b)
    return _function("pow", a, b)


def _least(a: Any, b: Any) -> Any:
    a, b = _alike(a, b)
    return a if a <= b else b


def _greatest(a: Any, b: Any) -> Any:
    a, b = _alike(a, b)
    return a if a >= b else b


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    return (float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else (a, b)


def _function(symbol: str, *values: Any) -> float:
    result: float = FUNCTIONS[symbol](*map(float, values))
    return float(_finite(result))


def _item(items: tuple[Any, ...], place: Any) -> Any:
    if not 0 <= place < len(items):
        raise ModelFault(f"place {place} is outside of a list of {len(items)}")
    return items[int(place)]


def _error() -> Any:
    raise ModelFault("an error that the model names")


FUNCTIONS: dict[str, Callable[..., float]] = {
    **{symbol: getattr(math, symbol) for symbol in "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp pow".split()},
    "log": lambda a, b: math.log(a) / math.log(b),
    "cot": lambda x: 1.0 / math.tan(x),
    "sec": lambda x: 1.0 / math.cos(x),
    "csc": lambda x: 1.0 / math.sin(x),
    "acot": lambda x: math.pi / 2 - math.atan(x),
    "asec": lambda x: math.acos(1.0 / x),
    "acsc": lambda x: math.asin(1.0 / x),
    "coth": lambda x: 1.0 / math.tanh(x),
    "sech": lambda x: 1.0 / math.cosh(x),
    "csch": lambda x: 1.0 / math.sinh(x),
    "acoth": lambda x: math.atanh(1.0 / x),
    "asech": lambda x: math.acosh(1.0 / x),
    "acsch": lambda x: math.asinh(1.0 / x),
}
NAMES: dict[str, Any] = {
    "finite": _finite, "quotient": _quotient, "ratio": _ratio, "modulo": _modulo, "power": _power, "least": _least,
    "greatest": _greatest, "function": _function, "item": _item, "error": _error, "exactly": Fraction, "abs": abs, "min": min,
    "max": max, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "sign": lambda x: (x > 0) - (x < 0),
    "__builtins__": {},
}  # fmt: skip
TRUTH, INTEGER, DOUBLE = 0, 1, 2
"""What a compiled expression gives: True or False, an integer or either, or perhaps a double."""
# symbol: how many operands (-1: two or more, from the left), Python where all are integers, Python where some may be doubles
ARITHMETIC: dict[str, tuple[int, str, str]] = {
    "+": (-1, "({} + {})", "finite({} + {})"),
    "-": (2, "({} - {})", "finite({} - {})"),
    "*": (-1, "({} * {})", "finite({} * {})"),
    "min": (-1, "min({}, {})", "least({}, {})"),
    "max": (-1, "max({}, {})", "greatest({}, {})"),
    "%": (2, "modulo({}, {})", "modulo({}, {})"),
    "pow": (2, "power({}, {})", "power({}, {})"),
    "abs": (1, "abs({})", "abs({})"),
}
TO_INTEGER = {"sgn": "sign({})", "floor": "floor({})", "ceil": "ceil({})", "trc": "trunc({})"}
COMPARISONS = {"=": "({} == {})", "<": "({} < {})", "<=": "({} <= {})"}


class Language:
    """The variables of a text, by name, and its expressions as functions of a state."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}
        self.is_real: list[bool] = []
        self.defined: dict[str, Item] = {}
        self._made: dict[str, Any] = dict(NAMES)

    def compile(self, expression: Item, *, exact: bool = False) -> Function:
        """Return the function from a state to the expression's value; `exact`: as the weight of a branch."""
        return self._function_of(self._text(expression, exact)[0])

    def reads(self, expression: Item) -> set[str]:
        """Return the names of the variables that an expression reads."""
        pending, found = [expression], set()
        while pending:
            item = pending.pop()
            if isinstance(item, list):
                pending += item[1:]
            elif not is_number(item) and item != "error":
                if (word := name(item)) in self.defined and item[0] != '"':
                    pending.append(self.defined[word])
                else:
                    found.add(word)
        return found

    def _function_of(self, text: str) -> Function:
        function: Function = eval(f"lambda s: {text}", self._made)  # the text is made of places, numbers and signs alone
        return function

    def _text(self, item: Item, exact: bool) -> tuple[str, int, int]:
        """Return Python's text of an expression, what it gives, and how deep its brackets nest."""
        if isinstance(item, str):
            return (*self._word(item, exact), 0)
        if not item or not isinstance(item[0], str):
            raise Unreadable(f"{show(item)} is not an expression")
        symbol, count = item[0], len(item) - 1
        parts = [self._text(part, exact) for part in item[1:]]
        deep = max((depth for _, _, depth in parts), default=0) + (min(count, DEEPEST) if symbol in ARITHMETIC else 1)
        texts, kind = [text for text, _, _ in parts], max((kind for _, kind, _ in parts), default=TRUTH)
        truths = [text if its == TRUTH else f"({text} != 0)" for text, its, _ in parts]
        if symbol in ("and", "or") and count:
            text, kind = f"({f' {symbol} '.join(truths)})", TRUTH
        elif symbol == "not" and count == 1:
            text, kind = f"(not {truths[0]})", TRUTH
        elif symbol == "=>" and count == 2:
            text, kind = f"(not {truths[0]} or {truths[1]})", TRUTH
        elif symbol in COMPARISONS and count == 2:
            text, kind = COMPARISONS[symbol].format(*texts), TRUTH
        elif symbol in ARITHMETIC and (count == ARITHMETIC[symbol][0] or (count >= 2 and ARITHMETIC[symbol][0] < 0)):
            _, plain, careful = ARITHMETIC[symbol]
            text, kind = texts[0], max(kind, INTEGER)
            for k in range(1, max(count, 2)):
                text = (plain if kind == INTEGER else careful).format(text, *texts[k : k + 1])
                if k % DEEPEST == 0:
                    text = f"{self._named(self._function_of(text))}(s)"
        elif symbol in TO_INTEGER and count == 1:
            text, kind = TO_INTEGER[symbol].format(texts[0]), INTEGER
        elif symbol == "/" and count == 2:
            text, kind = f"{'ratio' if exact else 'quotient'}({texts[0]}, {texts[1]})", DOUBLE
        elif symbol in FUNCTIONS and count == FUNCTION_OPERANDS.get(symbol, 1):
            text, kind = f"function({symbol!r}, {', '.join(texts)})", DOUBLE
        elif symbol == "ite" and count == 3:
            text, kind = f"({texts[1]} if {truths[0]} else {texts[2]})", max(its for _, its, _ in parts[1:])
        elif symbol == "at" and count >= 2:
            kind = max(its for _, its, _ in parts[1:])
            if all(isinstance(part, str) and part != "error" for part in item[2:]):  # nothing to compute: all at once
                text = f"item(({', '.join(texts[1:])},), {texts[0]})"
            else:
                functions = ", ".join(self._named(self._function_of(text)) for text in texts[1:])
                text = f"item(({functions},), {texts[0]})(s)"
        else:
            raise Unreadable(f"{show(item)} is not an expression")
        return (text, kind, deep) if deep < DEEPEST else (f"{self._named(self._function_of(text))}(s)", kind, 0)

    def _word(self, word: str, exact: bool) -> tuple[str, int]:
        if word == "error":
            return "error()", TRUTH
        if is_number(word):
            value = number(word)
            if isinstance(value, int):
                return f"({value})" if value < 0 else str(value), INTEGER
            return (self._named(Fraction(value)) if exact else f"({value!r})"), DOUBLE
        if word in self.defined:
            kept = f"{'exactly' if exact else 'as'} {word}"  # each abbreviation is compiled once
            if kept not in self._made:
                text, kind, _ = self._text(self.defined[word], exact)
                self._made[kept] = f"{self._named(self._function_of(text))}(s)", kind
            text, kind = self._made[kept]
            return text, kind
        if (place := self.place.get(name(word))) is None:
            raise Unreadable(f"there is no variable {name(word)}")
        if not self.is_real[place]:
            return f"s[{place}]", INTEGER
        return (f"exactly(s[{place}])" if exact else f"s[{place}]"), DOUBLE

    def _named(self, thing: Any) -> str:
        key = f"_{len(self._made)}"
        self._made[key] = thing
        return key


FUNCTION_OPERANDS = {"log": 2, "pow": 2}


class Variable:
    """Bounds of a variable; `put` gives the value that it holds."""

    def __init__(self, item: list[Item]) -> None:
        if len(item) != 4 or item[0] not in ("variable", "integer", "real"):
            raise Unreadable(f"{show(item)} is not a variable with two bounds")
        self.name, self.is_real = name(item[1]), item[0] == "real"
        read = double if self.is_real else integer
        self.low, self.high = (None if word == "*" and item[0] != "variable" else read(word) for word in item[2:])

    def put(self, value: Any) -> int | float:
        """Return the value as a state holds it."""
        if self.is_real:
            value = float(value) + 0.0  # -0.0 is 0.0
        elif isinstance(value, float | Fraction):
            raise ModelFault(f"{self.name} is assigned the double {value}")
        else:
            value = int(value)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise OutOfBounds(f"{self.name} is assigned {value}, outside of its bounds")
        return value  # type: ignore[no-any-return]


class Operator:
    """A label, a guard, and branches: a weight and stages of assignments."""

    def __init__(self, language: Language, item: list[Item]) -> None:
        if len(item) < 4:
            raise Unreadable(f"{show(item)} is not an operator with branches")
        self.label = None if item[1] == "-" else name(item[1])
        self.test = item[2]
        self.guard = language.compile(item[2])
        self.branches = []
        for branch in map(lambda part: listed(part, "a branch"), item[3:]):
            if branch[:1] != ["branch"] or len(branch) < 2:
                raise Unreadable(f"{show(branch)} is not a branch")
            weight = int(branch[1]) if isinstance(branch[1], str) and branch[1].isdigit() else None
            computed = language.compile(branch[1], exact=True) if weight is None else None
            self.branches.append((weight, computed, [self._stage(language, stage) for stage in branch[2:]]))

    @staticmethod
    def _stage(language: Language, stage: Item) -> list[tuple[int, Function]]:
        if listed(stage, "a stage")[:1] != ["then"]:
            raise Unreadable(f"{show(stage)} is not a stage")
        assignments = []
        for part in stage[1:]:
            if len(listed(part, "an assignment")) != 2 or name(part[0]) not in language.place:
                raise Unreadable(f"{show(part)} is not an assignment to a variable")
            assignments.append((language.place[name(part[0])], language.compile(part[1])))
        return assignments


class World:
    """A flat text as a world: variables, operators, conditions, meaning; and the items of its policy, if it has one."""

    def __init__(self, text: str) -> None:
        items = [listed(item, "an item") for item in parse(text)]
        if not items or items[0] != ["flat", "1"]:
            raise Unreadable("the text does not begin with (flat 1)")
        self.language = Language()
        self.variables: list[Variable] = []
        self._scratch: list[int | float] = []
        self.meaning: dict[str, list[str]] = {}
        self.policy: list[Item] | None = None
        self._operators: list[Operator] = []
        self._rows: dict[int, dict[int, list[Any]]] = {}
        self._features: dict[int, list[tuple[int, list[int]]]] = {}
        self._events: dict[int, list[int]] = {}
        self._conditions: dict[str, list[Item]] = {}
        for item in items[1:]:
            self._read(item)
        if not {"fail", "goal", "meaning"} <= self._conditions.keys() | ({"meaning"} if self.meaning else set()):
            raise Unreadable("the text lacks one of fail, goal, meaning")
        self.count = len(self.variables) - len(self._scratch)
        self.names = [variable.name for variable in self.variables[: self.count]]
        self.is_chance = self.says("choice", "policy", "chance") == "chance"
        self.disables = self.says("bounds", "error", "disable") == "disable"
        self._fail, self._goal = (self.language.compile(self._conditions[key][1]) for key in ("fail", "goal"))
        self._by_value = self._dispatch()

    def says(self, key: str, *known: str) -> str:
        """Return which of the known words the meaning says."""
        if len(words := self.meaning.get(key, [known[0]])) != 1 or words[0] not in known:
            raise Unreadable(f"the meaning says ({key} {' '.join(words)}), not one of {', '.join(known)}")
        return words[0]

    def _read(self, item: list[Item]) -> None:
        match item:
            case ["variable" | "integer" | "real", *_]:
                if self._scratch:
                    raise Unreadable("scratch variables come after all others")
                self._declare(Variable(item))
            case ["scratch", [*declaration], initial]:
                self._declare(variable := Variable(declaration))
                self._scratch.append(variable.put(number(initial)))
            case ["define", str(word), expression] if word not in self.language.defined and word not in self.language.place:
                self.language.reads(expression)
                self.language.compile(expression)
                self.language.defined[name(word)] = expression
            case ["operator", *_]:
                self._operators.append(Operator(self.language, item))
            case ["feature", feature, table, *values]:
                self._features.setdefault(self._place(table), []).append((self._place(feature), [integer(v) for v in values]))
            case ["event", table, *flags]:
                self._events.setdefault(self._place(table), []).extend(map(self._place, flags))
            case ["rows", table, [source, label], *outcomes]:
                self._add_row(self._place(table), integer(source), None if label == "-" else name(label), outcomes)
            case ["fail" | "goal" as key, _] | ["start" | "starts" as key, *_] if key not in self._conditions:
                self._conditions[key] = item
            case ["meaning", *parts] if not self.meaning:
                self.meaning = {part[0]: [w[1:] if w[0] == '"' else w for w in part[1:]] for part in parts}
            case ["policy", *_] if self.policy is None:
                self.policy = item
            case _:
                raise Unreadable(f"{show(item)} is not an item, or stands twice")

    def _declare(self, variable: Variable) -> None:
        if variable.name in self.language.place:
            raise Unreadable(f"the variable {variable.name} stands twice")
        self.language.place[variable.name] = len(self.variables)
        self.language.is_real.append(variable.is_real)
        self.variables.append(variable)

    def _place(self, word: Item) -> int:
        if (place := self.language.place.get(name(word))) is None:
            raise Unreadable(f"there is no variable {name(word)}")
        return place

    def _add_row(self, table: int, source: int, label: str | None, outcomes: list[Item]) -> None:
        read = []
        for outcome in outcomes:
            match outcome:
                case [weight, target, *event] if len(event) <= 1 and integer(weight) >= 0:
                    features = self._features.get(table, ())
                    if integer(target) < 0 or any(integer(target) >= len(values) for _, values in features):
                        raise Unreadable(f"a row leads to {target}, of which a feature says nothing")
                    read.append((integer(weight), integer(target), self._place(event[0]) if event else None))
                case _:
                    raise Unreadable(f"{show(outcome)} is not an outcome of a row")
        self._rows.setdefault(table, {}).setdefault(source, []).append((label, read))

    # -- what is said of states

    def is_fail(self, state: State) -> bool:
        """Return whether the state is a fail state."""
        return bool(self._asked(self._fail, state))

    def is_goal(self, state: State) -> bool:
        """Return whether the state satisfies the goal; fail beats it."""
        return bool(self._asked(self._goal, state))

    def _asked(self, function: Function, state: State) -> Any:
        try:
            return function(state)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise ModelFault(f"{error}, in {self.show(state)}") from None

    def checked(self, values: Any) -> State:
        """Return the state that a list of values or an object by names is; Unreadable where it is none of this world."""
        if isinstance(values, dict) and values.keys() == set(self.names):
            values = [values[key] for key in self.names]
        if not isinstance(values, list) or len(values) != self.count:
            raise Unreadable(f"{show(values)} does not give {self.count} values")
        state = []
        for variable, value in zip(self.variables, values, strict=False):
            if isinstance(value, str):
                value = number(value)
            if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
                raise Unreadable(f"{show(value)} is not a value of {variable.name}")
            try:
                state.append(variable.put(value))
            except (ModelFault, OverflowError) as fault:
                raise Unreadable(str(fault)) from None
        return tuple(state)

    def show(self, state: State) -> str:
        """Return the state as `x=1,y=2`."""
        return ",".join(f"{key}={value}" for key, value in zip(self.names, state, strict=False))

    # -- what may happen

    def moves(self, state: State) -> list[Move]:
        """Return every enabled operator of the state; of a Markov chain the one move that is drawn."""
        full = (*state, *self._scratch)
        try:
            found = [*self._moves(full), *self._row_moves(full)]
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise ModelFault(f"{error}, in {self.show(state)}") from None
        except ModelFault as fault:
            raise ModelFault(f"{fault}, in {self.show(state)}") from None
        if not self.is_chance or not found:
            return found
        mixed = []
        for _, outcomes in found:
            whole = sum(weight for weight, _ in outcomes)
            mixed += [(Fraction(weight) / whole, target) for weight, target in outcomes]
        return [(None, mixed)]

    def _moves(self, state: State) -> Iterator[Move]:
        for operator in self._candidates(state):
            if operator.guard(state):
                try:
                    yield operator.label, self._outcomes(operator, state)
                except OutOfBounds:
                    if not self.disables:
                        raise

    def _outcomes(self, operator: Operator, state: State) -> list[tuple[int | Fraction, State]]:
        weights = [weight if computed is None else Fraction(computed(state)) for weight, computed, _ in operator.branches]
        if min(weights) < 0 or not any(weights):
            raise ModelFault("the weights of an operator are below 0, or all 0")
        outcomes = []
        for weight, (_, _, stages) in zip(weights, operator.branches, strict=True):
            if weight:
                after = state
                for stage in stages:
                    after = self._assigned(after, stage)
                outcomes.append((weight, after[: self.count]))
        return outcomes

    def _assigned(self, before: State, stage: list[tuple[int, Function]]) -> State:
        after = list(before)
        if len({place for place, _ in stage}) < len(stage):
            raise ModelFault("a variable is assigned twice at once")
        for place, value in stage:
            after[place] = self.variables[place].put(value(before))
        return tuple(after)

    def _row_moves(self, state: State) -> Iterator[Move]:
        for table, rows in self._rows.items():
            events = self._events.get(table, ())
            if any(state[event] for event in events):
                continue
            for label, outcomes in rows.get(state[table], ()):  # type: ignore[call-overload]
                if not any(weight for weight, _, _ in outcomes):
                    raise ModelFault("the weights of a row are all 0")
                found = []
                for weight, target, event in outcomes:
                    if weight:
                        after = list(state[: self.count])
                        after[table] = self.variables[table].put(target)
                        for feature, values in self._features.get(table, ()):
                            after[feature] = self.variables[feature].put(values[target])
                        if event is not None:
                            after[event] = 1
                        found.append((weight, tuple(after)))
                yield label, found

    # Of many operators whose guards begin with `(= x 3)` only those of the state's value of x are asked.
    # SOUND: `and` is read from the left, so an operator is left out only where the first part of its guard is 0.

    def _dispatch(self) -> tuple[int, dict[Any, list[Operator]], list[Operator]] | None:
        firsts = [self._first(operator.test) for operator in self._operators]
        counts = {place: sum(first is not None and first[0] == place for first in firsts) for place in range(self.count)}
        best = max(counts, key=lambda place: counts[place], default=0)
        if counts.get(best, 0) < 8:
            return None
        others = [operator for operator, first in zip(self._operators, firsts, strict=True) if first is None or first[0] != best]
        table: dict[Any, list[Operator]] = {}
        for value in {first[1] for first in firsts if first is not None and first[0] == best}:
            table[value] = [
                operator
                for operator, first in zip(self._operators, firsts, strict=True)
                if first is None or first[0] != best or first[1] == value
            ]
        return best, table, others

    def _first(self, guard: Item) -> tuple[int, int] | None:
        while isinstance(guard, list) and len(guard) > 1 and guard[0] == "and":
            guard = guard[1]
        match guard:
            case ["=", str(word), str(value)] if word in self.language.place and value.lstrip("-").isdigit():
                return self.language.place[word], int(value)
        return None

    def _candidates(self, state: State) -> list[Operator]:
        if self._by_value is None:
            return self._operators
        place, table, others = self._by_value
        return table.get(state[place], others)

    # -- where runs start

    def starts(self) -> Iterator[State]:
        """Yield every start state; a condition that is an error counts as true."""
        if "starts" in self._conditions:
            yield from (self.checked(item) for item in self._conditions["starts"][1:])
            return
        known: set[str] = set()
        steps = []
        for place, low, high, conditions in self._ranges():
            if low is None or high is None or (self.variables[place].is_real and low != high):
                raise Unreadable(f"{self.variables[place].name} has infinitely many values to start with")
            known.add(self.variables[place].name)
            if any(not self.language.reads(condition) <= known for condition in conditions):
                raise Unreadable(f"a start condition of {self.variables[place].name} reads a variable that comes later")
            values = (low,) if low == high else range(int(low), int(high) + 1)
            steps.append((place, values, [self.language.compile(condition) for condition in conditions]))
        state: list[Any] = [None] * self.count

        def extend(depth: int) -> Iterator[State]:
            if depth == len(steps):
                yield tuple(state)
                return
            place, values, conditions = steps[depth]
            for state[place] in values:
                if all(self._may_hold(condition, state) for condition in conditions):
                    yield from extend(depth + 1)

        yield from extend(0)

    def is_start(self, state: State) -> bool:
        """Return whether the state surely is a start state; a condition that is an error counts as false."""
        if "starts" in self._conditions:
            return any(self.checked(item) == state for item in self._conditions["starts"][1:])
        for place, low, high, conditions in self._ranges():
            if (low is not None and state[place] < low) or (high is not None and state[place] > high):
                return False
            if not all(self._asked(self.language.compile(condition), state) for condition in conditions):
                return False
        return True

    def _ranges(self) -> list[tuple[int, Any, Any, list[Item]]]:
        """Return what the start item says of each variable: its place, its range, and the conditions that follow."""
        if "start" not in self._conditions:
            raise Unreadable("the text says no start states")
        found = []
        for item in self._conditions["start"][1:]:
            if not isinstance(item, list) or len(item) < 3 or (place := self._place(item[0])) >= self.count:
                raise Unreadable(f"{show(item)} is not a variable with its range")
            low, high = (None if word == "*" else number(word) for word in item[1:3])
            if self.variables[place].is_real:
                low, high = (None if end is None else float(end) + 0.0 for end in (low, high))
            found.append((place, low, high, item[3:]))
        if sorted(place for place, *_ in found) != list(range(self.count)):
            raise Unreadable("the start item does not name each variable once")
        return found

    @staticmethod
    def _may_hold(condition: Function, state: list[Any]) -> bool:
        try:
            return bool(condition(state))
        except (ModelFault, ZeroDivisionError, OverflowError, ValueError):
            return True
