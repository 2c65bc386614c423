"""Checking `reachable-set`: a set of states with all starts, closed under the policy, without `fail`.

The certificate gives `count` and (up to a few million) `states`, packed; `avoids` may add "stuck" and "deadlock" to what must not
happen. With `states`, one pass over them shows that the set is closed (`check.bulk` makes it fast where a model is plain).
Without, the claim is explored again, here, in the slow interpreter, and must come to the same count: honest, independent, and slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from polvet.check.all_starts import iter_all_starts
from polvet.check.bulk import listed_in_bulk
from polvet.check.followed import Followed, find_policy_arena
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.semantics import State
from polvet.records.packed import unpack_columns
from polvet.records.state_json import Malformed

BLOCK = 4096
BAD = ("stuck", "deadlock")


def check_reachable_set(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy never reaches `fail` from a start state."""
    followed = find_policy_arena(certificate, subjects)
    return check_closed_set(followed, certificate, f"{subjects.policy} in {followed.arena.about}")


def check_closed_set(followed: Followed, certificate: Mapping[str, Any], who: str) -> CheckResult:
    """Return whether the states of the certificate are closed, without `fail`, and have the start states of the claim."""
    count, avoids = certificate.get("count"), certificate.get("avoids", [])
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        return Rejected("'count' is no number")
    if not isinstance(avoids, list) or any(item not in BAD for item in avoids):
        return Rejected(f"'avoids' is not a list of {' and '.join(BAD)}")
    if "states" in certificate:
        _check_listed(followed, certificate["states"], count, avoids)
    else:
        _explore(followed, count, avoids)
    also = "".join(f" and is never {'in a ' if what == 'deadlock' else ''}{what}" for what in avoids)
    return Accepted(f"{who} never reaches fail{also}, from any start ({count:,} states)")


def _check_listed(followed: Followed, item: Any, count: int, avoids: list[str]) -> None:
    """Raise Malformed unless the packed states are closed; many of them in bulk, where the model allows it."""
    variables = followed.arena.task.network.variables
    if (bulk := listed_in_bulk(followed, item, count)) is not None:
        bulk.check_starts()
        for state, following in successors(followed, bulk.doubtful_states(avoids), avoids):
            if not bulk.listed(np.array([following], dtype=np.int64))[0]:
                shown = followed.arena.show
                raise Malformed(f"{shown(state)} may lead to {shown(following)}, which is not listed")
        return
    _check_closed(followed, unpack_columns(variables, item, count), avoids)


def _check_closed(followed: Followed, listed: list[State], avoids: list[str]) -> None:
    arena, known = followed.arena, set(listed)
    if len(known) < len(listed):
        raise Malformed("a state stands twice")
    for start in iter_all_starts(arena):
        if start not in known:
            raise Malformed(f"the start state {arena.show(start)} is not listed")
    for state, following in successors(followed, listed, avoids):
        if following not in known:
            raise Malformed(f"{arena.show(state)} may lead to {arena.show(following)}, which is not listed")


def _explore(followed: Followed, count: int, avoids: list[str]) -> None:
    known = set(iter_all_starts(followed.arena))
    frontier = list(known)
    while frontier:
        fresh = {following for _, following in successors(followed, frontier, avoids)} - known
        known |= fresh
        frontier = list(fresh)
        if len(known) > count:
            raise Malformed(f"the policy reaches more than {count:,} states")
    if len(known) != count:
        raise Malformed(f"the policy reaches {len(known):,} states, not {count:,}")


def successors(followed: Followed, states: Iterable[State], avoids: list[str]) -> Iterator[tuple[State, State]]:
    """Yield (state, outcome) for all outcomes of the policy's choices; Malformed where a state is bad."""
    arena = followed.arena
    pending = iter(states)
    while block := list(islice(pending, BLOCK)):
        running = []
        for state in block:
            # SOUND: fail is tested first, so that it beats goal.
            if arena.is_fail(state):
                raise Malformed(f"{arena.show(state)} is a fail state")
            if not arena.is_goal(state):
                running.append(state)
        for state, step in zip(running, followed.steps(running), strict=True) if running else ():
            if step.may_stick and "stuck" in avoids:
                raise Malformed(f"the policy may be stuck in {arena.show(state)}")
            if step.deadlock and "deadlock" in avoids:
                raise Malformed(f"nothing is enabled in {arena.show(state)}")
            for move in step.moves:
                for outcome in move.outcomes:
                    yield state, outcome.state
