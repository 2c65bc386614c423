"""Randomised permissive schedulers: besides actions, a state may allow up to n distributions over its actions.

Source   end of section 4.1 of the paper: n distributions per state, chosen by the solver as real numbers.
Differs  distributions are mixtures of two options on a grid of weights, the least risky option and one that is not
         allowed by itself. Each mixture is one more option of a larger MDP, so the enlargement and its exact check
         apply unchanged, and nothing is non-linear. Of each pair the largest allowed weight is kept: by convexity every
         smaller weight is safe as well.
Limits   exact probabilities, one operator per label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.mdp import SparseMdp
from polvet.mdp.sparse import Mask
from polvet.shield.least_risk import find_least_risk
from polvet.shield.permissive import Impossible, Permitted, permit, prove
from polvet.shield.world import World

GRAIN = 20  # weights are multiples of 1 / GRAIN


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A safe permissive scheduler of `world`, whose options are those of the original world and mixtures of them."""

    world: World
    result: Permitted
    option: tuple[Mapping[int, Fraction], ...]  # per option of `world`, the weights of original options
    pure: Permitted  # what was found without mixtures

    def distributions(self, place: int) -> list[Mapping[int, Fraction]]:
        """Return the allowed mixtures in the state at this place of `result.sub`."""
        state = int(self.result.sub.states[place])
        mine = range(int(self.world.option_start[state]), int(self.world.option_start[state + 1]))
        return [self.option[o] for o in mine if self.result.permitted[o] and len(self.option[o]) > 1]

    @property
    def count(self) -> int:
        """How many mixtures are allowed."""
        return sum(len(self.option[o]) > 1 for o in self.result.sub.options.tolist())


def permit_mixtures(
    world: World,
    bound: Fraction,
    *,
    distributions: int = 3,
    grain: int = GRAIN,
    attempts: int | None = None,
    budget: Budget = UNLIMITED,
) -> Mixed | Impossible:
    """Return a safe permissive scheduler with at most so many mixtures per state.

    >>> half = Fraction(1, 2)
    >>> coin = SparseMdp.build([[[(1, half), (2, half)], [(2, Fraction(1))]], [], []])
    >>> world = World.of(coin, fail=np.array([False, True, False]), goal=np.array([False, False, True]))
    >>> found = permit_mixtures(world, Fraction(1, 3), grain=3)
    >>> [{o: str(w) for o, w in one.items()} for one in found.distributions(0)], str(found.result.risk)
    ([{1: '1/3', 0: '2/3'}], '1/3')
    """
    if not world.is_plain or not world.mdp.is_exact:
        raise InputError(
            "mixtures need exact probabilities and one operator per label.", hint="Leave --distributions out."
        )
    pure = permit(world, bound, attempts=attempts, budget=budget.share(0.5))
    if isinstance(pure, Impossible):
        return pure
    wider, option = _with_mixtures(world, pure, grain, budget)
    seed = np.array([len(one) == 1 and bool(pure.permitted[next(iter(one))]) for one in option], dtype=bool)
    heaviest = np.array([2.0 if len(one) == 1 else 1.0 - float(list(one.values())[1]) for one in option])
    found = permit(wider, bound, attempts=1, seeds=[seed], priority=heaviest, budget=budget.share(0.5))
    assert isinstance(found, Permitted), "the seed is safe"
    kept = _thin(wider, found.permitted, option, distributions)
    proved = prove(wider, kept, bound, budget)
    if proved is None:
        budget.check()
    assert proved is not None, "fewer options are as safe"
    return Mixed(wider, proved, option, pure)


def _with_mixtures(
    world: World, pure: Permitted, grain: int, budget: Budget
) -> tuple[World, tuple[Mapping[int, Fraction], ...]]:
    mdp = world.mdp
    exact = mdp.exact_probabilities()
    least = find_least_risk(world, budget).option.tolist()
    starts, branches, target = world.option_start.tolist(), mdp.branch_start.tolist(), mdp.target.tolist()
    reached = set(pure.sub.states.tolist())
    rows: list[list[list[tuple[int, Fraction]]]] = []
    option: list[Mapping[int, Fraction]] = []
    labels: list[int] = []
    for state in range(mdp.states):
        budget.check()
        mine = range(starts[state], starts[state + 1])
        mixes: list[Mapping[int, Fraction]] = [{o: Fraction(1)} for o in mine]
        if state in reached and mine:
            # An allowed option to fall back on: the least risky one where it is allowed, else any.
            allowed = [o for o in mine if pure.permitted[o]]
            base = least[state] if least[state] in allowed else allowed[0]
            for other in mine:
                if not pure.permitted[other]:
                    weights = (Fraction(k, grain) for k in range(1, grain))
                    mixes += [{base: 1 - weight, other: weight} for weight in weights]
        choices = []
        for mix in mixes:
            row: dict[int, Fraction] = {}
            for o, weight in mix.items():
                for b in range(branches[o], branches[o + 1]):
                    row[target[b]] = row.get(target[b], Fraction(0)) + weight * exact[b]
            choices.append(sorted(row.items()))
        rows.append(choices)
        option += mixes
        labels += [int(world.option_label[o]) if len(m) == 1 else -1 for m in mixes for o in [next(iter(m))]]
    built = SparseMdp.build(rows, initial=[int(s) for s in mdp.initial])
    wider = replace(
        World.of(built, fail=world.fail, goal=world.goal), states=world.states, labels=world.labels,
        option_label=np.array(labels, dtype=np.int32),
    )  # fmt: skip
    return wider, tuple(option)


def _thin(world: World, permitted: Mask, option: tuple[Mapping[int, Fraction], ...], most: int) -> Mask:
    """Return the permitted options without mixtures that heavier ones of the same pair imply, and `most` of those left."""
    kept = permitted.copy()
    starts = world.option_start.tolist()
    for state in range(world.mdp.states):
        best: dict[tuple[int, ...], int] = {}
        for o in range(starts[state], starts[state + 1]):
            if permitted[o] and len(option[o]) > 1:
                kept[o] = False
                best[tuple(option[o])] = o  # weights ascend, so the last one is the heaviest
        heaviest = sorted(best.values(), key=lambda o: -list(option[o].values())[1])
        kept[heaviest[:most]] = True
    return kept
