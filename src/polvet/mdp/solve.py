"""One door to all answers about an MDP: `solve` gives proved lower and upper bounds, and an optimal scheduler.

Source   see the heads of `src/_core/mdp/topological.cpp` (components, end components), `mdp/iterate.cpp` (optimistic
         value iteration) and
         `mdp/bounded.cpp` (steps, reward levels); `exact.py` for exact rational values.
Differs  "always" is one minus "finally not"; where that loses relative precision the complement is solved again with
         a finer gap.
Cost     see there. Memory: 16 bytes per state for the values beside the kernels' own.
Limits   rewards must not be negative; bounds on reward need integer rewards. A time limit ends in trivial or partial,
         but sound bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import polvet._core as _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, did_you_mean
from polvet.mdp.query import Always, CumulativeReward, Query, Reach, Reward
from polvet.mdp.sparse import Float64s, Mask, SparseMdp, Uint32s

GOES_ON, GOAL, LOST = np.uint8(0), np.uint8(1), np.uint8(2)
FINEST_GAP = 1e-13
SMALL = 2000  # up to so many states exact arithmetic takes over where double precision does not reach the gap


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Bounds of the answer: the best of the initial states, and per state (trivial where no initial state leads).

    `scheduler[s]` is a choice number inside state s (0xFFFFFFFF: none); the scheduler attains the bound on the
    optimiser's side.
    `limit` names the limit that was reached, else None; then the bounds still hold but may be wide.
    """

    lower: float
    upper: float
    infinite: bool
    lowers: Float64s
    uppers: Float64s
    scheduler: Uint32s | None
    exact: Fraction | None = None
    sweeps: int = 0
    components: int = 0
    largest_component: int = 0
    limit: LimitReached | None = None

    @property
    def relative_gap(self) -> float:
        """How far the bounds are apart, relative to the lower one (0 where they agree)."""
        return relative_gap(self.lower, self.upper)


def relative_gap(lower: float, upper: float) -> float:
    """Return how far bounds are apart, relative to the lower one (0 where they agree)."""
    if lower == upper:
        return 0.0
    return (upper - lower) / lower if lower > 0 else math.inf


def is_late(value: Value) -> bool:
    """Return whether the bounds are wide because time was up."""
    return value.limit is not None and value.limit.kind == "time"


def imprecise(gap: float) -> LimitReached:
    """Return the limit that doubles are."""
    return LimitReached(f"double precision: the gap of {gap:g} was not reached")


def solve(
    mdp: SparseMdp, query: Query, *, relative_gap: float = 1e-6, exact: bool = False, budget: Budget = UNLIMITED
) -> Value:
    """Return proved bounds for `query`, at most `relative_gap` apart unless `limit` says why not.

    >>> from fractions import Fraction
    >>> walk = SparseMdp.build([[[(0, Fraction(1, 3)), (1, Fraction(1, 3)), (2, Fraction(1, 3))]], [], []])
    >>> value = solve(walk, Reach(goal=np.array([False, True, False])), exact=True)
    >>> value.exact, value.lower <= 0.5 <= value.upper
    (Fraction(1, 2), True)
    """
    if not 0 < relative_gap < 1:
        raise InputError(f"the relative gap is {relative_gap!r}.", hint="It must lie between 0 and 1.")
    value = _solve_with_bounds(mdp, query, relative_gap, budget)
    small = mdp.is_exact and mdp.states <= SMALL
    if not exact and not (small and value.limit is not None and value.limit.kind is None):
        return value
    if is_late(value):
        return value
    from polvet.mdp.exact import solve_exactly

    return solve_exactly(mdp, query, value, budget=budget)


