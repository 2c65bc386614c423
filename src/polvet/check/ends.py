"""Checking `sure-end` and `livelock`: whether runs of a policy surely end, and end well; or may come to where they go on for ever.

`sure-end` lists `states`, packed, and a number for each in `distances`. Every start is listed, no listed state is in `fail`, and what
the policy may do there leads to listed states alone. Distance 0 is exactly for states in which runs end: in `goal`, and where
nothing is enabled or the policy is stuck, unless `avoids` names that. From any other state, each label that some evaluation order may
choose has an outcome of smaller distance. SOUND: so from wherever a run is, it ends within so many steps with a probability above 0,
and states are finitely many: it ends with probability 1, if the environment is fair. With `avoids` "delay" it need not be: each operator
that may move has an outcome of smaller distance. With `avoids` "stuck" and "deadlock" it ends in the goal.

`livelock` holds a run of the policy from a start, as `run` does but with the `end` "loop", and `set`, states, packed, with the
last state of the run among them. None of these is in `fail` or `goal`; in each something is enabled, all evaluation orders choose
alike and are not stuck, and all outcomes are listed. SOUND: so a run that came there never ends. With `environment` "adversarial" those
of some operator are listed: the environment may keep it from ending. No variables are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import avoiding_nothing
from polvet.check.bulk import Bulk, Steps, listed_in_bulk
from polvet.check.followed import Followed, Step, find_policy_arena
from polvet.check.listed_states import Bools, Ints
from polvet.check.risk_bound import is_certain
from polvet.check.run import replay_run
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.options import ADVERSARIAL, ENVIRONMENT, FAIR
from polvet.model.semantics import State
from polvet.records.packed import unpack_columns
from polvet.records.state_json import Malformed

BLOCK = 4096
MOST = 2**62
BAD = ("stuck", "deadlock", "loop", "delay")


def check_sure_end(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy end with probability 1, and not in what is avoided."""
    followed = find_policy_arena(certificate, subjects)
    avoids = certificate.get("avoids", [])
    if not isinstance(avoids, list) or any(item not in BAD for item in avoids):
        return Rejected(f"'avoids' is not a list of {', '.join(BAD)}")
    count = _check_sure_end(followed, certificate, avoids)
    reached = {
        (True, True): "reaches the goal",
        (True, False): "reaches the goal or a deadlock",
        (False, True): "reaches the goal or is stuck",
        (False, False): "reaches the goal, a deadlock, or is stuck",
    }["stuck" in avoids, "deadlock" in avoids]
    return Accepted(
        f"{subjects.policy} in {followed.arena.about} {reached} with probability 1 and never reaches fail, from any start, "
        f"{ENVIRONMENT[ADVERSARIAL if 'delay' in avoids else FAIR]} ({count:,} states)"
    )


