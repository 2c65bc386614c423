"""An environment that can be put back where it was: what enumerating its states and trying its steps again both need."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from polvet.errors import InputError

PAIRS = (("get_state", "set_state"), ("clone_state", "restore_state"))
Snapshot = Callable[[Any], Any]
Restore = Callable[[Any, Any], None]


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
        count = getattr(env.action_space, "n", None)
        if count is None:
            raise InputError("the environment's actions are not discrete.", hint="Wrap it so that they are.")
        self.actions = int(count)

    def save(self) -> Any:
        """Return the present state."""
        if self._snapshot is not None:
            return self._snapshot(self.env)
        try:
            return copy.deepcopy(self.env)
        except Exception as error:
            raise InputError(
                f"the environment cannot be copied ({error}).", hint="Give `snapshot` and `restore`."
            ) from error

    def put_back(self, saved: Any) -> None:
        """Go back to the state; chance is whatever it is there."""
        if self._restore is not None:
            self._restore(self.env, saved)
        else:
            self.env = copy.deepcopy(saved)

    def load(self, saved: Any, seed: int) -> None:
        """Go back to the state, with chance seeded anew: or else every try would see the same outcome."""
        self.put_back(saved)
        self.env.unwrapped.np_random = np.random.default_rng(seed)