def _solve_with_bounds(mdp: SparseMdp, query: Query, gap: float, budget: Budget) -> Value:
    if (
        isinstance(query, Reach)
        and sum(b is not None for b in (query.step_bound, query.reward_bound, query.reward_at_least)) > 1
    ):
        raise InputError(
            "the question has several bounds.", hint="Give one: steps, reward at most, or reward at least."
        )
    match query:
        case Always():
            return _solve_always(mdp, query, gap, budget)
        case Reach(step_bound=int(steps)):
            return _solve_steps(mdp, query, None, steps, budget)
        case CumulativeReward():
            return _solve_steps(mdp, query, reward_of(mdp, query.reward), query.steps, budget)
        case Reach(reward_bound=(name, bound)):
            return _solve_reward_bounded(mdp, query, name, bound, gap, budget, at_least=False)
        case Reach(reward_at_least=(name, bound)):
            return _solve_reward_bounded(mdp, query, name, bound, gap, budget, at_least=True)
        case Reach() | Reward():
            return _solve_unbounded(mdp, query, gap, budget)
    raise TypeError(f"{query!r} is not a query")


def reward_of(mdp: SparseMdp, name: str) -> Float64s:
    """Return the named reward per choice; raise an InputError where there is none or one is negative."""
    if name not in mdp.rewards:
        raise InputError(
            f"there is no reward '{name}'.",
            hint=did_you_mean(name, mdp.rewards) or f"Known: {', '.join(mdp.rewards) or 'none'}.",
        )
    values = np.ascontiguousarray(mdp.rewards[name], dtype=np.float64)
    if len(values) and values.min() < 0:
        raise InputError(
            f"the reward {name[:80]} is {values.min():.6g} in some state.",
            hint="Negative rewards are not supported.",
        )
    return values


def stops_of(mdp: SparseMdp, query: Reach | Reward | CumulativeReward) -> NDArray[np.uint8]:
    """Return where runs end: 1 at the goal, 2 where `safe` is left before it, 0 elsewhere."""
    stop = np.zeros(mdp.states, dtype=np.uint8)
    if isinstance(query, Reach) and query.safe is not None:
        stop[~_mask(mdp, query.safe, "safe")] = LOST
    if query.goal is not None:
        stop[_mask(mdp, query.goal, "goal")] = GOAL
    return stop


def _mask(mdp: SparseMdp, mask: Mask, name: str) -> Mask:
    if mask.dtype != np.bool_ or mask.shape != (mdp.states,):
        raise InputError(
            f"the mask '{name}' has type {mask.dtype} and shape {mask.shape}.",
            hint=f"It must be bool of shape ({mdp.states},).",
        )
    return mask


def _solve_unbounded(mdp: SparseMdp, query: Reach | Reward, gap: float, budget: Budget) -> Value:
    reward = reward_of(mdp, query.reward) if isinstance(query, Reward) else None
    stop, model = stops_of(mdp, query), mdp.core()
    wanted = gap
    while True:
        value = np.empty((mdp.states, 2))
        value[:, 0], value[:, 1] = 0.0, math.inf if reward is not None else 1.0
        choice = np.full(mdp.states, 0xFFFFFFFF, dtype=np.uint32)
        figures = _core.mdp_solve(
            model, stop, reward, not query.minimise, wanted, mdp.initial, value, choice, budget.left()
        )
        answer = _answer(mdp, value, query.minimise, choice, figures, budget)
        if answer.relative_gap <= gap or answer.limit is not None or answer.upper < 1e-290:
            return answer
        if wanted <= FINEST_GAP or figures["unsolved"]:
            return replace(answer, limit=imprecise(gap))
        wanted = max(wanted / 64, FINEST_GAP)


def _answer(
    mdp: SparseMdp,
    value: Float64s,
    minimise: bool,
    choice: Uint32s | None,
    figures: dict[str, int],
    budget: Budget,
) -> Value:
    lowers, uppers = value[:, 0], value[:, 1]
    pick = np.min if minimise else np.max
    lower, upper = float(pick(lowers[mdp.initial])), float(pick(uppers[mdp.initial]))
    limit = budget.reached("time") if figures.get("limit") and lower != upper else None
    return Value(
        lower=lower,
        upper=upper,
        infinite=lower == math.inf,
        lowers=lowers,
        uppers=uppers,
        scheduler=choice,
        sweeps=int(figures.get("sweeps", 0)),
        components=int(figures.get("components", 0)),
        largest_component=int(figures.get("largest", 0)),
        limit=limit,
    )


