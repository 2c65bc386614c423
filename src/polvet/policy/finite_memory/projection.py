"""Sketches seen through some of their features, or in some of their control states: what is decided of large ones.

`project` keeps the patterns of some features only. A number that is not kept stays a counter, a boolean that is not kept
becomes a counter from 0 to 1; what a rule's condition says of them is a guard of its edges. `part_between` is the policy of
all features, but only between control states that are listed.

# SOUND: both are part of what is trusted. Every execution of the sketch is one of a projection: the patterns of kept
# features follow as in `features`, and effects and guards hold for the others. Every execution of a part is one of the sketch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached
from polvet.policy.finite_memory.features import (
    ANY,
    DOWN,
    FALSE,
    MAX_STATES,
    NOT_DOWN,
    NOT_UP,
    TRUE,
    UP,
    Features,
    Pattern,
    Rule,
    state_name,
    zeros_of,
)
from polvet.policy.finite_memory.fmp import Atom, Choice, Edge, Effect, FiniteMemoryPolicy, Variable, check_fmp
from polvet.policy.finite_memory.sketch import Sketch

Place = tuple[str, Pattern]
"""A control state of a sketch: a memory state and the pattern of all features."""
_NUMERIC = {
    UP: Effect(1, None),
    DOWN: Effect(None, -1),
    ANY: Effect(None, None),
    NOT_UP: Effect(None, 0),
    NOT_DOWN: Effect(0, None),
}


def fits(change: str | None, before: bool, after: bool) -> bool:
    """Return whether a feature's pattern may follow the other when it changes like that."""
    match change:
        case None:
            return before == after
        case "true" | "up":
            return after
        case "false":
            return not after
        case "down":
            return before
        case "not up":
            return before or not after
        case "not down":
            return after or not before
    return True


def single_rules(sketch: Sketch) -> list[Rule]:
    """Return the rules with one condition each: one for each condition of a rule."""
    return [
        Rule((condition,), rule.changes, rule.label, rule.memory, rule.following, rule.after, rule.actions, rule.kind)
        for rule in sketch.rules
        for condition in rule.conditions
    ]


def project(
    sketch: Sketch, selection: Collection[str], budget: Budget = UNLIMITED
) -> tuple[FiniteMemoryPolicy, tuple[int, ...]]:
    """Return the policy over the kept features, and for each of its edges the number of its rule in `single_rules`."""
    names, numeric = sketch.features.names, sketch.features.numeric
    if unknown := set(selection) - set(names):
        raise InputError(f"no feature '{min(unknown)}'.", sketch.where, f"Features: {', '.join(names)}.")
    places = [index for index, name in enumerate(names) if name in selection]
    few = Features(tuple(names[index] for index in places), numeric & set(selection))
    if len(sketch.memory) << len(places) > MAX_STATES:
        raise LimitReached(f"{len(places)} features make more than {MAX_STATES} control states")
    rules = single_rules(sketch)
    outer = [_beside(sketch, rule, set(places)) for rule in rules]
    edges: list[Edge] = []
    origins: list[int] = []
    for memory in sketch.memory:
        for pattern in product([False, True], repeat=len(places)):
            budget.check()
            before = dict(zip(places, pattern, strict=True))
            inner = tuple(_atom(names[i], before[i]) for i in places if names[i] in numeric)
            for number, rule in enumerate(rules):
                condition = rule.conditions[0]
                if rule.memory not in (None, memory) or any(before.get(i, v) != v for i, v in condition.items()):
                    continue
                following = [
                    [v for v in (False, True) if fits(rule.changes.get(i), before[i], v) and rule.after.get(i, v) == v]
                    for i in places
                ]
                atoms, effects = outer[number]
                inside = {
                    names[i]: _NUMERIC[rule.changes[i]] for i in places if names[i] in numeric and i in rule.changes
                }
                guard = (*inner, *atoms)
                for after in product(*following):
                    ends = _state_name(few, memory, pattern), _state_name(few, rule.following or memory, after)
                    choice = Choice({**inside, **effects}, rule.label)
                    edges.append(Edge(len(edges), *ends, (choice,), (guard,) if guard else ((),)))
                    origins.append(number)
    variables = tuple(
        Variable(name) if name in numeric else Variable(name, 0, 1)
        for name in names
        if name in numeric or name not in selection
    )
    states = [(memory, p) for memory in sketch.memory for p in product([False, True], repeat=len(places))]
    initial = [state for state in states if state[0] == sketch.memory[0]]
    every, first = (tuple(_state_name(few, *state) for state in some) for some in (states, initial))
    plan = FiniteMemoryPolicy(variables, every, first, tuple(edges), "qualitative", sketch.name)
    return check_fmp(plan, sketch.where), tuple(origins)


