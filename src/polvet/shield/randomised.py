"""Randomised permissive schedulers: besides actions, a state may allow up to n distributions over any number of its actions.

Source   end of section 4.1 of Junges et al., TACAS 2016: n distributions per state, whose weights are real unknowns of the solver.
Differs  nothing non-linear is solved. Values v that prove the allowed options safe, and V that prove all options to risk at most V, are
         joined: v + t (V - v) proves the allowed options safe, too, and t is as great as the bound permits. What these values leave
         in a state is linear in the weights of a distribution, so that each gets as much of the forbidden options as fits. The values
         with these distributions are computed, and what the bound still leaves is shared out again.
chosen   n distributions of a state share its forbidden options among them, so that together they try every option: each is the least
         risky allowed option and, equally likely, some forbidden ones
given    distributions that somebody else names: those are allowed of which none more can be added (in worlds of doubles: those
         that the joined values leave room for)
Limits   in states where an option is one operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp import Reach, SparseMdp, solve
from polvet.mdp.exact import exact_values
from polvet.mdp.sparse import Mask, mask_of
from polvet.shield.game import NONE
from polvet.shield.least_risk import find_least_risk
from polvet.shield.permissive import Impossible, Permitted, permit
from polvet.shield.world import World, induce_permitted

GRAIN = 1_000
"""Weights are multiples of one part in so many: fractions that people can read."""
STEPS = 2**20
ROUNDS = 4
CLOSE = Fraction(1, 1_000)
"""What may be left of a bound when no further round is made."""
ROUNDED = 1 + Fraction(1, 2**52)
"""SOUND: an exact probability is at most its double times this."""

Distribution = Mapping[int, Fraction]
"""Weights of options of one state."""
Distributions = Callable[[int], Sequence[Distribution]]


@dataclass(frozen=True, slots=True, eq=False)
class Randomised:
    """Which options and which distributions over options each state allows, and values that prove it safe."""

    permitted: Mask
    mixed: Mapping[int, Sequence[Distribution]]  # by states that allowed runs reach
    values: Mapping[int, Fraction]  # of those states
    exact: bool
    pure: Permitted  # what is allowed without distributions

    @property
    def count(self) -> int:
        """How many distributions are allowed."""
        return sum(len(mine) for mine in self.mixed.values())


def permit_randomised(
    world: World,
    bound: Fraction,
    distributions: int | Distributions,
    *,
    attempts: int | None = None,
    budget: Budget = UNLIMITED,
) -> Randomised | Impossible:
    """Return a safe permissive scheduler with at most so many distributions per state, or with some of those that are given.

    >>> half = Fraction(1, 2)
    >>> coin = SparseMdp.build([[[(1, half), (2, half)], [(2, Fraction(1))]], [], []])
    >>> world = World.of(coin, fail=np.array([False, True, False]), goal=np.array([False, False, True]))
    >>> shield = permit_randomised(world, Fraction(1, 3), 1)
    >>> [{o: str(w) for o, w in one.items()} for one in shield.mixed[0]], str(shield.values[0])
    ([{1: '167/500', 0: '333/500'}], '333/1000')
    """
    world = world.without_rewards()
    pure = permit(world, bound, attempts=attempts, budget=budget.share(0.5))
    if isinstance(pure, Impossible):
        return pure
    room = _Room(world, pure, bound, budget)
    if not isinstance(distributions, int):
        if world.mdp.is_exact and world.is_plain:
            return _permit_given(room, distributions)
        values = room.joined(room.values(room.nothing))
        return room.scheduler(room.fitting(values, distributions), values)
    values, mixed = room.values(room.nothing), room.nothing
    for _ in range(ROUNDS if world.mdp.is_exact else 1):
        values = room.joined(values)
        chosen = room.chosen(values, distributions)
        if chosen == mixed:
            break
        mixed = chosen
        if not world.mdp.is_exact or budget.is_over():
            break
        lfp = room.values(mixed)
        if bound - max(lfp[s] for s in room.starts) <= CLOSE * bound:
            break
        values = lfp
    return room.scheduler(mixed, values)


class _Room:
    """A world with allowed options in every state, and what the bound leaves for distributions beside them."""

    nothing: Mapping[int, Sequence[Distribution]] = {}

    def __init__(self, world: World, pure: Permitted, bound: Fraction, budget: Budget) -> None:
        self.world, self.pure, self.bound, self.budget = world, pure, bound, budget
        self.starts = [int(s) for s in world.mdp.initial]
        self.permitted = pure.permitted.copy()
        least = find_least_risk(world, budget).option
        without = np.ones(world.mdp.states, dtype=bool)
        without[world.owners()[self.permitted]] = False
        self.permitted[least[without & (least != NONE)]] = True
        self.first = world.option_start.tolist()
        self._branches = world.mdp.branch_start.tolist()
        self._targets = world.mdp.target.tolist()
        self._choices = world.option_choice.tolist()
        if world.mdp.is_exact:
            self._chances: Sequence[Fraction] = world.mdp.exact_probabilities()
        else:
            self._chances = [Fraction(double) * ROUNDED for double in world.mdp.probability.tolist()]
        self.greatest = self._uppers(np.ones(world.options, dtype=bool))

    def options(self, state: int) -> range:
        """Return the options of the state."""
        return range(self.first[state], self.first[state + 1])

    def row(self, option: int) -> Iterable[tuple[int, Fraction]]:
        """Yield where the first operator of the option leads, and how likely at most."""
        choice = self._choices[option]
        for b in range(self._branches[choice], self._branches[choice + 1]):
            yield self._targets[b], self._chances[b]

    def may_mix(self, state: int) -> bool:
        """Return whether each option of the state is one operator with a label."""
        mine = self.options(state)
        single = all(self._choices[o + 1] - self._choices[o] == 1 for o in mine)
        return single and all(int(self.world.option_label[o]) >= 0 for o in mine)

    def worth(self, option: int, values: Sequence[Fraction]) -> Fraction:
        """Return what is expected of the values after the option."""
        return sum((chance * values[target] for target, chance in self.row(option)), Fraction(0))

    def joined(self, values: Sequence[Fraction]) -> list[Fraction]:
        """Return values between these and the greatest, as near to the greatest as the bound lets the start states come."""
        shares = [
            (self.bound - values[s]) / (self.greatest[s] - values[s])
            for s in self.starts
            if self.greatest[s] > values[s]
        ]
        share = max(Fraction(0), min([Fraction(1), *shares]))
        part = Fraction(int(share * STEPS), STEPS)
        return [v + part * (most - v) for v, most in zip(values, self.greatest, strict=True)]

    def chosen(self, values: Sequence[Fraction], most: int) -> dict[int, Sequence[Distribution]]:
        """Return distributions for every state that share its forbidden options, with weights as great as the values leave."""
        mixed: dict[int, Sequence[Distribution]] = {}
        for state in range(self.world.mdp.states):
            mine = self.options(state)
            forbidden = [o for o in mine if not self.permitted[o]]
            if not forbidden or not self.may_mix(state):
                continue
            worth = {o: self.worth(o, values) for o in mine}
            base = min((o for o in mine if self.permitted[o]), key=worth.__getitem__)
            forbidden.sort(key=worth.__getitem__)
            shared = [forbidden[k::most] for k in range(min(most, len(forbidden)))]
            distributions = [one for some in shared if (one := _heaviest(base, some, worth, values[state]))]
            if distributions:
                mixed[state] = distributions
        return mixed

    def fitting(self, values: Sequence[Fraction], given: Distributions) -> dict[int, Sequence[Distribution]]:
        """Return the given distributions that the values leave room for."""
        mixed: dict[int, Sequence[Distribution]] = {}
        for state in range(self.world.mdp.states):
            fits = [
                one
                for one in (given(state) if self.may_mix(state) else ())
                if sum((w * self.worth(o, values) for o, w in one.items()), Fraction(0)) <= values[state]
            ]
            if fits:
                mixed[state] = fits
        return mixed

    def values(self, mixed: Mapping[int, Sequence[Distribution]]) -> list[Fraction]:
        """Return values that prove what is allowed safe, from every state."""
        if not mixed:
            return self._uppers(self.permitted)
        wider = self.widened(mixed, range(self.world.mdp.states), initial=range(self.world.mdp.states))
        return _fractions(solve(wider, Reach(goal=self.world.fail), budget=self.budget).uppers.tolist())

    def _uppers(self, permitted: Mask) -> list[Fraction]:
        # SOUND: upper bounds in doubles are inductive for the exact probabilities (docs/mdp.md).
        sub = induce_permitted(self.world.from_everywhere(), permitted)
        return _fractions(solve(sub.mdp, Reach(goal=sub.fail), budget=self.budget).uppers.tolist())

    def widened(
        self, mixed: Mapping[int, Sequence[Distribution]], states: Sequence[int], initial: Iterable[int]
    ) -> SparseMdp:
        """Return the MDP of these states with all that is allowed: operators of options, and distributions."""
        number = {state: k for k, state in enumerate(states)}
        rows = []
        for state in states:
            self.budget.check()
            choices = []
            for option in self.options(state):
                if self.permitted[option]:
                    for c in range(self._choices[option], self._choices[option + 1]):
                        span = range(self._branches[c], self._branches[c + 1])
                        choices.append([(number[self._targets[b]], self._chances[b]) for b in span])
            choices += [[(number[t], p) for t, p in self.mixture(one)] for one in mixed.get(state, ())]
            rows.append(choices)
        return SparseMdp.build(rows, initial=[number[s] for s in initial])

    def mixture(self, one: Distribution) -> list[tuple[int, Fraction]]:
        """Return where the distribution leads, and how likely."""
        row: dict[int, Fraction] = {}
        for option, weight in one.items():
            for target, chance in self.row(option):
                row[target] = row.get(target, Fraction(0)) + weight * chance
        return sorted((target, chance) for target, chance in row.items() if chance)

    def reached(self, mixed: Mapping[int, Sequence[Distribution]]) -> list[int]:
        """Return the states that allowed runs come to."""
        seen, todo = set(self.starts), list(self.starts)
        while todo:
            state = todo.pop()
            after: set[int] = set()
            for option in self.options(state):
                if self.permitted[option]:
                    first, last = self._branches[self._choices[option]], self._branches[self._choices[option + 1]]
                    after.update(self._targets[first:last])
            for one in mixed.get(state, ()):
                after.update(target for target, _ in self.mixture(one))
            todo += after - seen
            seen |= after
        return sorted(seen)

    def scheduler(self, mixed: Mapping[int, Sequence[Distribution]], values: Sequence[Fraction]) -> Randomised:
        """Return the scheduler with its values: exact ones where there is time for fractions, else those that were joined."""
        states = self.reached(mixed)
        kept = {state: mixed[state] for state in states if state in mixed}
        allowed = [o for state in states for o in self.options(state) if self.permitted[o]]
        mask = mask_of(allowed, self.world.options)
        if self.world.mdp.is_exact:
            sub = self.widened(kept, states, self.starts)
            query = Reach(goal=self.world.fail[states])
            try:
                exactly = exact_values(sub, query, budget=self.budget.share(0.8))
            except LimitReached:
                pass  # no time for fractions: the joined values prove it as well
            else:
                known = {state: value or Fraction(0) for state, value in zip(states, exactly, strict=True)}
                return Randomised(mask, kept, known, True, self.pure)
        return Randomised(mask, kept, {state: values[state] for state in states}, False, self.pure)


def _heaviest(
    base: int, forbidden: Sequence[int], worth: Mapping[int, Fraction], most: Fraction
) -> dict[int, Fraction] | None:
    """Return the base and the forbidden options, equally likely, with as much of these as fits; None where nothing does."""
    mean = sum((worth[o] for o in forbidden), Fraction(0)) / len(forbidden)
    if mean > most and worth[base] >= most:  # rounding may leave the base no better than what it allows
        return None
    room = Fraction(GRAIN - 1, GRAIN) if mean <= most else (most - worth[base]) / (mean - worth[base])
    weight = Fraction(int(room * GRAIN), GRAIN)
    if not weight:
        return None
    return {base: 1 - weight, **dict.fromkeys(forbidden, weight / len(forbidden))}


def _fractions(doubles: Sequence[float]) -> list[Fraction]:
    return [Fraction(one) for one in doubles]


def _permit_given(room: _Room, given: Distributions) -> Randomised:
    """Return the given distributions of which none more can be added: each is one more option of a larger world."""
    world = room.world
    rows, option = [], []
    for state in range(world.mdp.states):
        room.budget.check()
        mine: list[Distribution] = [{o: Fraction(1)} for o in room.options(state)]
        mine += [one for one in (given(state) if mine and room.may_mix(state) else ()) if len(one) > 1]
        rows.append([room.mixture(one) for one in mine])
        option.append(mine)
    wider = World.of(SparseMdp.build(rows, initial=room.starts), fail=world.fail, goal=world.goal)
    flat = [one for mine in option for one in mine]
    seed = np.array([len(one) == 1 and bool(room.pure.permitted[next(iter(one))]) for one in flat], dtype=bool)
    widest = permit(wider, room.bound, attempts=1, seeds=[seed], budget=room.budget.share(0.5))
    assert isinstance(widest, Permitted), "the seed is safe"
    permitted = np.zeros(world.options, dtype=bool)
    mixed: dict[int, list[Distribution]] = {}
    spans = list(pairwise(wider.option_start.tolist()))
    for state in widest.sub.states.tolist():
        for k in range(*spans[state]):
            if widest.permitted[k] and len(flat[k]) == 1:
                permitted[next(iter(flat[k]))] = True
            elif widest.permitted[k]:
                mixed.setdefault(state, []).append(flat[k])
    values = dict(zip(widest.sub.states.tolist(), widest.values, strict=True))
    return Randomised(permitted, mixed, values, widest.exact, room.pure)
