"""Checking `lost-projection`: ranks over boxes of a few variables prove that `fail` cannot be avoided, for all states in them at once.

The certificate gives `start` and `states` as `unsafe-rank` does, `rows` of an `invariant`, and `lost`: a list of games, each a list of
boxes [{"box": {"x": [lower, upper]}, "rank": 7, "slopes": {"x": -2}}]; the rank of a state in the box is 7 - 2 x. `check.lost_boxes`
says what must hold of them. A listed state of rank 0 without actions is a fail state, or satisfies the rows and is in some box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polvet.check.arena import find_arena_with_deadlocks
from polvet.check.invariant_space import ANYTHING, read_space
from polvet.check.listed_states import Bools
from polvet.check.lost_boxes import check_games, read_games
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.check.unsafe_rank import check_ranks
from polvet.errors import InputError
from polvet.model.semantics import State


def check_lost_projection(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves its start states unsafe."""
    arena = find_arena_with_deadlocks(certificate, subjects, safe=False)
    if certificate.get("avoids"):
        return Rejected("a lost projection tells nothing of deadlocks")
    if arena.task.network.disables_out_of_bounds:
        return Rejected("a lost projection tells nothing where operators are disabled out of bounds")
    try:
        space = read_space(arena, {None: ANYTHING}, certificate.get("rows"), [])
        games = read_games(space, certificate.get("lost"))

        def are_lost(states: Sequence[State]) -> Bools:
            points = np.array([[int(value) for value in state] for state in states], dtype=np.int64)
            inside = np.zeros(len(points), dtype=np.bool_)
            for game in games:
                inside |= game.holds(points)
            return inside & space.claim.holds(points)

        shown, _ = check_ranks(arena, certificate, are_lost)
        check_games(space, games)
    except InputError as error:  # a condition has no value in a state of the claim
        return Rejected(str(error))
    count = sum(len(game.lower) for game in games)
    return Accepted(f"in {arena.about} no policy from {shown} avoids fail ({count} boxes over a few variables)")
