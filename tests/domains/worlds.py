"""Small instances of every domain, and what tests do with them: explore, compare, decide safety by brute force."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet.domains import generate
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import Starts
from polvet.model.network import Network
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task

BENCHMARKS = Path(__file__).parents[3] / "shared" / "benchmarks"
needs_benchmarks = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are not here")

SMALL: list[tuple[str, dict[str, Any]]] = [
    ("racetrack", {"map": "lane", "speed": 2}),
    ("racetrack", {"map": "lane", "speed": 2, "slip": "1/10", "anywhere": True}),
    ("blocksworld", {"n": 3, "cost": 1}),
    ("blocksworld", {"n": 4, "cost": 0}),
    ("sliding-tiles", {"n": 3, "cost": 1}),
    ("sliding-tiles", {"n": 5, "cost": 0, "wrap": True}),
    ("transport", {"locations": 4, "packages": 3}),
    ("transport", {"locations": 3, "packages": 2, "empty_backward": True}),
    ("beluga", {"jigs": 3}),
    ("one-way-line", {"n": 3, "p": 5}),
    ("one-way-line", {"n": 2, "p": 5, "icy": True, "park": True, "ice": "1,2,4"}),
    ("two-way-line", {"n": 2, "p": 4}),
    ("two-way-line", {"n": 2, "p": 5, "icy": True, "park": True}),
    ("flappy-bird", {"width": 12, "height": 6, "walls": 2}),
    ("layers", {"d": 5}),
    ("janitor", {}),
    ("folline", {}),
    ("comexp", {}),
]
CONTROL = ["bouncing-ball", "inverted-pendulum", "follow-car"]


def named(case: tuple[str, dict[str, Any]]) -> str:
    return " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])


def small_task(case: tuple[str, dict[str, Any]]) -> Task:
    return generate(case[0], **case[1]).task()


def explored(task: Task, **options: Any) -> tuple[Compiled, Any]:
    compiled = Compiled(task.network, conditions=[task.fail, task.goal])
    return compiled, compiled.explore(compiled.pack_starts(Starts.of(task)), **options)


def unsafe_states(task: Task, *, goal_ends: bool = True) -> tuple[Any, np.ndarray]:
    """Return the explored space and, for each state, whether no policy avoids `fail` from it (backward propagation)."""
    _, space = explored(task, build=True, stop_at=[0, 1] if goal_ends else [0])
    choice_start, branch_start, target, *_ = space.take_matrix()
    first, last = choice_start[:-1].astype(np.int64), choice_start[1:].astype(np.int64)
    unsafe = space.mask(0).astype(bool)
    while True:
        bad = np.add.reduceat(unsafe[target].astype(np.int64), branch_start[:-1].astype(np.int64)) > 0
        bad_before = np.concatenate([[0], np.cumsum(bad)])
        doomed = (last > first) & (bad_before[last] - bad_before[first] == last - first)
        if not (doomed & ~unsafe).any():
            return space, unsafe
        unsafe |= doomed


def moves_by_name(semantics: Semantics, names: list[str], state: dict[str, Any]) -> list[Any]:
    """Return the moves of a state as sorted (label, [(values in the order of names, probability)])."""
    places = [semantics.position[name] for name in names]
    here = tuple(state[variable.name] for variable in semantics.network.variables)
    return sorted(
        (
            move.label,
            sorted((tuple(one.state[place] for place in places), one.probability) for one in move.outcomes),
        )
        for move in semantics.moves(here)
    )


def differences(task: Task, reference: Network, *, walks: int = 40, steps: int = 25, seed: int = 1) -> list[Any]:
    """Return (state, our moves, their moves) where a random walk that ends at `fail` finds them different."""
    ours, theirs = Semantics(task.network), Semantics(reference)
    names = [variable.name for variable in reference.variables]
    assert sorted(names) == sorted(variable.name for variable in task.network.variables)
    assert set(task.network.labels) == set(reference.labels)
    failed = ours.compile(task.fail)
    rng = random.Random(seed)
    found = []
    for start in Starts.of(task).sample(walks, rng):
        state: State = start
        for _ in range(steps):
            if failed(state):
                break
            named_state = dict(zip((variable.name for variable in task.network.variables), state, strict=True))
            mine, other = moves_by_name(ours, names, named_state), moves_by_name(theirs, names, named_state)
            if mine != other:
                found.append((named_state, mine, other))
            moves = ours.moves(state)
            if not moves:
                break
            state = rng.choice(rng.choice(moves).outcomes).state
    return found
