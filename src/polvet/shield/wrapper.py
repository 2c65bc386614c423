"""A shield around an environment while something learns in it; needs the extra `train`.

`ShieldedEnv`       masks for learners that ask for them (`action_masks()`, as sb3-contrib's MaskablePPO does), and a replacement for every
                    forbidden action of learners that do not: nothing forbidden is ever done
`shield_vec_env`    the same around a `VecEnv` of stable-baselines3: all masks in one call of the kernel
What happens in a state that the shield does not list is told by `unknown` (`shield/guard.py`); `report()` counts.
With the task that the shield was computed for, every step is held against it (`shield/abstraction.py`), and `shield_env` makes some allowed
steps before it hands the environment out: another world is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.errors import InputError, MissingExtra, Where
from polvet.model.task import Task
from polvet.shield.abstraction import Beside
from polvet.shield.file import Shield
from polvet.shield.guard import EACH_STEP, NO_STATE, Guard, Ruling, ShieldReport, labels_of, other_world
from polvet.shield.gym import ModelEnv, gymnasium, require_gymnasium
from polvet.shield.risk_budget import RiskBudget
from polvet.worlds.clonable import Info
from polvet.worlds.enumerate import EPISODES
from polvet.worlds.observed import MADE_WITH, made_with
from polvet.worlds.seen import without_watchers

_Wrapper: Any = object if gymnasium is None else gymnasium.Wrapper
_Recorded: Any = type("_Recorded", (), {}) if gymnasium is None else gymnasium.utils.RecordConstructorArgs
STEPS = 50
"""The longest run in which an environment is tried."""
NOT_RESET = InputError(
    "the environment was not reset.", hint="Call reset() first: what is allowed depends on the state."
)


class ShieldedEnv(_Wrapper, _Recorded):  # type: ignore[misc]
    """An environment that takes allowed actions only: forbidden ones are replaced by the shield's `safest`.

    Around the user's own environment, `state_of(observation)` gives the model's state by names, and `labels` the label
    of each action number; steps that the `task` does not have are refused. Infos hold `taken` (the action that was
    done), `replaced` and `unknown`.
    """

    def __init__(
        self,
        env: Any,
        shield: Shield,
        *,
        state_of: Callable[[Any], Mapping[str, Any]] | None = None,
        labels: Sequence[str] | None = None,
        unknown: str = "error",
        task: Task | None = None,
    ) -> None:
        require_gymnasium()
        # Gymnasium makes an environment anew from what it was made of.
        arguments = {"shield": shield, "state_of": state_of, "labels": labels, "unknown": unknown, "task": task}
        _Recorded.__init__(self, _disable_deepcopy=True, **arguments)
        _Wrapper.__init__(self, env)
        if state_of is None and not isinstance(env.unwrapped, ModelEnv):
            raise NO_STATE
        self.shield, self.labels = shield, labels_of(env.unwrapped, labels)
        beside = None if task is None or state_of is None else Beside(task)
        actions = getattr(env.action_space, "n", None)
        self._guard = Guard(shield, self.labels, actions=actions, unknown=unknown, beside=beside)
        made, known = made_with(env), shield.document.get(MADE_WITH, "")
        if state_of is None:
            shield.refuse_other(env.unwrapped.task, Where("shield"))
            self._guard.compared = "it is its own task"
        elif beside is None and made != known and made.partition(" ")[0] == known.partition(" ")[0]:
            raise other_world(f"it is {made}, the model was made of {known}")
        self._state_of = state_of
        self._run = RiskBudget(shield) if shield.has_budget else None
        self._observation: Any = None
        self._ruling: Ruling | None = None
        self._over = False

    @property
    def replaced(self) -> int:
        """How many actions were replaced so far."""
        return self._guard.replaced

    def report(self) -> ShieldReport:
        """Return how many steps were taken, actions replaced, and states met that the shield does not know."""
        return self._guard.report()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Return the first observation; the shield begins anew with it."""
        self._observation, info = self.env.reset(seed=seed, options=options)
        self._over, self._state = False, self._names()
        self._ruling = self._rule(begins=True)
        return self._observation, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are allowed now; everything where the run has ended, nothing in a forbidden state."""
        if self._ruling is None:
            raise NOT_RESET
        return np.ones(len(self.labels), dtype=np.bool_) if self._over else self._ruling.mask.copy()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Return what follows the action, or the allowed one that replaces it; an unknown state may end the episode."""
        if self._ruling is None:
            raise NOT_RESET
        (wanted,) = self._guard.numbers(action).tolist()
        taken = wanted if self._over else self._ruling.take(wanted)
        if taken is None:
            return self._observation, 0.0, False, True, {"taken": None, "replaced": False, "unknown": True}
        self._guard.steps += 1
        self._guard.replaced += taken != wanted
        if self._run is not None and not self._over and self._ruling.known:
            self._pay(self._run, taken)
        before, was_over = self._state, self._over
        self._observation, reward, terminated, truncated, info = self.env.step(taken if taken != wanted else action)
        self._over = bool(terminated or truncated)
        if self._guard.beside is not None or not self._over:
            self._state = self._names()
        if not was_over:
            self._guard.follow(before, taken, self._state, None if truncated and not terminated else bool(terminated))
        if not self._over:
            self._ruling = self._rule()
            truncated = self._ruling.instead is None
        ruled = {"taken": taken, "replaced": taken != wanted, "unknown": not (self._over or self._ruling.known)}
        return self._observation, reward, terminated, truncated, {**info, **ruled}

    def _pay(self, run: RiskBudget, action: int) -> None:
        """Take the action's price off the run's budget; where only the environment moves, or the run has ended, there is none."""
        prices = run.prices(self._state)
        if prices and None not in prices:
            run.take(self._state, self.labels[action])

    def _names(self) -> Mapping[str, Any]:
        return self._state_of(self._observation) if self._state_of is not None else self.env.unwrapped.named_state()

    def _rule(self, *, begins: bool = False) -> Ruling:
        if begins and self._run is not None and self.shield.key(self._state) in self.shield.actions:
            self._run.begin(self._state)
        return self._guard.rule(self._state, self._run)


