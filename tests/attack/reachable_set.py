"""False sets of reachable states: one is missing, a fail state is among them, or a step from them breaks a rule of the model."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from polvet.check import bulk
from polvet.records.packed import pack_columns
from tests.attack.bulk import in_bulk
from tests.attack.worlds import random_world


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    variables = world.task.network.variables
    reached, wrong = world.reached()
    inside = sorted(state for state in reached if not world.is_fail(state))
    base = {"kind": "reachable-set", **world.base}
    if wrong is not None:
        yield {**base, "count": len(inside)}, world.subjects, nullcontext()
    for left_out in (0, 1, 1, 2):
        listed = sorted(rng.sample(inside, max(0, len(inside) - left_out)))
        if not _is_broken(world, set(listed)):
            continue
        rows = np.array([[int(x) for x in state] for state in listed], dtype=np.int64).reshape(-1, len(variables))
        packed = {**base, "count": len(listed), "states": pack_columns(variables, rows)}
        yield packed, world.subjects, nullcontext()
        yield packed, world.subjects, in_bulk(bulk)


def _is_broken(world, listed):
    if world.start not in listed or any(world.is_fail(state) for state in listed):
        return True
    for state in listed:
        moves = world.moves(state)
        if moves is None or any(o.state not in listed for move in world.chosen(state, moves) for o in move.outcomes):
            return True
    return False
