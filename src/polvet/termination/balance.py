"""Either a ranking that lowers a given walk, or a circulation through that walk that lowers no counter; exactly.

Source   Kosaraju & Sullivan, "Detecting cycles in dynamic graphs in polynomial time", STOC 1988 (the criterion);
         Farkas' lemma (one of the two exists); Kelley's cutting planes
Differs  the circulation has one unknown per edge; here the unknowns are the weights lambda of the counters, at most a
         few dozen, and cycles enter as cuts: lambda . effect(cycle) <= 0. Violated cycles are found by exact longest
         walks. In larger components floating point finds most cuts first (`proposal`); what is answered is decided on
         integers alone, so nothing needs to be rounded or rechecked
Cost     a few dozen rounds in practice; each is one Bellman-Ford pass and a few pivots
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.termination.cuts import Cuts
from polvet.termination.cutting_plane import CuttingPlane
from polvet.termination.potentials import Cycles, potential_or_cycles
from polvet.termination.proposal import Proposal, exact_multipliers, exact_weights, iter_rounded, propose
from polvet.termination.walks import dot

AT_ONCE = 3
"""How many violated cuts join the exact program in one round."""
WORTH = 3_000
"""From this many numbers (edges x columns) on, floating point proposes."""


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
    """One closed walk that alone lowers no counter: met on the way, and all that nontermination needs."""

    walk: list[int]


def balance(
    cuts: Cuts, objective: Sequence[int], *, stop_early: bool = True, budget: Budget = UNLIMITED
) -> Ranked | Balanced | Sustained:
    """Return a ranking with objective . lambda > 0, or a circulation that shows that there is none.

    The objective is minus the effect of a walk that the ranking must lower. Where the cuts have a bonus column it is
    that column alone: the ranking then lowers every edge by the bonus times a positive factor, its potentials included.
    """
    tight: list[int] = []
    if cuts.changes.size >= WORTH:
        proposal = propose(cuts, objective, stop_early=stop_early, budget=budget)
        if proposal.sustained is not None:
            return Sustained(proposal.sustained)
        tight = proposal.tight
        if (multipliers := exact_multipliers(cuts, objective, proposal)) is not None:
            return _circulation(multipliers, cuts)
        for weights in _candidates(cuts, proposal):
            if sum(o * w for o, w in zip(objective, weights, strict=True)) > 0 and not cuts.violated(weights, ()):
                potential, cycles = _potential_or_cycles(cuts, weights, budget)
                if potential is not None:
                    return Ranked(weights, potential)
                for cycle in cycles:
                    cuts.add(cycle)
    return _decide(cuts, objective, tight, stop_early, budget)


def _candidates(cuts: Cuts, proposal: Proposal) -> Iterator[list[int]]:
    """Yield exact weights near the proposed ones: simple ones, then the vertex that the tight cuts make."""
    if proposal.weights is not None:
        yield from iter_rounded(proposal.weights)
        if (vertex := exact_weights(cuts, proposal)) is not None:
            yield vertex


def _decide(
    cuts: Cuts, objective: Sequence[int], first: Sequence[int], stop_early: bool, budget: Budget
) -> Ranked | Balanced | Sustained:
    """Return the answer of exact cutting planes, which begin with the `first` cuts."""
    program = CuttingPlane(objective)
    inside: list[int] = []  # the cuts in the program, in its order

    def insert(numbers: Sequence[int]) -> None:
        for number in numbers:
            program.add(cuts.effects[number])
            inside.append(number)

    insert(first)
    while True:
        budget.check()
        program.reoptimise(budget)
        if program.value() == 0:
            return _circulation({inside[row]: value for row, value in program.multipliers().items()}, cuts)
        weights = program.point()
        if violated := cuts.violated(weights, inside)[:AT_ONCE]:
            insert(violated)
            continue
        slopes = dot(cuts.rooted_effects, weights)
        worst = np.argsort(-slopes, kind="stable")[:AT_ONCE]
        if violated := [int(edge) for edge in worst if slopes[edge] > 0]:
            insert(list(dict.fromkeys(cuts.add(edge) for edge in violated)))
            continue
        potential, cycles = _potential_or_cycles(cuts, weights, budget)
        if potential is not None:
            return Ranked(weights, potential)
        for cycle in cycles:
            if stop_early and cuts.component.sustains(cycle):
                return Sustained(cycle)
        insert(list(dict.fromkeys(cuts.add(cycle) for cycle in cycles)))


def _potential_or_cycles(cuts: Cuts, weights: Sequence[int], budget: Budget) -> tuple[list[int] | None, Cycles]:
    return potential_or_cycles(cuts.component, dot(cuts.changes, weights), budget)


def _circulation(multipliers: Mapping[int, Fraction], cuts: Cuts) -> Balanced:
    scale = lcm(*(value.denominator for value in multipliers.values()), 1)
    return Balanced(scale, [(cuts.walk(cut), int(value * scale)) for cut, value in multipliers.items()])
