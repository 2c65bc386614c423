"""Graph questions about an MDP: components, end components, predecessors, and where a probability is 0 or 1.

Source   Baier & Katoen, Principles of Model Checking, 2008, section 10.6: Algorithms 45 to 47.
Cost     linear, but end components and probability 1 of the maximum: linear per round, few rounds in practice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import polvet._core as _core
from polvet.mdp.sparse import Mask, SparseMdp, Uint32s, Uint64s

NONE = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class EndComponents:
    """Maximal end components: `component` of each state (NONE outside), and which choices stay inside one."""

    count: int
    component: Uint32s
    choices: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Predecessors:
    """The choices with a branch into state t: choice[start[t]:start[t + 1]], once per branch."""

    start: Uint64s
    choice: Uint32s


def connected_components(mdp: SparseMdp) -> tuple[int, Uint32s]:
    """Return how many strongly connected components there are and each state's, numbered bottom up.

    >>> from fractions import Fraction
    >>> one = Fraction(1)
    >>> connected_components(SparseMdp.build([[[(1, one)]], [[(0, one)], [(2, one)]], []]))[1].tolist()
    [1, 1, 0]
    """
    component = np.empty(mdp.states, dtype=np.uint32)
    return _core.mdp_components(mdp.core(), component), component


def end_components(mdp: SparseMdp, *, allowed: Mask | None = None) -> EndComponents:
    """Return the maximal end components, made of `allowed` choices only if given."""
    component = np.empty(mdp.states, dtype=np.uint32)
    usable = np.ones(mdp.choices, dtype=np.uint8) if allowed is None else allowed.astype(np.uint8)
    count = _core.mdp_end_components(mdp.core(), usable, component)
    return EndComponents(count, component, usable.astype(np.bool_))


def predecessors(mdp: SparseMdp) -> Predecessors:
    """Return the backward index."""
    start, choice = np.empty(mdp.states + 1, dtype=np.uint64), np.empty(mdp.branches, dtype=np.uint32)
    _core.mdp_backward(mdp.core(), start, choice)
    return Predecessors(start, choice)


def find_probability_zero(mdp: SparseMdp, goal: Mask, *, safe: Mask | None = None, minimise: bool = False) -> Mask:
    """Return where the least (or greatest) probability of `safe U goal` is 0: some (every) scheduler avoids it."""
    return _qualitative(mdp, goal, safe, minimise, one=False)


def find_probability_one(mdp: SparseMdp, goal: Mask, *, safe: Mask | None = None, minimise: bool = False) -> Mask:
    """Return where the least (or greatest) probability of `safe U goal` is 1: every (some) scheduler reaches it."""
    return _qualitative(mdp, goal, safe, minimise, one=True)


def _qualitative(mdp: SparseMdp, goal: Mask, safe: Mask | None, minimise: bool, *, one: bool) -> Mask:
    result = np.empty(mdp.states, dtype=np.uint8)
    inside = np.ones(mdp.states, dtype=np.uint8) if safe is None else np.ascontiguousarray(safe, dtype=np.uint8)
    _core.mdp_qualitative(mdp.core(), inside, np.ascontiguousarray(goal, dtype=np.uint8), not minimise, one, result)
    return result.astype(np.bool_)
