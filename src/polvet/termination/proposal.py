"""Weights and cuts proposed in floating point: Kelley's cutting planes with HiGHS and compiled longest walks.

Nothing that is said here is believed: the cuts are real walks with exact effects, the weights are rounded and tried, and
`polvet.termination.balance` decides in exact arithmetic. A good proposal leaves it a few pivots instead of thousands.

Source   Kelley, "The cutting-plane method for solving convex programs", 1960
Cost     per round one small linear program (a column per counter, a row per cut) and a few sweeps over the edges;
         a few dozen to a few hundred rounds for 50 counters, whatever the number of edges
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from polvet.budget import Budget
from polvet.numbers import whole_multiple
from polvet.solvers.highs import GrowingLp
from polvet.termination.cuts import Cuts
from polvet.termination.linear_system import independent_columns, solve_exactly
from polvet.termination.potentials import AT_A_TIME
from polvet.termination.walks import Matrix

TOLERANCE = 1e-9
MOST_ROUNDS = 3_000
AT_ONCE = 40
"""How many cycles of one search become cuts."""
LARGEST = 2.0**52
"""Numbers above this are left to exact arithmetic from the start."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What floating point believes: these weights rank (None: nothing does), and these cuts are tight there."""

    weights: Matrix | None
    tight: list[int]
    sustained: list[int] | None = None  # a closed walk that alone lowers no counter
    multipliers: Matrix | None = None  # of the tight cuts


def propose(cuts: Cuts, objective: Sequence[int], *, stop_early: bool, budget: Budget) -> Proposal:
    """Return weights >= 0 that nearly maximise the objective under all cuts, found as they are needed; or None."""
    component = cuts.component
    scale = max((abs(value) for value in objective), default=0)
    largest = max(scale, int(np.abs(cuts.changes).max(initial=0)))
    if scale == 0 or largest > LARGEST:
        return Proposal(None, [])
    line, column = np.nonzero(cuts.changes)
    amount = cuts.changes[line, column].astype(np.float64)
    count = len(objective)
    program = GrowingLp(-np.array(objective, dtype=np.float64) / scale, np.ones(count))
    every = np.arange(count, dtype=np.int32)
    inside: list[int] = []  # the cuts in the program, by row

    def insert(numbers: Sequence[int]) -> None:
        rows = [np.array(cuts.effects[number], dtype=np.float64) for number in numbers]
        program.add_rows([0.0] * len(rows), [(every, -row / max(1.0, np.abs(row).max())) for row in rows])
        inside.extend(numbers)

    insert(range(len(cuts.walks)))
    present = set(inside)
    for _ in range(MOST_ROUNDS):
        budget.check()
        answer = program.solve(budget.left())
        if answer.status != "optimal":
            budget.check()
            return Proposal(None, [])
        used = np.flatnonzero(np.abs(answer.duals) > TOLERANCE)
        tight = [inside[row] for row in used]
        if answer.objective > -TOLERANCE:
            norms = [max(1.0, float(max(map(abs, cuts.effects[cut])))) for cut in tight]
            return Proposal(None, tight, multipliers=np.abs(answer.duals[used]) * scale / np.array(norms))
        weights = np.maximum(answer.values, 0.0)
        lengths = np.bincount(line, weights=amount * weights[column], minlength=len(component.edges))
        cycles = _positive_cycles(cuts, lengths, budget)
        if cycles is None:
            return Proposal(weights, tight)
        new = []
        for cycle in cycles[:AT_ONCE]:
            if stop_early and component.sustains(cycle):
                return Proposal(None, tight, cycle)
            number = cuts.add(cycle)
            if number not in present:
                present.add(number)
                new.append(number)
        if not new:  # the cycles are violated by rounding alone
            return Proposal(weights, tight)
        insert(new)
    return Proposal(None, [])


