"""Why a bound cannot be kept: a few states in which failing is already likelier, if everything else were safe.

Source   Junges et al., TACAS 2016, Definition 7: choices of which every scheduler that takes them breaks the bound (as the proof of
         Lemma 1 reads it: by its letter the empty set would be a conflict as soon as one scheduler is unsafe). Where a bound is
         impossible nothing need be taken; what is told then are states, as in the critical subsystems of Wimmer et al.
Method   the least risk grows with the states that count and with the choices that are taken, so what is dropped while it stays above
         the bound leaves a set of which nothing can be dropped: it is irreducible, though another one may be smaller.
Limits   where probabilities are doubles, only worlds with one operator per option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.files import Json
from polvet.mdp import Reach, solve
from polvet.mdp.exact import exact_values
from polvet.mdp.sparse import Mask, mask_of
from polvet.shield.game import NONE, find_least_risks
from polvet.shield.least_risk import expected_visits, find_least_risk
from polvet.shield.world import SubMdp, World, induce_permitted

if TYPE_CHECKING:
    from polvet.model.task import Task

SECONDS = 20.0
"""How long states are dropped; what is left then explains the bound, but perhaps not with as few as it could."""
EXACT_STATES = 2_000
"""Above, lower bounds in doubles are the values, where they are above the bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """From `start`, failing is likelier than the bound whatever is chosen, already in these states of the world.

    `values` are what is at least risked from each if every other state were safe; `taken` the options that are given, by state.
    """

    start: int
    states: tuple[int, ...]
    values: tuple[Fraction, ...]
    irreducible: bool
    taken: Mapping[int, int] = field(default_factory=dict)

    @property
    def risk(self) -> Fraction:
        """Return how likely failing is at least."""
        return self.values[self.states.index(self.start)]


def find_conflict(world: World, bound: Fraction, budget: Budget = UNLIMITED) -> Conflict | None:
    """Return states that explain why the bound is impossible; None where that does not show in time.

    >>> from polvet.mdp import SparseMdp
    >>> half = Fraction(1, 2)
    >>> detour = SparseMdp.build([[[(1, half), (3, half)], [(1, Fraction(1))]], [[(2, half), (3, half)]], [], [], [[(2, half), (0, half)]]])
    >>> world = World.of(detour, fail=np.array([False, False, True, False, False]))
    >>> conflict = find_conflict(world, Fraction(1, 8))
    >>> conflict.states, [str(value) for value in conflict.values], conflict.irreducible
    ((0, 1), ['1/4', '1/2'], True)
    """
    world = world.without_rewards()
    failed = np.flatnonzero(world.fail[world.mdp.initial])
    if len(failed):
        start = int(world.mdp.initial[failed[0]])
        return Conflict(start, (start,), (Fraction(1),), irreducible=True)
    if not world.is_plain and not world.mdp.is_exact:
        return None
    lowers = find_least_risk(world, budget).lowers
    start = max(world.mdp.initial.tolist(), key=lambda s: lowers[s])
    return _Explanation(world, start, bound, {}, budget).states()


def to_document(task: Task, world: World, conflict: Conflict, bound: Fraction) -> Json:
    """Return the conflict as a certificate."""
    from polvet.records.state_json import state_to_json

    assert world.states is not None, "the world was built from a model"
    rows: list[Json] = []
    for state, value in zip(conflict.states, conflict.values, strict=True):
        row: Json = {"state": state_to_json(task, world.states[state]), "value": str(value)}
        if state in conflict.taken:
            row["taken"] = world.label_of(conflict.taken[state])
        rows.append(row)
    document: Json = {
        "kind": "conflict",
        "task_sha256": task.sha256,
        "bound": str(bound),
        "start": rows[0]["state"],
        "irreducible": conflict.irreducible,
        "states": rows,
    }
    if options := task.options.to_json():
        document["options"] = options
    return document


