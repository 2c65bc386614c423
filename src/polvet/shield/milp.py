"""Permissive schedulers by mixed-integer programming (HiGHS): as many *reachable* options as possible.

Source   Draeger, Forejt, Kwiatkowska, Parker & Ujma, Permissive Controller Synthesis for Probabilistic Systems, LMCS
         2015, the encoding the paper calls an alternative in section 4.1.
Differs  permissiveness counts an option only where a flow from the start states arrives: r_s says that s is reached, an
         allowed option carries it on. Without that, most counted options are unreachable.
Limits   big-M constraints in doubles: the answer is a proposal that `permissive.is_safe` decides on; a bare
         "infeasible" is never believed, the caller falls back to the enlargement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.mdp.sparse import Mask
from polvet.shield.permissive import is_safe
from polvet.shield.world import World, induce_permitted, reached_options
from polvet.solvers.highs import solve_milp

TIGHTER = 1e-6  # the program is asked to stay that much (relatively) below the bound


@dataclass(frozen=True, slots=True, eq=False)
class MilpAnswer:
    """The program's answer: permitted reachable options that are proved safe (None: none), and its bound."""

    permitted: Mask | None
    count: int
    bound: float  # no more options than this, in the solver's arithmetic
    status: str


def permit_by_milp(world: World, bound: Fraction, budget: Budget = UNLIMITED) -> MilpAnswer:
    """Return the most permissive scheduler that the program finds in the given time."""
    mdp = world.mdp
    options, states = world.options, mdp.states
    # Columns: y (option allowed and its state reached), r (state reached), p (risk).
    r, p = options, options + states
    columns = options + 2 * states
    upper = np.ones(columns)
    for s in mdp.initial.tolist():
        upper[p + s] = float(bound) * (1 - TIGHTER) if bound < 1 else 1.0
    cost = np.zeros(columns)
    cost[:options] = -1.0
    rows: list[tuple[float, dict[int, float]]] = [
        (1.0, {column: 1.0}) for column in (*(p + np.flatnonzero(world.fail)), *(r + mdp.initial.astype(np.int64)))
    ]  # failed states have risk 1, start states are reached
    starts, choices = world.option_start.tolist(), world.option_choice.tolist()
    branches, target, chance = mdp.branch_start.tolist(), mdp.target.tolist(), mdp.probability.tolist()
    for s in range(states):
        mine = range(starts[s], starts[s + 1])
        if not mine:
            continue
        rows.append((0.0, {**dict.fromkeys(mine, 1.0), r + s: -1.0}))  # a reached state allows something
        for o in mine:
            rows.append((0.0, {r + s: 1.0, o: -1.0}))  # only reached states count
            for c in range(choices[o], choices[o + 1]):
                row = {p + s: 1.0, o: -1.0}
                for b in range(branches[c], branches[c + 1]):
                    row[p + target[b]] = row.get(p + target[b], 0.0) - chance[b]
                rows.append((-1.0, row))  # p_s >= sum - (1 - y)
            for t in {target[b] for b in range(branches[choices[o]], branches[choices[o + 1]])}:
                rows.append((0.0, {r + t: 1.0, o: -1.0}))  # what is allowed reaches its outcomes
    # Flow: a state counts as reached only where a flow from the start states arrives over allowed options and leaves
    # a little behind; so a loop that nothing leads to supports nothing.
    edges = [
        (o, s, t)
        for s in range(states)
        for o in range(starts[s], starts[s + 1])
        for t in sorted({target[b] for b in range(branches[choices[o]], branches[choices[o + 1]])})
    ]
    flow = columns
    columns += len(edges)
    cost = np.concatenate([cost, np.zeros(len(edges))])
    upper = np.concatenate([upper, np.ones(len(edges))])
    balance: list[dict[int, float]] = [{r + s: -1.0 / states} for s in range(states)]
    for k, (o, s, t) in enumerate(edges):
        rows.append((0.0, {o: 1.0, flow + k: -1.0}))  # only allowed options carry flow
        if s != t:
            balance[t][flow + k] = 1.0
            balance[s][flow + k] = -1.0
    first = set(mdp.initial.tolist())
    rows += [(0.0, balance[s]) for s in range(states) if s not in first]
    answer = solve_milp(
        cost,
        upper,
        np.arange(columns) < options,
        [least for least, _ in rows],
        [(np.array(list(row)), np.array(list(row.values()))) for _, row in rows],
        budget=budget,
    )
    if answer.values is None:
        return MilpAnswer(None, 0, math.inf, answer.status)
    permitted = reached_options(world, answer.values[:options] > 0.5)
    if not _allows_something_everywhere(world, permitted) or not is_safe(world, permitted, bound):
        return MilpAnswer(None, 0, -answer.bound, answer.status)
    return MilpAnswer(permitted, int(permitted.sum()), -answer.bound, answer.status)


def _allows_something_everywhere(world: World, permitted: Mask) -> bool:
    sub = induce_permitted(world, permitted)
    counts = np.diff(sub.mdp.choice_start)
    return bool(((counts > 0) | world.ended[sub.states]).all())
