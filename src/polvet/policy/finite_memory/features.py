"""Rules over features, boolean and numeric, as qualitative policies: what .qnp policies and sketches have in common.

A control state is a memory state with the truth of every boolean and the zero pattern of every number: n = 0 or
n > 0. A rule is open where its condition holds; of a changed number the rule says the direction only, and both zero
patterns that can follow become control states. Guards on the edges hold each control state to its zero pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, Where, did_you_mean
from polvet.policy.finite_memory.fmp import Atom, Choice, Edge, Effect, FiniteMemoryPolicy, Variable, check_fmp

Pattern = tuple[bool, ...]
"""The truth of every boolean and, for numbers, whether they are above zero; in the order of the features."""
MAX_STATES = 100_000

UP, DOWN, ANY, TRUE, FALSE = "up", "down", "any", "true", "false"
NOT_UP, NOT_DOWN = "not up", "not down"
"""What a rule may say of a feature afterwards; one that its changes do not name keeps its value."""


@dataclass(frozen=True, slots=True)
class Features:
    """The names of all features, which of them are numeric, and what they mean where that is written down."""

    names: tuple[str, ...]
    numeric: frozenset[str]
    meanings: Mapping[str, str] = field(default_factory=dict)

    def index(self, name: str, where: Where) -> int:
        """Return the feature's place, or raise an InputError with the nearest name."""
        if name not in self.names:
            raise InputError(f"no feature '{name}'.", where, did_you_mean(name, self.names) or "Declare it first.")
        return self.names.index(name)


@dataclass(frozen=True, slots=True)
class Rule:
    """Under one of the conditions (feature index -> wanted pattern), with this memory, make these changes.

    `after` are patterns that hold afterwards besides what the changes say: a number that falls, but not to zero. A rule with
    `actions` is followed in a planning problem by every applicable action of these names, one without by every action that
    makes its changes.
    """

    conditions: tuple[Mapping[int, bool], ...]
    changes: Mapping[int, str]
    label: str
    memory: str | None = None  # None: in every memory state
    following: str | None = None  # None: the memory stays
    after: Mapping[int, bool] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    kind: str = "rule"  # what it is where sketches have several kinds: load, call, search, action


Conjunction = dict[int, bool]
Disjunction = list[Conjunction]


def parse_condition(text: str, features: Features, where: Where) -> tuple[Mapping[int, bool], ...]:
    """Return the condition as a disjunction of conjunctions of wanted patterns.

    Literals are `H`, `!H`, `n = 0`, `n > 0`; they are joined by && (or a comma) and ||; brackets may group them.
    """
    parser = _Condition(_tokens(text, features, where), features, where)
    options = parser.disjunction() if parser.tokens else [{}]
    if parser.tokens:
        raise InputError(f"'{parser.tokens[0]}' is not expected in '{text.strip()}'.", where, _HINT)
    if not options:
        raise InputError(f"'{text.strip()}' can never hold.", where, "Remove one of the literals that contradict.")
    return tuple(options)


def _tokens(text: str, features: Features, where: Where) -> list[str]:
    """Return the words of the condition; feature names may hold brackets, so known names are matched first."""
    names = "|".join(re.escape(name) for name in sorted(features.names, key=len, reverse=True))
    known = f"(?:{names})(?![\\w-])|" if names else ""
    pattern = re.compile(rf"\s*({known}&&|\|\||==|!=|>=|<=|[&|,!()=<>]|[^\s&|,!()=<>]+)")
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = pattern.match(text, position)
        if match is None:
            raise InputError(f"'{text[position:].strip()}' cannot be read.", where, _HINT)
        tokens.append(match.group(1))
        position = match.end()
    return tokens


class _Condition:
    """A parser by recursive descent; every method eats tokens and returns a disjunction of conjunctions."""

    def __init__(self, tokens: list[str], features: Features, where: Where) -> None:
        self.tokens, self._features, self._where = tokens, features, where

    def disjunction(self, *, negated: bool = False) -> Disjunction:
        parts = [self._conjunction(negated)]
        while self._eat("||", "|", "or"):
            parts.append(self._conjunction(negated))
        return _all_of(parts) if negated else _any_of(parts)

    def _conjunction(self, negated: bool) -> Disjunction:
        parts = [self._literal(negated)]
        while self._eat("&&", "&", ",", "and"):
            parts.append(self._literal(negated))
        return _any_of(parts) if negated else _all_of(parts)

    def _literal(self, negated: bool) -> Disjunction:
        while self._eat("!", "not"):
            negated = not negated
        if self._eat("("):
            inner = self.disjunction(negated=negated)
            if not self._eat(")"):
                raise InputError("a bracket is not closed.", self._where, _HINT)
            return inner
        if not self.tokens:
            raise InputError("the condition ends too early.", self._where, _HINT)
        name = self.tokens.pop(0)
        if name == "true":
            return [] if negated else [{}]
        index = self._features.index(name, self._where)
        return [{index: self._pattern(name) != negated}]

    def _pattern(self, name: str) -> bool:
        """Return the pattern that the literal wants, eating a comparison with it."""
        compared = bool(self.tokens) and self.tokens[0] in ("==", "=", "!=", ">=", ">", "<=", "<")
        if name not in self._features.numeric:
            if compared:
                raise InputError(f"'{name}' is boolean.", self._where, _HINT)
            return True
        words = tuple(self.tokens[:2])
        known = {
            ("=", "0"): False,
            ("==", "0"): False,
            ("<=", "0"): False,
            ("<", "1"): False,
            (">", "0"): True,
            ("!=", "0"): True,
            (">=", "1"): True,
        }
        if not compared or words not in known:
            raise InputError(f"'{' '.join([name, *words])}': a number is compared with 0 only.", self._where, _HINT)
        del self.tokens[:2]
        return known[words]

    def _eat(self, *words: str) -> bool:
        if self.tokens and self.tokens[0] in words:
            self.tokens.pop(0)
            return True
        return False


