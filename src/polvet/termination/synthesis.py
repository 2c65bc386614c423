"""A policy of a qualitative problem that surely ends in the goal: the part of a winning strategy that the starts reach.

A policy that gives every reached node outside the goal a choice, and ends, ends in the goal: it stops nowhere else. Sieve looks
at what comes out; a ranking is looked for afterwards, and checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polvet.budget import UNLIMITED, Budget
from polvet.termination.arena import Arena, Choice, Node
from polvet.termination.arena_sieve import endless
from polvet.termination.rabin_game import winning_choices


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The choice of each node that the policy reaches, or None if there is no policy; and from how many nodes there is one."""

    chosen: dict[Node, Choice] | None
    won: int


def synthesize(arena: Arena, budget: Budget = UNLIMITED) -> Synthesis:
    """Return a policy that surely ends in the goal, or that there is none, with memory or without."""
    winning = winning_choices(arena, budget)
    won = len(winning) + len(arena.goals)
    if any(node not in winning and node not in arena.goals for node in arena.starts):
        return Synthesis(None, won)
    chosen = _reached(arena, winning)
    if endless(arena, list(chosen.values())):
        raise AssertionError("a winning strategy runs for ever")
    return Synthesis(chosen, won)


def _reached(arena: Arena, winning: Mapping[Node, Choice]) -> dict[Node, Choice]:
    """Return the choices of the nodes that they reach, in the order in which they are reached."""
    agenda = [node for node in dict.fromkeys(arena.starts) if node not in arena.goals]
    seen = {*agenda, *arena.goals}
    chosen: dict[Node, Choice] = {}
    for node in agenda:  # grows while it is read
        chosen[node] = winning[node]
        new = [one for one in dict.fromkeys(arena.options[winning[node]].outcomes) if one not in seen]
        seen.update(new)
        agenda += new
    return chosen
