"""Checking `sure-end` and `livelock`: whether runs of a policy surely end, and end well; or may come to where they go on for ever.

`sure-end` lists `states`, packed, and a number for each in `distances`. Every start is listed, no listed state is in `fail`, and what
the policy may do there leads to listed states alone. Distance 0 is exactly for states in which runs end: in `goal`, and where
nothing is enabled or the policy is stuck, unless `avoids` names that. From any other state, each label that some evaluation order may
choose has an outcome of smaller distance. SOUND: so from wherever a run is, it ends within so many steps with a probability above 0,
and states are finitely many: it ends with probability 1, where every outcome that is possible again and again comes in the
end. With `avoids` "stuck" and "deadlock" it ends in the goal.

`livelock` holds a run of the policy from a start, as `run` does but with the `end` "loop", and `set`, states, packed, with the
last state of the run among them. None of these is in `fail` or `goal`; in each something is enabled, all evaluation orders choose
alike and are not stuck, and all outcomes are listed. SOUND: so a run that came there never ends. No variables are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import avoiding_nothing
from polvet.check.followed import Followed, Step, find_policy_arena
from polvet.check.risk_bound import is_certain
from polvet.check.run import replay_run
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.semantics import State
from polvet.records.packed import unpack_columns
from polvet.records.state_json import Malformed

BLOCK = 4096
BAD = ("stuck", "deadlock", "loop")


def check_sure_end(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy end with probability 1, and not in what is avoided."""
    followed = find_policy_arena(certificate, subjects)
    avoids = certificate.get("avoids", [])
    if not isinstance(avoids, list) or any(item not in BAD for item in avoids):
        return Rejected(f"'avoids' is not a list of {', '.join(BAD)}")
    distances = _distances(followed, certificate)
    for start in iter_all_starts(followed.arena):
        if start not in distances:
            raise Malformed(f"the start state {followed.arena.show(start)} is not listed")
    _check_ends(followed, distances, avoids)
    reached = {
        (True, True): "reaches the goal",
        (True, False): "reaches the goal or a deadlock",
        (False, True): "reaches the goal or is stuck",
        (False, False): "reaches the goal, a deadlock, or is stuck",
    }["stuck" in avoids, "deadlock" in avoids]
    return Accepted(
        f"{subjects.policy} in {followed.arena.about} {reached} with probability 1 and never reaches fail, from any start "
        f"({len(distances):,} states)"
    )


def check_livelock(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate shows a run of the policy that can never end any more."""
    if certificate.get("kept") is not None:
        return Rejected("it leaves variables out")
    followed = find_policy_arena(certificate, avoiding_nothing(subjects))
    run = _replayed(followed, certificate)
    states = _states(followed, certificate.get("set"), certificate.get("count"))
    if run[-1] not in states:
        raise Malformed("the last state of the run is not listed")
    _check_goes_on(followed, states)
    return Accepted(
        f"a run of {subjects.policy} in {followed.arena.about} goes on for ever, without the goal, after {len(run) - 1} steps "
        f"({len(states):,} states)"
    )


def _states(followed: Followed, item: Any, count: Any) -> dict[State, None]:
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise Malformed("'count' is no number")
    listed = unpack_columns(followed.arena.task.network.variables, item, count)
    states = dict.fromkeys(listed)
    if len(states) < count:
        raise Malformed("a state stands twice")
    return states


def _distances(followed: Followed, certificate: Mapping[str, Any]) -> dict[State, int]:
    states, numbers = (
        _states(followed, certificate.get("states"), certificate.get("count")),
        certificate.get("distances"),
    )
    if not isinstance(numbers, list) or len(numbers) != len(states):
        raise Malformed(f"'distances' is not a list of {len(states):,} numbers")
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise Malformed("a distance is no natural number")
    return dict(zip(states, numbers, strict=True))


def _check_ends(followed: Followed, distances: Mapping[State, int], avoids: Sequence[str]) -> None:
    arena = followed.arena
    going: list[State] = []
    for state, distance in distances.items():
        # SOUND: fail is tested first, so that it beats goal.
        if arena.is_fail(state):
            raise Malformed(f"{arena.show(state)} is a fail state")
        if not arena.is_goal(state):
            going.append(state)
        elif distance != 0:
            raise Malformed(f"runs end in the goal state {arena.show(state)}, yet its distance is {distance}")
    for state, step in _steps(followed, going):
        if step.deadlock and "deadlock" in avoids:
            raise Malformed(f"nothing is enabled in {arena.show(state)}")
        if step.may_stick and "stuck" in avoids:
            raise Malformed(f"the policy may be stuck in {arena.show(state)}")
        groups = possible_outcomes(step)
        if (distances[state] == 0) != (not groups):
            raise Malformed(
                f"{arena.show(state)} has distance {distances[state]}: distance 0 is exactly where runs end"
            )
        for outcomes in groups:
            for outcome in outcomes:
                if outcome not in distances:
                    raise Malformed(f"{arena.show(state)} may lead to {arena.show(outcome)}, which is not listed")
            if not any(distances[outcome] < distances[state] for outcome in outcomes):
                raise Malformed(f"no outcome of {arena.show(state)} is nearer to an end")


def possible_outcomes(step: Step) -> list[frozenset[State]]:
    """Return what each label that may be chosen leads to, silent operators' outcomes included; none where runs end."""
    labels = dict.fromkeys(move.label for move in step.moves if move.label is not None)
    groups = [[move for move in step.moves if move.label in (None, label)] for label in labels] or [list(step.moves)]
    return [frozenset(outcome.state for move in moves for outcome in move.outcomes) for moves in groups if moves]


def _check_goes_on(followed: Followed, states: Mapping[State, None]) -> None:
    arena = followed.arena
    for state in states:
        if arena.is_fail(state) or arena.is_goal(state):
            raise Malformed(f"runs end in {arena.show(state)}, which is in fail or goal")
    for state, step in _steps(followed, states):
        if not step.moves or not is_certain(step):
            raise Malformed(f"runs may end in {arena.show(state)}, or what the policy chooses there is not certain")
        for move in step.moves:
            for outcome in move.outcomes:
                if outcome.state not in states:
                    raise Malformed(f"{arena.show(state)} may lead to {arena.show(outcome.state)}, which is not listed")


def _replayed(followed: Followed, certificate: Mapping[str, Any]) -> list[State]:
    """Return the states of the run, once every step of it was made."""
    arena, items, actions = followed.arena, certificate.get("states"), certificate.get("actions")
    if not isinstance(items, list) or not isinstance(actions, list) or len(items) != len(actions) + 1:
        raise Malformed("'states' must be a list with one state more than 'actions'")
    if certificate.get("end") != "loop":
        raise Malformed("the run's 'end' is not 'loop'")
    states = [arena.read(item, f"states[{k}]") for k, item in enumerate(items)]
    replay_run(arena, states, actions, "loop", followed.fitted.choose)
    return states


def _steps(followed: Followed, states: Mapping[State, Any] | Sequence[State]) -> Iterator[tuple[State, Step]]:
    pending = iter(states)
    while block := list(islice(pending, BLOCK)):
        yield from zip(block, followed.steps(block), strict=True)
