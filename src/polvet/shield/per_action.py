"""Shields by a rule on each action's least risk: what an action risks when the best is done ever after.

least    m(s), the least risk from s: the chooser minimises, the environment maximises inside an option
risk     r(s, a), the greatest expectation of m after one step of the option a; m(s) is the least r(s, a)
rules    per state: r <= bound, and where nothing is that good, r = m; relative: 1 - r >= factor * (1 - m)
The least risks of a game come from policy iteration in fractions. Where failing can be avoided for certain the options stay
there; elsewhere no scheduler escapes both fail and those states, so that the equations have one solution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp import Reach
from polvet.mdp.exact import exact_values
from polvet.shield.least_risk import NONE, find_least_risk
from polvet.shield.permissive import Permitted, prove, safe_region
from polvet.shield.world import World, take_choices


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action may risk: at most the threshold (or else the least), or so much of the best chance of not failing must be left.

    >>> Rule("per-state", Fraction(1, 10)).allows(Fraction(1, 5), least=Fraction(1, 5))
    True
    >>> Rule("relative", Fraction(9, 10)).allows(Fraction(1, 5), least=Fraction(0))
    False
    """

    kind: str  # "per-state" or "relative"
    threshold: Fraction

    def allows(self, risk: Fraction, least: Fraction) -> bool:
        """Return whether an action of this risk is allowed where the best one has the least."""
        if self.kind == "per-state":
            return risk <= max(self.threshold, least)
        return 1 - risk >= self.threshold * (1 - least)


@dataclass(frozen=True, slots=True, eq=False)
class Ruled:
    """What a rule allows in every state, the worst that may come of it, and the least risk per state and per option."""

    result: Permitted
    least: list[Fraction]
    risks: list[Fraction]
    rule: Rule


def permit_by_rule(world: World, rule: Rule, budget: Budget = UNLIMITED) -> Ruled:
    """Return exactly the options that the rule allows; the world's probabilities must be fractions.

    >>> from polvet.mdp import SparseMdp
    >>> coin = SparseMdp.build([[[(1, Fraction(1, 2)), (2, Fraction(1, 2))], [(2, Fraction(1))]], [], []])
    >>> world = World.of(coin, fail=np.array([False, True, False]), goal=np.array([False, False, True]))
    >>> permit_by_rule(world, Rule("per-state", Fraction(1, 3))).risks
    [Fraction(1, 2), Fraction(0, 1)]
    """
    world = replace(world, mdp=replace(world.mdp, rewards={}, exact_rewards={}))
    least = find_least_risks(world, budget)
    risks = risks_of_options(world, least)
    owners = world.owners().tolist()
    permitted = np.array([rule.allows(r, least[s]) for s, r in zip(owners, risks, strict=True)], dtype=bool)
    # Every state is listed, not only those that allowed actions reach: forbidden actions have risks, too.
    everywhere = replace(world, mdp=replace(world.mdp, initial=np.arange(world.mdp.states, dtype=np.uint32)))
    found = prove(everywhere, permitted, Fraction(1), budget)
    budget.check()
    if found is None or not found.exact:
        raise LimitReached("the risk under the allowed actions was not found in fractions")
    return Ruled(replace(found, maximal=True), least, risks, rule)


def find_least_risks(world: World, budget: Budget = UNLIMITED) -> list[Fraction]:
    """Return the least risk from every state, in fractions."""
    mdp = replace(world.mdp, initial=np.arange(world.mdp.states, dtype=np.uint32))
    if world.is_plain:
        return _known(exact_values(mdp, Reach(goal=world.fail, minimise=True), budget=budget))
    starts = world.option_start.tolist()
    taken = find_least_risk(world, budget).option
    safe = safe_region(world)
    certain = risks_of_options(world, [Fraction(int(not one)) for one in safe.tolist()])
    for state in np.flatnonzero(safe & ~world.ended).tolist():
        taken[state] = next(o for o in range(starts[state], starts[state + 1]) if not certain[o])
    while True:
        budget.check()
        open_ = taken != NONE
        first = world.option_choice[:-1].astype(np.int64)[taken[open_]]
        counts = np.zeros(mdp.states, dtype=np.int64)
        counts[open_] = np.diff(world.option_choice).astype(np.int64)[taken[open_]]
        picked = np.concatenate([np.arange(0)] + [a + np.arange(n) for a, n in zip(first, counts[open_], strict=True)])
        chosen = take_choices(mdp, picked.astype(np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64))
        values = _known(exact_values(chosen, Reach(goal=world.fail), budget=budget))
        risks = risks_of_options(world, values)
        better = False
        for state in np.flatnonzero(open_).tolist():
            best = min(range(starts[state], starts[state + 1]), key=risks.__getitem__)
            if risks[best] < values[state]:
                taken[state], better = best, True
        if not better:
            return values


def risks_of_options(world: World, values: list[Fraction]) -> list[Fraction]:
    """Return for each option the greatest expectation of `values` after one step, in fractions."""
    mdp = world.mdp
    assert mdp.probability_index is not None
    assert mdp.fractions is not None
    branches = mdp.branch_start.tolist()
    chances = [mdp.fractions[k] for k in mdp.probability_index.tolist()]
    targets = mdp.target.tolist()
    sums = [sum((chances[k] * values[targets[k]] for k in range(a, b)), Fraction(0)) for a, b in pairwise(branches)]
    choices = world.option_choice.tolist()
    return [max(sums[a:b]) for a, b in pairwise(choices)]


def _known(values: list[Fraction | None]) -> list[Fraction]:
    assert all(value is not None for value in values), "every state is a start here"
    return [value for value in values if value is not None]
