"""What is given in the place of counts, paths and environments, looked at before anything is done with it."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, suggest


def count(given: Any, name: str, least: int = 1) -> int:
    """Return the whole number, or raise an InputError that names the keyword.

    >>> count("ten", "runs")
    Traceback (most recent call last):
    polvet.errors.InputError: runs: 'ten' is no number. Give a whole number from 1 on.
    """
    try:
        found = operator.index(given)
    except TypeError:
        found = least - 1
    if found < least or isinstance(given, bool):
        raise InputError(f"{given!r} is no number.", Where(name), f"Give a whole number from {least} on.")
    return found


def path(given: Any, name: str) -> Path:
    """Return the path, or raise an InputError that names the keyword."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"a {type(given).__name__} is no path.", Where(name), "Give a file's path.")
    return Path(given)


def known_options(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise an InputError for the first option that is not known."""
    for name in given:
        if name not in known:
            raise InputError(f"there is no option '{name}'.", Where(name), suggest(name, sorted(known)))


def environment(given: Any) -> Any:
    """Return the environment (Gymnasium's, or a VecEnv of stable-baselines3), or raise an InputError."""
    if not (hasattr(given, "step") and hasattr(given, "reset") and hasattr(given, "action_space")):
        hint = "Give a Gymnasium environment, or a VecEnv of stable-baselines3."
        raise InputError(f"a {type(given).__name__} is no environment.", Where("env"), hint)
    return given
