"""Gymnasium environments: any task as one, and a shield around a model or around the user's own environment.

Needs the extra `train`. `model_env(task)` draws outcomes with the model's probabilities by the slow interpreter; the
action is the number of a label. `ShieldedEnv` masks (`action_masks()`, as sb3-contrib's MaskablePPO asks for it) and
replaces what is forbidden, so that even an agent that ignores masks cannot leave the shield.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.errors import InputError, MissingExtra
from polvet.model.network import Kind, Variable
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, state_to_names
from polvet.shield.file import Shield

gymnasium: Any = import_module("gymnasium") if find_spec("gymnasium") else None

Observation = NDArray[np.float32]
_Env: Any = object if gymnasium is None else gymnasium.Env
_Wrapper: Any = object if gymnasium is None else gymnasium.Wrapper


class ModelEnv(_Env):  # type: ignore[misc]
    """A task as an environment: observations are the variables' values, rewards minus the cost, +-bonus at the end."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (the base class declares it so)

    def __init__(
        self,
        task: Task,
        *,
        cost: str | None = None,
        goal_reward: float = 1.0,
        fail_reward: float = -1.0,
        max_steps: int = 1_000,
    ) -> None:
        _require_gymnasium()
        self.task, self.cost, self.max_steps = task, cost, max_steps
        self.goal_reward, self.fail_reward = goal_reward, fail_reward
        self.semantics = Semantics(task.network)
        self._is_fail, self._is_goal = self.semantics.compile(task.fail), self.semantics.compile(task.goal)
        start = self.semantics.initial_states() if task.start is None else self.semantics.states_satisfying(task.start)
        self._starts = list(start)
        if not self._starts:
            raise InputError("there is no start state.", hint="Give a start condition that some state satisfies.")
        self.labels = task.network.labels
        if cost is not None and cost not in {variable.name for variable in task.network.scratch}:
            raise InputError(f"no transient variable '{cost}'.", hint="Name the reward variable that edges assign.")
        bounds = [_bounds(variable) for variable in task.network.variables]
        self.observation_space = gymnasium.spaces.Box(
            np.array([low for low, _ in bounds], dtype=np.float32),
            np.array([high for _, high in bounds], dtype=np.float32), dtype=np.float32,
        )  # fmt: skip
        self.action_space = gymnasium.spaces.Discrete(max(1, len(self.labels)))
        self.state: State = self._starts[0]
        self._steps = 0
        self._chance = random.Random(0)

    def observe(self) -> Observation:
        """Return the state as the agent sees it."""
        return np.array([float(value) for value in self.state], dtype=np.float32)

    def named_state(self) -> dict[str, Any]:
        """Return the state by the names of its variables."""
        return state_to_names(self.task.network, self.state)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Return the first observation of a new run from a start state drawn uniformly."""
        super().reset(seed=seed)
        if seed is not None:
            self._chance = random.Random(seed)
        self.state = self._chance.choice(self._starts)
        self._steps = 0
        return self.observe(), {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which labels are applicable; everything where none is (the pseudo-action has no number)."""
        applicable = self.semantics.applicable(self.state)
        mask = np.array([label in applicable for label in self.labels] or [True], dtype=bool)
        return mask if mask.any() else np.ones_like(mask)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Return what follows; a label that is not applicable ends the run (`stuck`)."""
        label = self.labels[int(action)] if self.labels else None
        moves = self.semantics.moves(self.state)
        named = any(move.label is not None for move in moves)
        # The environment picks among the operators of the label and the silent ones.
        open_ = [move for move in moves if move.label is None or move.label == label]
        self._steps += 1
        late = self._steps >= self.max_steps
        if not moves or (named and all(move.label is None for move in open_)):
            return self.observe(), 0.0, True, False, {"stuck": bool(moves), "deadlock": not moves, "fail": False}
        move = self._chance.choice(open_)
        outcome = self._chance.choices(move.outcomes, [float(one.probability) for one in move.outcomes])[0]
        self.state = outcome.state
        reward = 0.0
        if self.cost is not None:
            place = self.semantics.position[self.cost] - len(self.task.network.variables)
            reward -= float(outcome.scratch[place])
        failed = bool(self._is_fail(self.state))
        arrived = not failed and bool(self._is_goal(self.state))
        reward += self.fail_reward * failed + self.goal_reward * arrived
        return self.observe(), reward, failed or arrived, late, {"fail": failed, "goal": arrived}


def model_env(task: Task, **options: Any) -> ModelEnv:
    """Return a Gymnasium environment of the task; it passes Gymnasium's `check_env`."""
    return ModelEnv(task, **options)


class ShieldedEnv(_Wrapper):  # type: ignore[misc]
    """An environment that takes allowed actions only: forbidden ones are replaced, and counted in `replaced`.

    Around the user's own environment, `state_of(observation)` gives the model's state by names, and `labels` the label
    of each action number.
    """

    def __init__(
        self,
        env: Any,
        shield: Shield,
        *,
        state_of: Callable[[Any], Mapping[str, Any]] | None = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        _require_gymnasium()
        super().__init__(env)
        self.shield = shield
        found = labels if labels is not None else getattr(env.unwrapped, "labels", None)
        if found is None or (state_of is None and not isinstance(env.unwrapped, ModelEnv)):
            raise InputError(
                "the shield must know the state and the labels.",
                hint="Give state_of (observation -> model state) and labels.",
            )
        self.labels: tuple[str, ...] = tuple(found)
        self._state_of = state_of
        self._observation: Any = None
        self.replaced = 0

    def _state(self) -> Mapping[str, Any]:
        if self._state_of is not None:
            return self._state_of(self._observation)
        state: Mapping[str, Any] = self.env.unwrapped.named_state()
        return state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return the first observation."""
        self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are allowed now; everything where the run has ended."""
        mask = np.array(self.shield.mask(self._state(), self.labels), dtype=bool)
        return mask if mask.any() else np.ones_like(mask)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Return what follows the action, or the allowed one that replaces it."""
        wanted = self.labels[int(action)]
        taken = self.shield.replace(self._state(), wanted)
        replaced = taken is not None and taken != wanted
        if replaced and taken is not None:
            self.replaced += 1
            action = self.labels.index(taken)
        self._observation, reward, terminated, truncated, info = self.env.step(action)
        return self._observation, reward, terminated, truncated, {**info, "replaced": replaced}


def _require_gymnasium() -> None:
    if gymnasium is None:
        raise MissingExtra("gymnasium", "train")


def _bounds(variable: Variable) -> tuple[float, float]:
    if variable.kind is Kind.BOOL:
        return 0.0, 1.0
    low = -np.inf if variable.lower is None else float(variable.lower)
    high = np.inf if variable.upper is None else float(variable.upper)
    return low, high
