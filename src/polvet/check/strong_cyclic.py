"""Checking `strong-cyclic` and `no-strong-cyclic`: whether some policy keeps the goal in reach for ever.

`strong-cyclic` gives `start` (places in `states`) and `states`: [{"state": {...}, "action": "a", "distance": 2}]. Each state is
outside `fail`; distance 0 is exactly for goal states, which have the action null. Any other state's action is applicable, all
its outcomes (silent operators' included) are listed, and one of them has a smaller distance. So the policy never leaves the
list, and from each of its states the goal can be reached: with probability 1, if the environment is fair.

`no-strong-cyclic` gives `start` and `states`: [{"state": {...}, "round": 1}]. Round 0 is exactly for fail states. Any other state
is no goal state, and each of its actions has a listed outcome of a smaller round, or only listed outcomes, of no larger round.
Why this suffices: take a strong-cyclic policy from a listed state, and of the listed states it may be in one of the least
round. Its action has no outcome of a smaller round, so all outcomes are listed and of the same round, and so on: the
policy stays among listed states of that round for ever, and none of them is a goal state. It did not keep the goal in reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polvet.check.arena import Arena, find_arena
from polvet.check.listed_actions import ListedActions, actions_in_bulk
from polvet.check.listed_states import Bools, Ints
from polvet.check.safe_policy import read_places
from polvet.check.subjects import Accepted, CheckResult, Subjects
from polvet.files import Json
from polvet.model.options import ENVIRONMENT, FAIR
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

MOST = 2**62


def check_strong_cyclic(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that a strong-cyclic policy exists from its start states."""
    arena = find_arena(certificate, subjects)
    items, states, start = _read(arena, certificate)
    distances = {
        state: _natural(item.get("distance"), k, "distance")
        for k, (state, item) in enumerate(zip(states, items, strict=True))
    }
    for k, item in enumerate(items):
        if "action" not in item or not isinstance(item["action"], str | None):
            raise Malformed(f"states[{k}] has no 'action'")
    chosen = [item["action"] for item in items]
    judged: Sequence[int] = range(len(states))
    if (actions := _in_bulk(arena, distances)) is not None:
        judged = np.flatnonzero(_maybe_not_won(actions, chosen, _array(distances))).tolist()
    for k in judged:
        _check_won(arena, states[k], chosen[k], distances)
    return Accepted(
        f"in {arena.about} a policy from {_shown(arena, states, start)} reaches the goal from wherever it comes, "
        f"{ENVIRONMENT[FAIR]} ({len(states)} states)"
    )


def _in_bulk(arena: Arena, numbers: Mapping[State, int]) -> ListedActions | None:
    return actions_in_bulk(arena, list(numbers), ()) if max(numbers.values()) < MOST else None


def _array(numbers: Mapping[State, int]) -> Ints:
    return np.array(list(numbers.values()), dtype=np.int64)


def _maybe_not_won(actions: ListedActions, chosen: Sequence[str | None], distances: Ints) -> Bools:
    """Return which states the interpreter has to judge; the others are as `_check_won` asks."""
    wrong, states, outcomes = actions.follow(chosen)
    acting = np.array([action is not None for action in chosen], dtype=np.bool_)
    nearer = np.zeros(actions.count, dtype=np.bool_)
    nearer[states[(outcomes >= 0) & (distances[outcomes] < distances[states])]] = True
    doubtful: Bools = actions.doubtful | actions.fail | (actions.goal != (distances == 0))
    doubtful |= np.where(actions.goal, acting, wrong | ~nearer)
    doubtful[states[outcomes < 0]] = True
    return doubtful


