"""Many episodes of a task at once, as the two conventions for vectors of environments have them; needs the extra `train`.

`VectorEnv`   Gymnasium's: a lane whose episode has ended begins the next one with the next step (autoreset NEXT_STEP)
`sb3_vec_env` stable-baselines3's: the next episode begins at once, and the last observation is in the lane's info
Both take the numbers of labels, offer masks of the applicable ones (inside a shield: of the allowed ones, and forbidden labels are
replaced), and run in the kernel (`shield/lanes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.errors import InputError, MissingExtra, Where
from polvet.model.task import Task
from polvet.shield.file import Shield
from polvet.shield.gym import Rewards, gymnasium, require_gymnasium, spaces_of
from polvet.shield.lanes import EVENTS, LIMIT, RUNNING, Step, make_lanes
from polvet.worlds.clonable import Info

NOTHING = {"fail": False, "goal": False}
"""The info of a lane of stable-baselines3 whose episode goes on."""
ENDED: list[Info] = [
    {
        **{name: number == end for name, end in EVENTS.items()},
        "TimeLimit.truncated": number == LIMIT,
        "terminal_observation": None,
    }
    for number in range(RUNNING)
]
"""The info of a lane of stable-baselines3 whose episode ended so."""


class RunningInfo(Info):
    """The info of a lane whose episode goes on, the same one step after step; it counts what is written into any of them."""

    writes = 0


def _counted(name: str) -> Any:
    change = getattr(dict, name)

    def method(info: RunningInfo, *values: Any, **named: Any) -> Any:
        RunningInfo.writes += 1
        return change(info, *values, **named)

    return method


for _name in ("__setitem__", "__delitem__", "__ior__", "update", "setdefault", "pop", "popitem", "clear"):
    setattr(RunningInfo, _name, _counted(_name))

_Base: Any = object if gymnasium is None else gymnasium.vector.VectorEnv


class VectorEnv(_Base):  # type: ignore[misc]
    """A task as `n` environments of Gymnasium that step together.

    Infos hold, per lane: `fail`, `goal`, `stuck`, `deadlock`, `cost` and `action_mask`.
    """

    def __init__(
        self,
        task: Task,
        n: int,
        *,
        cost: str | None = None,
        max_steps: int = 1_000,
        shield: Shield | None = None,
        **rewards: float,
    ) -> None:
        require_gymnasium()
        self.lanes = make_lanes(task, n, shield=shield, cost=cost, max_steps=max_steps)
        self.task, self.num_envs, self.labels = task, n, task.network.labels
        self.rewards = Rewards(**rewards)
        self.single_observation_space, self.single_action_space = spaces_of(self.lanes)
        batched = gymnasium.vector.utils.batch_space
        self.observation_space = batched(self.single_observation_space, n)
        self.action_space = batched(self.single_action_space, n)
        mode = getattr(gymnasium.vector, "AutoresetMode", None)
        self.metadata = {"render_modes": [], **({} if mode is None else {"autoreset_mode": mode.NEXT_STEP})}
        self._masks: NDArray[np.bool_] | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], Info]:
        """Begin a new episode in every lane; an integer seeds lane k with seed + k, as Gymnasium does."""
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + lane for lane in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise InputError(f"{len(seeds)} seeds for {self.num_envs} lanes.", Where("seed"), "Give one per lane.")
        step = self.lanes.restart(seeds)
        self._masks = step.masks
        return step.rows, self._infos(step)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """Take an action in every lane; a lane whose episode had ended begins a new one instead."""
        if self._masks is None:
            raise InputError("the environments were not reset.", hint="Call reset() first.")
        step = self.lanes.step(actions)
        self._masks = step.masks
        return step.rows, self.rewards.of(step), step.end < LIMIT, step.end == LIMIT, self._infos(step)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which labels are applicable in each lane; everything where none is."""
        if self._masks is None:
            raise InputError("the environments were not reset.", hint="Call reset() first.")
        return self._masks

    def _infos(self, step: Step) -> Info:
        infos: Info = {name: step.end == end for name, end in EVENTS.items()}
        infos |= {"cost": step.cost, "action_mask": step.masks}
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        return infos | {f"_{name}": everywhere for name in infos}  # Gymnasium's convention: which lanes have the entry


def sb3_vec_env(
    task: Task,
    n: int,
    *,
    cost: str | None = None,
    max_steps: int = 1_000,
    shield: Shield | None = None,
    **rewards: float,
) -> Any:
    """Return the task as a `VecEnv` of stable-baselines3, with `action_masks` for sb3-contrib."""
    if find_spec("stable_baselines3") is None:
        raise MissingExtra("stable-baselines3", "train")
    base: Any = import_module("stable_baselines3.common.vec_env").VecEnv

    class KernelVecEnv(base):  # type: ignore[misc]
        """The lanes of a task in the words of stable-baselines3."""

        def __init__(self) -> None:
            self.lanes = make_lanes(task, n, shield=shield, cost=cost, max_steps=max_steps, at_once=True)
            self.rewards, self._asked = Rewards(**rewards), None
            self._masks = np.ones((n, self.lanes.labels), dtype=np.bool_)
            self._seeds: list[int | None] = [None] * n
            self._running: list[Info] = []
            self._writes = -1
            super().__init__(n, *spaces_of(self.lanes))

        def reset(self) -> Any:
            step = self.lanes.restart(self._seeds)
            self._seeds, self._masks = [None] * n, step.masks
            return step.rows

        def step_async(self, actions: Any) -> None:
            self._asked = actions

        def step_wait(self) -> Any:
            step = self.lanes.step(self._asked)
            self._masks = step.masks
            done = step.end != RUNNING
            infos = self._running_infos()
            ended = np.flatnonzero(done)
            for lane, end, last in zip(ended.tolist(), step.end[ended].tolist(), step.last[ended], strict=True):
                info = infos[lane] = ENDED[end].copy()
                info["terminal_observation"] = last
            return step.rows, self.rewards.of(step).astype(np.float32), done, infos

        def _running_infos(self) -> list[Info]:
            """Return each lane's dictionary for as long as it runs: the same one again, unless somebody wrote into one."""
            if self._writes != RunningInfo.writes:
                self._running = [RunningInfo(NOTHING) for _ in range(n)]
                self._writes = RunningInfo.writes
            return self._running.copy()

        def action_masks(self) -> Any:
            return self._masks

        def close(self) -> None:
            """There is nothing to close."""

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            if attr_name == "render_mode":
                return [None for _ in self._get_indices(indices)]
            return [getattr(self, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise InputError(
                "lanes of the kernel have no attributes of their own.", Where(attr_name), "Make them anew."
            )

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            if method_name != "action_masks":
                raise InputError(f"lanes have no method '{method_name}'.", Where("env_method"), "Use action_masks.")
            return [self._masks[lane] for lane in self._get_indices(indices)]

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return KernelVecEnv()
