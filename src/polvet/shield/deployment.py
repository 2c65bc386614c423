"""Experience in an environment: permissive schedulers are deployed there, and it alone knows what a step costs.

`Tracker`    a Gymnasium environment beside the model: which state it is in, and what each step cost
`Deployed`   the experience of it. Exploring is tabular Q-learning, or any learner that is handed the shielded environment: it masks
             (`action_masks()`) and replaces what is not permitted, as `shield/wrapper.py` tells. A cost is minus the reward, or what a
             function of the `Visit` says.
Needs the extra `train`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.mdp.sparse import Float64s, Mask
from polvet.model.task import Task, show_names, state_to_names
from polvet.shield.abstraction import Beside
from polvet.shield.costs import Contradiction, CostBook
from polvet.shield.file import Shield
from polvet.shield.guard import NO_STATE, labels_of
from polvet.shield.gym import ModelEnv, gymnasium, require_gymnasium
from polvet.shield.world import World
from polvet.shield.wrapper import ShieldedEnv
from polvet.worlds.clonable import Info

_Wrapper: Any = object if gymnasium is None else gymnasium.Wrapper
NUMBER = "number of the state"
AGAIN = "Make the task of this environment (polvet.from_gym), or try task.check_abstraction(env)."


@dataclass(frozen=True, slots=True)
class Visit:
    """One step: the states by names, the action's label, and what the environment gave for it."""

    state: Mapping[str, Any]
    action: str
    successor: Mapping[str, Any]
    reward: float
    info: Mapping[str, Any] = field(default_factory=dict)


Cost = Callable[[Visit], float]
Promise = float | Callable[[Mapping[str, Any], str], float]
"""A bound on costs: one number, or one per state (by names) and label."""
StateOf = Callable[[Any], Mapping[str, Any]]
Learner = Callable[[Any], Any]


