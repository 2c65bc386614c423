"""Is an environment what the model says? Random runs of it, step by step beside the slow interpreter.

A shield around the user's own environment rests on two promises: `state_of` gives the model's state, and `labels` the model's labels.
`check_abstraction` tries them: every start must be a start of the task, every step a move of the model, and episodes must end where
the model's runs do. Where a label is one operator and nothing else moves, frequencies are compared, too: an outcome of probability p
that is seen in k of n visits is doubtful where n KL(k/n || p) is above what chance explains with the given confidence (Chernoff's
bound, with a union bound over all outcomes and numbers of visits). Agreement is no proof: it is what was looked at.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, show_names, state_from_names, state_to_names
from polvet.shield.guard import labels_of
from polvet.worlds.intervals import divergence


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where a run of the environment is no run of the model."""

    run: int
    step: int
    what: str

    def __str__(self) -> str:
        return f"run {self.run}, step {self.step}: {self.what}"


@dataclass(frozen=True, slots=True)
class Doubt:
    """An outcome that is seen more or less often than its probability explains."""

    state: Mapping[str, Any]
    label: str
    outcome: Mapping[str, Any]
    probability: float
    seen: int
    visits: int

    def __str__(self) -> str:
        return (
            f"{show_names(self.state)} --{self.label}-> {show_names(self.outcome)}: "
            f"{self.seen:,} of {self.visits:,} visits, probability {self.probability:.6g}"
        )


@dataclass(frozen=True, slots=True)
class AbstractionCheck:
    """What random runs showed: the first step that is none of the model's, and frequencies that are not the model's."""

    runs: int
    steps: int
    pairs: int  # of states and labels that were tried
    mismatch: Mismatch | None
    doubts: tuple[Doubt, ...]
    confidence: float

    @property
    def agrees(self) -> bool:
        """Whether nothing speaks against the abstraction."""
        return self.mismatch is None and not self.doubts


def check_abstraction(
    task: Task,
    env: Any,
    *,
    state_of: Callable[[Any], Mapping[str, Any]],
    labels: Sequence[str] | None = None,
    runs: int = 100,
    max_steps: int = 1_000,
    seed: int = 0,
    confidence: float = 0.999,
) -> AbstractionCheck:
    """Return whether random runs of the environment are runs of the task."""
    if not 0 < confidence < 1:
        raise InputError(f"the confidence {confidence} is no probability.", Where("confidence"), "Give 0.999.")
    named = labels_of(env.unwrapped, labels)
    unknown = [label for label in named if label not in task.network.labels]
    if unknown or len(named) != getattr(env.action_space, "n", len(named)):
        what = (
            f"the model has no label '{unknown[0]}'."
            if unknown
            else f"{len(named)} labels for {env.action_space.n} actions."
        )
        raise InputError(what, Where("labels"), f"The model's labels: {', '.join(task.network.labels)}.")
    walk = _Walk(task, state_of, named)
    rng = np.random.default_rng(seed)
    done, mismatch = 0, None
    for run in range(runs):
        mismatch = walk.run(env, run, int(rng.integers(2**31)), rng, max_steps)
        done = run + 1
        if mismatch is not None:
            break
    return AbstractionCheck(
        done, walk.steps, len(walk.seen), mismatch, () if mismatch else tuple(walk.doubts(1 - confidence)), confidence
    )


class _Walk:
    """Runs of the environment beside the interpreter, and what was seen on them."""

    def __init__(self, task: Task, state_of: Callable[[Any], Mapping[str, Any]], labels: tuple[str, ...]) -> None:
        self.task, self.state_of, self.labels = task, state_of, labels
        self.semantics = Semantics(task.network)
        self.is_fail, self.is_goal = self.semantics.compile(task.fail), self.semantics.compile(task.goal)
        starts = self.semantics.initial_states() if task.start is None else None
        self.starts = None if starts is None else set(starts)
        self.is_start = None if task.start is None else self.semantics.compile(task.start)
        self.steps = 0
        self.seen: dict[tuple[State, str], Counter[State]] = defaultdict(Counter)

    def run(self, env: Any, run: int, seed: int, rng: np.random.Generator, max_steps: int) -> Mismatch | None:
        observation, _ = env.reset(seed=seed)
        state = self._state(observation)
        if isinstance(state, str):
            return Mismatch(run, 0, state)
        if not (self.is_start(state) if self.is_start is not None else state in (self.starts or ())):
            return Mismatch(run, 0, f"{self.semantics.show(state)} is no start state of the model")
        for step in range(1, max_steps + 1):
            moves = self.semantics.moves(state)
            applicable = [k for k, label in enumerate(self.labels) if any(move.label == label for move in moves)]
            if not applicable and any(move.label is not None for move in moves):
                return Mismatch(
                    run, step, f"no action of the environment is applicable in {self.semantics.show(state)}"
                )
            action = int(rng.choice(applicable)) if applicable else int(rng.integers(len(self.labels)))
            label = self.labels[action]
            observation, _, terminated, truncated, _ = env.step(action)
            self.steps += 1
            after = self._state(observation)
            if isinstance(after, str):
                return Mismatch(run, step, after)
            mine = [move for move in moves if move.label in (None, label)]
            outcomes = {outcome.state for move in mine for outcome in move.outcomes}
            if after not in outcomes:
                show = self.semantics.show
                return Mismatch(
                    run,
                    step,
                    f"'{label}' leads from {show(state)} to {show(after)}, in the model to "
                    + (" or ".join(sorted(map(show, outcomes))) or "nothing"),
                )
            if len(mine) == 1:
                self.seen[state, label][after] += 1
            ends = bool(self.is_fail(after) or self.is_goal(after)) or not self.semantics.moves(after)
            if ends != bool(terminated) and not (truncated and not ends):
                where = "ends" if terminated else "goes on"
                return Mismatch(
                    run, step, f"the environment {where} in {self.semantics.show(after)}, the model does not"
                )
            if terminated or truncated:
                return None
            state = after
        return None

    def doubts(self, chance: float) -> list[Doubt]:
        """Return the outcomes whose frequencies are not explained by chance, the least likely first."""
        rows = []
        for (state, label), counts in self.seen.items():
            move = next(one for one in self.semantics.moves(state) if one.label in (None, label))
            exact: dict[State, float] = defaultdict(float)
            for outcome in move.outcomes:
                exact[outcome.state] += float(outcome.probability)
            rows += [(state, label, after, min(1.0, p), counts[after], counts.total()) for after, p in exact.items()]
        explained = math.log(2 * max(1, len(rows)) * max(1, self.steps) / chance)
        doubts = []
        for state, label, after, p, count, visits in rows:
            surprise = visits * divergence(count / visits, p)
            if surprise > explained:
                named = [state_to_names(self.task.network, one) for one in (state, after)]
                doubts.append((-surprise, Doubt(named[0], label, named[1], p, count, visits)))
        return [doubt for _, doubt in sorted(doubts, key=lambda pair: pair[0])]

    def _state(self, observation: Any) -> State | str:
        """Return the model's state, or why what `state_of` gives is none."""
        try:
            given = {
                name: getattr(value, "item", lambda v=value: v)() for name, value in self.state_of(observation).items()
            }
            return state_from_names(self.task.network, given, Where("state_of"))
        except InputError as error:
            return str(error)
