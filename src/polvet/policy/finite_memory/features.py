"""Rules over features, boolean and numeric, as qualitative policies: what .qnp policies and sketches have in common.

A control state is a memory state with the truth of every boolean and the zero pattern of every number: n = 0 or
n > 0. A rule is open where its condition holds; of a changed number the rule says the direction only, and both zero
patterns that can follow become control states. Guards on the edges hold each control state to its zero pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from polvet.errors import InputError, LimitReached, Where, did_you_mean
from polvet.policy.finite_memory.fmp import Atom, Choice, Edge, Effect, FiniteMemoryPolicy, Variable, check_fmp

Pattern = tuple[bool, ...]
"""The truth of every boolean and, for numbers, whether they are above zero; in the order of the features."""
MAX_STATES = 100_000

UP, DOWN, ANY, TRUE, FALSE = "up", "down", "any", "true", "false"
_LITERAL = re.compile(r"\s*(!|not\s+)?\s*([^\s!&|<>=,;]+)\s*(?:(==|=|!=|>=|>)\s*(\d+))?\s*")


@dataclass(frozen=True, slots=True)
class Features:
    """The names of all features, and which of them are numeric."""

    names: tuple[str, ...]
    numeric: frozenset[str]

    def index(self, name: str, where: Where) -> int:
        """Return the feature's place, or raise an InputError with the nearest name."""
        if name not in self.names:
            raise InputError(f"no feature '{name}'.", where, did_you_mean(name, self.names) or "Declare it first.")
        return self.names.index(name)


@dataclass(frozen=True, slots=True)
class Rule:
    """Under one of the conditions (feature index -> wanted pattern), with this memory, make these changes."""

    conditions: tuple[Mapping[int, bool], ...]
    changes: Mapping[int, str]
    label: str
    memory: str | None = None  # None: in every memory state
    following: str | None = None  # None: the memory stays


def parse_condition(text: str, features: Features, where: Where) -> tuple[Mapping[int, bool], ...]:
    """Return a disjunction of conjunctions of literals: `H`, `!H`, `n = 0`, `n > 0`, joined by &&, a comma, or ||."""
    found = []
    for part in re.split(r"\|\||\bor\b", text):
        wanted: dict[int, bool] = {}
        for literal in re.split(r"&&|&|,|\band\b", part):
            if not literal.strip() or literal.strip() == "true":
                continue
            index, value = _literal(literal, features, where)
            if wanted.setdefault(index, value) != value:
                raise InputError(
                    f"'{text.strip()}' asks '{features.names[index]}' to be both.", where, "Remove one literal."
                )
        found.append(wanted)
    return tuple(found)


def _literal(text: str, features: Features, where: Where) -> tuple[int, bool]:
    match = _LITERAL.fullmatch(text)
    hint = "Write H or !H for a boolean, n = 0 or n > 0 for a number."
    if match is None:
        raise InputError(f"'{text.strip()}' is no literal.", where, hint)
    negated, name, operator, value = match.groups()
    index = features.index(name, where)
    if name not in features.numeric:
        if operator is not None:
            raise InputError(f"'{name}' is boolean.", where, hint)
        return index, negated is None
    positive = {("=", "0"): False, ("==", "0"): False, (">", "0"): True, ("!=", "0"): True, (">=", "1"): True}
    if (operator, value) not in positive:
        raise InputError(f"'{text.strip()}': a number is compared with 0 only.", where, hint)
    return index, positive[operator, value] != (negated is not None)


def build_from_rules(
    features: Features,
    rules: Sequence[Rule],
    starts: Sequence[tuple[str, Pattern]],
    goals: Sequence[Mapping[int, bool]],
    *,
    first_match: bool,
    name: str,
    where: Where,
) -> FiniteMemoryPolicy:
    """Return the qualitative policy that the rules make from the starts; it stops where a goal holds.

    With `first_match` only the first open rule is followed, otherwise any open rule may be.
    """
    seen = dict.fromkeys(starts)
    agenda = list(seen)
    edges: list[Edge] = []
    for memory, pattern in agenda:  # grows while it is read
        if len(seen) > MAX_STATES:
            raise LimitReached(f"the rules make more than {MAX_STATES} control states")
        if any(_holds(goal, pattern) for goal in goals):
            continue
        guard = tuple(
            Atom(feature, ">=" if pattern[index] else "==", 1 if pattern[index] else 0)
            for index, feature in enumerate(features.names) if feature in features.numeric
        )  # fmt: skip
        for rule in rules:
            if rule.memory not in (None, memory) or not any(_holds(c, pattern) for c in rule.conditions):
                continue
            for after, effects in _outcomes(features, rule, pattern):
                target = rule.following or memory, after
                if target not in seen:
                    seen[target] = None
                    agenda.append(target)
                source_name, target_name = (state_name(features, *end) for end in ((memory, pattern), target))
                choice = Choice(effects, rule.label)
                edges.append(Edge(len(edges), source_name, target_name, (choice,), (guard,) if guard else ((),)))
            if first_match:
                break
    variables = tuple(Variable(feature) for feature in features.names if feature in features.numeric)
    states = tuple(state_name(features, *state) for state in seen)
    initial = tuple(state_name(features, *state) for state in starts)
    return check_fmp(FiniteMemoryPolicy(variables, states, initial, tuple(edges), "qualitative", name), where)


def _holds(condition: Mapping[int, bool], pattern: Pattern) -> bool:
    return all(pattern[index] == value for index, value in condition.items())


def _outcomes(features: Features, rule: Rule, pattern: Pattern) -> list[tuple[Pattern, dict[str, Effect]]]:
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
        else:
            options.append([True, False])
            effects[feature] = Effect(None, None)
    return [(after, effects) for after in product(*options)]


def state_name(features: Features, memory: str, pattern: Pattern) -> str:
    """Return the control state's name, such as `m0:n>0,!holding`."""
    parts = []
    for name, value in zip(features.names, pattern, strict=True):
        if name in features.numeric:
            parts.append(f"{name}>0" if value else f"{name}=0")
        else:
            parts.append(name if value else f"!{name}")
    return (f"{memory}:" if memory else "") + ",".join(parts)