def find_conflict_of_option(
    world: World, permitted: Mask, option: int, bound: Fraction, budget: Budget = UNLIMITED
) -> Conflict | None:
    """Return why an option is not permitted beside the others: options that, all taken, break the bound whatever else is done.

    They are the option itself and permitted ones; None where taking it breaks no bound, or where that does not show in time.
    """
    world = world.without_rewards()
    if not world.is_plain:
        return None
    wider = permitted.copy()
    wider[option] = True
    # States that only the option leads to take what is least risky there.
    least = find_least_risk(world, budget).option
    without = np.ones(world.mdp.states, dtype=bool)
    without[world.owners()[wider]] = False
    wider[least[without & (least != NONE)]] = True
    sub = induce_permitted(world, wider)
    value = solve(sub.mdp, Reach(goal=sub.fail), exact=sub.mdp.is_exact, budget=budget)
    assert value.scheduler is not None
    taken: dict[int, int] = {}
    firsts = sub.mdp.choice_start.astype(np.int64)
    for place in np.flatnonzero(value.scheduler != NONE).tolist():
        taken[int(sub.states[place])] = int(sub.options[firsts[place] + value.scheduler[place]])
    taken[int(world.owners()[option])] = option
    start = int(sub.states[max(sub.mdp.initial.tolist(), key=lambda s: value.lowers[s])])
    return _Explanation(world, start, bound, taken, budget).choices()


class _Explanation:
    """States and taken options that keep the least risk of one start state above the bound."""

    def __init__(self, world: World, start: int, bound: Fraction, taken: Mapping[int, int], budget: Budget) -> None:
        self.world = replace(world, mdp=replace(world.mdp, initial=np.array([start], dtype=np.uint32)))
        self.start, self.bound, self.taken, self.budget = start, bound, dict(taken), budget
        self.dropping = budget.share(0.5).at_most(SECONDS)
        self.sure = True  # no question was left open
        self.owners = world.owners()

    def choices(self) -> Conflict | None:
        """Return a conflict of as few taken options as can be, and then of as few states."""
        everywhere = np.ones(self.world.mdp.states, dtype=bool)
        if not self.exceeds(everywhere):
            return None
        full = dict(self.taken)
        # The options that matter least go first; the last ones tried are those near the start.
        visits = expected_visits(self.world, self._permitted(everywhere), self.dropping)
        order = sorted(full, key=lambda s: (-visits[s], s))

        def holds(kept: Sequence[int]) -> bool:
            self.taken = {s: full[s] for s in kept}
            return self.exceeds(everywhere)

        left = _drop(order, holds, self.dropping)
        self.taken = {s: full[s] for s in left.items}
        self.sure = self.sure and left.done
        return self.states()

    def states(self) -> Conflict | None:
        """Return the conflict of as few states as can be."""
        everywhere = np.ones(self.world.mdp.states, dtype=bool)
        visits = expected_visits(self.world, self._permitted(everywhere), self.dropping)
        risks = self._risks(everywhere)
        matters = np.flatnonzero((risks > 0) & ~self.world.ended)
        order = sorted(matters.tolist(), key=lambda s: (s != self.start, -visits[s] * risks[s], s))
        if not self.exceeds(self._mask(order)):
            return None
        kept = self._prefix(order)
        left = _drop(
            kept, lambda some: self.start in some and self.exceeds(self._mask(some)), self.dropping, self._useful
        )
        return self._conflict(left.items, irreducible=left.done and self.sure)

    def _risks(self, kept: Mask) -> NDArray[np.float64]:
        """Return about what is at least risked from each state, 0 exactly where it is nothing or nobody comes."""
        sub = self._part(kept)
        risks = np.zeros(self.world.mdp.states)
        if self.world.is_plain:
            risks[sub.states] = solve(sub.mdp, Reach(goal=sub.fail, minimise=True), budget=self.budget).uppers
        else:
            risks[sub.states] = [float(one) for one in self._exactly(sub)]
        return risks

    def _prefix(self, order: Sequence[int]) -> list[int]:
        """Return about as many of the first states as are enough."""
        size = 1
        while size < len(order) and not self.dropping.is_over() and not self.exceeds(self._mask(order[:size])):
            size *= 2
        low, high = size // 2, min(size, len(order))
        while low + 1 < high and not self.dropping.is_over():
            middle = (low + high) // 2
            low, high = (low, middle) if self.exceeds(self._mask(order[:middle])) else (middle, high)
        return self._useful(list(order[:high])) if self.exceeds(self._mask(order[:high])) else list(order)

    def exceeds(self, kept: Mask) -> bool:
        """Return whether the least risk is above the bound where only the kept states count."""
        sub = self._part(kept)
        if self.world.is_plain:
            query = Reach(goal=sub.fail, minimise=True)
            value = solve(sub.mdp, query, budget=self.budget)
            if Fraction(value.lower) > self.bound or Fraction(value.upper) <= self.bound:
                return Fraction(value.lower) > self.bound
            if not sub.mdp.is_exact:
                self.sure = False
                return False
        return self._exactly(sub)[self._place(sub)] > self.bound

    def _conflict(self, kept: Sequence[int], *, irreducible: bool) -> Conflict:
        sub = self._part(self._mask(kept))
        values: Sequence[Fraction]
        if sub.mdp.is_exact and len(sub.states) <= EXACT_STATES:
            values = self._exactly(sub)
        else:
            # SOUND: lower bounds in doubles are inductive for the exact probabilities, and the checker repeats that.
            bounds = solve(sub.mdp, Reach(goal=sub.fail, minimise=True), budget=self.budget).lowers.tolist()
            values = [Fraction(one) for one in bounds]
            if values[self._place(sub)] <= self.bound:
                values = self._exactly(sub)
        chosen = set(kept)
        listed = [(int(s), v) for s, v in zip(sub.states, values, strict=True) if int(s) in chosen]
        listed.sort(key=lambda one: (one[0] != self.start, -one[1], one[0]))
        states, risks = zip(*listed, strict=True)
        return Conflict(self.start, states, risks, irreducible, {s: o for s, o in self.taken.items() if s in chosen})

    def _exactly(self, sub: SubMdp) -> list[Fraction]:
        if self.world.is_plain:
            query = Reach(goal=sub.fail, minimise=True)
            return [value or Fraction(0) for value in exact_values(sub.mdp, query, budget=self.budget)]
        return find_least_risks(_as_world(self.world, sub), self.budget)

    def _useful(self, kept: list[int]) -> list[int]:
        """Return the kept states that runs come to within them: the others do not count."""
        reached = set(self._part(self._mask(kept)).states.tolist())
        return [state for state in kept if state in reached]

    def _part(self, kept: Mask) -> SubMdp:
        return induce_permitted(self.world, self._permitted(kept))

    def _permitted(self, kept: Mask) -> Mask:
        permitted = np.asarray(kept[self.owners] if self.world.options else np.zeros(0, dtype=bool))
        for state, option in self.taken.items():
            mine = slice(int(self.world.option_start[state]), int(self.world.option_start[state + 1]))
            before = bool(permitted[option])
            permitted[mine] = False
            permitted[option] = before
        return permitted

    def _mask(self, kept: Sequence[int]) -> Mask:
        return mask_of(list(kept), self.world.mdp.states)

    def _place(self, sub: SubMdp) -> int:
        return int(np.searchsorted(sub.states, self.start))


