"""Closed walks of a component and what they do to its counters: the cuts that every ranking must satisfy.

A cut says lambda . effect(walk) <= 0. A cut of one question holds for every other about the same component, so
the cuts are kept while it is examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from polvet.termination.walks import SAFE, Component, Matrix, RootedWalks, dot


class Cuts:
    """The cuts so far over the chosen columns; `bonus` is one more column, a number >= 0 per edge."""

    def __init__(
        self, component: Component, rooted: RootedWalks, columns: Sequence[int], bonus: Matrix | None = None
    ) -> None:
        chosen = list(columns)
        self.component, self.rooted, self.columns = component, rooted, chosen
        self.changes: Matrix = component.changes[:, chosen]  # per edge
        self.rooted_effects: Matrix = rooted.effects[:, chosen]  # per rooted walk
        if bonus is not None:
            self.changes = np.concatenate([self.changes, bonus[:, None]], axis=1)
            walked = rooted.sums(bonus[:, None])
            self.rooted_effects = np.concatenate([self.rooted_effects, walked], axis=1)
        self.walks: list[int | list[int]] = []  # the edge of a rooted walk, or the edges of a cycle
        self.effects: list[list[int]] = []
        self._known: dict[tuple[int, ...], int] = {}

    def add(self, walk: int | list[int]) -> int:
        """Return the number of the walk's cut; walks with the same effect are one cut."""
        if isinstance(walk, int):
            effect = [int(value) for value in self.rooted_effects[walk]]
        else:
            effect = [int(value) for value in self.changes[walk].sum(axis=0)]
        key = tuple(effect)
        if key not in self._known:
            self._known[key] = len(self.walks)
            self.walks.append(walk)
            self.effects.append(effect)
        return self._known[key]

    def violated(self, weights: Sequence[int], known: Iterable[int]) -> list[int]:
        """Return the cuts that the weights do not satisfy, worst first, without those that are `known` to hold."""
        if not self.effects:
            return []
        largest = max(abs(value) for effect in self.effects for value in effect)
        slopes = dot(np.array(self.effects, dtype=np.int64 if largest < SAFE else object), weights)
        without = set(known)
        worst = np.argsort(-slopes, kind="stable")
        return [int(cut) for cut in worst if slopes[cut] > 0 and int(cut) not in without]

    def walk(self, cut: int) -> list[int]:
        """Return the local edges of a cut's closed walk."""
        walk = self.walks[cut]
        return self.rooted.walk(walk) if isinstance(walk, int) else walk