def shield_env(env: Any, shield: Shield, task: Task | None, **given: Any) -> ShieldedEnv:
    """Return the environment behind the shield; one that is not the shield's world is refused, also after some allowed steps in it."""
    shielded = ShieldedEnv(env, shield, task=task, **given)
    if shielded._guard.beside is not None:
        shielded._guard.compared = try_env(env, ShieldedEnv(without_watchers(env), shield, task=task, **given))
    return shielded


def try_env(env: Any, shielded: ShieldedEnv, *, is_shown: bool = True) -> str:
    """Refuse an environment that is not the shield's world, and return what was compared; without observations nothing is done in it."""
    beside, state_of = shielded._guard.beside, shielded._state_of
    assert beside is not None
    assert state_of is not None
    other, said = beside.find_other_world(env, state_of, shielded.labels)
    if other is not None:
        raise other_world(other)
    steps = [f"{_rehearse(env, shielded, beside.seeds):,} steps from its resets"] if is_shown else []
    return ", ".join([said] * bool(said) + steps + [EACH_STEP if said == "" else "each step since"])


def _rehearse(env: Any, shielded: ShieldedEnv, seeds: Sequence[int]) -> int:
    """Make allowed steps at random, each held against the shield's world, and return how many; its chance is its own again after them."""
    chance, rng, guard = getattr(env.unwrapped, "np_random", None), np.random.default_rng(0), shielded._guard
    for episode in range(EPISODES):
        missed = guard.missed.total()
        try:
            shielded.reset(seed=seeds[episode % len(seeds)] if seeds else episode)
        except InputError:
            if guard.missed.total() == missed:
                raise
            continue  # the shield does not know where this reset leads: whoever starts there is told so
        for _ in range(STEPS):
            masks = shielded.action_masks()
            if not masks.any() or any(shielded.step(int(rng.choice(np.flatnonzero(masks))))[2:4]):
                break
    env.unwrapped.np_random = chance
    return guard.steps


