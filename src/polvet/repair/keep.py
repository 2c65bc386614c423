"""What was good: runs of the policy that reach the goal, and the states on them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.files import read_text
from polvet.kernel.compiled import Words
from polvet.kernel.starts import Starts
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.compiled import Bound
from polvet.policy.runs import MAX_STEPS, End, Run, simulate, trace
from polvet.records.run_files import iter_runs
from polvet.records.state_files import iter_states


def goal_runs(
    bound: Bound,
    starts: Words,
    *,
    runs: int = 1,
    most: int | None = None,
    max_steps: int = MAX_STEPS,
    seed: int = 0,
    threads: int = 1,
    budget: Budget = UNLIMITED,
) -> tuple[float, list[Run]]:
    """Return the share of simulated runs that reach the goal, and these runs in full: all, or `most` of them by chance."""
    batch = simulate(bound, starts, runs_per_start=runs, max_steps=max_steps, seed=seed, threads=threads, budget=budget)
    if batch.limit is not None:
        raise batch.limit
    reached = np.flatnonzero(batch.ends == End.GOAL).tolist()
    share = len(reached) / max(1, len(batch.ends))
    if most is not None and len(reached) > most:
        reached = sorted(random.Random(seed).sample(reached, most))
    first = bound.compiled.unpack(starts[[run // runs for run in reached]]) if reached else []
    traces = [
        trace(bound, start, run, max_steps=max_steps, seed=seed) for start, run in zip(first, reached, strict=True)
    ]
    return share, traces


def goal_states(bound: Bound, runs: int, *, seed: int = 0, budget: Budget = UNLIMITED) -> list[State]:
    """Return the states (but the last) of runs from random starts that reach the goal, as often as they are visited."""
    drawn = Starts.of(bound.task, budget).sample(runs, random.Random(seed), budget=budget)
    _, traces = goal_runs(bound, bound.compiled.pack(drawn), max_steps=MAX_STEPS, seed=seed, budget=budget)
    return [state for run in traces for state in run.states[:-1]]


def kept_states(task: Task, file: Path) -> list[State]:
    """Return the states in a file of states, or the states (but the last) of those runs in a file of runs that reach the goal."""
    first = next((line for line in read_text(file).splitlines() if line.strip()), "")
    if '"states"' in first and '"end"' in first:
        return [state for run in iter_runs(task, file) if run.end is End.GOAL for state in run.states[:-1]]
    return list(iter_states(task, file))