class Tracker(_Wrapper):  # type: ignore[misc]
    """An environment beside the model: after each step the model's state is known, and its cost is in the book.

    `state_of(observation)` may leave out variables, as long as it tells apart what may follow a step.
    """

    def __init__(
        self,
        env: Any,
        task: Task,
        world: World,
        book: CostBook,
        cost: Cost | None,
        *,
        state_of: StateOf | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        require_gymnasium()
        super().__init__(env)
        assert world.states is not None
        self.world, self.book, self.cost_of = world, book, cost
        self.labels = labels_of(env.unwrapped, labels if labels is not None else _default_labels(env, task))
        actions = getattr(env.action_space, "n", len(self.labels))
        if len(self.labels) != actions:
            raise InputError(
                f"{len(self.labels)} labels for {actions} actions.", Where("labels"), "Give the label of each action."
            )
        self._names = [state_to_names(task.network, state) for state in world.states]
        self._state_of = state_of or _default_state(env, task)
        other, _ = Beside(task).find_other_world(env, self._state_of, self.labels)
        if isinstance(env.unwrapped, ModelEnv) and env.unwrapped.task.network != task.network:
            other = "it is made of another model"
        if other is not None:
            raise InputError(f"the environment is not the task's world: {other}.", Where("env"), AGAIN)
        starts = world.option_start.tolist()
        self.options = [
            {world.label_of(o): o for o in range(starts[s], starts[s + 1])} for s in range(world.mdp.states)
        ]
        self.number = int(world.mdp.initial[0])
        self.paid, self.taken = 0.0, -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Return the first observation; the episode must begin in a start state of the model."""
        shown, info = self.env.reset(seed=seed, options=options)
        self.number = self._find(shown, self.world.mdp.initial.tolist(), "no start state of the model")
        return shown, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Return what follows, with the `cost` in the infos; the episode ends where the model's runs do."""
        state, label = self.number, self.labels[int(action)]
        option = self.options[state].get(label, self.options[state].get(None))
        if option is None:
            raise InputError(
                f"'{label}' is not applicable in {self._show(state)}.", Where("env"), "Ask action_masks()."
            )
        shown, reward, terminated, truncated, info = self.env.step(action)
        mdp = self.world.mdp
        begin, end = int(mdp.branch_start[option]), int(mdp.branch_start[option + 1])
        may_follow = sorted(set(mdp.target[begin:end].tolist()))
        self.number = self._find(shown, may_follow, f"not what '{label}' leads to from {self._show(state)}")
        ended = bool(self.world.ended[self.number])
        if terminated and not ended:
            what = f"the episode ends in {self._show(self.number)}, where the model's runs go on."
            raise InputError(what, Where("env"), "Try task.check_abstraction(env).")
        visit = Visit(self._names[state], label, self._names[self.number], float(reward), info)
        cost = -visit.reward if self.cost_of is None else float(self.cost_of(visit))
        try:
            self.book.note(option, self.number, cost)
        except Contradiction as why:
            hint = (
                "Widen cost_lower and cost_upper."
                if "outside" in str(why)
                else ("Give a confidence: then costs may be random, and their mean is learned.")
            )
            raise InputError(f"'{label}' in {self._show(state)}: {why}.", Where("cost"), hint) from None
        self.paid, self.taken = cost, option
        return shown, reward, ended, bool(truncated), {**info, "cost": cost}

    def _find(self, observation: Any, candidates: Sequence[int], otherwise: str) -> int:
        given = self._state_of(observation)
        for name in given:
            if name not in self._names[0]:
                raise InputError(
                    f"no variable '{name}'.", Where("state_of"), f"The model has {', '.join(self._names[0])}."
                )
        states = [one for one in candidates if all(self._names[one][name] == value for name, value in given.items())]
        if len(states) == 1:
            return states[0]
        where, shown = Where("state_of"), show_names(given)
        if states:
            both = f"{self._show(states[0])} or {self._show(states[1])}"
            raise InputError(f"{shown} may be {both}.", where, "Give more variables.")
        raise InputError(f"{shown} is {otherwise}.", where, "Try task.check_abstraction(env).")

    def _show(self, state: int) -> str:
        return show_names(self._names[state])


def _default_labels(env: Any, task: Task) -> Sequence[str] | None:
    """Return the model's labels for an environment that has as many actions and names none."""
    own = getattr(env.unwrapped, "labels", None)
    fits = getattr(env.action_space, "n", None) == len(task.network.labels)
    return own if own is not None else task.network.labels if fits else None


def _default_state(env: Any, task: Task) -> StateOf:
    """Return the state as the environment tells it itself, or by the names of what the task's policies read."""
    if isinstance(env.unwrapped, ModelEnv):
        inner = env.unwrapped
        return lambda shown: inner.named_state()
    if not task.reading.inputs:
        raise NO_STATE
    names = tuple(task.reading.inputs)
    return lambda shown: dict(zip(names, np.ravel(shown).tolist(), strict=True))


class Deployed:
    """What was learned in an environment."""

    def __init__(
        self,
        tracker: Tracker,
        rng: random.Random,
        *,
        learner: Learner | None = None,
        explore: float = 0.3,
        budget: Budget = UNLIMITED,
    ) -> None:
        self.tracker, self.book, self.world = tracker, tracker.book, tracker.world
        self.rng, self.learner, self.share, self.budget = rng, learner, explore, budget
        self.quality = self.book.lower.copy()
        self._seeded = False

    @property
    def confidence(self) -> float | None:
        """How sure the bounds are; None: as sure as what was promised."""
        return self.book.confidence

    @property
    def visited(self) -> Mask:
        """Which choices were taken."""
        return self.book.visited

    @property
    def known(self) -> int:
        """How much is known of the costs."""
        return self.book.known

    def bounds(self) -> tuple[Float64s, Float64s]:
        """Return a lower and an upper bound on the cost of each choice."""
        return self.book.bounds()

    def explore(self, permitted: Mask, episodes: int, longest: int) -> None:
        """Learn inside the permitted options: by the learner, in the shielded environment, or by tabular Q-learning."""
        if self.learner is not None:
            self.learner(
                ShieldedEnv(
                    self.tracker,
                    self._shield(permitted),
                    state_of=lambda shown: {NUMBER: self.tracker.number},
                    labels=self.tracker.labels,
                )
            )
            return
        open_ = [[o for o in mine.values() if permitted[o]] for mine in self.tracker.options]

        def greedy(state: int) -> int | None:
            mine = open_[state]
            if not mine:
                return None
            if self.rng.random() < self.share:
                return self.rng.choice(mine)
            low = min(self.quality[o] for o in mine)
            return self.rng.choice([o for o in mine if self.quality[o] <= low])

        def update(option: int, cost: float, state: int) -> None:
            rest = min((self.quality[o] for o in open_[state]), default=0.0)
            rate = 1.0 / (1.0 + 0.05 * float(self.book.visits[option]))
            self.quality[option] += rate * (cost + rest - self.quality[option])

        self._run(greedy, update, episodes, longest)

    def follow(self, shares: Float64s, episodes: int, longest: int) -> None:
        """Run the scheduler that takes choices with these shares."""

        def drawn(state: int) -> int | None:
            mine = [o for o in self.tracker.options[state].values() if shares[o] > 0]
            return self.rng.choices(mine, [shares[o] for o in mine])[0] if mine else None

        self._run(drawn, lambda option, cost, state: None, episodes, longest)

    def _run(
        self,
        pick: Callable[[int], int | None],
        update: Callable[[int, float, int], None],
        episodes: int,
        longest: int,
    ) -> None:
        tracker = self.tracker
        action = {label: number for number, label in enumerate(tracker.labels)}
        for _ in range(episodes):
            if self.budget.is_over():
                return
            tracker.reset(seed=None if self._seeded else self.rng.getrandbits(31))
            self._seeded = True
            for _ in range(longest):
                option = pick(tracker.number)
                if option is None:
                    break
                label = self.world.label_of(option)
                if label is not None and label not in action:
                    raise InputError(
                        f"no action has the label '{label}'.", Where("labels"), "Give every label an action."
                    )
                _, _, terminated, truncated, _ = tracker.step(0 if label is None else action[label])
                update(option, tracker.paid, tracker.number)
                if terminated or truncated:
                    break

    def _shield(self, permitted: Mask) -> Shield:
        """Return the permitted options as a shield over the numbers of states."""
        actions = {
            (state,): tuple(label for label, option in mine.items() if permitted[option])
            for state, mine in enumerate(self.tracker.options)
        }
        reached = {key: labels for key, labels in actions.items() if labels or not self.tracker.options[key[0]]}
        document = {"labels": [label for label in self.tracker.labels if label in self.world.labels]}
        return Shield((NUMBER,), reached, dict.fromkeys(reached, Fraction(1)), document=document)


def open_book(
    task: Task, world: World, lower: Promise, upper: Promise | None, confidence: float | None = None
) -> CostBook:
    """Return an empty book of costs that are promised to lie between the bounds."""
    if upper is None:
        raise InputError(
            "nothing is promised of costs that the model does not know.",
            Where("--cost-upper"),
            "Say what none is above.",
        )
    if confidence is not None and not 0 < confidence < 1:
        raise InputError(f"the confidence {confidence} is no probability.", Where("--confidence"), "Give 0.99.")
    low, high = (_per_choice(task, world, promise) for promise in (lower, upper))
    wrong = np.flatnonzero(~((low >= 0) & (low <= high) & np.isfinite(high)))
    if len(wrong):
        raise InputError(
            f"the costs are said to lie between {low[wrong[0]]:g} and {high[wrong[0]]:g}.",
            Where("--cost-lower"),
            "Give 0 <= lower <= upper.",
        )
    return CostBook(world.mdp, low, high, confidence)


def _per_choice(task: Task, world: World, promise: Promise) -> Float64s:
    if not callable(promise):
        return np.full(world.mdp.choices, float(promise))
    assert world.states is not None
    names = [state_to_names(task.network, state) for state in world.states]
    owners = world.owners().tolist()
    return np.array([float(promise(names[s], str(world.label_of(o)))) for o, s in enumerate(owners)])
