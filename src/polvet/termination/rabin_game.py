"""Policies of a qualitative problem as strategies of a game: exact, and quick where there are few numbers.

We choose in every node, the world chooses the outcome. A policy surely ends iff no execution goes on for ever in which every
number that is lowered again and again is raised again and again, too (that is what Sieve looks for). So we win an execution that never
ends iff some number is lowered for ever and raised only finitely often: a Rabin game, with one pair for each number. Who wins it needs no
memory, so policies without memory are all that matter: where there is none of these, no other ends in the goal either.

Some number `i` goes first: we stay where the world cannot bring about that it is raised. There we go to choices that lower
it wherever we can; elsewhere we win by the other numbers, or the world wins and takes with it what it can bring there.

Source   Rabin games and strategies without memory: Klarlund, LICS 1992; the recursion: Horn, "Streett games on finite graphs", 2005
Differs  marks stand on choices, not on nodes; a number that nothing lowers is left out
Cost     numbers! * nodes^numbers in the worst case
"""

from __future__ import annotations

from collections.abc import Iterable

from polvet.budget import UNLIMITED, Budget
from polvet.termination.arena import Arena, Choice, Node

Place = int
"""A node, or behind the nodes a choice."""
Plan = dict[Node, Choice]


def winning_choices(arena: Arena, budget: Budget = UNLIMITED) -> Plan:
    """Return a choice for each node from which some policy surely ends in the goal; following them, it does."""
    game = _Game(arena, budget)
    everywhere = frozenset(range(len(game.after)))
    near, plan = game.attracted(everywhere, arena.goals, ours=True)
    stuck = [node for node in range(game.nodes) if node not in near and not game.after[node]]
    left = everywhere - near
    left -= game.attracted(left, stuck, ours=False)[0]
    return plan | game.won(left, game.lowered_in(left))[1]


class _Game:
    def __init__(self, arena: Arena, budget: Budget) -> None:
        self.nodes, self._budget = len(arena.nodes), budget
        self._lost: set[tuple[bytes, tuple[int, ...]]] = set()  # regions where some numbers win nothing
        self.after = [
            *([self.nodes + choice for choice in some] for some in arena.choices),
            *(list(dict.fromkeys(option.outcomes)) for option in arena.options),
        ]
        self._before: list[list[Place]] = [[] for _ in self.after]
        for place, following in enumerate(self.after):
            for one in following:
                self._before[one].append(place)
        usable = {choice for some in arena.choices for choice in some}
        marks = {n for c in usable for n in _numbers(arena.options[c].lowers | arena.options[c].raises)}
        self._lowers = {n: {self.nodes + c for c in usable if arena.options[c].lowers >> n & 1} for n in marks}
        self._raises = {n: {self.nodes + c for c in usable if arena.options[c].raises >> n & 1} for n in marks}

    def lowered_in(self, region: frozenset[Place], numbers: Iterable[int] | None = None) -> tuple[int, ...]:
        """Return which of the numbers (or of all) some choice of the region lowers."""
        candidates = self._lowers if numbers is None else numbers
        return tuple(n for n in candidates if not region.isdisjoint(self._lowers[n]))

    def attracted(
        self, region: frozenset[Place], target: Iterable[Place], *, ours: bool
    ) -> tuple[frozenset[Place], Plan]:
        """Return from where in the region we, or the world, can bring about the target; and our choices on the way."""
        self._budget.check()
        near, plan, left = set(target), Plan(), dict[Place, int]()
        agenda = list(near)
        for place in agenda:  # grows while it is read
            for one in self._before[place]:
                if one not in region or one in near:
                    continue
                if (one < self.nodes) != ours:
                    left[one] = left.get(one, sum(other in region for other in self.after[one])) - 1
                    if left[one]:
                        continue
                elif ours:
                    plan[one] = place - self.nodes
                near.add(one)
                agenda.append(one)
        return frozenset(near), plan

    def won(self, region: frozenset[Place], numbers: tuple[int, ...]) -> tuple[frozenset[Place], Plan]:
        """Return where in the region we win by the numbers, and how."""
        left, plan = region, Plan()
        if numbers and (key := (self._marked(region), numbers)) in self._lost:
            return frozenset(), plan
        while left:
            for number in numbers:
                core, inside = self._won_by(number, left, numbers)
                if core:
                    near, way = self.attracted(left, core, ours=True)
                    plan |= way | inside
                    left -= near
                    break
            else:
                break
        if numbers and left == region:
            self._lost.add(key)
        return region - left, plan

    def _marked(self, region: frozenset[Place]) -> bytes:
        """Return the region as a key that takes little memory."""
        marks = bytearray(len(self.after))
        for place in region:
            marks[place] = 1
        return bytes(marks)

    def _won_by(self, first: int, region: frozenset[Place], numbers: tuple[int, ...]) -> tuple[frozenset[Place], Plan]:
        """Return a part of the region in which we win and never raise the first number; it is empty if there is none."""
        part = region - self.attracted(region, region & self._raises[first], ours=False)[0]
        while target := part & self._lowers[first]:
            near, way = self.attracted(part, target, ours=True)
            rest = part - near
            others = self.lowered_in(rest, (n for n in numbers if n != first))
            safe, inside = self.won(rest, others)
            if safe == rest:
                return part, way | inside
            part -= self.attracted(part, rest - safe, ours=False)[0]
        return frozenset(), {}


def _numbers(bits: int) -> list[int]:
    return [n for n in range(bits.bit_length()) if bits >> n & 1]
