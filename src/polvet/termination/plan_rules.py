"""A synthesised policy as a document of rules: one for each choice, with no more literals than tell it from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.policy.finite_memory.features import Features, Pattern
from polvet.policy.finite_memory.qnp import Problem
from polvet.termination.arena import Arena, Choice, Node

Doing = tuple[int, str, int]
"""A memory state, the action that is taken there, and the next memory state."""


def policy_document(problem: Problem, arena: Arena, chosen: Mapping[Node, Choice], memory: int) -> dict[str, Any]:
    """Return the policy as `rules/1`: no rule is open in a reached control state of another choice."""
    reached: dict[int, dict[Pattern, Doing]] = {}
    for node, choice in chosen.items():
        state, pattern = arena.nodes[node]
        option = arena.options[choice]
        reached.setdefault(state, {})[pattern] = (state, option.action, option.memory)
    rules: list[dict[str, Any]] = []
    for state, doings in sorted(reached.items()):
        left = dict(doings)
        while left:
            pattern, doing = next(iter(left.items()))
            wanted = _fewest(pattern, doing, doings)
            left = {p: d for p, d in left.items() if d != doing or any(p[i] != pattern[i] for i in wanted)}
            entry = {"when": _text(problem.features, pattern, wanted), "action": doing[1]}
            rules.append(entry | ({"memory": f"m{state}", "next": f"m{doing[2]}"} if memory > 1 else {}))
    if not rules and problem.actions:  # every start is in the goal: whatever the policy says is never asked
        rules.append({"when": "true", "action": problem.actions[0].name})
    return {"format": "rules/1", "rules": rules}


def _fewest(pattern: Pattern, doing: Doing, doings: Mapping[Pattern, Doing]) -> list[int]:
    """Return features whose values tell the pattern from those where something else is done; none can be left out."""
    wanted = list(range(len(pattern)))
    others = [other for other, there in doings.items() if there != doing]
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
