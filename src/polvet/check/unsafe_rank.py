"""Checking `unsafe-rank`: ranks that fall with some outcome of every action prove that `fail` cannot be avoided.

The certificate gives `start` (places in `states`) and `states`: [{"state": {...}, "rank": 2, "actions": [{"action": "a",
"outcome": 0}]}]. Rank 0 is a fail state. Any other state is no goal state, lists each of its actions once (null: the
silent pseudo-action) with the place of one of its outcomes, and its rank is one more than the highest rank among
those outcomes: so whatever is chosen, the environment has a move to a smaller rank. `avoids` may be ["deadlock"]: then
deadlocks outside the goal are fail states, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polvet.check.arena import Arena, find_arena_with_deadlocks
from polvet.check.listed_actions import ListedActions, actions_in_bulk
from polvet.check.listed_states import Bools
from polvet.check.safe_policy import read_places
from polvet.check.subjects import Accepted, CheckResult, Subjects
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Pair = tuple[str | None, int]
MOST = 2**62


def check_unsafe_rank(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves its start states unsafe."""
    arena = find_arena_with_deadlocks(certificate, subjects, safe=False)
    shown, steps = check_ranks(arena, certificate, lambda states: np.zeros(len(states), dtype=np.bool_))
    return Accepted(f"in {arena.about} no policy from {shown} avoids fail ({steps} steps at most)")


def check_ranks(
    arena: Arena, certificate: Mapping[str, Any], are_lost: Callable[[Sequence[State]], Bools]
) -> tuple[str, int]:
    """Return the start states in words and their highest rank; raise Malformed unless ranks fall to `fail` or to what is lost."""
    items = certificate.get("states")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise Malformed("'states' is not a list of states")
    states = [arena.read(item.get("state"), f"states[{k}]") for k, item in enumerate(items)]
    ranks = [_read_rank(item.get("rank"), k) for k, item in enumerate(items)]
    start = read_places(certificate.get("start"), len(states))
    if len(set(states)) < len(states):
        raise Malformed("a state stands twice")
    pairs = [_read_pairs(item.get("actions"), k, len(states)) for k, item in enumerate(items)]
    # SOUND: a state that is lost needs no action here, its rank is 0 as that of a fail state.
    told = are_lost(states) & np.array([rank == 0 and not mine for rank, mine in zip(ranks, pairs, strict=True)])
    actions = actions_in_bulk(arena, states, certificate.get("avoids")) if max(ranks) < MOST else None
    doubtful = ~told if actions is None else _doubtful(actions, ranks, pairs) & ~told
    for k in np.flatnonzero(doubtful).tolist():
        _check_ranked(arena, states, ranks, k, pairs[k])
    used = {*start, *(place for mine in pairs for _, place in mine)}
    if len(used) < len(states):
        raise Malformed(f"states[{next(k for k in range(len(states)) if k not in used)}] is not used")
    shown = arena.show(states[start[0]]) + (f" and {len(start) - 1} more" if len(start) > 1 else "")
    return shown, max(ranks[place] for place in start)


def _read_rank(item: Any, k: int) -> int:
    if not isinstance(item, int) or isinstance(item, bool) or item < 0:
        raise Malformed(f"the rank of states[{k}] is not a natural number")
    return item


def _read_pairs(items: Any, k: int, count: int) -> list[Pair]:
    """Return the actions of states[k], each with the place of an outcome, or raise Malformed."""
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and "action" in item and isinstance(item["action"], str | None) for item in items
    ):
        raise Malformed(f"'actions' of states[{k}] is not a list of actions")
    pairs: list[Pair] = []
    for item in items:
        place = item.get("outcome")
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < count:
            raise Malformed(f"an outcome of states[{k}] names no place in 'states'")
        pairs.append((item["action"], place))
    return pairs


def _doubtful(actions: ListedActions, ranks: list[int], pairs: list[list[Pair]]) -> Bools:
    """Return which states the interpreter has to judge; the others are as `_check_ranked` asks."""
    rank, counts = np.array(ranks, dtype=np.int64), np.array([len(mine) for mine in pairs], dtype=np.int64)
    states = np.repeat(np.arange(actions.count), counts)
    columns = np.array([actions.column.get(action, -1) for mine in pairs for action, _ in mine], dtype=np.int64)
    places = np.array([place for mine in pairs for _, place in mine], dtype=np.int64)
    unknown = states[columns < 0]
    claimed = np.zeros_like(actions.applicable)
    claimed[columns, states] = True  # an unknown label's column, -1, is doubted besides
    doubtful: Bools = actions.doubtful | actions.goal | (claimed.sum(axis=0) != counts)
    doubtful[unknown] = True
    doubtful |= ~actions.fail & ((claimed != actions.applicable).any(axis=0) | (counts == 0))
    doubtful[states[~actions.leads_to(states, columns, places)]] = True
    highest = np.full(actions.count, -1, dtype=np.int64)
    np.maximum.at(highest, states, rank[places])
    doubtful |= np.where(actions.fail, (rank != 0) | (counts > 0), rank != highest + 1)
    return doubtful


def _check_ranked(arena: Arena, states: list[State], ranks: list[int], k: int, pairs: list[Pair]) -> None:
    """Raise Malformed unless every action of states[k] has an outcome of smaller rank, or it is a fail state."""
    state = states[k]
    if ranks[k] == 0 or arena.is_fail(state):
        if ranks[k] != 0 or pairs or not arena.is_fail(state):
            raise Malformed(f"states[{k}] ({arena.show(state)}) has rank {ranks[k]}: rank 0 is exactly for fail states")
        return
    if arena.is_goal(state):
        raise Malformed(f"runs end in the goal state {arena.show(state)}")
    outcomes = arena.outcomes(state)
    actions = [action for action, _ in pairs]
    # SOUND: every action of the state must be listed; one that is left out might be safe. No action: an ended run.
    if not outcomes or len(actions) != len(outcomes) or any(action not in outcomes for action in actions):
        raise Malformed(f"states[{k}] ({arena.show(state)}) does not list exactly its actions")
    if len(set(actions)) < len(actions):
        raise Malformed(f"an action of states[{k}] stands twice")
    for action, place in pairs:
        if states[place] not in outcomes[action]:
            raise Malformed(f"{arena.show(states[place])} is no outcome of '{action}' in {arena.show(state)}")
    if ranks[k] != 1 + max(ranks[place] for _, place in pairs):
        raise Malformed(f"the rank of states[{k}] is {ranks[k]}, not one more than the highest of its outcomes'")
