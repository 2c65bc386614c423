"""Sieve on a policy that grows and shrinks: after a choice is added, only the component of its node is looked at.

Source   Sieve, as in `polvet.termination.sieve`, with qualitative effects: within a component, choices that lower a number
         which no choice raises are taken finitely often and removed; what stays on cycles runs for ever
Differs  the policy ended before the choice was added, so whatever runs for ever passes through the choice's node

`smallest_core` is a set of choices that runs for ever on its own, and of which none can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from polvet.termination.arena import Arena, Choice, Node
from polvet.termination.components import strong_components

Chosen = Mapping[Node, Choice]


def endless_through(arena: Arena, chosen: Chosen, node: Node) -> set[Choice]:
    """Return choices of the node's component that run for ever; none if the policy still ends."""
    ahead = _closure(node, lambda one: arena.options[chosen[one]].outcomes if one in chosen else ())
    if not any(node in arena.options[chosen[one]].outcomes for one in ahead if one in chosen):
        return set()
    return endless(arena, [chosen[one] for one in ahead if one in chosen])


def endless(arena: Arena, choices: Collection[Choice]) -> set[Choice]:
    """Return the choices that Sieve cannot remove: empty iff every execution of these choices ends."""
    alive = set(choices)
    edges = {(arena.options[c].node, target, c) for c in alive for target in arena.options[c].outcomes}
    while edges:
        pairs = [(source, target) for source, target, _ in edges]
        components = strong_components(sorted({node for pair in pairs for node in pair}), pairs)
        home = {node: index for index, component in enumerate(components) for node in component}
        inside = {edge for edge in edges if edge[0] in home and home[edge[0]] == home.get(edge[1])}
        raised: dict[int, int] = {}
        for source, _, choice in inside:
            raised[home[source]] = raised.get(home[source], 0) | arena.options[choice].raises
        left = {edge for edge in inside if not arena.options[edge[2]].lowers & ~raised[home[edge[0]]]}
        if left == edges:
            return {choice for _, _, choice in edges}
        edges = left
    return set()


def smallest_core(arena: Arena, choices: Collection[Choice]) -> frozenset[Choice]:
    """Return some of the choices that run for ever on their own; without any of them the others end."""
    core = endless(arena, choices)
    for choice in sorted(core):
        if choice in core and (rest := endless(arena, core - {choice})):
            core = rest
    return frozenset(core)


def _closure(start: Node, after: Callable[[Node], tuple[Node, ...]]) -> list[Node]:
    seen = {start: None}
    for node in (agenda := [start]):
        for one in after(node):
            if one not in seen:
                seen[one] = None
                agenda.append(one)
    return list(seen)
