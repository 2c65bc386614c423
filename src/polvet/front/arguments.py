"""What is given in the place of counts, paths and environments, looked at before anything is done with it."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, suggest


def count(value: Any, name: str, least: int = 1) -> int:
    """Return the whole number, or raise an InputError that names the keyword.

    >>> count("ten", "runs")
    Traceback (most recent call last):
    polvet.errors.InputError: runs: 'ten' is no number. Give a whole number from 1 on.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise InputError(f"{value!r} is no number.", Where(name), f"Give a whole number from {least} on.")
    return number


def steps(value: Any) -> int | None:
    """Return how many steps a run may have; None: as the world allows."""
    return None if value is None else count(value, "max_steps")


def path(value: Any, name: str) -> Path:
    """Return the path, or raise an InputError that names the keyword."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"a {type(value).__name__} is no path.", Where(name), "Give a file's path.")
    return Path(value)


def known_options(options: Iterable[str], known: Collection[str]) -> None:
    """Raise an InputError for the first option that is not known."""
    for name in options:
        if name not in known:
            raise InputError(f"there is no option '{name}'.", Where(name), suggest(name, sorted(known)))


def environment(env: Any) -> Any:
    """Return the environment (Gymnasium's, or a VecEnv of stable-baselines3), or raise an InputError."""
    if not (hasattr(env, "step") and hasattr(env, "reset") and hasattr(env, "action_space")):
        hint = "Give a Gymnasium environment, or a VecEnv of stable-baselines3."
        raise InputError(f"a {type(env).__name__} is no environment.", Where("env"), hint)
    return env
