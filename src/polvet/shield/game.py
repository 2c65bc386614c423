"""The least risk where the environment picks among the operators of an option: a game, in fractions or from below.

The least risks of a game come from policy iteration in fractions: the chooser's options are improved against the environment's
best answer. No better option by one step is not yet the end: where the environment, whatever it does to keep the risk up, can
be held in a set of states without failing, holding it there is better.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np

import polvet._core as _core
from polvet.budget import UNLIMITED, Budget
from polvet.mdp import Reach
from polvet.mdp.exact import exact_values
from polvet.mdp.scheduler import take_choices
from polvet.mdp.sparse import Float64s, SparseMdp, Uint32s
from polvet.shield.world import World

NONE = 0xFFFFFFFF
GUESSING = 1e-5
"""Seconds per branch for the options that policy iteration begins with: about a thousand sweeps."""


def play(world: World, seconds: float) -> tuple[Float64s, Uint32s]:
    """Return lower bounds on the least risk of each state of a game, and an option, as good as they get in that time."""
    mdp = world.mdp
    lowers = np.where(world.fail, 1.0, 0.0)
    option = np.full(mdp.states, NONE, dtype=np.uint32)
    _core.least_risk_game(
        mdp.branch_start,
        mdp.target,
        mdp.probability,
        world.option_start,
        world.option_choice,
        lowers,
        option,
        seconds,
    )
    return lowers, option


def find_least_risks(world: World, budget: Budget = UNLIMITED) -> list[Fraction]:
    """Return the least risk from every state, in fractions."""
    if world.is_plain:
        return _known(exact_values(world.mdp.from_everywhere(), Reach(goal=world.fail, minimise=True), budget=budget))
    return find_least_options(world, budget)[0]


def find_least_options(world: World, budget: Budget = UNLIMITED) -> tuple[list[Fraction], Uint32s]:
    """Return the least risk from every state of a game in fractions, and the options that attain it together."""
    _, taken = play(world, min(GUESSING * len(world.mdp.target), budget.left()))
    taken[world.ended] = NONE
    while True:
        budget.check()
        values = _known(exact_values(_answered(world, taken), Reach(goal=world.fail), budget=budget))
        better = _better_by_a_step(world, values) or _better_by_holding(world, values)
        if not better:
            return values, taken
        for state, option in better.items():
            taken[state] = option


def _answered(world: World, taken: Uint32s) -> SparseMdp:
    """Return what is left to the environment when one option of each state is taken; every state is a start."""
    options = taken[taken != NONE].astype(np.int64)
    widths = np.diff(world.option_choice).astype(np.int64)[options]
    first = np.repeat(world.option_choice[:-1].astype(np.int64)[options], widths)
    inside = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    counts = np.zeros(world.mdp.states, dtype=np.int64)
    counts[taken != NONE] = widths
    part = take_choices(world.mdp, first + inside, np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64))
    return part.from_everywhere()


def _better_by_a_step(world: World, values: list[Fraction]) -> dict[int, int]:
    """Return an option for each state where the best one has less than its value."""
    risks, starts = risks_of_options(world, values), world.option_start.tolist()
    better = {}
    for state, (begin, end) in enumerate(pairwise(starts)):
        best = min(range(begin, end), key=risks.__getitem__, default=None)
        if best is not None and risks[best] < values[state]:
            better[state] = best
    return better


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
