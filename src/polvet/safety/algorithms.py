"""The algorithms that decide whether states are safe, by name: what each is, what it costs, and the file that holds it.

All but one are C++ classes over the game of `src/_core/decide/game.h`; `src/_core/decide/decide.cpp` makes them by name, and
`Decider` (`safety/decide.py`) is their door. TarjanSafe is `tarjan.h`, iPI and nPI are `ipi.h`, Prop-U and value iteration are
`values.h`, LAO* and LRTDP are `search.h`, our own is `lazy.h`. Prop-U over decision diagrams is `safety/propagate_bdd.py`.
Source   Schmalz and Jain, Algorithms for Deciding the Safety of States in Fully Observable Non-deterministic Problems, 2026
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm for the safety of states; `code` is the class or function in `file`."""

    name: str
    help: str
    cost: str
    file: str
    code: str
    search: bool = (
        True  # plays the game from the states that are asked about, on threads and workers; `Decider` runs it
    )
    radius: bool = False  # can look so many steps ahead only


def _listed(*algorithms: Algorithm) -> Mapping[str, Algorithm]:
    return {algorithm.name: algorithm for algorithm in algorithms}


ALGORITHMS = _listed(
    Algorithm(
        "lazy",
        "every state holds one action and watches its outcomes only; unsafe outcomes wake their watchers",
        "O(b m) in one order, no pair twice",
        "src/_core/decide/lazy.h",
        "Lazy",
    ),
    Algorithm(
        "ipi",
        "improved policy iteration, iPI (Algorithm 4)",
        "O(b m n)",
        "src/_core/decide/ipi.h",
        "ImprovedPolicyIteration",
    ),
    Algorithm(
        "npi", "naive policy iteration, nPI (Algorithm 3)", "O(b m n)", "src/_core/decide/ipi.h", "NaivePolicyIteration"
    ),
    Algorithm(
        "tarjan",
        "TarjanSafe (Algorithm 1), `--radius R` looks R steps ahead",
        "exponential",
        "src/_core/decide/tarjan.h",
        "TarjanSafe",
        radius=True,
    ),
    Algorithm(
        "propagate",
        "Prop-U (Algorithm 2) on the reachable part",
        "O(b m), always all of it",
        "src/_core/decide/values.h",
        "Propagate",
    ),
    Algorithm(
        "propagate-bdd",
        "Prop-U over decision diagrams (Algorithm 5), extra `bdd`",
        "diagrams may explode",
        "src/polvet/safety/propagate_bdd.py",
        "decide_by_diagrams",
        search=False,
    ),
    Algorithm("vi", "value iteration", "O(b m n), all of it", "src/_core/decide/values.h", "ValueIteration"),
    Algorithm(
        "tvi", "topological value iteration", "O(b m n), all of it", "src/_core/decide/values.h", "ValueIteration"
    ),
    Algorithm(
        "lao",
        "LAO*: heuristic search for MDPs with 0/1 values",
        "O(b m n)",
        "src/_core/decide/search.h",
        "HeuristicSearch",
    ),
    Algorithm(
        "lrtdp",
        "LRTDP: labelled random trials, with 0/1 values",
        "O(b m n)",
        "src/_core/decide/search.h",
        "LabelledTrials",
    ),
)
DEFAULT = "lazy"
ORDERS = {
    "app": "in the model's order",
    "policy": "that of --policy",
    "random": "any",
    "last": "the label that was last kept elsewhere",
}
"""Which action of a state is tried first."""