@dataclass(frozen=True, slots=True)
class _Left:
    items: list[int]
    done: bool  # nothing more can be dropped


def _drop(
    items: Sequence[int],
    holds: Callable[[Sequence[int]], bool],
    budget: Budget,
    useful: Callable[[list[int]], list[int]] = list,
) -> _Left:
    """Return what is left when items are dropped, the last ones first and many at once, while the rest holds."""
    left = list(items)
    width = max(1, len(left) // 2)
    while True:
        end = len(left)
        while end > 0:
            if budget.is_over():
                return _Left(left, done=False)
            begin = max(0, end - width)
            some = left[:begin] + left[end:]
            try:
                without = holds(some)
            except LimitReached:
                return _Left(left, done=False)
            if without:
                kept = set(useful(some))
                end = sum(item in kept for item in some[:begin])
                left = [item for item in some if item in kept]
            else:
                end = begin
        if width == 1:
            return _Left(left, done=True)
        width //= 2


def _as_world(world: World, sub: SubMdp) -> World:
    """Return the part of the world as a world of its own: the environment still picks inside an option."""
    widths = np.diff(world.option_choice).astype(np.int64)[sub.options]
    counts = np.bincount(world.owners()[sub.options], minlength=world.mdp.states)[sub.states]
    option_start, option_choice = (np.concatenate([[0], np.cumsum(one)]).astype(np.uint64) for one in (counts, widths))
    return World(sub.mdp, option_start, option_choice, world.option_label[sub.options], sub.fail, sub.goal)
