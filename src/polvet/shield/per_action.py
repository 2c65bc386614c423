"""Shields by a rule on each action's least risk: what an action risks when the best is done ever after.

least    m(s), the least risk from s: the chooser minimises, the environment maximises inside an option
risk     r(s, a), the greatest expectation of m after one step of the option a; m(s) is the least r(s, a)
rules    per state: r <= bound, and where nothing is that good, r = m; relative: 1 - r >= factor * (1 - m);
         budget: r = m for free, and anything else for the price r - m, out of what a run may risk in all (`risk_budget.py`)
horizon  where it is given, m and r are the risks of failing within so many steps from there, by backward induction
The least risks of a game come from policy iteration in fractions: the chooser's options are improved against the environment's
best answer. No better option by one step is not yet the end: where the environment, whatever it does to keep the risk up, can
be held in a set of states without failing, holding it there is better.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp import Reach
from polvet.mdp.exact import exact_values
from polvet.mdp.sparse import SparseMdp, Uint32s
from polvet.shield.least_risk import NONE, play
from polvet.shield.permissive import Permitted, prove
from polvet.shield.world import World, take_choices

GUESSING = 1e-5
"""Seconds per branch for the options that policy iteration begins with: about a thousand sweeps."""


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
    world = replace(world, mdp=replace(world.mdp, rewards={}, exact_rewards={}))
    if rule.horizon is None:
        least = find_least_risks(world, budget)
        risks = risks_of_options(world, least)
    else:
        least, risks = find_risks_within(world, rule.horizon, budget)
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
    _, taken = play(world, min(GUESSING * len(world.mdp.target), budget.left()))
    taken[world.ended] = NONE
    while True:
        budget.check()
        values = _known(exact_values(_answered(world, taken), Reach(goal=world.fail), budget=budget))
        better = _better_by_a_step(world, values) or _better_by_holding(world, values)
        if not better:
            return values
        for state, option in better.items():
            taken[state] = option


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


def _answered(world: World, taken: Uint32s) -> SparseMdp:
    """Return what is left to the environment when one option of each state is taken; every state is a start."""
    options = taken[taken != NONE].astype(np.int64)
    widths = np.diff(world.option_choice).astype(np.int64)[options]
    first = np.repeat(world.option_choice[:-1].astype(np.int64)[options], widths)
    inside = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    counts = np.zeros(world.mdp.states, dtype=np.int64)
    counts[taken != NONE] = widths
    part = take_choices(world.mdp, first + inside, np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64))
    return replace(part, initial=np.arange(world.mdp.states, dtype=np.uint32))


def _better_by_a_step(world: World, values: list[Fraction]) -> dict[int, int]:
    """Return an option for each state where the best one has less than its value."""
    risks, starts = risks_of_options(world, values), world.option_start.tolist()
    found = {}
    for state, (begin, end) in enumerate(pairwise(starts)):
        best = min(range(begin, end), key=risks.__getitem__, default=None)
        if best is not None and risks[best] < values[state]:
            found[state] = best
    return found


def _better_by_holding(world: World, values: list[Fraction]) -> dict[int, int]:
    """Return options that keep the environment among states of one value above 0 as long as it loses nothing; none: empty.

    What is left when states are taken away from which every option has an operator that loses nothing and may lead out: to fail,
    to value 0, or to a state taken away. Of what is left, the states of the greatest value hold by themselves.
    """
    owners, sums = world.owners().tolist(), sums_of_choices(world, values)
    choices, branches, targets = (
        world.option_choice.tolist(),
        world.mdp.branch_start.tolist(),
        world.mdp.target.tolist(),
    )
    users: dict[int, list[int]] = {}
    for option, state in enumerate(owners):
        for choice in range(choices[option], choices[option + 1]):
            if sums[choice] >= values[state]:
                for target in set(targets[branches[choice] : branches[choice + 1]]):
                    users.setdefault(target, []).append(option)
    holds = {option for option, state in enumerate(owners) if values[state] > 0}
    left = Counter(owners[option] for option in holds)
    out = [state for state in range(world.mdp.states) if not left[state]]
    while out:
        for option in users.get(out.pop(), ()):
            if option in holds:
                holds.remove(option)
                left[owners[option]] -= 1
                if not left[owners[option]]:
                    out.append(owners[option])
    most = max((values[owners[option]] for option in holds), default=None)
    return {owners[option]: option for option in holds if values[owners[option]] == most}


def risks_of_options(world: World, values: list[Fraction]) -> list[Fraction]:
    """Return for each option the greatest expectation of `values` after one step, in fractions."""
    sums = sums_of_choices(world, values)
    return [max(sums[a:b]) for a, b in pairwise(world.option_choice.tolist())]


def sums_of_choices(world: World, values: list[Fraction]) -> list[Fraction]:
    """Return the expectation of `values` after each choice, in fractions."""
    mdp = world.mdp
    assert mdp.probability_index is not None
    assert mdp.fractions is not None
    branches = mdp.branch_start.tolist()
    chances = [mdp.fractions[k] for k in mdp.probability_index.tolist()]
    targets = mdp.target.tolist()
    return [sum((chances[k] * values[targets[k]] for k in range(a, b)), Fraction(0)) for a, b in pairwise(branches)]


def _known(values: list[Fraction | None]) -> list[Fraction]:
    assert all(value is not None for value in values), "every state is a start here"
    return [value for value in values if value is not None]