def _solve_steps(
    mdp: SparseMdp, query: Reach | CumulativeReward, reward: Float64s | None, steps: int, budget: Budget
) -> Value:
    if steps < 0:
        raise InputError(f"the step bound is {steps}.", hint="It must not be negative.")
    stop = stops_of(mdp, query)
    value = np.zeros((mdp.states, 2))
    if reward is None:
        value[stop == GOAL] = 1.0
    done = _core.mdp_steps(mdp.core(), stop, reward, not query.minimise, steps, value, budget.left())
    if done < steps:
        # SOUND: fewer steps give a lower bound only, for both probabilities and rewards that are not negative.
        value[:, 1] = (
            np.where(stop == LOST, 0.0, 1.0)
            if reward is None
            else float(steps) * (1 + 1e-9) * float(reward.max(initial=0.0))
        )
    return _answer(mdp, value, query.minimise, None, {"limit": done < steps, "sweeps": done}, budget)


def _solve_reward_bounded(
    mdp: SparseMdp, query: Reach, name: str, bound: int, gap: float, budget: Budget, *, at_least: bool
) -> Value:
    amount = integer_reward(mdp, name)
    if bound < 0:
        raise InputError(f"the bound on reward '{name}' is {bound}.", hint="It must not be negative.")
    value = np.zeros((mdp.states, 2))
    value[:, 1] = 1.0
    stop = above = stops_of(mdp, query)
    if at_least:
        above = np.zeros_like(stop) if query.safe is None else np.where(query.safe, GOES_ON, LOST)
    figures = _core.mdp_reward_bounded(
        mdp.core(), stop, above, amount, not query.minimise, bound, at_least, gap, value, budget.left()
    )
    return _answer(mdp, value, query.minimise, None, figures, budget)


def integer_reward(mdp: SparseMdp, name: str) -> Uint32s:
    """Return the named reward as integers; raise an InputError where one is not an integer below 2^32."""
    values = reward_of(mdp, name)
    whole = values == np.floor(values)
    if not whole.all() or values.max(initial=0.0) >= 2**32:
        place = int(np.flatnonzero(~whole)[0]) if not whole.all() else int(values.argmax())
        raise InputError(
            f"the reward {name[:80]} is {values[place]:.17g} in some state.",
            hint="A bound on reward needs integer rewards below 2^32.",
        )
    return values.astype(np.uint32)


def _solve_always(mdp: SparseMdp, query: Always, gap: float, budget: Budget) -> Value:
    wanted = gap
    while True:
        opposite = Reach(goal=~_mask(mdp, query.safe, "safe"), minimise=not query.minimise, step_bound=query.step_bound)
        value = _solve_with_bounds(mdp, opposite, wanted, budget)
        # SOUND: 1 - x rounds to nearest, so the result is moved one double outward (unless it is exact: 0 and 1 are).
        lowers, uppers = _complement(value.uppers, -math.inf), _complement(value.lowers, math.inf)
        answer = replace(
            value,
            lower=float(_complement(np.array(value.upper), -math.inf)),
            upper=float(_complement(np.array(value.lower), math.inf)),
            lowers=lowers,
            uppers=uppers,
        )
        if answer.relative_gap <= gap or query.step_bound is not None or is_late(value):
            return replace(answer, limit=None if answer.relative_gap <= gap else value.limit)
        if wanted <= FINEST_GAP or value.limit is not None:
            return replace(answer, limit=imprecise(gap))
        wanted = max(wanted / 256, FINEST_GAP)


def _complement(x: Float64s, direction: float) -> Float64s:
    result = 1.0 - x
    moved = np.clip(np.nextafter(result, direction), 0.0, 1.0)
    return np.where((x == 0.0) | (x == 1.0), result, moved)
