"""Which of the start states are safe, as boxes: a decision tree over the verdicts on all of them (symbolic/cover.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.start_regions import Region, Rest
from polvet.symbolic.cover import cover

SAFE, UNSAFE, OPEN = 1, 0, 2
CODES = {True: SAFE, False: UNSAFE, None: OPEN}
UNDECIDED = "not decided"


def tell_apart(
    task: Task, states: Sequence[State], safe: Sequence[bool | None], *, budget: Budget = UNLIMITED
) -> Region:
    """Return the safe ones among all start states as boxes, on the side where they are fewer, and the rest."""
    variables = task.network.variables
    labels = np.array([CODES[one] for one in safe], dtype=np.int64)
    columns: list[Any] = [
        np.array([state[place] for state in states], dtype=np.float64 if variable.kind is Kind.REAL else np.int64)
        for place, variable in enumerate(variables)
    ]
    inside, rest = [], []
    for box in cover(columns, labels, budget=budget):
        named = {variables[place].name: list(ends) for place, ends in box.ends.items()}
        if box.label == SAFE:
            inside.append((named, len(box.rows)))
        else:
            rest.append(Rest(named, None, None if box.label == UNSAFE else UNDECIDED, len(box.rows)))
    outside = 0 < len(rest) < len(inside)
    boxes = tuple(one.box for one in rest) if outside else tuple(box for box, _ in inside)
    return Region(
        "out" if outside else "in",
        boxes,
        None,
        tuple(rest),
        "decide",
        starts=len(states),
        proved=sum(count for _, count in inside),
        failing=int((labels == UNSAFE).sum()),
    )
