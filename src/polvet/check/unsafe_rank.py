"""Checking `unsafe-rank`: ranks that fall with some outcome of every action prove that `fail` cannot be avoided.

The certificate gives `start` (places in `states`) and `states`: [{"state": {...}, "rank": 2, "actions": [{"action": "a",
"outcome": 0}]}]. Rank 0 is a fail state. Any other state is no goal state, lists each of its actions once (null: the
silent pseudo-action) with the place of one of its outcomes, and its rank is one more than the highest rank among
those outcomes: so whatever is chosen, the environment has a move to a smaller rank. `avoids` may be ["deadlock"]: then
deadlocks outside the goal are fail states, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.check.arena import Arena, find_arena_with_deadlocks
from polvet.check.safe_policy import read_places
from polvet.check.subjects import Accepted, CheckResult, Subjects
from polvet.model.semantics import State
from polvet.records.state_json import Malformed


def check_unsafe_rank(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves its start states unsafe."""
    arena = find_arena_with_deadlocks(certificate, subjects, safe=False)
    items = certificate.get("states")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise Malformed("'states' is not a list of states")
    states = [arena.read(item.get("state"), f"states[{k}]") for k, item in enumerate(items)]
    ranks = [_read_rank(item.get("rank"), k) for k, item in enumerate(items)]
    start = read_places(certificate.get("start"), len(states))
    if len(set(states)) < len(states):
        raise Malformed("a state stands twice")
    used = set(start)
    for k, item in enumerate(items):
        used |= _check_ranked(arena, states, ranks, k, item.get("actions"))
    if len(used) < len(states):
        raise Malformed(f"states[{next(k for k in range(len(states)) if k not in used)}] is not used")
    shown = arena.show(states[start[0]]) + (f" and {len(start) - 1} more" if len(start) > 1 else "")
    highest = max(ranks[place] for place in start)
    return Accepted(f"in {arena.about} no policy from {shown} avoids fail ({highest} steps at most)")


def _read_rank(item: Any, k: int) -> int:
    if not isinstance(item, int) or isinstance(item, bool) or item < 0:
        raise Malformed(f"the rank of states[{k}] is not a natural number")
    return item


def _check_ranked(arena: Arena, states: list[State], ranks: list[int], k: int, pairs: Any) -> set[int]:
    """Return the places of the outcomes that make states[k] unsafe, or raise Malformed."""
    state = states[k]
    if not isinstance(pairs, list) or not all(
        isinstance(pair, dict) and "action" in pair and isinstance(pair["action"], str | None) for pair in pairs
    ):
        raise Malformed(f"'actions' of states[{k}] is not a list of actions")
    if ranks[k] == 0 or arena.is_fail(state):
        if ranks[k] != 0 or pairs or not arena.is_fail(state):
            raise Malformed(f"states[{k}] ({arena.show(state)}) has rank {ranks[k]}: rank 0 is exactly for fail states")
        return set()
    if arena.is_goal(state):
        raise Malformed(f"runs end in the goal state {arena.show(state)}")
    outcomes = arena.outcomes(state)
    actions = [pair["action"] for pair in pairs]
    # SOUND: every action of the state must be listed; one that is left out might be safe. No action: an ended run.
    if not outcomes or len(actions) != len(outcomes) or any(action not in outcomes for action in actions):
        raise Malformed(f"states[{k}] ({arena.show(state)}) does not list exactly its actions")
    if len(set(actions)) < len(actions):
        raise Malformed(f"an action of states[{k}] stands twice")
    places = [pair.get("outcome") for pair in pairs]
    for action, place in zip(actions, places, strict=True):
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(states):
            raise Malformed(f"an outcome of states[{k}] names no place in 'states'")
        if states[place] not in outcomes[action]:
            raise Malformed(f"{arena.show(states[place])} is no outcome of '{action}' in {arena.show(state)}")
    if ranks[k] != 1 + max(ranks[place] for place in places):
        raise Malformed(f"the rank of states[{k}] is {ranks[k]}, not one more than the highest of its outcomes'")
    return set(places)
