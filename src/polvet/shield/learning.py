"""Safety-constrained learning: costs are unknown until visited, and only safe permissive schedulers are deployed.

Source   Junges, Jansen, Dehnert, Topcu & Katoen, Safety-Constrained Reinforcement Learning for MDPs, TACAS 2016,
         Figure 4. Step 1 is `_next_permissive`, step 2 `Experience.explore` (Q-learning, section 4.2, or another learner)
         and `_best_inside`, step 3 `_lower_bounds`, step 4 the tests at the end of the loop in `learn`.
Differs  the lower bound counts safe schedulers only (`occupation`; the paper's unconstrained one is reported beside it);
         the scheduler that attains it, randomised in one state, is deployed as a permissive scheduler of its own
         (one distribution per state, end of section 4.1). For deterministic schedulers alone (randomised=False) the
         search of `deterministic` gives the lower bound, the seed of the next permissive scheduler, and, with ever
         more nodes once the loop stalls, the proof. Costs that were not visited count as their lower bound,
         so this optimism ends exactly when the optimum is proved.
Cost     each round visits at least one new choice or is the last: at most as many rounds as choices.
Limits   one start state, one operator per label. Runs end in fail states: a failed run costs what it cost until then, unless
         the experience is that of `to_goal`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.mdp import Reward, solve
from polvet.mdp.sparse import Float64s, Mask, mask_of
from polvet.shield.deterministic import find_deterministic
from polvet.shield.experience import Experience, Simulated
from polvet.shield.game import NONE
from polvet.shield.least_risk import find_goal_seeds, find_least_risk
from polvet.shield.occupation import Occupation, Randomised, evaluate_randomised, propose_occupation, prove_lower_bound
from polvet.shield.permissive import Impossible, Permitted, permit
from polvet.shield.world import COST, World, induce_permitted, reached_options

if TYPE_CHECKING:
    from polvet.shield.deployment import Promise

FEW_NODES = 60
PERMIT_SHARE = 0.5  # of the time that is left, for one permissive scheduler
SEARCH_SHARE = 0.15  # of the time that is left, for one search for the deterministic optimum


@dataclass(frozen=True, slots=True)
class Round:
    """One iteration: what was known afterwards."""

    seconds: float
    permitted: int
    visited: int  # choices that were taken
    unconstrained: float  # the paper's lower bound
    lower: float
    upper_deterministic: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """The best safe scheduler so far, and how good any safe scheduler could be."""

    lower: float
    upper: float
    reason: str  # why the loop stopped
    rounds: tuple[Round, ...]
    deterministic: Mask | None  # options of the best deterministic scheduler
    randomised: Randomised | None
    permissive: Permitted | None  # the last one deployed, or one that holds the best deterministic scheduler
    optimal: bool = field(default=False)
    experience: Experience | None = None  # what is known of costs and options after the last round


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """When to stop, and how long each deployment is."""

    iterations: int = 50
    episodes: int = 20_000
    alone: int = 500  # episodes of one scheduler that optimism prefers, at most
    longest: int = 1_000
    explore: float = 0.3
    gap: float = 1e-6
    kappa: float | None = None  # good enough
    randomised: bool = True
    attempts: int = 1
    nodes: int = 2_000  # how far the search for the deterministic optimum may go, once nothing else is new


def learn(
    world: World,
    bound: Fraction,
    *,
    options: LearningOptions | None = None,
    inside: Mask | None = None,
    experience: Experience | None = None,
    rng: random.Random | None = None,
    budget: Budget = UNLIMITED,
    on_round: Callable[[Round], None] | None = None,
) -> Learned | Impossible:
    """Return a safe scheduler of least expected cost, learning the costs by visiting.

    They are what the `experience` tells; without one, the reward `cost` of the world, each promised to be at most the greatest of them.
    `inside` fixes the permissive scheduler (a given shield) instead of computing one per iteration.
    """
    how = options or LearningOptions()
    if (lost := lost_at_once(world, bound)) is not None:
        return lost
    check_world(world)
    chance = rng or random.Random(0)
    spent = stopwatch()
    if experience is None:
        experience = Simulated(world, *promised(world, 0.0, None), chance, explore=how.explore, budget=budget)
    careful = find_least_risk(world, budget.share(SEARCH_SHARE)).option
    rounds: list[Round] = []
    deployed: list[Mask] = []
    best_mask: Mask | None = None
    best_random: Randomised | None = None
    hopeful: Mask | None = None  # the cheapest safe deterministic scheduler if unknown costs are as low as they may be
    upper = upper_deterministic = math.inf
    lower = 0.0
    nodes = FEW_NODES
    last: Permitted | None = None
    learned = -1  # how much was known a round ago
    alone = min(how.episodes, how.alone)
    reason = f"iteration limit of {how.iterations} reached"
    for _ in range(how.iterations):
        if budget.is_over():
            reason = str(budget.reached("time"))
            break
        permitted = inside
        if inside is None:
            try:
                deployable = _next_permissive(
                    world,
                    bound,
                    experience,
                    deployed,
                    seeds=[] if hopeful is None else [hopeful],
                    attempts=how.attempts,
                    rng=chance,
                    budget=budget,
                )
            except LimitReached as limit:
                reason = str(limit)
                break
            if isinstance(deployable, Impossible):
                return deployable
            last = deployable
            permitted = deployable.permitted
        assert permitted is not None
        deployed.append(permitted)
        experience.explore(permitted, how.episodes, how.longest)
        if hopeful is not None:
            experience.follow(hopeful.astype(np.float64), alone, how.longest)
        # The scheduler that optimism prefers is safe by itself: it is deployed as well, and may show new costs.
        hoped, _ = experience.bounds()
        proposal = propose_occupation(world, hoped, bound, budget)
        if proposal is not None and how.randomised and inside is None:
            candidate = evaluate_randomised(world, hoped, proposal.visits, careful, bound, budget)
            if candidate is not None:
                experience.follow(candidate.weights, alone, how.longest)
        # SOUND: an upper bound may only use what was seen, or what is promised.
        hoped, paid = experience.bounds()
        for one in [permitted, *([hopeful] if hopeful is not None else [])]:
            mask, value = _best_inside(world, one, paid, budget)
            if value < upper_deterministic:
                upper_deterministic, best_mask = value, mask
        unconstrained, lower, proposal = _lower_bounds(world, hoped, bound, lower, budget)
        if proposal is not None and how.randomised and inside is None:
            mixed = evaluate_randomised(world, paid, proposal.visits, careful, bound, budget)
            if mixed is not None and mixed.cost < min(upper, upper_deterministic):
                best_random = mixed
        if not how.randomised and inside is None and not _agree(lower, upper_deterministic, how.gap):
            searched = find_deterministic(
                world,
                hoped,
                bound,
                careful,
                gap=how.gap / 2,
                nodes=nodes,
                budget=budget.share(SEARCH_SHARE),
                known=[one for one in (best_mask, hopeful) if one is not None],
            )
            lower, hopeful = max(lower, searched.lower), searched.scheduler
        upper = min(upper, upper_deterministic, math.inf if best_random is None else best_random.cost)
        rounds.append(
            Round(
                spent(),
                int(permitted.sum()),
                int(experience.visited.sum()),
                unconstrained,
                lower,
                upper_deterministic,
                upper,
            )
        )
        if on_round is not None:
            on_round(rounds[-1])
        if _agree(lower, upper, how.gap):
            reason = "optimal: lower and upper bound agree"
            break
        if how.kappa is not None and upper <= how.kappa:
            reason = f"good enough: at most {how.kappa:g}"
            break
        if inside is not None:
            reason = "nothing new can be learned"
            break
        if how.randomised:
            if experience.known == learned and _is_old(permitted, deployed[:-1]):
                reason = "nothing new can be learned"
                break
            learned = experience.known
        elif _stalls(rounds):
            if nodes >= how.nodes:
                reason = f"nothing new can be learned; the deterministic optimum was searched for in {nodes:,} nodes"
                break
            nodes = min(how.nodes, 4 * nodes)  # look harder for a cheaper one, and for the proof
    if best_mask is not None and last is not None and (best_mask & ~last.permitted).any():
        try:
            wider = permit(world, bound, attempts=how.attempts, rng=chance, seeds=[best_mask], budget=budget)
            last = wider if isinstance(wider, Permitted) else last  # it holds the best deterministic scheduler
        except LimitReached:
            pass  # the last one deployed is a shield as well
    optimal = _agree(lower, upper, how.gap)
    return Learned(lower, upper, reason, tuple(rounds), best_mask, best_random, last, optimal, experience)


def _stalls(rounds: list[Round]) -> bool:
    """Return whether the last three rounds moved neither bound."""
    if len(rounds) < 3:
        return False
    old, new = rounds[-3], rounds[-1]
    return new.lower <= old.lower * (1 + 1e-9) and new.upper >= old.upper * (1 - 1e-9)


def _agree(lower: float, upper: float, gap: float) -> bool:
    return upper < math.inf and upper - lower <= gap * max(1.0, abs(upper))


def lost_at_once(world: World, bound: Fraction) -> Impossible | None:
    """Return that no scheduler keeps the bound where a start state fails already."""
    return Impossible(1.0, 1.0, Fraction(1)) if world.fail[world.mdp.initial].any() and bound < 1 else None


def check_world(world: World) -> None:
    """Raise InputError where nothing can be learned in the world."""
    if not world.is_plain:
        raise InputError("several operators share a label.", hint="Learning needs one operator per label and state.")
    if len(world.mdp.initial) != 1:
        raise InputError(f"there are {len(world.mdp.initial)} start states.", Where("--start"), "Learning needs one.")
    if world.ended[world.mdp.initial].any():
        raise InputError("the run ends in the start state.", Where("--start"), "Start where something is to be done.")
    if not world.goal.any():
        raise InputError("no goal state can be reached.", Where("--goal"), "Give a condition that some run satisfies.")


def promised(world: World, cost_lower: Promise, cost_upper: Promise | None) -> tuple[float, float]:
    """Return between what the model's costs lie; InputError where they do not."""
    if callable(cost_lower) or callable(cost_upper):
        raise InputError("a bound of the model's costs is one number.", Where("--cost-lower"), "Functions go with env.")
    if COST not in world.mdp.rewards:
        raise InputError("the model has no cost to learn.", Where("--cost"), "Name a reward variable.")
    costs = world.mdp.rewards[COST]
    most = float(costs.max(initial=0.0)) if cost_upper is None else cost_upper
    if not 0 <= cost_lower <= most < math.inf:
        raise InputError(
            f"the costs are said to lie between {cost_lower:g} and {most:g}.",
            Where("--cost-lower"),
            "Give 0 <= lower <= upper.",
        )
    outside = np.flatnonzero((costs < cost_lower) | (costs > most))
    if len(outside):
        raise InputError(
            f"a cost is {costs[outside[0]]:g}, outside [{cost_lower:g}, {most:g}].",
            Where("--cost-lower"),
            "Widen --cost-lower and --cost-upper.",
        )
    return cost_lower, most


