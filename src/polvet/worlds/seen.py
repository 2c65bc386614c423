"""What an agent meets in an environment: its wrappers, its step limit, what it shows in each state, and which actions it masks there.

Masks     `action_masks()` of the environment or of a wrapper, as MaskablePPO asks it, else `info["action_mask"]`. `masks` says whether
          masked actions are not applicable. None: they are not where there is `action_masks()`; a mask that stands in an info alone
          and forbids something is refused, since nothing tells whether agents keep to it
Checked   what is masked must be a function of the state; where what is shown is none, nothing is said of it
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.worlds.clonable import answer_of, count_actions

NEUTRAL = (
    "HumanRendering", "Monitor", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "RecordVideo",
    "RenderCollection", "TimeLimit",
)  # fmt: skip
"""Wrappers that only watch, or cut episodes: enumeration goes around them."""


def layers_of(env: Any) -> Iterator[Any]:
    """Yield the environment's wrappers, from outside, and then what they wrap."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def wrappers_of(env: Any) -> list[type]:
    """Return the classes of the environment's wrappers, from outside."""
    return [type(one) for one in layers_of(env)][:-1]


def without_watchers(env: Any) -> Any:
    """Return the environment without the outer wrappers that only watch it."""
    return next(one for one in layers_of(env) if type(one).__name__ not in NEUTRAL)


def steps_of(env: Any) -> int | None:
    """Return after how many steps a wrapper ends episodes; None: never."""
    limits = [one._max_episode_steps for one in layers_of(env) if type(one).__name__ == "TimeLimit"]
    return min(map(int, limits), default=None)


class Seen:
    """What was shown and left open in the states that were visited so far, by their numbers."""

    def __init__(self, env: Any, where: Where, masks: bool | None = None) -> None:
        self.where, self.actions, self.wanted = where, count_actions(env, where), masks
        self.masked = masks is not False and _asked(env) is not None  # whether masks say what is applicable
        self.open: dict[int, tuple[bool, ...]] = {}
        self._shown: dict[int, Any] = {}
        self._is_function = True

    @property
    def shown(self) -> Mapping[int, Any]:
        """What an agent observes, by state; empty where that is no function of the state."""
        return self._shown if self._is_function else {}

    def note(self, state: int, env: Any, observation: Any, info: Any, way: Callable[[], str] = str) -> None:
        """Keep what the environment shows and leaves open in the state where it is, which it reached that way."""
        mask = self._mask(env, info)
        if self.open.setdefault(state, mask) != mask:
            what = f"its masks differ when the same state is reached another way: {way()}".rstrip(" :") + "."
            hint = "Give a `state` function that tells apart what matters, or masks=False."
            raise InputError(what, self.where, hint)
        if state not in self._shown:
            self._shown[state] = copy.deepcopy(observation)
        self._is_function = self._is_function and _are_equal(self._shown[state], observation)

    def is_open(self, state: int, action: int) -> bool:
        """Return whether the action was not seen to be masked in the state."""
        mask = self.open.get(state, ())
        return action >= len(mask) or mask[action]

    def forget(self) -> None:
        """Forget all that was seen."""
        self.open.clear()
        self._shown.clear()

    def _mask(self, env: Any, info: Any) -> tuple[bool, ...]:
        asked = _asked(env)
        given = info.get("action_mask") if isinstance(info, Mapping) else None
        if asked is not None and self.wanted is not False:
            given = answer_of("action_masks", self.where, "Make it answer in every state, or give masks=False.", asked)
        elif self.wanted is False or (given is None and not self.wanted):
            return (True,) * self.actions
        mask = tuple(bool(one) for one in np.asarray(given).reshape(-1))
        if len(mask) != self.actions or not any(mask):
            what = f"a mask of its actions is {given!r}, which leaves none of the {self.actions} actions open."
            raise InputError(what, self.where, "Leave one open in every state, or give masks=False.")
        if asked is None and self.wanted is None and not all(mask):
            what = f"an info masks the action {mask.index(False)}, and nothing tells whether agents keep to that."
            hint = "Give masks=True (masked actions are not applicable), or masks=False (they are as the environment takes them)."
            raise InputError(what, self.where, hint)
        self.masked = self.masked or bool(self.wanted)
        return mask


def _asked(env: Any) -> Callable[[], Any] | None:
    """Return the function that learners ask for masks; None where there is none."""
    asked = (getattr(one, "action_masks", None) for one in layers_of(env))
    return next((one for one in asked if callable(one)), None)


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two observations are the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_equal(one[name], other[name]) for name in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(np.array_equal(one, other))
