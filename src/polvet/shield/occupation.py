"""The least cost of any safe scheduler, from below: the constrained MDP as a linear program over occupation measures.

Source   Altman, Constrained Markov Decision Processes, 1999, chapter 8; in the paper this is the wish of section 5
         ("tighter lower bounds via multi-objective model checking").
Differs  HiGHS only proposes. The lower bound is proved by Lagrangian duality: for any price y >= 0 of failing, the least
         cost of a safe scheduler is at least (least expected cost + y * failing) - y * bound, and `mdp.solve` proves
         the first term. The scheduler that the program yields is evaluated by `mdp.solve`, too.
Limits   one start state; runs end in goal and fail states, so a failed run costs what it cost until then. No "fail was
         visited" bit is needed, because fail states are absorbing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.mdp import Reach, Reward, SparseMdp, solve
from polvet.mdp.sparse import Float64s, Mask, Uint32s
from polvet.shield.world import World, induce_permitted
from polvet.solvers.highs import GrowingLp

MARGIN = 1e-7
"""The program is asked to stay so much (relatively) below the bound, so that its answer can be proved safe."""
LOOSE = 1e-6
"""How far a proved bound may lie below the best one, relatively: sharper ones take exact arithmetic."""
PRICED = "cost and price of failing"


@dataclass(frozen=True, slots=True, eq=False)
class Occupation:
    """A proposal of the program: how often each choice is taken, and the price of failing at the optimum."""

    visits: Float64s
    price: float


@dataclass(frozen=True, slots=True, eq=False)
class Randomised:
    """A randomised scheduler, at most two options mixed in one state: the weight of each choice, proved risk and cost."""

    weights: Float64s
    risk: float
    cost: float


class OccupationProgram:
    """The program over the occupation measures of a world, kept in one solver: choices can be closed and opened again."""

    def __init__(self, world: World, cost: Float64s, bound: Fraction) -> None:
        mdp = world.mdp
        inner = np.flatnonzero(~world.ended)
        number = np.full(mdp.states, -1, dtype=np.int64)
        number[inner] = np.arange(len(inner))
        rows = len(inner) + 2  # the flow of each state; failing; getting stuck
        of_branch = np.repeat(np.arange(mdp.choices), np.diff(mdp.branch_start).astype(np.int64))
        stuck = world.ended & ~world.fail & ~world.goal
        into = number[mdp.target]
        parts = [
            (number[mdp.owners()], np.arange(mdp.choices), np.ones(mdp.choices)),
            (into[into >= 0], of_branch[into >= 0], -mdp.probability[into >= 0]),
            (np.full(mdp.choices, rows - 2), np.arange(mdp.choices), mdp.expected(world.fail)),
            (np.full(mdp.choices, rows - 1), np.arange(mdp.choices), mdp.expected(stuck)),
        ]
        row, column, entry = (np.concatenate([part[k] for part in parts]) for k in range(3))
        keys, place = np.unique(column * rows + row, return_inverse=True)
        sums = np.bincount(place, weights=entry)
        keep = np.abs(sums) > 1e-15
        keys, sums = keys[keep], sums[keep]
        lower, upper = np.zeros(rows), np.zeros(rows)
        lower[number[mdp.initial]] = upper[number[mdp.initial]] = 1.0
        lower[rows - 2], upper[rows - 2] = -math.inf, float(bound) * (1 - MARGIN)
        starts = np.searchsorted(keys // rows, np.arange(mdp.choices + 1)).astype(np.int32)
        self._program = GrowingLp.by_columns(
            cost, (lower, upper), (starts, (keys % rows).astype(np.int32), sums.astype(np.float64))
        )
        self._cost, self._risk_row = cost, rows - 2
        self._closed: frozenset[int] = frozenset()

    def optimum(self, closed: frozenset[int] = frozenset(), budget: Budget = UNLIMITED) -> Occupation | None:
        """Return an optimal occupation measure without the closed choices, or None where the program finds none."""
        for choices, most in ((self._closed - closed, math.inf), (closed - self._closed, 0.0)):
            columns = np.array(sorted(choices), dtype=np.int64)
            self._program.change_columns(columns, self._cost[columns], np.full(len(columns), most))
        self._closed = closed
        answer = self._program.solve(budget.left())
        if answer.status != "optimal":
            return None
        return Occupation(np.maximum(0.0, answer.values), max(0.0, -float(answer.duals[self._risk_row])))


def propose_occupation(world: World, cost: Float64s, bound: Fraction, budget: Budget = UNLIMITED) -> Occupation | None:
    """Return an optimal occupation measure of the constrained MDP, or None where the program finds none."""
    return OccupationProgram(world, cost, bound).optimum(budget=budget)


def prove_lower_bound(
    world: World,
    cost: Float64s,
    bound: Fraction,
    price: float,
    *,
    open_: Mask | None = None,
    budget: Budget = UNLIMITED,
) -> float:
    """Return a proved lower bound on the expected cost of every scheduler that fails with at most `bound`.

    `open_` leaves only some choices (of a plain world) to choose from.
    """
    mdp, fail, goal = world.mdp, world.fail, world.goal
    if open_ is not None:
        sub = induce_permitted(world, open_)
        mdp, fail, goal, cost = sub.mdp, sub.fail, sub.goal, cost[sub.choices]
    priced = np.nextafter(cost + price * mdp.expected(fail), 0.0)
    mdp = replace(mdp, rewards={PRICED: np.maximum(0.0, priced)}, exact_rewards={})
    value = solve(mdp, Reward(PRICED, goal | fail, minimise=True), relative_gap=LOOSE, budget=budget)
    if value.lower == math.inf:
        return math.inf
    # SOUND: the rounding of the rewards is covered by scaling down; every term is >= 0 and exact within 2^-50.
    relaxed = Fraction(value.lower) * (1 - Fraction(1, 2**40)) - Fraction(price) * bound
    return max(0.0, math.nextafter(float(relaxed), -math.inf))


def evaluate_randomised(
    world: World, cost: Float64s, visits: Float64s, fallback: Uint32s, bound: Fraction, budget: Budget = UNLIMITED
) -> Randomised | None:
    """Return the scheduler that takes choices as often as visited, where it is proved safe and ends surely."""
    mdp = world.mdp
    owners = mdp.owners()
    total = np.bincount(owners, weights=visits, minlength=mdp.states)
    weights = np.where(total[owners] > 1e-10, visits / np.maximum(total[owners], 1e-300), 0.0)
    weights[weights < 1e-9] = 0.0
    # States that are hardly ever met take their least risky option.
    idle = ~world.ended & (total <= 1e-10)
    weights[fallback[idle]] = 1.0
    chain, costs, fail, goal = _mix(world, weights, cost)
    if chain is None:
        return None
    risk = solve(chain, Reach(goal=fail), relative_gap=1e-10, budget=budget).upper
    if Fraction(risk) > bound:
        return None
    priced = replace(chain, rewards={PRICED: costs})
    spent = solve(priced, Reward(PRICED, goal | fail), relative_gap=1e-9, budget=budget).upper
    return None if spent == math.inf else Randomised(weights, risk, spent)


def _mix(world: World, weights: Float64s, cost: Float64s) -> tuple[SparseMdp | None, Float64s, Mask, Mask]:
    """Return the Markov chain of the randomised scheduler, its costs, and where it fails or arrives."""
    mdp = world.mdp
    nothing = np.zeros(0), world.fail, world.goal
    starts, branch_start, target = mdp.choice_start.tolist(), mdp.branch_start.tolist(), mdp.target.tolist()
    number = {int(s): k for k, s in enumerate(mdp.initial)}
    order = list(number)
    rows: list[list[list[tuple[int, Fraction]]]] = []
    spent: list[float] = []
    exact = mdp.exact_probabilities() if mdp.is_exact else [Fraction(p) for p in mdp.probability.tolist()]
    for state in order:
        if starts[state] == starts[state + 1]:
            rows.append([])
            continue
        share = {
            c: Fraction(float(weights[c])).limit_denominator(10**9) for c in range(starts[state], starts[state + 1])
        }
        share = {c: w for c, w in share.items() if w > 0}
        if not share:
            return None, *nothing
        whole = sum(share.values())
        row: dict[int, Fraction] = {}
        gain = Fraction(0)
        for choice, weight in share.items():
            gain += Fraction(float(cost[choice])) * weight / whole
            for b in range(branch_start[choice], branch_start[choice + 1]):
                if target[b] not in number:
                    number[target[b]] = len(order)
                    order.append(target[b])
                row[number[target[b]]] = row.get(number[target[b]], Fraction(0)) + exact[b] * weight / whole
        rows.append([sorted(row.items())])
        spent.append(float(gain))
    chain = SparseMdp.build(rows, initial=range(len(mdp.initial)))
    places: NDArray[np.int64] = np.array(order)
    return chain, np.array(spent), world.fail[places], world.goal[places]
