"""Checking `safe-policy`: a closed set of states with one action each proves that its start states are safe.

The certificate gives `start` (places in `states`) and `states`: [{"state": {...}, "action": "a"}]. Replayed in the slow
interpreter, each state is outside `fail`, its action is applicable, and all outcomes of that action (silent operators'
included) are in the set. `action` is null where runs end (goal, or nothing is enabled) and where only silent operators
are. Nothing but what the policy reaches from `start` may be listed.
`avoids` may be ["deadlock"]: then deadlocks outside the goal are fail states, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import Arena, find_arena_with_deadlocks
from polvet.check.listed_actions import ListedActions, actions_in_bulk
from polvet.check.listed_states import Bools
from polvet.check.permissive_bulk import reaches
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.semantics import State
from polvet.records.state_json import Malformed


def check_safe_policy(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves its start states safe."""
    arena = find_arena_with_deadlocks(certificate, subjects, safe=True)
    return check_safe_states(arena, certificate)


def check_safe_states(arena: Arena, certificate: Mapping[str, Any]) -> CheckResult:
    """Return whether the states of the certificate are closed under its actions, and have the start states of a region."""
    states, actions = _read_states(arena, certificate.get("states"))
    start = read_places(certificate.get("start"), len(states))
    if arena.region is not None and (missing := _missing_start(arena, {states[k] for k in start})) is not None:
        return Rejected(f"the start state {arena.show(missing)} is in the region, but not listed")
    listed = actions_in_bulk(arena, states, certificate.get("avoids"))
    reached = (
        _reached(arena, states, actions, start)
        if listed is None
        else _reached_in_bulk(listed, arena, states, actions, start)
    )
    if not reached.all():
        spare = int(np.flatnonzero(~reached)[0])
        return Rejected(f"states[{spare}] ({arena.show(states[spare])}) is not reached from the start states")
    shown = arena.show(states[start[0]]) + (f" and {len(start) - 1} more" if len(start) > 1 else "")
    return Accepted(f"in {arena.about} a policy from {shown} never reaches fail ({len(states)} states)")


def _reached(arena: Arena, states: list[State], actions: list[str | None], start: list[int]) -> Bools:
    """Return which states the actions come to from the start; Malformed where one is wrong, or leads out of the list."""
    place = {state: k for k, state in enumerate(states)}
    reached = np.zeros(len(states), dtype=np.bool_)
    after = [_places(arena, states, actions, k, place) for k in range(len(states))]
    reached[start] = True
    pending = list(start)
    while pending:
        for outcome in after[pending.pop()]:
            if not reached[outcome]:
                reached[outcome] = True
                pending.append(outcome)
    return reached


def _reached_in_bulk(
    listed: ListedActions, arena: Arena, states: list[State], actions: list[str | None], start: list[int]
) -> Bools:
    """Return the same for many states; the interpreter judges those that are doubtful, or seem to be wrong."""
    wrong, sources, outcomes = listed.follow(actions)
    acting = np.array([action is not None for action in actions], dtype=np.bool_)
    ends = listed.goal | ~listed.applicable.any(axis=0)
    doubtful = listed.doubtful | listed.fail | np.where(ends, acting, wrong)
    doubtful[sources[outcomes < 0]] = True
    sure = ~doubtful[sources]
    pairs = [(outcomes[sure], sources[sure])]
    place = {state: k for k, state in enumerate(states)} if doubtful.any() else {}
    for k in np.flatnonzero(doubtful).tolist():
        mine = _places(arena, states, actions, k, place)
        pairs.append((np.array(mine, dtype=np.int64), np.full(len(mine), k, dtype=np.int64)))
    begun = np.zeros(len(states), dtype=np.bool_)
    begun[start] = True
    return reaches(len(states), begun, pairs)


def _places(
    arena: Arena, states: list[State], actions: list[str | None], k: int, place: Mapping[State, int]
) -> list[int]:
    """Return the places of the outcomes of the action of states[k], or raise Malformed."""
    found = []
    for outcome in _allowed_outcomes(arena, states[k], actions[k]):
        if outcome not in place:
            raise Malformed(
                f"states[{k}] ({arena.show(states[k])}) may lead to {arena.show(outcome)}, which is not listed"
            )
        found.append(place[outcome])
    return found


def _missing_start(arena: Arena, listed: Set[State]) -> State | None:
    """Return a start state of the region that is not among these, if there is one."""
    return next((state for state in iter_all_starts(arena) if state not in listed), None)


def _read_states(arena: Arena, items: Any) -> tuple[list[State], list[str | None]]:
    if not isinstance(items, list) or not items:
        raise Malformed("'states' is not a list of states")
    states: list[State] = []
    actions: list[str | None] = []
    for k, item in enumerate(items):
        if not isinstance(item, dict) or "action" not in item:
            raise Malformed(f"states[{k}] has no 'action'")
        states.append(arena.read(item.get("state"), f"states[{k}]"))
        if not isinstance(item["action"], str | None):
            raise Malformed(f"the action of states[{k}] is no label")
        actions.append(item["action"])
    if len(set(states)) < len(states):
        raise Malformed("a state stands twice")
    return states, actions


def read_places(items: Any, count: int) -> list[int]:
    """Return the places in `states` that the claim is about, or raise Malformed."""
    if not isinstance(items, list) or not items:
        raise Malformed("'start' is not a list of places")
    for item in items:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < count:
            raise Malformed(f"'start' names the place {item}, which does not exist")
    return items


def _allowed_outcomes(arena: Arena, state: State, action: str | None) -> frozenset[State]:
    """Return where the action may lead, empty where runs end; raise Malformed in `fail` and on a wrong action."""
    # SOUND: fail is tested first, so that it beats goal.
    if arena.is_fail(state):
        raise Malformed(f"{arena.show(state)} is a fail state")
    if arena.is_goal(state):
        if action is not None:
            raise Malformed(f"runs end in the goal state {arena.show(state)}, yet it has the action '{action}'")
        return frozenset()
    outcomes = arena.outcomes(state)
    if not outcomes and action is None:
        return frozenset()
    if action not in outcomes:
        named = "the silent pseudo-action" if action is None else f"'{action}'"
        raise Malformed(f"{named} is not applicable in {arena.show(state)}")
    return outcomes[action]
