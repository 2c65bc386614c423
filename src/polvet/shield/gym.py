"""Any task as a Gymnasium environment; needs the extra `train`.

`model_env(task)` draws outcomes with the model's probabilities, in the kernel; the action is the number of a label.
Shields around environments are in `shield/wrapper.py`, many environments at once in `shield/vector.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.errors import MissingExtra
from polvet.model.network import Kind, Network
from polvet.model.semantics import State
from polvet.model.task import Task, state_to_names
from polvet.policy.inputs import Input, InputFunction, kind_over
from polvet.shield.lanes import EVENTS, FAIL, GOAL, LIMIT, RUNNING, Lanes, Step
from polvet.worlds.clonable import Info

gymnasium: Any = import_module("gymnasium") if find_spec("gymnasium") else None

Observation = NDArray[np.float32]
_Env: Any = object if gymnasium is None else gymnasium.Env


@dataclass(frozen=True, slots=True)
class Rewards:
    """What a step is worth: minus its cost, and something for how the episode ends."""

    goal_reward: float = 1.0
    fail_reward: float = -1.0

    def of(self, step: Step) -> NDArray[np.float64]:
        """Return the reward of every lane."""
        of_end = np.zeros(RUNNING + 1)
        of_end[FAIL], of_end[GOAL] = self.fail_reward, self.goal_reward
        return np.asarray(of_end[step.end] - step.cost)


class ModelEnv(_Env):  # type: ignore[misc]
    """A task as an environment: observations are what policies read, rewards minus the cost, +-bonus at the end."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (the base class declares it so)

    def __init__(self, task: Task, *, cost: str | None = None, max_steps: int = 1_000, **rewards: float) -> None:
        require_gymnasium()
        self.task, self.labels = task, task.network.labels
        self.lanes = Lanes(task, 1, cost=cost, max_steps=max_steps)
        self.rewards = Rewards(**rewards)
        self.observation_space, self.action_space = spaces_of(self.lanes)
        self._seeded = False
        self._shown = self.lanes.restart([0])

    @property
    def state(self) -> State:
        """The state, one value per variable."""
        (state,) = self.lanes.states()
        return state

    def named_state(self) -> dict[str, Any]:
        """Return the state by the names of its variables."""
        return state_to_names(self.task.network, self.state)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Return the first observation of a new run from a start state drawn uniformly."""
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**63))
        self._seeded = True
        self._shown = self.lanes.restart([seed])
        return self._shown.rows[0], {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which labels are applicable; everything where none is (the pseudo-action has no number)."""
        mask = self._shown.masks[0]
        return mask if len(mask) else np.ones(1, dtype=np.bool_)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Return what follows; a label that is not applicable ends the run (`stuck`)."""
        shown = self._shown = self.lanes.step([int(action)])
        end = int(shown.end[0])
        info = {name: end == number for name, number in EVENTS.items()} | {"cost": float(shown.cost[0])}
        return shown.rows[0], float(self.rewards.of(shown)[0]), end < LIMIT, end == LIMIT, info


def model_env(task: Task, **options: Any) -> ModelEnv:
    """Return a Gymnasium environment of the task; it passes Gymnasium's `check_env`."""
    return ModelEnv(task, **options)


def require_gymnasium() -> None:
    """Raise MissingExtra where Gymnasium is not installed."""
    if gymnasium is None:
        raise MissingExtra("gymnasium", "train")


def spaces_of(lanes: Lanes) -> tuple[Any, Any]:
    """Return the spaces of observations and actions of one lane."""
    network = lanes.task.network
    bounds = [_bounds(network, one) for one in lanes.columns]
    low, high = (np.array(ends, dtype=np.float32) for ends in zip(*bounds, strict=True))
    return gymnasium.spaces.Box(low, high, dtype=np.float32), gymnasium.spaces.Discrete(max(1, lanes.labels))


def _bounds(network: Network, column: Input) -> tuple[float, float]:
    if not isinstance(column, int):
        is_truth = not isinstance(column, InputFunction) and kind_over(network, column) is Kind.BOOL
        return (0.0, 1.0) if is_truth else (-np.inf, np.inf)
    variable = network.variables[column]
    if variable.kind is Kind.BOOL:
        return 0.0, 1.0
    low = -np.inf if variable.lower is None else float(variable.lower)
    high = np.inf if variable.upper is None else float(variable.upper)
    return low, high
