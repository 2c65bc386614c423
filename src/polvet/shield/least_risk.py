"""The least risk from every state, the options that attain it, and safe schedulers that reach the goal.

Differs  from `mdp.solve` where several operators share an option: then the chooser minimises and the environment
         maximises inside the option (a game); values grow from 0, so they are lower bounds at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp import Reach, Reward, solve
from polvet.mdp.exact import exact_values
from polvet.mdp.sparse import Float64s, Mask, Uint32s, mask_of
from polvet.shield.game import NONE, find_least_options, play
from polvet.shield.world import World, induce_permitted

PLAYING = 1e-3
"""Seconds per branch for lower bounds of a game, which may come nearer and nearer for ever."""
STEPS = "steps and risk"
VISIT_STEPS, VISIT_WORK, VISIT_REST = 2_000, 200_000_000, 1e-9
PENALTIES = tuple(10.0**k for k in range(10))


@dataclass(frozen=True, slots=True, eq=False)
class LeastRisk:
    """Lower bounds per state, an option per state (NONE where runs end), and bounds at the worst start state."""

    lowers: Float64s
    option: Uint32s
    lower: float
    upper: float
    exact: Fraction | None


def find_least_risk(world: World, budget: Budget = UNLIMITED) -> LeastRisk:
    """Return how unlikely failing can be made; exact where the probabilities are and the model is plain."""
    starts = world.mdp.initial
    if world.is_plain:
        value = solve(world.mdp, Reach(goal=world.fail, minimise=True), budget=budget)
        assert value.scheduler is not None
        option = np.full(world.mdp.states, NONE, dtype=np.uint32)
        # Where the solver names no choice (it may, where every one is as good) the first one is taken.
        chosen = np.where(value.scheduler == NONE, 0, value.scheduler)
        open_ = ~world.ended
        option[open_] = (world.option_start[:-1].astype(np.int64) + chosen)[open_]
        lowers = value.lowers
    else:
        lowers, option, risks = _of_a_game(world, budget)
        if risks is not None:
            worst = max(risks[int(s)] for s in starts)
            return LeastRisk(lowers, option, float(lowers[starts].max()), float(worst), worst)
    lower, upper, exact = risk_of(world, mask_of(option[option != NONE], world.options), budget)
    # The chosen options attain `upper`; nothing is below the lower bounds.
    bottom = float(lowers[starts].max())
    if world.is_plain and exact is not None:
        best = _exact_or_none(world, budget)
        if best is not None:
            worst = max(x for s in starts if (x := best[int(s)]) is not None)
            return LeastRisk(lowers, option, bottom, float(worst), worst)
    return LeastRisk(
        lowers, option, min(bottom, lower), upper, exact if exact is not None and bottom == exact else None
    )


def _of_a_game(world: World, budget: Budget) -> tuple[Float64s, Uint32s, list[Fraction] | None]:
    """Return lower bounds and an option per state, and the least risks themselves where fractions can be had."""
    if world.mdp.is_exact:
        try:
            best, option = find_least_options(world, budget.share(0.5))
        except LimitReached:
            pass  # no time for fractions: lower bounds must do
        else:
            near = np.array([float(one) for one in best])
            above = np.array([Fraction(double) > one for double, one in zip(near.tolist(), best, strict=True)])
            return np.where(above, np.nextafter(near, 0.0), near), option, best
    lowers, option = play(world, min(budget.left(), PLAYING * max(1_000, world.mdp.branches)))
    return lowers, option, None


def _exact_or_none(world: World, budget: Budget) -> list[Fraction | None] | None:
    """Return the least risk of every state in fractions, or None where that takes too long."""
    query = Reach(goal=world.fail, minimise=True)
    try:
        return exact_values(world.mdp, query, solve(world.mdp, query, budget=budget), budget=budget)
    except LimitReached:
        return None


def risk_of(world: World, permitted: Mask, budget: Budget = UNLIMITED) -> tuple[float, float, Fraction | None]:
    """Return bounds on the greatest probability of failing under the permitted options, exact where possible."""
    sub = induce_permitted(world, permitted)
    value = solve(sub.mdp, Reach(goal=sub.fail), exact=sub.mdp.is_exact, budget=budget)
    return value.lower, value.upper, value.exact


def worth_of_options(world: World, values: Float64s) -> Float64s:
    """Return for each option its greatest expectation of `values` after one step."""
    return np.asarray(np.maximum.reduceat(world.mdp.expected(values), world.option_choice[:-1].astype(np.int64)))


def find_goal_seeds(
    world: World, bound: Fraction, cost: Float64s | None = None, *, most: int = 3, budget: Budget = UNLIMITED
) -> list[Mask]:
    """Return deterministic schedulers (masks of options) that surely end and fail at most with `bound`, cheapest first.

    Failing is priced ever higher until the cheapest scheduler is safe (a Lagrangian relaxation); none is found where
    only the risk counts, or where no scheduler reaches goal or fail almost surely.
    """
    if not world.is_plain or not world.goal.any():
        return []
    mdp = world.mdp
    effort = np.ones(mdp.choices) if cost is None else cost
    immediate = mdp.expected(world.fail)
    seeds: list[Mask] = []
    scale = max(1.0, float(effort.max(initial=0.0)))
    for penalty in (scale * p for p in PENALTIES):
        permitted = cheapest_scheduler(world, effort + penalty * immediate, budget)
        if permitted is None or budget.is_over():
            return seeds
        _, upper, exact = risk_of(world, permitted, budget)
        if (exact if exact is not None else upper) <= bound and not any((permitted == one).all() for one in seeds):
            seeds.append(permitted)
            if len(seeds) >= most:
                break
    return seeds


def cheapest_scheduler(world: World, cost: Float64s, budget: Budget = UNLIMITED) -> Mask | None:
    """Return the options of a scheduler of least expected cost until goal or fail; None where that is infinite."""
    mdp = replace(world.mdp, rewards={STEPS: cost}, exact_rewards={})
    value = solve(mdp, Reward(STEPS, world.goal | world.fail, minimise=True), budget=budget)
    if value.upper == np.inf or value.scheduler is None:
        return None
    chosen: NDArray[np.bool_] = (value.scheduler != NONE) & ~world.ended
    return mask_of((world.option_start[:-1].astype(np.int64) + value.scheduler)[chosen], world.options)


def expected_visits(world: World, permitted: Mask, budget: Budget = UNLIMITED) -> Float64s:
    """Return about how often a run visits each state where permitted options are taken with equal chance.

    A guide for orders, not a bound: the sum over the steps is cut off.
    """
    sub = induce_permitted(world, permitted)
    mdp = sub.mdp
    counts = np.diff(mdp.choice_start).astype(np.int64)
    sources = np.repeat(mdp.owners(), np.diff(mdp.branch_start).astype(np.int64))
    flow = mdp.probability / np.maximum(1, counts)[sources]
    now = np.zeros(mdp.states)
    now[mdp.initial] = 1.0
    visits = now.copy()
    for _ in range(min(VISIT_STEPS, VISIT_WORK // max(1, mdp.branches))):
        now = np.bincount(mdp.target, weights=flow * now[sources], minlength=mdp.states).astype(np.float64)
        if now.sum() < VISIT_REST or budget.is_over():
            break
        visits += now
    of_world = np.zeros(world.mdp.states)
    of_world[sub.states] = visits
    return of_world