_HINT = "Write H or !H for a boolean, n = 0 or n > 0 for a number."


def _any_of(parts: Sequence[Disjunction]) -> Disjunction:
    return [wanted for part in parts for wanted in part]


def _all_of(parts: Sequence[Disjunction]) -> Disjunction:
    options: Disjunction = [{}]
    for part in parts:
        options = [
            {**first, **second}
            for first in options
            for second in part
            if all(first.get(index, value) == value for index, value in second.items())
        ]
    return options


def build_from_rules(
    features: Features,
    rules: Sequence[Rule],
    starts: Sequence[tuple[str, Pattern]],
    goals: Sequence[Mapping[int, bool]],
    *,
    first_match: bool,
    name: str,
    where: Where,
    budget: Budget = UNLIMITED,
) -> FiniteMemoryPolicy:
    """Return the qualitative policy that the rules make from the starts; it stops where a goal holds.

    With `first_match` only the first open rule that can be followed is, otherwise any may be.
    """
    seen = dict.fromkeys(starts)
    agenda = list(seen)
    edges: list[Edge] = []
    for memory, pattern in agenda:  # grows while it is read
        budget.check()
        if len(seen) > MAX_STATES:
            raise LimitReached(f"the rules make more than {MAX_STATES} control states")
        if any(_holds(goal, pattern) for goal in goals):
            continue
        guard = zeros_of(features, pattern)
        for rule in rules:
            if rule.memory not in (None, memory) or not any(_holds(c, pattern) for c in rule.conditions):
                continue
            following = outcomes(features, rule, pattern)
            for after, effects in following:
                target = rule.following or memory, after
                if target not in seen:
                    seen[target] = None
                    agenda.append(target)
                source_name, target_name = (state_name(features, *end) for end in ((memory, pattern), target))
                choice = Choice(effects, rule.label)
                edges.append(Edge(len(edges), source_name, target_name, (choice,), (guard,) if guard else ((),)))
            if first_match and following:  # a rule that would lower a number at 0 is not open
                break
    variables = tuple(Variable(feature) for feature in features.names if feature in features.numeric)
    states = tuple(state_name(features, *state) for state in seen)
    initial = tuple(state_name(features, *state) for state in starts)
    return check_fmp(FiniteMemoryPolicy(variables, states, initial, tuple(edges), "qualitative", name), where)


def _holds(condition: Mapping[int, bool], pattern: Pattern) -> bool:
    return all(pattern[index] == value for index, value in condition.items())


def outcomes(features: Features, rule: Rule, pattern: Pattern) -> list[tuple[Pattern, dict[str, Effect]]]:
    """Return the patterns that can follow, with the effects on numbers; none if a number at 0 would be lowered."""
    options: list[list[bool]] = []
    effects: dict[str, Effect] = {}
    for index, feature in enumerate(features.names):
        change = rule.changes.get(index)
        if change is None:
            options.append([pattern[index]])
        elif feature not in features.numeric:
            options.append([True, False] if change == ANY else [change == TRUE])
        elif change == DOWN:
            options.append([True, False] if pattern[index] else [])
            effects[feature] = Effect(None, -1)
        elif change == UP:
            options.append([True])
            effects[feature] = Effect(1, None)
        elif change == NOT_UP:
            options.append([True, False] if pattern[index] else [False])
            effects[feature] = Effect(None, 0)
        elif change == NOT_DOWN:
            options.append([True] if pattern[index] else [True, False])
            effects[feature] = Effect(0, None)
        else:
            options.append([True, False])
            effects[feature] = Effect(None, None)
    return [(after, effects) for after in product(*options) if _holds(rule.after, after)]


def zeros_of(features: Features, pattern: Pattern) -> tuple[Atom, ...]:
    """Return what the pattern says of the numbers, as comparisons."""
    return tuple(
        Atom(name, ">=" if above else "==", 1 if above else 0)
        for name, above in zip(features.names, pattern, strict=True)
        if name in features.numeric
    )


def contradictions(features: Features, states: Iterable[str]) -> Iterator[tuple[str, Atom]]:
    """Yield where a policy of rules stops because a number contradicts its control state.

    There an edge was taken to a zero pattern that the number does not have afterwards: no execution of the rules does that.
    """
    for state in states:
        for atom in zeros_of(features, pattern_of(features, state)):
            yield state, Atom(atom.variable, "==" if atom.value else ">=", 1 - atom.value)


def pattern_of(features: Features, state: str) -> Pattern:
    """Return the pattern that a control state's name tells, the inverse of `state_name`.

    SOUND: names may hold commas, colons and `!`. Read from the end, each feature has two spellings, and the longer one is tried first.
    """
    rest, values = state, []
    for name in reversed(features.names):
        spellings = (
            {f"{name}>0": True, f"{name}=0": False} if name in features.numeric else {f"!{name}": False, name: True}
        )
        spelling = next(text for text in spellings if rest.endswith(text))
        values.append(spellings[spelling])
        rest = rest.removesuffix(spelling)[:-1]
    return tuple(reversed(values))


def state_name(features: Features, memory: str, pattern: Pattern) -> str:
    """Return the control state's name, such as `m0:n>0,!holding`."""
    parts = []
    for name, value in zip(features.names, pattern, strict=True):
        if name in features.numeric:
            parts.append(f"{name}>0" if value else f"{name}=0")
        else:
            parts.append(name if value else f"!{name}")
    return (f"{memory}:" if memory else "") + ",".join(parts)
