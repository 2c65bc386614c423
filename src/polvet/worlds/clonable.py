"""An environment that can be put back where it was: what enumerating its states and trying its steps again both need."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from polvet.errors import InputError, Where

PAIRS = (("get_state", "set_state"), ("clone_state", "restore_state"))
GIVEN = "It is given the environment, and `restore` also what `snapshot` returned: see env.unwrapped."
NOWHERE = Where("env")
Info: TypeAlias = dict[str, Any]
"""What a Gymnasium environment tells besides, by whatever names it likes."""
Snapshot = Callable[[Any], Any]
Restore = Callable[[Any, Any], None]


def answer_of(name: str, where: Where, hint: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function of the user's answers; what it raises becomes an InputError that names it."""
    try:
        return function(*given)
    except Exception as error:
        raise InputError(f"`{name}` raises {type(error).__name__}: {error}.", where, hint) from error


def count_actions(env: Any, where: Where = NOWHERE) -> int:
    """Return how many actions there are, numbered from 0, or raise an InputError: all else is not told apart by one number."""
    space = env.action_space
    if not any(kind.__name__ == "Discrete" for kind in type(space).__mro__):
        what = f"the environment's actions are not discrete, but {space}."
        raise InputError(what, where, "Wrap it in gymnasium.wrappers.TransformAction with a Discrete space.")
    if int(getattr(space, "start", 0)) != 0:
        what = f"the environment's actions are numbered from {int(space.start)}: {space}."
        raise InputError(what, where, "Wrap it in gymnasium.wrappers.TransformAction, so that they begin with 0.")
    return int(space.n)


def _remade(env: Any) -> str | None:
    """Return the class of a part of the environment that is copied by being made again, as Gymnasium's EzPickle is."""
    layer = env
    while layer is not None:
        kinds = type(layer).__mro__
        if any(kind.__name__ == "EzPickle" for kind in kinds) and not hasattr(layer, "__deepcopy__"):
            return kinds[0].__name__
        layer = getattr(layer, "env", None)
    return None


class Clonable:
    """An environment with discrete actions that can be put back where it was.

    By the user's `snapshot` and `restore`; else by the environment's own `get_state`/`set_state` or
    `clone_state`/`restore_state`; else by `copy.deepcopy`.
    """

    def __init__(self, env: Any, snapshot: Snapshot | None = None, restore: Restore | None = None) -> None:
        if (snapshot is None) != (restore is None):
            raise InputError(
                "give both `snapshot` and `restore`, or none of them.",
                hint="Snapshots make runs repeatable: give both functions.",
            )
        self.env = env
        self._snapshot, self._restore = snapshot, restore
        inner = env.unwrapped
        for get, put in PAIRS:
            if snapshot is None and hasattr(inner, get) and hasattr(inner, put):
                self._snapshot = lambda one, get=get: copy.deepcopy(getattr(one.unwrapped, get)())
                self._restore = lambda one, state, put=put: getattr(one.unwrapped, put)(copy.deepcopy(state))
                break
        self.actions = count_actions(env)

    def save(self) -> Any:
        """Return the present state."""
        if self._snapshot is not None:
            return answer_of("snapshot", NOWHERE, GIVEN, self._snapshot, self.env)
        if (remade := _remade(self.env)) is not None:
            what = f"a copy of the environment would begin anew ({remade} is an EzPickle)."
            raise InputError(what, NOWHERE, "Give `snapshot` and `restore`.")
        try:
            return copy.deepcopy(self.env)
        except Exception as error:
            raise InputError(
                f"the environment cannot be copied ({error}).", hint="Give `snapshot` and `restore`."
            ) from error

    def put_back(self, saved: Any) -> None:
        """Go back to the state; chance is whatever it is there."""
        if self._restore is not None:
            answer_of("restore", NOWHERE, GIVEN, self._restore, self.env, saved)
        else:
            self.env = copy.deepcopy(saved)

    def load(self, saved: Any, seed: int) -> None:
        """Go back to the state, with chance seeded anew: or else every try would see the same outcome."""
        self.put_back(saved)
        self.env.unwrapped.np_random = np.random.default_rng(seed)
