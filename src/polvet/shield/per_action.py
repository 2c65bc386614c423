"""Shields by a rule on each action's least risk: what an action risks when the best is done ever after.

least    m(s), the least risk from s: the chooser minimises, the environment maximises inside an option
risk     r(s, a), the greatest expectation of m after one step of the option a; m(s) is the least r(s, a)
rules    per state: r <= bound, and where nothing is that good, r = m; relative: 1 - r >= factor * (1 - m);
         budget: r = m for free, and anything else for the price r - m, out of what a run may risk in all (`risk_budget.py`)
horizon  where it is given, m and r are the risks of failing within so many steps from there, by backward induction
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.shield.game import find_least_risks, risks_of_options
from polvet.shield.permissive import Permitted, prove
from polvet.shield.world import World


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action may risk: at most the threshold (or else the least), or so much of the best chance of not failing must be left.

    Of a budget it is what may always be done: the least risky; the rest has its price.
    >>> Rule("per-state", Fraction(1, 10)).allows(Fraction(1, 5), least=Fraction(1, 5))
    True
    >>> Rule("relative", Fraction(9, 10)).allows(Fraction(1, 5), least=Fraction(0))
    False
    """

    kind: str  # "per-state", "relative" or "budget"
    threshold: Fraction
    horizon: int | None = None

    def allows(self, risk: Fraction, least: Fraction) -> bool:
        """Return whether an action of this risk is allowed where the best one has the least."""
        if self.kind == "budget":
            return risk == least
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
    world = world.without_rewards()
    if rule.horizon is None:
        least = find_least_risks(world, budget)
        risks = risks_of_options(world, least)
    else:
        least, risks = find_risks_within(world, rule.horizon, budget)
    owners = world.owners().tolist()
    permitted = np.array([rule.allows(r, least[s]) for s, r in zip(owners, risks, strict=True)], dtype=bool)
    # Every state is listed, not only those that allowed actions reach: forbidden actions have risks, too.
    proved = prove(world.from_everywhere(), permitted, Fraction(1), budget)
    budget.check()
    if proved is None or not proved.exact:
        raise LimitReached("the risk under the allowed actions was not found in fractions")
    return Ruled(replace(proved, maximal=True), least, risks, rule)


def find_risks_within(world: World, steps: int, budget: Budget = UNLIMITED) -> tuple[list[Fraction], list[Fraction]]:
    """Return the least risk of failing within so many steps from every state, and that of each option, in fractions."""
    values = [Fraction(int(fails)) for fails in world.fail.tolist()]
    starts = world.option_start.tolist()
    risks: list[Fraction] = []
    for _ in range(steps):
        budget.check()
        risks = risks_of_options(world, values)
        now = [min(risks[a:b], default=value) for (a, b), value in zip(pairwise(starts), values, strict=True)]
        if now == values:
            break
        values = now
    return values, risks
