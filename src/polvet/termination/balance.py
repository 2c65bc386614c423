"""Either a ranking that lowers a given walk, or a circulation through that walk that lowers no counter; exactly.

Source   Kosaraju & Sullivan, "Detecting cycles in dynamic graphs in polynomial time", STOC 1988 (the criterion);
         Farkas' lemma (one of the two exists); Kelley's cutting planes
Differs  the circulation has one unknown per edge; here the unknowns are the weights lambda of the counters, at most a
         few dozen, and cycles enter as cuts: lambda . effect(cycle) <= 0. Violated cycles are found by exact longest
         walks. All arithmetic is on integers, so nothing needs to be rounded or rechecked
Cost     a few dozen rounds in practice; each is one Bellman-Ford pass and a few pivots
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.termination.cutting_plane import CuttingPlane
from polvet.termination.potentials import potential_or_cycles
from polvet.termination.walks import Component, Matrix, RootedWalks, dot

AT_ONCE = 3
"""How many of the violated rooted walks become cuts in one round."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """lambda >= 0 per row, and potentials: no edge of the component raises the rank, and the given walk lowers it."""

    weights: list[int]
    potential: list[int]


@dataclass(frozen=True, slots=True)
class Balanced:
    """`scale` times the given walk and the listed closed walks together lower no counter."""

    scale: int
    walks: list[tuple[list[int], int]]  # local edges of a closed walk, how often


@dataclass(frozen=True, slots=True)
class Sustained:
    """One closed walk that alone lowers no counter: found on the way, and all that nontermination needs."""

    walk: list[int]


def balance(
    component: Component,
    rooted: RootedWalks,
    columns: Sequence[int],
    target: Sequence[int],
    *,
    bonus: Matrix | None = None,
    stop_early: bool = True,
    budget: Budget = UNLIMITED,
) -> Ranked | Balanced | Sustained:
    """Return a ranking that lowers a walk with effect `target` on the `columns`, or a circulation to go with it.

    With a `bonus` (a number >= 0 per edge) the ranking must instead lower every edge by the bonus times a positive
    factor: the bonus becomes one more column, and its factor is what is maximised. Potentials then include it.
    """
    chosen = list(columns)
    changes = component.changes[:, chosen]
    effects = rooted.effects[:, chosen]
    objective = [-value for value in target]
    if bonus is not None:
        walk_bonus = rooted.sums(bonus[:, None])
        changes = np.concatenate([changes, bonus[:, None]], axis=1)
        effects = np.concatenate([effects, walk_bonus], axis=1)
        objective = [0] * len(chosen) + [1]
    program = CuttingPlane(objective)
    cuts: list[int | list[int]] = []  # a rooted walk's edge, or a cycle
    while True:
        budget.check()
        program.reoptimise()
        if program.value() == 0:
            return _circulation(program.multipliers(), cuts, rooted)
        weights = program.point()
        slopes = dot(effects, weights)
        worst = np.argsort(-slopes, kind="stable")[:AT_ONCE]
        violated = [int(edge) for edge in worst if slopes[edge] > 0]
        if violated:
            for edge in violated:
                program.add([int(value) for value in effects[edge]])
                cuts.append(edge)
            continue
        lengths = [int(value) for value in dot(changes, weights)]
        potential, cycles = potential_or_cycles(
            len(component.nodes), component.sources, component.targets, lengths, budget
        )
        if potential is not None:
            return Ranked(weights, potential)
        for cycle in cycles:
            if stop_early and component.sustains(cycle):
                return Sustained(cycle)
            program.add([int(value) for value in changes[cycle].sum(axis=0)])
            cuts.append(cycle)


def _circulation(multipliers: dict[int, Fraction], cuts: list[int | list[int]], rooted: RootedWalks) -> Balanced:
    scale = lcm(*(value.denominator for value in multipliers.values()), 1)
    walks = []
    for number, value in multipliers.items():
        cut = cuts[number]
        walks.append((rooted.walk(cut) if isinstance(cut, int) else cut, int(value * scale)))
    return Balanced(scale, walks)
