"""Conditions that no state satisfies, by the variables' bounds alone: of such a `fail` everything is safe."""

from __future__ import annotations

import logging
from pathlib import Path

from polvet.model.expressions import Expression
from polvet.model.network import Network
from polvet.model.task import Task, TaskOptions
from polvet.sources import make_task, read_parts

log = logging.getLogger(__name__)


def load_aloud(path: Path, options: TaskOptions) -> Task:
    """Return the task, and warn of a condition that no state satisfies: what is proved of such a `fail` proves nothing."""
    parts = read_parts(path, options)
    task = make_task(parts)
    for role in ("fail", "goal"):
        text, where = parts.conditions.get(role, ("false", None))
        if text.strip() != "false" and is_never(task.network, getattr(task, role)):
            log.warning("%s: no state satisfies '%s': the variables' bounds rule it out", where, text)
    return task


def is_never(network: Network, condition: Expression) -> bool:
    """Return whether the variables' bounds alone make the condition false in every state; nothing is searched."""
    import numpy as np

    from polvet.check.box_view import interval
    from polvet.check.invariant_space import variable_bounds

    place = {variable.name: k for k, variable in enumerate(network.variables)}
    ends = [variable_bounds(variable) for variable in network.variables]
    lower = np.array([[-np.inf if low is None else low for low, _ in ends]], dtype=np.float64)
    upper = np.array([[np.inf if high is None else high for _, high in ends]], dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return bool(interval(condition, place, lower, upper)[1][0] == 0)
