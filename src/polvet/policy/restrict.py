"""A fitted policy over a part of its task's variables, all of its inputs among them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from polvet.errors import InputError
from polvet.model.restrict import restrict
from polvet.policy.binding import Fitted
from polvet.policy.inputs import variables_read


def restrict_fitted(fitted: Fitted, keep: Collection[str]) -> Fitted:
    """Return the policy fitted to the task over the variables in `keep` alone; an InputError where another is read."""
    before = fitted.task.network.variables
    task = restrict(fitted.task, keep)
    place = {variable.name: k for k, variable in enumerate(task.network.variables)}
    for name in sorted(variables_read(fitted.task.network, fitted.inputs)):
        if name not in place:
            raise InputError(f"'{name}' is left out, yet the policy reads it.", hint="Keep the variable.")
    inputs = tuple(place[before[one].name] if isinstance(one, int) else one for one in fitted.inputs)
    return replace(fitted, task=task, inputs=inputs)
