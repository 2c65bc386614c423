"""A synthesised policy as a document of rules: one for each choice, with no more literals than tell it from the others."""

from __future__ import annotations

from collections.abc import Mapping

from polvet.files import Json
from polvet.policy.finite_memory.features import Features, Pattern
from polvet.policy.finite_memory.qnp import Problem
from polvet.termination.arena import Arena, Choice, Node


def policy_document(problem: Problem, arena: Arena, chosen: Mapping[Node, Choice]) -> Json:
    """Return the policy as `rules/1`: no rule is open in a reached control state of another choice."""
    actions = {arena.nodes[node]: arena.options[choice].action for node, choice in chosen.items()}
    rules: list[Json] = []
    left = dict(actions)
    while left:
        pattern, action = next(iter(left.items()))
        wanted = _fewest(pattern, actions)
        left = {p: a for p, a in left.items() if a != action or any(p[i] != pattern[i] for i in wanted)}
        rules.append({"when": _text(problem.features, pattern, wanted), "action": action})
    if not rules and problem.actions:  # every start is in the goal: whatever the policy says is never asked
        rules.append({"when": "true", "action": problem.actions[0].name})
    return {"format": "rules/1", "rules": rules}


def _fewest(pattern: Pattern, actions: Mapping[Pattern, str]) -> list[int]:
    """Return features whose values tell the pattern from those where another action is taken; none can be left out."""
    wanted = list(range(len(pattern)))
    others = [other for other, action in actions.items() if action != actions[pattern]]
    for index in reversed(range(len(pattern))):
        fewer = [i for i in wanted if i != index]
        if all(any(other[i] != pattern[i] for i in fewer) for other in others):
            wanted = fewer
    return wanted


def _text(features: Features, pattern: Pattern, wanted: list[int]) -> str:
    parts = []
    for index in wanted:
        name = features.names[index]
        if name in features.numeric:
            parts.append(f"{name} > 0" if pattern[index] else f"{name} = 0")
        else:
            parts.append(name if pattern[index] else f"!{name}")
    return " && ".join(parts) or "true"
