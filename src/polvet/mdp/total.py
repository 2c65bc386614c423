"""Expected total reward over the whole run, without a goal to stop at.

Maximum   infinite where an end component with a positive reward can be reached. Otherwise end components earn nothing: each
          is made one state that may also stop for good, and then every scheduler stops almost surely.
Minimum   a run may stay for ever, at no cost, in an end component of reward 0 (or a deadlock): those states may stop.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.mdp.graph import end_components, find_probability_zero
from polvet.mdp.query import Reward
from polvet.mdp.solve import Value, solve
from polvet.mdp.sparse import Mask, SparseMdp, Uint32s, mask_of


def total_reward(
    mdp: SparseMdp, name: str, *, minimise: bool, gap: float, exact: bool, budget: Budget = UNLIMITED
) -> Value:
    """Return bounds on the least or greatest expected total reward."""
    reward = mdp.rewards[name]
    free = reward == 0
    if minimise:
        places = end_components(mdp, allowed=free)
        return _solve_stopping(
            mdp, name, places.component, places.choices, minimise=True, gap=gap, exact=exact, budget=budget
        )
    everything = end_components(mdp)
    earning = everything.choices & ~free
    endless = mask_of(mdp.owners()[earning], mdp.states)
    if endless.any():
        infinite = ~find_probability_zero(mdp, endless)
        if infinite[mdp.initial].any():
            lowers = np.where(infinite, np.inf, 0.0)
            uppers = np.full(mdp.states, np.inf)
            return Value(np.inf, np.inf, True, lowers, uppers, None)
        return total_reward(_without(mdp, infinite), name, minimise=False, gap=gap, exact=exact, budget=budget)
    return _solve_stopping(
        mdp, name, everything.component, everything.choices, minimise=False, gap=gap, exact=exact, budget=budget
    )


def _without(mdp: SparseMdp, lost: Mask) -> SparseMdp:
    """The MDP in which lost states, which no initial state reaches, are deadlocks."""
    rows, rewards = _rows(mdp), {name: list(mdp.exact_reward(name)) for name in mdp.rewards}
    kept: dict[str, list[Fraction]] = {name: [] for name in rewards}
    result = []
    for state, choices in enumerate(rows):
        result.append([] if lost[state] else choices)
        if not lost[state]:
            begin, end = int(mdp.choice_start[state]), int(mdp.choice_start[state + 1])
            for name, values in rewards.items():
                kept[name] += values[begin:end]
    return SparseMdp.build(result, initial=mdp.initial.tolist(), rewards=kept)


def _rows(mdp: SparseMdp) -> list[list[list[tuple[int, Fraction | float]]]]:
    chances: list[Fraction | float] = (
        list(mdp.exact_probabilities()) if mdp.is_exact else [float(p) for p in mdp.probability]
    )
    starts, targets = mdp.branch_start.tolist(), mdp.target.tolist()
    return [
        [
            [(targets[b], chances[b]) for b in range(starts[c], starts[c + 1])]
            for c in range(int(mdp.choice_start[s]), int(mdp.choice_start[s + 1]))
        ]
        for s in range(mdp.states)
    ]


def _solve_stopping(
    mdp: SparseMdp,
    name: str,
    component: Uint32s,
    inner: Mask,
    *,
    minimise: bool,
    gap: float,
    exact: bool,
    budget: Budget,
) -> Value:
    """Solve the MDP whose end components are single states that may stop."""
    size = int(component.max()) + 1 if len(component) else 0
    none = np.iinfo(np.uint32).max
    members = component != none
    fresh: dict[int, int] = {}
    number = np.zeros(mdp.states, dtype=np.int64)
    for state in range(mdp.states):
        key = int(component[state]) if members[state] else size + state
        number[state] = fresh.setdefault(key, len(fresh))
    stop = len(fresh)
    rows: list[list[list[tuple[int, Fraction | float]]]] = [[] for _ in range(stop + 1)]
    gains: list[list[Fraction]] = [[] for _ in range(stop + 1)]
    exact_gain = mdp.exact_reward(name)
    for state, choices in enumerate(_rows(mdp)):
        place = int(number[state])
        for offset, branches in enumerate(choices):
            choice = int(mdp.choice_start[state]) + offset
            if inner[choice]:
                continue
            merged: dict[int, Fraction | float] = {}
            for target, chance in branches:
                merged[int(number[target])] = merged.get(int(number[target]), 0) + chance
            rows[place].append(sorted(merged.items()))
            gains[place].append(Fraction(exact_gain[choice]))
        if (members[state] or not choices) and not any(row == [(stop, Fraction(1))] for row in rows[place]):
            rows[place].append([(stop, Fraction(1))])
            gains[place].append(Fraction(0))
    flat = [gain for place in gains for gain in place]
    initial = sorted({int(number[state]) for state in mdp.initial})
    smaller = SparseMdp.build(rows, initial=initial, rewards={name: flat})
    value = solve(
        smaller, Reward(name, mask_of(stop, stop + 1), minimise), relative_gap=gap, exact=exact, budget=budget
    )
    return Value(
        value.lower,
        value.upper,
        value.infinite,
        value.lowers[number],
        value.uppers[number],
        None,
        value.exact,
        value.sweeps,
        value.components,
        value.largest_component,
        value.limit,
    )
