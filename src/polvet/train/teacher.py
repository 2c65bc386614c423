"""Teachers where the state space is small: the best label in every state, by value iteration over all of them.

A goal is worth 1, a fail -1, both discounted per step; operators of one label and silent ones are equally likely, as in
simulation. `safe` first drops every label with an outcome from which `fail` cannot be avoided, where another is left.
Cost     time and memory linear in the state space per sweep; about log(tolerance) / log(discount) sweeps
Limits   tasks whose reachable states fit the limit
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.kernel.compiled import Compiled, Words, describe_limit
from polvet.kernel.starts import Starts
from polvet.model.task import Task

DISCOUNT = 0.99
TOLERANCE = 1e-6
MAX_STARTS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """All states with their operators: `label` per operator (silent: the number of labels), and its branches."""

    states: Words
    starts: NDArray[np.int64]
    fail: NDArray[np.bool_]
    goal: NDArray[np.bool_]
    operator_start: NDArray[np.int64]
    branch_start: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float64]
    label: NDArray[np.int64]
    labels: int

    @property
    def owner(self) -> NDArray[np.int64]:
        """Return the state of each operator."""
        return np.repeat(np.arange(len(self.states)), np.diff(self.operator_start))


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """Per state the label to take (-1: the run has ended or only silent operators are enabled), and all label values."""

    space: Space
    choice: NDArray[np.int64]
    values: NDArray[np.float64]
    applicable: NDArray[np.bool_]


def explore_all(task: Task, *, budget: Budget) -> tuple[Compiled, Space]:
    """Return every state that runs may visit; more than the limit allows raises LimitReached."""
    compiled = Compiled(task.network, conditions=[task.fail, task.goal])
    starts = Starts.of(task, budget)
    if starts.count is None or starts.count > MAX_STARTS:
        raise LimitReached(f"more than {MAX_STARTS:,} start states")
    first = compiled.pack_starts(starts, budget=budget)
    space = compiled.explore(first, build=True, stop_at=[0, 1], budget=budget)
    limit = describe_limit(space, budget)
    if limit is not None:
        raise limit
    choice_start, branch_start, target, probability, label, _ = space.take_matrix()
    number = label.astype(np.int64)
    number[number < 0] = len(task.network.labels)
    return compiled, Space(
        space.states(),
        space.initial.astype(np.int64),
        space.mask(0).astype(bool),
        space.mask(1).astype(bool),
        choice_start.astype(np.int64),
        branch_start.astype(np.int64),
        target.astype(np.int64),
        probability,
        number,
        len(task.network.labels),
    )


def find_teacher(space: Space, *, safe: bool = False) -> Teacher:
    """Return the best label of every state by value iteration."""
    states, labels = len(space.states), space.labels
    owner = space.owner
    place = owner * (labels + 1) + space.label
    counts = np.bincount(place, minlength=states * (labels + 1)).reshape(states, labels + 1)
    applicable = counts[:, :labels] > 0
    allowed = applicable.copy()
    if safe:
        harmless = _safe_labels(space, owner, applicable)
        some = harmless.any(axis=1)
        allowed[some] = harmless[some]
    value = np.where(space.fail, -1.0, np.where(space.goal, 1.0, 0.0))
    fixed = space.fail | space.goal
    scores = np.zeros((states, labels))
    for _ in range(int(np.log(TOLERANCE) / np.log(DISCOUNT)) + 1):
        worth = _expected(space, value)
        sums = np.bincount(place, weights=worth, minlength=states * (labels + 1)).reshape(states, labels + 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = (sums[:, :labels] + sums[:, labels:]) / (counts[:, :labels] + counts[:, labels:])
            quiet = sums[:, labels] / counts[:, labels]
        best = np.where(allowed, scores, -np.inf).max(axis=1, initial=-np.inf)
        following = np.where(allowed.any(axis=1), best, np.where(counts[:, labels] > 0, quiet, 0.0))
        updated = np.where(fixed, value, DISCOUNT * following)
        change = float(np.abs(updated - value).max(initial=0.0))
        value = updated
        if change < TOLERANCE:
            break
    scores = np.where(allowed, scores, -np.inf)
    choice = np.where(allowed.any(axis=1) & ~fixed, scores.argmax(axis=1) if labels else -1, -1)
    return Teacher(space, choice.astype(np.int64), scores, applicable)


def _expected(space: Space, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """The expected value after each operator."""
    if not len(space.label):
        return np.zeros(0)
    return np.add.reduceat(space.probability * value[space.target], space.branch_start[:-1])


def _safe_labels(space: Space, owner: NDArray[np.int64], applicable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Labels none of whose outcomes (nor a silent operator's) lead where fail cannot be avoided: a greatest fixpoint."""
    unsafe = space.fail.copy()
    ended = space.fail | space.goal
    while True:
        bad = np.zeros(len(space.label), dtype=bool)
        if len(space.label):
            bad = np.logical_or.reduceat(unsafe[space.target], space.branch_start[:-1])
        table = applicable.copy()
        labelled = bad & (space.label < space.labels)
        table[owner[labelled], space.label[labelled]] = False
        hurt = np.zeros(len(space.states), dtype=bool)
        hurt[owner[bad & (space.label == space.labels)]] = True
        table[hurt] = False
        quiet = ~applicable.any(axis=1)
        worse = unsafe | (~ended & ((applicable.any(axis=1) & ~table.any(axis=1)) | (quiet & hurt)))
        if (worse == unsafe).all():
            return table
        unsafe = worse


def teacher_runs(
    teacher: Teacher, *, runs: int, max_steps: int, noise: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the decisions (state, label) of simulated teacher runs from random starts.

    With probability `noise` a random applicable label is taken (and taught) instead of the teacher's.
    """
    space = teacher.space
    rng = np.random.default_rng(seed)
    here = rng.choice(space.starts, size=runs)
    seen: list[NDArray[np.int64]] = []
    taught: list[NDArray[np.int64]] = []
    for _ in range(max_steps):
        here = here[~(space.fail[here] | space.goal[here])]
        here = here[space.operator_start[here] < space.operator_start[here + 1]]
        if not len(here):
            break
        label = teacher.choice[here].copy()
        stray = (rng.random(len(here)) < noise) & (label >= 0)
        for k in np.flatnonzero(stray):
            label[k] = rng.choice(np.flatnonzero(teacher.applicable[here[k]]))
        decided = label >= 0
        seen.append(here[decided])
        taught.append(label[decided])
        here = np.array([_step(space, s, a, rng) for s, a in zip(here.tolist(), label.tolist(), strict=True)])
    if not seen:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate(seen), np.concatenate(taught)


def _step(space: Space, state: int, label: int, rng: np.random.Generator) -> int:
    operators = np.arange(space.operator_start[state], space.operator_start[state + 1])
    names = space.label[operators]
    chosen = int(rng.choice(operators[(names == label) | (names == space.labels)]))
    begin, end = int(space.branch_start[chosen]), int(space.branch_start[chosen + 1])
    weights = space.probability[begin:end]
    return int(space.target[begin + int(rng.choice(end - begin, p=weights / weights.sum()))])
