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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.model.semantics import Semantics, State
from polvet.model.tables import STATE
from polvet.model.task import Task, show_names, state_from_names, state_to_names
from polvet.shield.guard import labels_of
from polvet.worlds.intervals import LOGGED, divergence
from polvet.worlds.observed import MADE_WITH, SEEDS, made_with, name_of, table_of
from polvet.worlds.table import exact_distribution

StateOf = Callable[[Any], Mapping[str, Any]]
STATE_OF = Where("state_of")


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
    state_of: StateOf,
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
    other, _ = walk.beside.find_other_world(env, state_of, named)
    if other is not None:
        return AbstractionCheck(0, 0, 0, Mismatch(0, 0, other), (), confidence)
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


class Beside:
    """The model beside an environment: whether what the environment does is one of the model's steps."""

    def __init__(self, task: Task) -> None:
        self.task, self.semantics = task, Semantics(task.network)
        self._ends = [self.semantics.compile(condition) for condition in (task.fail, task.goal)]
        self.table = table_of(task.network)
        noted = dict(task.network.model.metadata)
        self.made_with, self.seeds = noted.get(MADE_WITH, ""), [int(one) for one in noted.get(SEEDS, "").split()]
        events = () if self.table is None else self.table.events
        # An observation does not tell the events of a table; that the episode ends does.
        self._told = [k for k, variable in enumerate(task.network.variables) if variable.name not in events]

    def place(self, named: Mapping[str, Any]) -> State:
        """Return the state of these names; an InputError says why there is none."""
        return state_from_names(self.task.network, {name: plain(value) for name, value in named.items()}, STATE_OF)

    def is_over(self, state: State) -> bool:
        """Return whether the model's runs end in the state."""
        return any(end(state) for end in self._ends) or not self.semantics.moves(state)

    def follow(self, state: State, label: str, after: State, ended: bool | None) -> State | str:
        """Return the outcome of the step that the environment shows, or why the model has none; ended=None: the episode was cut off."""
        show, outcomes = self.semantics.show, self.outcomes(state, label)
        alike = [one for one in outcomes if all(one[k] == after[k] for k in self._told)]
        if not alike and self.table is not None and self.table.name == LOGGED:
            alike = [one for one in outcomes if self._ends[0](one)]  # what was never seen counts as failing
        if not alike:
            known = " or ".join(sorted(map(show, outcomes))) or "nothing"
            return f"'{label}' leads from {show(state)} to {show(after)}, in the model to {known}"
        fitting = [one for one in alike if ended is None or self.is_over(one) == ended]
        if not fitting and (ended or self.table is None):
            return f"the environment {'ends' if ended else 'goes on'} in {show(after)}, the model does not"
        return (fitting or alike)[0]

    def outcomes(self, state: State, label: str) -> dict[State, Fraction]:
        """Return what may follow when the label is taken; probabilities are those of one operator, where there is only one."""
        chances: dict[State, Fraction] = defaultdict(Fraction)
        for move in self.semantics.moves(state):
            for outcome in move.outcomes if move.label in (None, label) else ():
                chances[outcome.state] += outcome.probability
        return chances

    def find_other_world(self, env: Any, state_of: StateOf, labels: Sequence[str]) -> tuple[str | None, str]:
        """Return the first thing that the environment says of itself and the model does not, and what was compared, in words.

        That is its table of transitions, where its states are numbered as the model's; else the arguments it was made with.
        """
        rows = getattr(env.unwrapped, "P", None)
        if isinstance(rows, Mapping) and rows and self._is_numbered_alike(env, rows, state_of):
            return next(self._other_rows(rows, labels), None), f"its table of {len(rows):,} states"
        made, known = made_with(env), self.made_with
        if not made or made.partition(" ")[0] != known.partition(" ")[0]:
            return None, ""
        if made != known:
            return f"it is {made}, the model was made of {known}", ""
        return None, f"how it was made ({made})"

    def _is_numbered_alike(self, env: Any, rows: Mapping[int, Any], state_of: StateOf) -> bool:
        table = self.table
        if table is None or table.name == name_of(env):
            return table is not None
        try:
            return all(table.completed(state_of(number)).get(STATE) == number for number in rows)
        except Exception:  # the user's function is written for observations, which these numbers may not be
            return False

    def _other_rows(self, rows: Mapping[int, Any], labels: Sequence[str]) -> Iterator[str]:
        """Yield where rows of transitions are none of the model's; not what is inapplicable, or up to the environment."""
        show, position = self.semantics.show, self.semantics.position[STATE]
        for source, row in rows.items():
            state = self.place({STATE: source})
            if self.is_over(state):
                continue
            for action, given in row.items():
                own: dict[int, Fraction] = defaultdict(Fraction)
                model: dict[int, Fraction] = defaultdict(Fraction)
                outcomes = self.outcomes(state, labels[action])
                for outcome, chance in outcomes.items():
                    model[int(outcome[position])] += chance
                if sum(model.values()) != 1:
                    continue
                ends = any(ended for *_, ended in given)
                over = {int(one[position]) for one in outcomes if ends and self.is_over(one)}
                chances = exact_distribution([float(one[0]) for one in given], Where("P"))
                for chance, (_, target, _, ended) in zip(chances, given, strict=True):
                    own[int(target)] += chance
                    if chance > 0 and ended and int(target) in model and int(target) not in over:
                        yield f"'{labels[action]}' from {show(state)} ends the episode in s={target}, in the model it does not"
                for target in sorted(own | model):
                    if own[target] != model[target]:
                        what = (
                            f"'{labels[action]}' leads from {show(state)} to s={target} with probability {own[target]}"
                        )
                        yield f"{what}, in the model with {model[target]}"


class _Walk:
    """Runs of the environment beside the interpreter, and what was seen on them."""

    def __init__(self, task: Task, state_of: StateOf, labels: tuple[str, ...]) -> None:
        self.beside = Beside(task)
        self.task, self.state_of, self.labels = task, state_of, labels
        self.semantics = self.beside.semantics
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
            ended = None if truncated and not terminated else bool(terminated)
            outcome = self.beside.follow(state, label, after, ended)
            if isinstance(outcome, str):
                return Mismatch(run, step, outcome)
            if sum(move.label in (None, label) for move in moves) == 1:
                self.seen[state, label][outcome] += 1
            if terminated or truncated:
                return None
            state = after
        return None

    def doubts(self, chance: float) -> list[Doubt]:
        """Return the outcomes whose frequencies are not explained by chance, the least likely first."""
        rows = []
        for (state, label), counts in self.seen.items():
            exact = {after: float(chance) for after, chance in self.beside.outcomes(state, label).items()}
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
            return self.beside.place(self.state_of(observation))
        except InputError as error:
            return str(error)


def plain(value: Any) -> Any:
    """Return what numpy holds as Python's own."""
    return value.item() if hasattr(value, "item") else value