def _positive_cycles(cuts: Cuts, lengths: Matrix, budget: Budget) -> list[list[int]] | None:
    """Return cycles of positive length, worst first; None if there are none."""
    search = cuts.component.longest_walks
    tolerance = TOLERANCE * max(1.0, float(np.abs(lengths).max(initial=0.0)))
    start: Matrix | None = np.zeros(len(cuts.component.nodes))
    while True:
        outcome = search.search_real(lengths, tolerance, 1 + AT_A_TIME // (len(lengths) + 1), start)
        if isinstance(outcome, np.ndarray):
            return None
        if outcome is not None:
            gains = [float(lengths[cycle].sum()) / len(cycle) for cycle in outcome]
            return [outcome[number].tolist() for number in np.argsort(gains)[::-1]]
        budget.check()
        start = None


def exact_multipliers(cuts: Cuts, objective: Sequence[int], proposal: Proposal) -> dict[int, Fraction] | None:
    """Return multipliers >= 0 of the tight cuts whose sum reaches the objective in every column, exactly; or None.

    Where the sum meets the objective in floating point it is made to meet it exactly; then everything is tested.
    """
    if proposal.multipliers is None or not proposal.tight:
        return None
    effects = [cuts.effects[cut] for cut in proposal.tight]
    count = len(effects)
    excess = np.array(effects, dtype=np.float64).T @ proposal.multipliers - np.array(objective, dtype=np.float64)
    met = np.argsort(np.abs(excess), kind="stable")[: max(count, int((np.abs(excess) < 1e-6 * _size(objective)).sum()))]
    places = [int(met[k]) for k in independent_columns([[effect[int(c)] for c in met] for effect in effects], count)]
    if len(places) < count:
        return None
    outcome = solve_exactly([[effect[c] for effect in effects] for c in places], [objective[c] for c in places])
    if outcome is None or min(outcome) < 0:
        return None
    for column, wanted in enumerate(objective):
        if sum((m * effect[column] for m, effect in zip(outcome, effects, strict=True)), Fraction(0)) < wanted:
            return None
    return {cut: value for cut, value in zip(proposal.tight, outcome, strict=True) if value}


def exact_weights(cuts: Cuts, proposal: Proposal) -> list[int] | None:
    """Return the vertex that the tight cuts make, exactly and without a common divisor; or None. Not yet tested."""
    if proposal.weights is None:
        return None
    effects = [cuts.effects[cut] for cut in proposal.tight]
    near = proposal.weights
    between = [int(c) for c in np.flatnonzero((near > 1e-7) & (near < 1 - 1e-7))]
    full = [int(c) for c in np.flatnonzero(near >= 1 - 1e-7)]
    rows = independent_columns(np.array([[effect[c] for effect in effects] for c in between]).tolist(), len(between))
    if len(rows) < len(between):
        return None
    point = [Fraction(0)] * len(near)
    for column in full:
        point[column] = Fraction(1)
    if between:
        outcome = solve_exactly(
            [[effects[row][c] for c in between] for row in rows], [-sum(effects[row][c] for c in full) for row in rows]
        )
        if outcome is None or min(outcome) < 0:
            return None
        for column, value in zip(between, outcome, strict=True):
            point[column] = value
    return whole_multiple(point)


def _size(objective: Sequence[int]) -> float:
    return float(max((abs(value) for value in objective), default=1))


def iter_rounded(weights: Matrix) -> Iterator[list[int]]:
    """Yield integer weights near the given ones, up to a common factor: simple ones first.

    >>> list(iter_rounded(np.array([0.3333333333, 1.0, 0.0])))[:2]
    [[0, 1, 0], [1, 3, 0]]
    """
    seen = set()
    for largest in (1, 12, 60, 1000, 30_000):
        near = [Fraction(float(value)).limit_denominator(largest) for value in weights]
        if lcm(*(value.denominator for value in near)) > 10**9:
            continue
        point = tuple(whole_multiple(near))
        if any(point) and point not in seen:
            seen.add(point)
            yield list(point)
