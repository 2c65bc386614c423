"""Sieve on choices of an arena.

Source   Sieve, as in `polvet.termination.sieve`, with qualitative effects: within a component, choices that lower a number
         which no choice raises are taken finitely often and removed; what stays on cycles runs for ever
"""

from __future__ import annotations

from collections.abc import Collection

from polvet.termination.arena import Arena, Choice
from polvet.termination.components import strong_components


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
