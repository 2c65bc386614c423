"""Qualitative numeric planning problems (`.qnp`) with a policy, as finite-memory policies.

Source   Srivastava et al., AAAI 2011; the file format is that of Bonet & Geffner's qnp2fond: name; features with 1 for
         numeric and 0 for boolean; initial situation; goal; number of actions; per action name, preconditions, effects
         (of a number: 1 raises, 0 lowers). Numbers in situations: 0 means = 0, 1 means > 0

The policy is a file of its own: `rules/1` JSON ({"when": "n > 0 && !holding", "action": "Pick", "memory": "m0",
"next": "m1"}; the first match whose action is applicable wins, `memory` and `next` may be
absent), or one rule a line: `n > 0, !holding -> Pick`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where, did_you_mean
from polvet.files import Json, parse_json, refuse_unknown_keys
from polvet.policy.finite_memory.features import (
    DOWN,
    FALSE,
    TRUE,
    UP,
    Features,
    Pattern,
    Rule,
    build_from_rules,
    parse_condition,
    pattern_of,
)
from polvet.policy.finite_memory.fmp import FiniteMemoryPolicy

MEMORY_KEYS = ("memory", "next")  # what a rule with memory has besides "when" and "action"


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a problem: what must hold (feature index -> pattern), and its changes."""

    name: str
    precondition: Mapping[int, bool]
    changes: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """A qualitative numeric planning problem."""

    name: str
    features: Features
    initial: Mapping[int, bool]
    goal: Mapping[int, bool]
    actions: tuple[Action, ...]


class _Lines:
    """The lines of a file that are not empty, with their numbers."""

    def __init__(self, text: str, where: Where) -> None:
        self._lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        self._next, self._where = 0, where

    def take(self, what: str) -> tuple[list[str], Where]:
        """Return the words of the next line and its place."""
        if self._next >= len(self._lines):
            raise InputError(f"the file ends before {what}.", self._where, "Complete it.")
        number, words = self._lines[self._next]
        self._next += 1
        return words, Where(self._where.file, line=number)

    def pairs(self, what: str) -> tuple[list[tuple[str, bool]], Where]:
        """Return a line of a count and as many pairs of a name and 0 or 1."""
        words, place = self.take(what)
        count = _count(words[0], place, what)
        if len(words) != 1 + 2 * count:
            raise InputError(
                f"{what}: {count} pairs are announced, {(len(words) - 1) / 2:g} follow.", place, "Count again."
            )
        pairs = []
        for index in range(count):
            name, value = words[1 + 2 * index : 3 + 2 * index]
            if value not in ("0", "1"):
                raise InputError(f"{what}: after '{name}' stands '{value}', not 0 or 1.", place, "Write 0 or 1.")
            pairs.append((name, value == "1"))
        return pairs, place


def _count(word: str, place: Where, what: str) -> int:
    if not word.isdigit() or len(word) > 6:
        raise InputError(f"{what}: '{word}' is not a count.", place, "Write how many pairs follow.")
    return int(word)


def parse_qnp(text: str, where: Where) -> Problem:
    """Return the problem in a `.qnp` text, or raise an InputError with the line."""
    lines = _Lines(text, where)
    name = " ".join(lines.take("the name")[0])
    declared, place = lines.pairs("the features")
    names = tuple(feature for feature, _ in declared)
    if len(set(names)) < len(names):
        raise InputError("a feature is named twice.", place, "Remove one of them.")
    features = Features(names, frozenset(feature for feature, numeric in declared if numeric))

    def situation(what: str) -> dict[int, bool]:
        pairs, place = lines.pairs(what)
        return {features.index(feature, place): value for feature, value in pairs}

    initial, goal = situation("the initial situation"), situation("the goal")
    words, place = lines.take("the number of actions")
    actions = []
    for _ in range(_count(words[0], place, "the number of actions")):
        label = " ".join(lines.take("an action's name")[0])
        precondition = situation(f"the precondition of {label}")
        effects = situation(f"the effects of {label}")
        changes = {
            index: (UP if value else DOWN) if names[index] in features.numeric else (TRUE if value else FALSE)
            for index, value in effects.items()
        }
        actions.append(Action(label, precondition, changes))
    return Problem(name, features, initial, goal, tuple(actions))


