"""Sparse Markov decision processes and sound answers about them; not how they are built from a model."""

from polvet.mdp.exact import exact_values, solve_exactly, unfold_reward
from polvet.mdp.graph import (
    EndComponents,
    Predecessors,
    connected_components,
    end_components,
    find_probability_one,
    find_probability_zero,
    predecessors,
)
from polvet.mdp.query import Always, CumulativeReward, Query, Reach, Reward
from polvet.mdp.scheduler import evaluate, induce
from polvet.mdp.solve import Value, solve
from polvet.mdp.sparse import SparseMdp

__all__ = [
    "Always",
    "CumulativeReward",
    "EndComponents",
    "Predecessors",
    "Query",
    "Reach",
    "Reward",
    "SparseMdp",
    "Value",
    "connected_components",
    "end_components",
    "evaluate",
    "exact_values",
    "find_probability_one",
    "find_probability_zero",
    "induce",
    "predecessors",
    "solve",
    "solve_exactly",
    "unfold_reward",
]