def _check_won(arena: Arena, state: State, action: str | None, distances: Mapping[State, int]) -> None:
    # SOUND: fail is tested first, so that it beats goal.
    if arena.is_fail(state):
        raise Malformed(f"{arena.show(state)} is a fail state")
    if bool(arena.is_goal(state)) != (distances[state] == 0):
        raise Malformed(f"{arena.show(state)} has distance {distances[state]}: distance 0 is exactly for goal states")
    if distances[state] == 0:
        if action is not None:
            raise Malformed(f"runs end in the goal state {arena.show(state)}, yet it has the action '{action}'")
        return
    outcomes = arena.outcomes(state)
    if action not in outcomes:
        named = "the silent pseudo-action" if action is None else f"'{action}'"
        raise Malformed(f"{named} is not applicable in {arena.show(state)}")
    for outcome in outcomes[action]:
        if outcome not in distances:
            raise Malformed(f"{arena.show(state)} may lead to {arena.show(outcome)}, which is not listed")
    if not any(distances[outcome] < distances[state] for outcome in outcomes[action]):
        raise Malformed(f"no outcome of {arena.show(state)} is nearer to the goal")


def check_no_strong_cyclic(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that no strong-cyclic policy exists from its start states."""
    arena = find_arena(certificate, subjects)
    items, states, start = _read(arena, certificate)
    rounds = {
        state: _natural(item.get("round"), k, "round")
        for k, (state, item) in enumerate(zip(states, items, strict=True))
    }
    judged: Sequence[int] = range(len(states))
    if (actions := _in_bulk(arena, rounds)) is not None:
        judged = np.flatnonzero(_maybe_not_lost(actions, _array(rounds))).tolist()
    for k in judged:
        _check_lost(arena, states[k], rounds)
    return Accepted(
        f"in {arena.about} every policy from {_shown(arena, states, start)} may come where it never reaches the goal "
        f"({len(states)} states)"
    )


def _maybe_not_lost(actions: ListedActions, rounds: Ints) -> Bools:
    """Return which states the interpreter has to judge; the others are as `_check_lost` asks."""
    smaller = np.zeros_like(actions.applicable)  # [label, state]: some outcome is of a smaller round
    larger = np.zeros_like(actions.applicable)  # some outcome is of a larger one, or not listed
    for column, states, targets in actions.steps:
        mine, listed = rounds[states][:, None], targets >= 0
        smaller[column, states] |= (listed & (rounds[targets] < mine)).any(axis=1)
        larger[column, states] |= (~listed | (rounds[targets] > mine)).any(axis=1)
    # What silent operators do is added to every label.
    leaves = ~(smaller | smaller[-1]) & (larger | larger[-1])
    doubtful: Bools = actions.doubtful | actions.goal | (actions.fail != (rounds == 0))
    doubtful |= (actions.applicable & leaves).any(axis=0)
    return doubtful


def _check_lost(arena: Arena, state: State, rounds: Mapping[State, int]) -> None:
    if bool(arena.is_fail(state)) != (rounds[state] == 0):
        raise Malformed(f"{arena.show(state)} has round {rounds[state]}: round 0 is exactly for fail states")
    if rounds[state] == 0:
        return
    if arena.is_goal(state):
        raise Malformed(f"{arena.show(state)} is a goal state")
    # SOUND: every action of the state is looked at; where there is none, runs end outside the goal.
    for action, outcomes in arena.outcomes(state).items():
        numbers = [rounds.get(outcome) for outcome in outcomes]
        if any(number is not None and number < rounds[state] for number in numbers):
            continue
        if any(number is None or number > rounds[state] for number in numbers):
            named = "the silent pseudo-action" if action is None else f"'{action}'"
            raise Malformed(f"{named} in {arena.show(state)} leads neither to a smaller round nor to the same alone")


def _read(arena: Arena, certificate: Mapping[str, Any]) -> tuple[list[Json], list[State], list[int]]:
    items = certificate.get("states")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise Malformed("'states' is not a list of states")
    states = [arena.read(item.get("state"), f"states[{k}]") for k, item in enumerate(items)]
    if len(set(states)) < len(states):
        raise Malformed("a state stands twice")
    return items, states, read_places(certificate.get("start"), len(states))


def _natural(item: Any, k: int, what: str) -> int:
    if not isinstance(item, int) or isinstance(item, bool) or item < 0:
        raise Malformed(f"the {what} of states[{k}] is not a natural number")
    return item


def _shown(arena: Arena, states: list[State], start: list[int]) -> str:
    return arena.show(states[start[0]]) + (f" and {len(start) - 1} more" if len(start) > 1 else "")