def check_livelock(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate shows a run of the policy that can never end any more."""
    if certificate.get("kept") is not None:
        return Rejected("it leaves variables out")
    adversarial = certificate.get("environment") == ADVERSARIAL
    if adversarial and subjects.options is not None and not subjects.options.avoid.delay:
        raise Malformed(
            "it counts on what the environment may do; give --avoid delay to ask for that, or --allow-options"
        )
    followed = find_policy_arena(certificate, avoiding_nothing(subjects))
    run = _replayed(followed, certificate)
    count = _check_set(followed, certificate, run[-1], adversarial=adversarial)
    goes_on = "may be kept going for ever by the environment" if adversarial else "goes on for ever"
    return Accepted(
        f"a run of {subjects.policy} in {followed.arena.about} {goes_on}, without the goal, after {len(run) - 1} steps "
        f"({count:,} states)"
    )


def _check_sure_end(followed: Followed, certificate: Mapping[str, Any], avoids: Sequence[str]) -> int:
    """Return how many states are listed; Malformed unless runs surely end from all of them, and from all starts."""
    arena, item, count = followed.arena, certificate.get("states"), _count(certificate)
    numbers = _distances(certificate, count)
    if (bulk := listed_in_bulk(followed, item, count)) is not None and max(numbers) < MOST:
        bulk.check_starts()
        distances = np.array(numbers, dtype=np.int64)

        def distance_of(state: State) -> int | None:
            place = int(bulk.states.find(np.array([state], dtype=np.int64))[0])
            return None if place < 0 else numbers[place]

        _check_ends(followed, _doubtful_ends(bulk, distances, avoids), distance_of, avoids)
        return count
    listed = dict(zip(_states(followed, item, count), numbers, strict=True))
    for start in iter_all_starts(arena):
        if start not in listed:
            raise Malformed(f"the start state {arena.show(start)} is not listed")
    _check_ends(followed, listed.items(), listed.get, avoids)
    return count


def _check_set(followed: Followed, certificate: Mapping[str, Any], last: State, *, adversarial: bool) -> int:
    """Return how many states are listed; Malformed unless runs go on (or may do so) among them for ever, and one came there."""
    item, count = certificate.get("set"), _count(certificate)
    if not adversarial and (bulk := listed_in_bulk(followed, item, count)) is not None:
        if not bulk.listed(np.array([last], dtype=np.int64))[0]:
            raise Malformed("the last state of the run is not listed")

        def is_listed(state: State) -> bool:
            return bool(bulk.listed(np.array([state], dtype=np.int64))[0])

        _check_goes_on(followed, _doubtful_going(bulk), is_listed)
        return count
    states = _states(followed, item, count)
    if last not in states:
        raise Malformed("the last state of the run is not listed")
    _check_goes_on(followed, states, states.__contains__, adversarial=adversarial)
    return count


def _count(certificate: Mapping[str, Any]) -> int:
    count = certificate.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise Malformed("'count' is no number")
    return count


def _states(followed: Followed, item: Any, count: int) -> dict[State, None]:
    states = dict.fromkeys(unpack_columns(followed.arena.task.network.variables, item, count))
    if len(states) < count:
        raise Malformed("a state stands twice")
    return states


def _distances(certificate: Mapping[str, Any], count: int) -> list[int]:
    numbers = certificate.get("distances")
    if not isinstance(numbers, list) or len(numbers) != count:
        raise Malformed(f"'distances' is not a list of {count:,} numbers")
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise Malformed("a distance is no natural number")
    return numbers


def _doubtful_ends(bulk: Bulk, distances: Ints, avoids: Sequence[str]) -> Iterator[tuple[State, int]]:
    """Yield the states that the interpreter has to judge, with their distances; the others are as `_check_ends` asks."""
    for steps in bulk.blocks():
        end = steps.begin + len(steps.doubtful)
        mine, adversarial = distances[steps.begin : end], "delay" in avoids
        doubtful = steps.doubtful | _breaks_distances(steps, distances, mine, adversarial=adversarial)
        if "stuck" in avoids:
            doubtful |= steps.may_stick
        if "deadlock" in avoids:
            doubtful |= steps.deadlock
        for k in np.flatnonzero(doubtful):
            place = steps.begin + int(k)
            yield bulk.states.state(place), int(distances[place])


def _breaks_distances(steps: Steps, distances: Ints, mine: Ints, *, adversarial: bool) -> Bools:
    """Return in which states of a block distance 0 is not exactly where runs end, or a label (an operator) leads no nearer to an end."""
    silent = len(steps.chosen)
    nearer = np.zeros((silent + 1, len(mine)), dtype=np.bool_)
    moved, held = np.zeros(len(mine), dtype=np.bool_), np.zeros(len(mine), dtype=np.bool_)
    for taken in steps.taken:
        moved[taken.source] = True
        near = np.zeros(len(taken.source), dtype=np.bool_)
        for target in taken.targets:
            near |= distances[target] < mine[taken.source]
        nearer[silent if taken.operator.output is None else taken.operator.output, taken.source] |= near
        held[taken.source] |= ~near & adversarial
    # Silent operators move with every label that may be chosen, and alone where there is none.
    each = (~steps.chosen | nearer[:silent] | nearer[silent]).all(axis=0) & (steps.chosen.any(axis=0) | nearer[silent])
    ends = ~moved
    broken: Bools = np.where(steps.goal, mine != 0, ((mine == 0) != ends) | (moved & ~each) | held)
    return broken


def _doubtful_going(bulk: Bulk) -> Iterator[State]:
    """Yield the states that the interpreter has to judge; in the others runs surely go on, among listed states."""
    for steps in bulk.blocks():
        moved = np.zeros(len(steps.doubtful), dtype=np.bool_)
        for taken in steps.taken:
            moved[taken.source] = True
        doubtful = steps.doubtful | steps.goal | steps.may_stick | (steps.chosen.sum(axis=0) > 1) | ~moved
        for k in np.flatnonzero(doubtful):
            yield bulk.states.state(steps.begin + int(k))


def _check_ends(
    followed: Followed,
    listed: Iterable[tuple[State, int]],
    distance_of: Callable[[State], int | None],
    avoids: Sequence[str],
) -> None:
    arena = followed.arena
    going: dict[State, int] = {}
    for state, distance in listed:
        # SOUND: fail is tested first, so that it beats goal.
        if arena.is_fail(state):
            raise Malformed(f"{arena.show(state)} is a fail state")
        if not arena.is_goal(state):
            going[state] = distance
        elif distance != 0:
            raise Malformed(f"runs end in the goal state {arena.show(state)}, yet its distance is {distance}")
    for state, step in _steps(followed, going):
        if step.deadlock and "deadlock" in avoids:
            raise Malformed(f"nothing is enabled in {arena.show(state)}")
        if step.may_stick and "stuck" in avoids:
            raise Malformed(f"the policy may be stuck in {arena.show(state)}")
        groups = possible_outcomes(step, adversarial="delay" in avoids)
        if (going[state] == 0) != (not groups):
            raise Malformed(f"{arena.show(state)} has distance {going[state]}: distance 0 is exactly where runs end")
        for outcomes in groups:
            numbers = []
            for outcome in outcomes:
                if (number := distance_of(outcome)) is None:
                    raise Malformed(f"{arena.show(state)} may lead to {arena.show(outcome)}, which is not listed")
                numbers.append(number)
            if not any(number < going[state] for number in numbers):
                raise Malformed(f"no outcome of {arena.show(state)} is nearer to an end")


def possible_outcomes(step: Step, *, adversarial: bool = False) -> list[frozenset[State]]:
    """Return what each label that may be chosen leads to, silent operators' outcomes included; none where runs end.

    An adversarial environment takes one of the operators, for as long as it likes: then it is what each of them leads to.
    """
    if adversarial:
        return [frozenset(outcome.state for outcome in move.outcomes) for move in step.moves]
    labels = dict.fromkeys(move.label for move in step.moves if move.label is not None)
    groups = [[move for move in step.moves if move.label in (None, label)] for label in labels] or [list(step.moves)]
    return [frozenset(outcome.state for move in moves for outcome in move.outcomes) for moves in groups if moves]


def _check_goes_on(
    followed: Followed, states: Iterable[State], is_listed: Callable[[State], bool], *, adversarial: bool = False
) -> None:
    arena = followed.arena
    judged = list(states)
    for state in judged:
        if arena.is_fail(state) or arena.is_goal(state):
            raise Malformed(f"runs end in {arena.show(state)}, which is in fail or goal")
    for state, step in _steps(followed, judged):
        if not step.moves or not is_certain(step):
            raise Malformed(f"runs may end in {arena.show(state)}, or what the policy chooses there is not certain")
        if adversarial and any(all(is_listed(one.state) for one in move.outcomes) for move in step.moves):
            continue
        for move in step.moves:
            for outcome in move.outcomes:
                if not is_listed(outcome.state):
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
