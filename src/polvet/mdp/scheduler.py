"""What a memoryless scheduler makes of an MDP: the induced DTMC, and its value for a question."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.mdp.query import Query
from polvet.mdp.solve import Value, solve
from polvet.mdp.sparse import SparseMdp, Uint32s, Uint64s

NO_CHOICE = 0xFFFFFFFF


def induce(mdp: SparseMdp, scheduler: Uint32s) -> SparseMdp:
    """Return the DTMC in which state s has only its choice number scheduler[s]; a state marked 0xFFFFFFFF keeps none.

    >>> from fractions import Fraction
    >>> two = SparseMdp.build([[[(0, Fraction(1))], [(1, Fraction(1))]], []])
    >>> induce(two, np.array([1, NO_CHOICE], dtype=np.uint32)).target.tolist()
    [1]
    """
    counts = np.diff(mdp.choice_start)
    chosen = scheduler != NO_CHOICE
    if len(scheduler) != mdp.states or (scheduler[chosen] >= counts[chosen]).any():
        raise InputError(
            "the scheduler does not fit the model.", hint="It needs, per state, a choice number inside the state."
        )
    picked = mdp.choice_start[:-1][chosen].astype(np.int64) + scheduler[chosen].astype(np.int64)
    return take_choices(mdp, picked, np.concatenate([[0], np.cumsum(chosen)]).astype(np.uint64))


def take_choices(mdp: SparseMdp, picked: NDArray[np.int64], choice_start: Uint64s) -> SparseMdp:
    """Return the MDP of the same states with only the picked choices, in that order."""
    first = mdp.branch_start[picked].astype(np.int64)
    lengths = mdp.branch_start[picked + 1].astype(np.int64) - first
    branch_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    branches = np.repeat(first - branch_start[:-1].astype(np.int64), lengths) + np.arange(int(branch_start[-1]))
    return SparseMdp(
        choice_start=choice_start,
        branch_start=branch_start,
        target=mdp.target[branches],
        probability=mdp.probability[branches],
        initial=mdp.initial,
        probability_index=None if mdp.probability_index is None else mdp.probability_index[branches],
        fractions=mdp.fractions,
        rewards={name: values[picked] for name, values in mdp.rewards.items()},
        exact_rewards={name: [values[c] for c in picked.tolist()] for name, values in mdp.exact_rewards.items()},
    )


def evaluate(
    mdp: SparseMdp,
    scheduler: Uint32s,
    query: Query,
    *,
    relative_gap: float = 1e-6,
    exact: bool = False,
    budget: Budget = UNLIMITED,
) -> Value:
    """Return what `scheduler` achieves for `query`: the value of the induced DTMC."""
    return solve(induce(mdp, scheduler), query, relative_gap=relative_gap, exact=exact, budget=budget)
