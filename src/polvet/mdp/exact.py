"""Exact rational values: a scheduler found in floating point, evaluated in fractions and improved to the optimum.

Source   Howard, Dynamic Programming and Markov Processes, 1960 (policy iteration); Bertsekas & Tsitsiklis, An
         Analysis of Stochastic Shortest
         Path Problems, MOR 16, 1991, for rewards.
Differs  the first scheduler comes from `solve`; only strictly better choices are taken, so schedulers keep reaching
         the goal; evaluation eliminates
         states within one component of the induced chain at a time, bottom up.
Cost     elimination is cubic in the size of a component in the worst case, on numbers that grow; meant for thousands
         of states.
Limits   bounds on reward are unfolded first (states times bound).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp.graph import connected_components, find_probability_one, find_probability_zero
from polvet.mdp.query import Always, CumulativeReward, Query, Reach, Reward
from polvet.mdp.solve import GOAL, GOES_ON, Value, integer_reward, solve, stops_of
from polvet.mdp.sparse import Mask, SparseMdp, Uint32s, mask_of

Row = list[tuple[int, Fraction]]


@dataclass(frozen=True, slots=True)
class _Chains:
    """The model as Python lists: the choices of each state that counts, each a row and a reward."""

    rows: dict[int, list[Row]]
    gains: dict[int, list[Fraction]]


def solve_exactly(mdp: SparseMdp, query: Query, value: Value | None = None, *, budget: Budget = UNLIMITED) -> Value:
    """Return `value` (computed if absent) with the exact answer in it, its bounds the doubles next to that."""
    if isinstance(query, Always):
        opposite = Reach(goal=~query.safe, minimise=not query.minimise, step_bound=query.step_bound)
        inner = solve_exactly(mdp, opposite, budget=budget)
        if inner.exact is None:
            return replace(value or inner, limit=inner.limit)
        return _with_exact(value or solve(mdp, query, budget=budget), 1 - inner.exact, inner.scheduler)
    if value is None:
        value = solve(mdp, query, budget=budget)
    try:
        match query:
            case Reach(step_bound=int(steps)):
                return _with_exact(value, _iterate_exactly(mdp, query, None, steps, budget), None)
            case CumulativeReward():
                return _with_exact(value, _iterate_exactly(mdp, query, query.reward, query.steps, budget), None)
            case Reach(reward_bound=(str(), int())) | Reach(reward_at_least=(str(), int())):
                unfolded, goal = unfold_reward(mdp, query, budget=budget)
                plain = Reach(goal=goal, minimise=query.minimise)
                inner = solve_exactly(unfolded, plain, solve(unfolded, plain, budget=budget), budget=budget)
                return (
                    replace(value, limit=inner.limit) if inner.exact is None else _with_exact(value, inner.exact, None)
                )
            case Reach() | Reward():
                return _improve(mdp, query, value, budget)
    except LimitReached as limit:
        return replace(value, limit=limit)
    raise TypeError(f"{query!r} is not a query")


def around(exact: Fraction) -> tuple[float, float]:
    """Return the nearest doubles that are not above and not below the fraction."""
    near = float(exact)
    lower = near if Fraction(near) <= exact else math.nextafter(near, -math.inf)
    upper = near if Fraction(near) >= exact else math.nextafter(near, math.inf)
    return lower, upper


def _with_exact(value: Value, exact: Fraction, scheduler: Uint32s | None) -> Value:
    lower, upper = around(exact)
    return replace(
        value,
        limit=None,
        exact=exact,
        lower=lower,
        upper=upper,
        scheduler=scheduler if scheduler is not None else value.scheduler,
        infinite=False,
    )


def _finite_states(mdp: SparseMdp, query: Reach | Reward) -> tuple[Mask, Mask]:
    """Return the states to solve numerically, and those known to be infinite (rewards only)."""
    nothing = np.zeros(mdp.states, dtype=np.bool_)
    if isinstance(query, Reward):
        finite = find_probability_one(mdp, query.goal, minimise=not query.minimise)
        return finite & ~query.goal, ~finite
    zero = find_probability_zero(mdp, query.goal, safe=query.safe, minimise=query.minimise)
    return ~zero & ~query.goal, nothing


def exact_values(
    mdp: SparseMdp, query: Reach | Reward, value: Value | None = None, *, budget: Budget = UNLIMITED
) -> list[Fraction | None]:
    """Return the exact optimum at every reachable state, None where it is infinite or no initial state leads."""
    worth, _, _ = _optimum(mdp, query, value or solve(mdp, query, budget=budget), budget)
    return [worth.get(s) for s in range(mdp.states)]


def _improve(mdp: SparseMdp, query: Reach | Reward, value: Value, budget: Budget) -> Value:
    worth, scheduler, infinite = _optimum(mdp, query, value, budget)
    starts = [int(s) for s in mdp.initial]
    finite = [worth[s] for s in starts if not infinite[s]]
    if not finite or (not query.minimise and len(finite) < len(starts)):
        return replace(value, infinite=True, lower=math.inf, upper=math.inf)
    return _with_exact(value, min(finite) if query.minimise else max(finite), scheduler)


def _optimum(
    mdp: SparseMdp, query: Reach | Reward, value: Value, budget: Budget
) -> tuple[dict[int, Fraction], Uint32s, Mask]:
    """Return the exact worth of every reachable state, a scheduler that attains it, and where it is infinite."""
    if value.scheduler is None:
        raise ValueError("exact evaluation starts from a scheduler")
    stop = stops_of(mdp, query)
    solvable, infinite = _finite_states(mdp, query)
    scope = _reachable(mdp, stop == GOES_ON)
    chains = _chains(mdp, query, scope & solvable, infinite)
    scheduler = value.scheduler.copy()
    known: dict[int, Fraction] = {int(s): Fraction(0) for s in np.flatnonzero(~solvable & ~infinite)}
    if isinstance(query, Reach):
        known.update((int(s), Fraction(1)) for s in np.flatnonzero(stop == GOAL))
    while True:
        worth = _evaluate(chains, scheduler, known, budget)
        budget.check()
        if not _switch(chains, scheduler, worth, minimise=query.minimise):
            # SOUND: no choice is strictly better, and the scheduler attains `worth`. Greatest probability: `worth` is
            # a pre-fixed point, so no scheduler is above. Least probability and greatest reward: one fixed point only
            # on `solvable`. Least reward: compare with the steps of a best scheduler, which reaches the goal.
            return worth, scheduler, infinite


def _reachable(mdp: SparseMdp, goes_on: Mask) -> Mask:
    """Return the states that initial states lead to without passing a stopped one."""
    seen = np.zeros(mdp.states, dtype=np.bool_)
    frontier = [int(s) for s in mdp.initial]
    seen[frontier] = True
    starts = mdp.branch_start[mdp.choice_start].tolist()
    while frontier:
        state = frontier.pop()
        if not goes_on[state]:
            continue
        for target in mdp.target[starts[state] : starts[state + 1]].tolist():
            if not seen[target]:
                seen[target] = True
                frontier.append(target)
    return seen


def _chains(mdp: SparseMdp, query: Reach | Reward, scope: Mask, infinite: Mask) -> _Chains:
    probabilities = mdp.exact_probabilities()
    reward = mdp.exact_reward(query.reward) if isinstance(query, Reward) else None
    choice_start, branch_start, target = mdp.choice_start.tolist(), mdp.branch_start.tolist(), mdp.target.tolist()
    rows: dict[int, list[Row]] = {}
    gains: dict[int, list[Fraction]] = {}
    for state in np.flatnonzero(scope).tolist():
        rows[state], gains[state] = [], []
        for choice in range(choice_start[state], choice_start[state + 1]):
            branches = range(branch_start[choice], branch_start[choice + 1])
            # An empty row marks a choice that is infinitely bad: it may leave where the goal is reached almost surely.
            row = (
                [] if any(infinite[target[b]] for b in branches) else [(target[b], probabilities[b]) for b in branches]
            )
            rows[state].append(row)
            gains[state].append(Fraction(0) if reward is None else reward[choice])
    return _Chains(rows, gains)


def _evaluate(chains: _Chains, scheduler: Uint32s, known: dict[int, Fraction], budget: Budget) -> dict[int, Fraction]:
    """Return the exact worth of the scheduler in every state of the chains."""
    states = list(chains.rows)
    number = {state: i for i, state in enumerate(states)}
    chosen = [chains.rows[state][int(scheduler[state])] for state in states]
    skeleton = SparseMdp.build([[[(number[t], 1.0) for t, _ in row if t in number]] for row in chosen])
    count, component = connected_components(replace(skeleton, initial=np.zeros(0, dtype=np.uint32)))
    members: list[list[int]] = [[] for _ in range(count)]
    for i, c in enumerate(component.tolist()):
        members[c].append(i)
    worth = dict(known)
    for group in members:
        budget.check()
        _eliminate([states[i] for i in group], [chosen[i] for i in group], chains, scheduler, worth, budget)
    return worth


def _eliminate(
    group: Sequence[int],
    rows: Sequence[Row],
    chains: _Chains,
    scheduler: Uint32s,
    worth: dict[int, Fraction],
    budget: Budget,
) -> None:
    """Solve x = gain + P x on one component by eliminating one state after the other; the outside is known."""
    inside = set(group)
    equations: dict[int, dict[int, Fraction]] = {}
    constants: dict[int, Fraction] = {}
    for state, row in zip(group, rows, strict=True):
        constant = chains.gains[state][int(scheduler[state])]
        equation: dict[int, Fraction] = {}
        for target, p in row:
            if target in inside:
                equation[target] = equation.get(target, Fraction(0)) + p
            else:
                constant += p * worth[target]
        equations[state], constants[state] = equation, constant
    users: dict[int, set[int]] = {state: set() for state in group}
    for state, equation in equations.items():
        for target in equation:
            users[target].add(state)
    # Fewest new entries first, as the products are now; stale heap entries are skipped.
    heap = [(len(equations[s]) * len(users[s]), s) for s in group]
    heapify(heap)
    order: list[int] = []
    while heap:
        cost, state = heappop(heap)
        if state not in users:
            continue
        if cost < len(equations[state]) * len(users[state]):
            heappush(heap, (len(equations[state]) * len(users[state]), state))
            continue
        order.append(state)
        budget.check()
        equation = equations[state]
        stay = equation.pop(state, Fraction(0))
        if stay == 1:
            raise ValueError(f"the scheduler stays for ever in state {state}")
        if stay:
            factor = 1 / (1 - stay)
            constants[state] *= factor
            for target in equation:
                equation[target] *= factor
        for user in users.pop(state):
            if user == state or user in worth or state not in equations[user]:
                continue
            weight = equations[user].pop(state)
            constants[user] += weight * constants[state]
            for target, p in equation.items():
                equations[user][target] = equations[user].get(target, Fraction(0)) + weight * p
                users[target].add(user)
        for target in equation:
            if target in users:
                users[target].discard(state)
    for state in reversed(order):
        worth[state] = constants[state] + sum((p * worth[t] for t, p in equations[state].items()), Fraction(0))


def _switch(chains: _Chains, scheduler: Uint32s, worth: dict[int, Fraction], *, minimise: bool) -> bool:
    """Move every state to its best choice where that is strictly better; return whether any moved."""
    moved = False
    for state, rows in chains.rows.items():
        best = worth[state]
        for number, row in enumerate(rows):
            if not row:
                continue
            offer = chains.gains[state][number] + sum((p * worth[t] for t, p in row), Fraction(0))
            if offer < best if minimise else offer > best:
                best, moved = offer, True
                scheduler[state] = number
    return moved


def _iterate_exactly(
    mdp: SparseMdp, query: Reach | CumulativeReward, reward_name: str | None, steps: int, budget: Budget
) -> Fraction:
    """Return the exact value after so many steps of value iteration."""
    stop = stops_of(mdp, query).tolist()
    probabilities = mdp.exact_probabilities()
    reward = [Fraction(0)] * mdp.choices if reward_name is None else mdp.exact_reward(reward_name)
    choice_start, branch_start, target = mdp.choice_start.tolist(), mdp.branch_start.tolist(), mdp.target.tolist()
    pick = min if query.minimise else max
    now = [Fraction(int(reward_name is None and s == GOAL)) for s in stop]
    for _ in range(steps):
        budget.check()
        new = now.copy()
        for state in range(mdp.states):
            if stop[state] == GOES_ON and choice_start[state] < choice_start[state + 1]:
                new[state] = pick(
                    reward[c]
                    + sum(
                        (probabilities[b] * now[target[b]] for b in range(branch_start[c], branch_start[c + 1])),
                        Fraction(0),
                    )
                    for c in range(choice_start[state], choice_start[state + 1])
                )
        if new == now:
            break
        now = new
    return pick(now[int(s)] for s in mdp.initial)


def unfold_reward(mdp: SparseMdp, query: Reach, *, budget: Budget = UNLIMITED) -> tuple[SparseMdp, Mask]:
    """Return the MDP over (state, reward left) and its goal states: a reward bound becomes plain reachability.

    "Left" is what may still be spent (at most) or must still be earned (at least).
    """
    at_least = query.reward_bound is None
    bounded = query.reward_at_least if at_least else query.reward_bound
    if bounded is None:
        raise ValueError("the query has no bound on reward")
    name, bound = bounded
    amount = integer_reward(mdp, name).tolist()
    stop = stops_of(mdp, query).tolist()
    safe = [True] * mdp.states if query.safe is None else query.safe.tolist()
    probabilities = mdp.exact_probabilities()
    choice_start, branch_start, target = mdp.choice_start.tolist(), mdp.branch_start.tolist(), mdp.target.tolist()
    number: dict[tuple[int, int], int] = {}
    todo: list[tuple[int, int]] = []

    def visit(state: int, left: int) -> int:
        if (state, left) not in number:
            number[state, left] = len(number)
            todo.append((state, left))
        return number[state, left]

    def ends(state: int, left: int) -> bool:
        return not safe[state] if at_least and left > 0 else stop[state] != GOES_ON

    spent = -1  # the one state where the bound is exceeded
    initial = [visit(int(s), bound) for s in mdp.initial]
    choices: dict[int, list[list[tuple[int, Fraction]]]] = {}
    goal: list[int] = []
    while todo:
        budget.check()
        state, left = todo.pop()
        here = number[state, left]
        choices[here] = []
        if state == spent or ends(state, left):
            if state != spent and stop[state] == GOAL and not (at_least and left > 0):
                goal.append(here)
            continue
        for c in range(choice_start[state], choice_start[state + 1]):
            if amount[c] > left and not at_least:
                choices[here].append([(visit(spent, 0), Fraction(1))])
                continue
            rest = max(0, left - amount[c])
            branches = range(branch_start[c], branch_start[c + 1])
            choices[here].append([(visit(target[b], rest), probabilities[b]) for b in branches])
    return SparseMdp.build([choices[i] for i in range(len(number))], initial=initial), mask_of(goal, len(number))