def shield_vec_env(
    env: Any,
    shield: Shield,
    task: Task | None = None,
    *,
    state_of: Callable[[Any], Any] | None,
    labels: Sequence[str] | None,
    unknown: str = "error",
) -> Any:
    """Return the `VecEnv` of stable-baselines3 with forbidden actions masked and replaced.

    `state_of(observations)` gives one row of numbers per environment, in the order of the shield's variables.
    """
    if find_spec("stable_baselines3") is None:
        raise MissingExtra("stable-baselines3", "train")
    if state_of is None:
        raise NO_STATE
    rows_of = state_of
    base: Any = import_module("stable_baselines3.common.vec_env").VecEnvWrapper

    class ShieldedVecEnv(base):  # type: ignore[misc]
        """All environments of a `VecEnv` behind one shield."""

        def __init__(self) -> None:
            super().__init__(env)
            self.labels = labels_of(env, labels)
            actions, beside = getattr(env.action_space, "n", None), None if task is None else Beside(task)
            self._guard = Guard(shield, self.labels, actions=actions, unknown=unknown, beside=beside)
            self._masks: NDArray[np.bool_] | None = None

        def report(self) -> ShieldReport:
            return self._guard.report()

        def reset(self) -> Any:
            observations = self.venv.reset()
            return self._cut_off(observations, self._rule(rows_of(observations)), None, None)

        def step_async(self, actions: Any) -> None:
            if self._masks is None:
                raise NOT_RESET
            wanted = self._guard.numbers(actions)
            taken = np.where(self._masks[np.arange(self.num_envs), wanted], wanted, self._instead)
            self._guard.steps += self.num_envs
            self._guard.replaced += int((taken != wanted).sum())
            self._taken = taken
            self.venv.step_async(taken)

        def step_wait(self) -> Any:
            observations, rewards, dones, infos = self.venv.step_wait()
            rows = rows_of(observations)
            if self._guard.beside is not None:
                self._follow(rows, dones, infos)
            observations = self._cut_off(observations, self._rule(rows), dones, infos)
            return observations, rewards, dones, infos

        def action_masks(self) -> Any:
            if self._masks is None:
                raise NOT_RESET
            return self._masks

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
            if method_name == "action_masks":
                return [self.action_masks()[k] for k in self.venv._get_indices(indices)]
            return self.venv.env_method(method_name, *args, indices=indices, **kwargs)

        def has_attr(self, attr_name: str) -> bool:
            return attr_name == "action_masks" or bool(super().has_attr(attr_name))

        def _rule(self, rows: Any) -> NDArray[np.int64]:
            """Note the masks of the states, and return the environments where nothing may be done."""
            masks = np.ones((self.num_envs, len(self.labels)), dtype=np.bool_)
            self._rows = np.asarray(rows)
            self._instead, _ = self._guard.rule_rows(self._guard.rows_of(self._rows), masks)
            self._masks = masks
            return np.flatnonzero(self._instead < 0)

        def _follow(self, rows: Any, dones: Any, infos: Any) -> None:
            """Hold the step of every environment against the shield's world."""
            for lane, (before, after) in enumerate(zip(self._rows, np.asarray(rows), strict=True)):
                ended = bool(dones[lane])
                then = names_of(infos[lane]["terminal_observation"]) if ended else names_of_row(after)
                cut = ended and bool(infos[lane].get("TimeLimit.truncated"))
                self._guard.follow(names_of_row(before), int(self._taken[lane]), then, None if cut else ended)

        def _cut_off(self, observations: Any, lanes: NDArray[np.int64], dones: Any, infos: Any) -> Any:
            """Begin a new episode where nothing may be done; the learner sees that the old one was cut off."""
            if not len(lanes):
                return observations
            observations = observations.copy()
            for lane in lanes.tolist():
                if dones is not None and not dones[lane]:
                    dones[lane] = True
                    infos[lane] |= {
                        "unknown": True,
                        "TimeLimit.truncated": True,
                        "terminal_observation": observations[lane].copy(),
                    }
                ((observations[lane], _),) = self.venv.env_method("reset", indices=[lane])
            if len(self._rule(rows_of(observations))):
                raise InputError(
                    "a new episode begins in a state that the shield does not know.",
                    hint="Start where the shield starts, or give unknown='nearest'.",
                )
            return observations

    def names_of(seen: Any) -> Mapping[str, Any]:
        """Return the state that one environment shows, by names."""
        parts = (
            {key: np.asarray(part)[None] for key, part in seen.items()}
            if isinstance(seen, dict)
            else np.asarray(seen)[None]
        )
        return names_of_row(np.asarray(rows_of(parts))[0])

    def names_of_row(row: Any) -> Mapping[str, Any]:
        return dict(zip(shield.variables, map(_whole, row.tolist()), strict=True))

    shielded, inner = ShieldedVecEnv(), env
    while hasattr(inner, "venv"):
        inner = inner.venv
    envs = getattr(inner, "envs", ()) if shielded._guard.beside is not None else ()
    for one in {
        (type(one.unwrapped), made_with(one), str(getattr(one.unwrapped, "P", ""))): one for one in envs
    }.values():
        given: dict[str, Any] = {"state_of": names_of, "labels": labels, "unknown": unknown}
        # Behind a VecEnvWrapper observations may be others than those that state_of is for: only what it says of itself is compared.
        shielded._guard.compared = try_env(
            one, ShieldedEnv(without_watchers(one), shield, task=task, **given), is_shown=inner is env
        )
    return shielded


def _whole(value: Any) -> Any:
    """Return a number of a row as the variable holds it, which may be a truth value."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