def _next_permissive(
    world: World,
    bound: Fraction,
    experience: Experience,
    deployed: list[Mask],
    *,
    seeds: list[Mask],
    attempts: int,
    rng: random.Random,
    budget: Budget,
) -> Permitted | Impossible:
    """Return a safe permissive scheduler that is not part of an earlier one, where the search finds one.

    It holds the cheapest safe deterministic scheduler under the hoped-for costs; unknown choices are added first.
    """
    hoped, _ = experience.bounds()
    seeds = seeds + find_goal_seeds(world, bound, hoped, budget=budget.share(SEARCH_SHARE))
    scheduler: Permitted | Impossible | None = None
    for attempt in range(3):
        noise = np.random.default_rng(rng.getrandbits(64)).random(world.options)
        priority = noise + np.where(experience.visited, 1.0, 0.0)
        chosen = seeds if attempt == 0 else seeds[attempt % len(seeds) :] if seeds else seeds
        scheduler = permit(
            world,
            bound,
            attempts=attempts,
            rng=rng,
            seeds=chosen or None,
            priority=priority,
            budget=budget.share(PERMIT_SHARE),
        )
        if isinstance(scheduler, Impossible) or not _is_old(scheduler.permitted, deployed):
            return scheduler
    assert scheduler is not None
    return scheduler