def _state_name(features: Features, memory: str, pattern: Pattern) -> str:
    """Return the control state's name; without features and memory there is one."""
    return state_name(features, memory, pattern) or "q"


def _atom(name: str, above: bool) -> Atom:
    return Atom(name, ">=" if above else "==", 1 if above else 0)


def _beside(sketch: Sketch, rule: Rule, selection: set[int]) -> tuple[list[Atom], dict[str, Effect]]:
    """Return what the rule demands of the features that are not kept, and what it does to them."""
    names, numeric = sketch.features.names, sketch.features.numeric
    condition = rule.conditions[0]
    atoms, effects = [], {}
    for index, name in enumerate(names):
        if index in selection:
            continue
        if index in condition:
            atoms.append(_atom(name, condition[index]))
        change = rule.changes.get(index)
        if change is None:
            continue
        if name in numeric:
            effects[name] = _NUMERIC[change]
            continue
        before = condition.get(index)
        # From true the value cannot rise, from false it cannot fall; `measured`: these amounts are meant exactly.
        low = 0 if change == TRUE or before is False else -1
        high = 0 if change == FALSE or before is True else 1
        if before is not None and change != ANY and before != (change == TRUE):
            low = high = 1 if change == TRUE else -1
        if (low, high) != (0, 0):
            effects[name] = Effect(low, high, measured=low == high)
    return atoms, effects


def part_between(sketch: Sketch, places: Iterable[Place]) -> FiniteMemoryPolicy:
    """Return the policy of all features between the listed control states; those with the first memory state are initial."""
    states = list(dict.fromkeys(places))
    features = sketch.features
    initial = [place for place in states if place[0] == sketch.memory[0]]
    edges: list[Edge] = []
    for memory, pattern in states:
        guard = zeros_of(features, pattern)
        for rule in sketch.rules:
            if rule.memory not in (None, memory) or not any(
                all(pattern[i] == v for i, v in condition.items()) for condition in rule.conditions
            ):
                continue
            effects = {
                name: _NUMERIC[rule.changes[i]]
                for i, name in enumerate(features.names)
                if name in features.numeric and i in rule.changes
            }
            for other, after in states:
                if other == (rule.following or memory) and follows(rule, pattern, after):
                    ends = state_name(features, memory, pattern), state_name(features, other, after)
                    edges.append(Edge(len(edges), *ends, (Choice(effects, rule.label),), (guard,) if guard else ((),)))
    variables = tuple(Variable(name) for name in features.names if name in features.numeric)
    names, starts = (tuple(state_name(features, *place) for place in some) for some in (states, initial))
    plan = FiniteMemoryPolicy(variables, names, starts, tuple(edges), "qualitative", sketch.name)
    return check_fmp(plan, sketch.where)


def follows(rule: Rule, before: Sequence[bool], after: Sequence[bool]) -> bool:
    """Return whether the rule may lead from one pattern of all features to the other."""
    return all(
        fits(rule.changes.get(i), old, new) and rule.after.get(i, new) == new
        for i, (old, new) in enumerate(zip(before, after, strict=True))
    )