def build_from_qnp(problem: Problem, policy_text: str, where: Where, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the finite-memory policy that the rules of `policy_text` make of the problem."""
    rules = parse_rules(problem, policy_text, where)
    memory = next((rule.memory for rule in rules if rule.memory), "")
    return build_from_rules(
        problem.features,
        rules,
        [(memory, pattern) for pattern in starts_of(problem)],
        [problem.goal],
        first_match=True,
        name=problem.name,
        where=where,
        budget=budget,
    )


def parse_rules(problem: Problem, policy_text: str, where: Where) -> tuple[Rule, ...]:
    """Return the rules of a policy's text, each with its condition joined with the precondition of its action."""
    if policy_text.lstrip().startswith("{"):
        entries = _json_rules(policy_text, where)
    else:
        entries = _text_rules(policy_text, where)
    if not entries:
        raise InputError("the policy has no rules.", where, "Write one a line: CONDITION -> ACTION.")
    by_name = {action.name: action for action in problem.actions}
    rules = []
    for entry, place in entries:
        action = by_name.get(entry["action"])
        if action is None:
            hint = did_you_mean(str(entry["action"]), by_name) or f"Actions: {', '.join(by_name)}."
            raise InputError(f"no action '{entry['action']}'.", place, hint)
        conditions = parse_condition(entry["when"], problem.features, place)
        rules.append(_guarded(conditions, action, entry))
    return tuple(rules)


def starts_of(problem: Problem) -> list[Pattern]:
    """Return the patterns of the initial situation: a boolean that it leaves out is false, a number may be either."""
    features, options = problem.features, []
    for index, name in enumerate(features.names):
        unsaid = [False, True] if name in features.numeric else [False]
        options.append([problem.initial[index]] if index in problem.initial else unsaid)
    return list(product(*options))


def dead_ends(problem: Problem, fmp: FiniteMemoryPolicy) -> list[str]:
    """Return the control states outside the goal in which the policy has nothing to do.

    A terminating policy without dead ends solves the problem: every execution ends in the goal.
    """
    busy = {edge.source for edge in fmp.edges}
    return [
        state
        for state in fmp.control_states
        if state not in busy
        and any(pattern_of(problem.features, state)[index] != value for index, value in problem.goal.items())
    ]


def _guarded(conditions: tuple[Mapping[int, bool], ...], action: Action, entry: Mapping[str, Any]) -> Rule:
    """Return the rule: the condition joined with the action's precondition."""
    conjunctions = tuple(
        {**condition, **action.precondition}
        for condition in conditions
        if all(condition.get(index, value) == value for index, value in action.precondition.items())
    )
    return Rule(conjunctions, action.changes, action.name, entry.get("memory"), entry.get("next"))


def _json_rules(text: str, where: Where) -> list[tuple[Json, Where]]:
    from polvet.policy.rules import KEYS, RULE_KEYS  # that module needs NumPy, plans do not

    document = parse_json(text, where)
    if document.get("format") != "rules/1" or not isinstance(document.get("rules"), list):
        raise InputError("a policy is a 'rules/1' document with a list 'rules'.", where.at("format"), "See the docs.")
    refuse_unknown_keys(document, KEYS, where)
    rules = []
    for index, entry in enumerate(document["rules"]):
        place = where.at("rules").at(index)
        if not isinstance(entry, dict) or not isinstance(entry.get("when"), str) or "action" not in entry:
            raise InputError("a rule has a text 'when' and an 'action'.", place, 'Write {"when": ..., "action": ...}.')
        refuse_unknown_keys(entry, (*RULE_KEYS, *MEMORY_KEYS), place)
        rules.append((entry, place))
    return rules


def _text_rules(text: str, where: Where) -> list[tuple[Json, Where]]:
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = Where(where.file, line=number)
        condition, arrow, action = line.partition("->")
        if not arrow:
            raise InputError(f"'{line.strip()}' is no rule.", place, "Write CONDITION -> ACTION.")
        rules.append(({"when": condition, "action": action.strip()}, place))
    return rules