def _is_old(permitted: Mask, deployed: list[Mask]) -> bool:
    """Return whether an earlier permissive scheduler already held every option of this one."""
    return any(not (permitted & ~one).any() for one in deployed)


def _best_inside(world: World, permitted: Mask, paid: Float64s, budget: Budget) -> tuple[Mask | None, float]:
    """Return the cheapest compliant scheduler and a proved upper bound on its cost, infinite where none surely ends."""
    sub = induce_permitted(world, permitted)
    ended = sub.goal | sub.fail
    mdp = replace(sub.mdp, rewards={COST: paid[sub.choices]}, exact_rewards={})
    value = solve(mdp, Reward(COST, ended, minimise=True), relative_gap=1e-9, budget=budget)
    if value.upper == math.inf or value.scheduler is None:
        return None, math.inf
    chosen = (value.scheduler != NONE) & ~ended
    picked = (mdp.choice_start[:-1].astype(np.int64) + value.scheduler)[chosen]
    mask = mask_of(sub.choices[picked], world.options)  # options are choices in a plain world
    return reached_options(world, mask), value.upper


def _lower_bounds(
    world: World, hoped: Float64s, bound: Fraction, before: float, budget: Budget
) -> tuple[float, float, Occupation | None]:
    """Return the paper's lower bound, the best proved one, and the program's occupation measure."""
    unconstrained = prove_lower_bound(world, hoped, bound, 0.0, budget=budget)
    proposal = propose_occupation(world, hoped, bound, budget)
    lower = max(before, unconstrained)
    if proposal is not None:
        lower = max(lower, prove_lower_bound(world, hoped, bound, proposal.price, budget=budget))
    return unconstrained, lower, proposal
