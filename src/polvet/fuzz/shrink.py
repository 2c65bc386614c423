"""Shrinking: from an unsafe run to a shorter one of the same policy, from a simpler start where there is one.

Loops     a state that comes twice cuts out what lies between: policies have no memory, so what is left is a run
Shortcuts a breadth-first search over the policy's own steps from the run's start, no deeper than the run
Starts    each variable of the start is moved to its value in the canonical start (the first one), then half-way,
          then by one; a change stays if the new start is a start state with an unsafe run that is not longer
Source    Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, TSE 2002, over values
Cost      the search looks at no more than `MOST_STATES` states per run
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.kernel.compiled import Words
from polvet.kernel.starts import drawable_starts, is_start_of
from polvet.model.arithmetic import Value
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import End, Run, raise_what_broke

MOST_STATES = 2_000
MOST_SEARCHED = 200
"""So many runs are searched for shortcuts and simpler starts; of the others only loops are cut."""


def cut_loops(run: Run) -> Run:
    """Return the run without what lies between two visits of a state.

    >>> cut_loops(Run(((0,), (1,), (0,), (2,)), ("a", "b", "c"), End.FAIL))
    Run(states=((0,), (2,)), actions=('c',), end=<End.FAIL: 0>)
    """
    last = {state: place for place, state in enumerate(run.states)}
    states: list[State] = []
    actions: list[str | None] = []
    place = 0
    while True:
        place = last[run.states[place]]
        states.append(run.states[place])
        if place == len(run.states) - 1:
            return Run(tuple(states), tuple(actions), run.end)
        actions.append(run.actions[place])
        place += 1


def shrink(bound: Bound, run: Run) -> Run:
    """Return a run of the policy into `fail` that is no longer, from the same or a simpler start."""
    best = cut_loops(run)
    best = find_shortest(bound, best.states[0], len(best.actions)) or best
    return _simplify_start(bound, best)


def shrink_all(bound: Bound, runs: Sequence[Run], *, budget: Budget = UNLIMITED) -> list[Run]:
    """Return the runs shrunk, one by one; the first MOST_SEARCHED thoroughly, as long as there is time."""
    return [
        shrink(bound, run) if k < MOST_SEARCHED and not budget.is_over() else cut_loops(run)
        for k, run in enumerate(runs)
    ]


def shrink_different(
    bound: Bound, runs: Sequence[Run], *, budget: Budget = UNLIMITED
) -> tuple[list[Run], dict[str, float | int]]:
    """Return the runs shrunk, each only once, and figures of their lengths before and after."""
    if not runs:
        return [], {}
    shortest = shrink_all(bound, runs, budget=budget)
    before, after = (sum(len(run.actions) for run in some) / len(runs) for some in (runs, shortest))
    different = list({(run.states, run.actions): run for run in shortest}.values())
    return different, {"mean_length": before, "mean_length_shrunk": after, "shrunk_runs": len(different)}


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """States at one depth of the search, with the numbers of those they were reached from."""

    states: Words
    parents: NDArray[np.int64]


def find_shortest(bound: Bound, start: State, depth: int) -> Run | None:
    """Return a shortest run of the policy from the start to `fail`, if there is one within depth and size."""
    seen = _core.StateSet(bound.compiled.program.words)
    words = bound.compiled.pack([start])
    seen.insert(words)
    layers = [_Layer(words, np.zeros(1, dtype=np.int64))]
    for _ in range(depth + 1):
        layer = layers[-1]
        steps = _core.policy_steps(bound.core, layer.states, FAIL, GOAL)
        raise_what_broke(bound, steps["status"], steps["faulty"], steps["fault"], steps["policy_broken"])
        failing = np.flatnonzero(steps["end"] == End.FAIL)
        if len(failing):
            return _run_back(bound, layers, int(failing[0]))
        known = len(seen)
        numbers = seen.insert(steps["outcomes"]).astype(np.int64)
        _, first = np.unique(numbers, return_index=True)
        first = np.sort(first[numbers[first] >= known])
        if not len(first) or len(seen) > MOST_STATES:
            return None
        sources = np.repeat(
            np.arange(len(layer.states)), np.diff(steps["outcome_start"].astype(np.int64)).astype(np.int64)
        )
        layers.append(_Layer(np.ascontiguousarray(steps["outcomes"][first]), sources[first]))
    return None


def _run_back(bound: Bound, layers: list[_Layer], place: int) -> Run:
    rows: list[Words] = []
    for layer in reversed(layers):
        rows.append(layer.states[place : place + 1])
        place = int(layer.parents[place])
    words = np.concatenate(rows[::-1])
    states = bound.compiled.unpack(words)
    semantics = bound.compiled.semantics
    actions: list[str | None] = []
    for before, after in pairwise(states):
        moves = bound.fitted.followed(before, semantics.moves(before))
        moved = [move.label for move in moves if any(outcome.state == after for outcome in move.outcomes)]
        actions.append(next((label for label in moved if label is not None), None))
    return Run(tuple(states), tuple(actions), End.FAIL)


def _simplify_start(bound: Bound, run: Run) -> Run:
    is_start = is_start_of(bound.task)
    starts = drawable_starts(bound.task)
    if not starts.count:
        return run
    canonical = next(starts.states(1))
    best = run
    changed = True
    while changed:
        changed = False
        for place, variable in enumerate(bound.task.network.variables):
            for value in _nearer(best.states[0][place], canonical[place], variable.kind):
                start = (*best.states[0][:place], value, *best.states[0][place + 1 :])
                if not is_start(start):
                    continue
                shorter = find_shortest(bound, start, len(best.actions))
                if shorter is not None:
                    best, changed = shorter, True
                    break
    return best


def _nearer(value: Value, wanted: Value, kind: Kind) -> list[Value]:
    """Return values between this one and the wanted one, the simplest first."""
    if value == wanted:
        return []
    if kind is not Kind.INT:
        return [wanted]
    middle = (int(value) + int(wanted)) // 2
    step = int(value) + (1 if wanted > value else -1)
    return list(dict.fromkeys(number for number in (int(wanted), middle, step) if number != value))
