"""Lower bounds on accumulated reward: the MDP beside a counter that stops at the bound.

`true U goal` with a reward of at least B is plain reachability of goal states whose counter is B; rewards are whole numbers
per choice, and a run may pass the goal before the reward is there.
"""

from __future__ import annotations

import numpy as np

from polvet.errors import InputError
from polvet.mdp.sparse import Mask, SparseMdp

MAX_STATES = 2**30


def count_reward(mdp: SparseMdp, name: str, bound: int, goal: Mask) -> tuple[SparseMdp, Mask]:
    """Return the MDP whose state s with counter c is s * (bound + 1) + c, and its goal: the counter is at the bound."""
    amount = mdp.rewards[name]
    if (amount != np.floor(amount)).any():
        raise InputError("a bound on accumulated reward needs whole rewards per choice.", hint="Scale the rewards.")
    width = bound + 1
    if mdp.states * width > MAX_STATES:
        raise InputError(f"the bound {bound} makes {mdp.states * width} states; at most {MAX_STATES} are solved.")
    counters = np.arange(width, dtype=np.int64)
    choices_of = np.diff(mdp.choice_start).astype(np.int64)
    # Rows in the order (state, counter, choice): every choice is repeated once per counter, kept together by state.
    first = mdp.choice_start[:-1].astype(np.int64)
    new_counts = np.repeat(choices_of, width)
    choice_start = np.concatenate(([0], np.cumsum(new_counts)))
    starts = np.repeat(first, width)
    within = np.arange(int(choice_start[-1])) - np.repeat(choice_start[:-1], new_counts)
    choice = np.repeat(starts, new_counts) + within
    counter = np.repeat(np.tile(counters, mdp.states), new_counts)
    reached = np.minimum(bound, counter + amount[choice].astype(np.int64))
    sizes = np.diff(mdp.branch_start).astype(np.int64)[choice]
    branch_start = np.concatenate(([0], np.cumsum(sizes)))
    offset = np.arange(int(branch_start[-1])) - np.repeat(branch_start[:-1], sizes)
    branch = np.repeat(mdp.branch_start[:-1].astype(np.int64)[choice], sizes) + offset
    target = mdp.target[branch].astype(np.int64) * width + np.repeat(reached, sizes)
    unfolded = SparseMdp(
        choice_start.astype(np.uint64),
        branch_start.astype(np.uint64),
        target.astype(np.uint32),
        mdp.probability[branch],
        (mdp.initial.astype(np.int64) * width).astype(np.uint32),
        None if mdp.probability_index is None else mdp.probability_index[branch],
        mdp.fractions,
    )
    goals = np.zeros((mdp.states, width), dtype=bool)
    goals[:, bound] = goal
    return unfolded, goals.reshape(-1)
