"""Goal faults: states on runs of the policy in which the goal could still be reached, safely, and the chosen action gives that up.

Kinds    *dead end*: an outcome of the chosen action has lost the goal. *livelock*: the action loses nothing, but the policy comes round for
         ever: the state lies in a bottom component of its chain without an end, and of that component's states the goal is nearest to
         it. *stuck*: the policy chooses nothing that is applicable. What each means exactly stands in docs/semantics.md
Source   `surely` is strong-cyclic planning inside the safe region (`safety/strong_cyclic.py`), `with probability p` maximal reachability
         there (`debug/possible.py`); dead ends and end components: Baier & Katoen, Principles of Model Checking, section 10.6
Differs  of a livelock only the states from which the goal is nearest are at fault, and only actions that bring it nearer
         mend them: where every fault so far is mended so, the next livelock has another one, and so on until there is none
Limits   all states reachable by any actions in memory; below probability 1 doubles, up to 200,000 states: values that are nearer
         than NEAR are one
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.debug.faults import FaultAnalysis, every_start, policy_steps
from polvet.debug.possible import find_safe_world
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import Words, describe_limit
from polvet.mdp.graph import connected_components
from polvet.mdp.sparse import Mask, SparseMdp
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import End
from polvet.records.fault_files import DEAD_END, LIVELOCK, STUCK, Fault
from polvet.safety.decide import Decider
from polvet.safety.strong_cyclic import NEVER, SILENT, has_goal, solve_packed

BLOCK = 1 << 16
NEAR = 1e-9
SURELY = Fraction(1)
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Prospects:
    """What can be reached from each state by safe policies: the actions of s are first[s] .. first[s + 1], as in a `Game`."""

    space: Any
    first: Ints
    outcomes: Ints
    target: Ints
    label: Ints
    able: Mask  # the goal can still be reached as it should
    keeps: Mask  # per action: it can be reached so after it, too
    worth: NDArray[np.float64]  # the greatest probability of the goal; 1 or 0 where only `surely` counts
    distance: Ints  # the least number of steps to the goal by actions that keep `worth`; NEVER where there are none
    nearer: Mask  # per action: it keeps `worth` and has an outcome of smaller distance

    def actions_of(self, state: int) -> range:
        """Return the numbers of the state's actions."""
        return range(self.first[state], self.first[state + 1])

    def outcomes_of(self, action: int) -> Ints:
        """Return where the action may lead."""
        return self.target[self.outcomes[action] : self.outcomes[action + 1]]


def find_goal_faults(
    bound: Bound,
    decider: Decider,
    *,
    among: Words | None = None,
    least: Fraction | None = SURELY,
    budget: Budget = UNLIMITED,
) -> FaultAnalysis:
    """Return all goal faults on runs from all starts, or those of them `among` these packed states.

    `least` is the probability with which the goal could be reached; None: the best there is, and every action that lowers it
    gives it up. `safe_states` counts the states in which it could be, `unsafe_starts`
    are those in which it could not. Worlds that do not fit the limits raise LimitReached.
    """
    spent = stopwatch()
    if not has_goal(bound.task):
        raise InputError("the task has no goal.", Where("kind"), "Give one with --goal.")
    initial = every_start(bound, budget)
    followed = bound.compiled.explore(initial, stop_at=[FAIL, GOAL], budget=budget, policy=bound.core)
    if (limit := describe_limit(followed, budget)) is not None:
        raise limit
    can = _surely(bound, initial, budget) if least == SURELY else _with_probability(decider, initial, least, budget)
    chain = _follow(bound, can, initial, budget)
    wanted = None if among is None else {can.space.find(words) for words in among}
    faults = tuple(
        fault
        for place, fault in sorted(_faults(bound, can, chain), key=itemgetter(0))
        if wanted is None or place in wanted
    )
    begin = np.unique([can.space.find(words) for words in initial]).astype(np.int64)
    lost = np.ascontiguousarray(can.space.states(0, len(can.space))[begin[~can.able[begin]]])
    return FaultAnalysis(
        faults=faults,
        blame=(),
        first_faults=np.zeros(0, dtype=np.int64),
        unsafe_starts=tuple(bound.compiled.unpack(lost)),
        never_safe=np.zeros(0, dtype=np.int64),
        open=0,
        states=len(chain.places),
        safe_states=int(can.able[chain.places].sum()),
        seconds=spent(),
        exhaustive=followed.near_ties == 0 and among is None,
        near_ties=followed.near_ties,
    )


def _surely(bound: Bound, starts: Words, budget: Budget) -> Prospects:
    solved = solve_packed(bound.task, bound.compiled, starts, budget=budget)
    game = solved.game
    able = solved.lost == NEVER
    return Prospects(
        game.space,
        game.first,
        game.outcomes,
        game.target,
        game.label,
        able,
        _all_in(able, game.outcomes, game.target),
        able.astype(np.float64),
        solved.distance,
        _any_nearer(solved.distance, game.first, game.outcomes, game.target)
        & _all_in(able, game.outcomes, game.target),
    )


def _with_probability(decider: Decider, starts: Words, least: Fraction | None, budget: Budget) -> Prospects:
    world = find_safe_world(decider, starts, budget=budget)
    if isinstance(world, str):
        raise LimitReached(f"what safe policies reach is not known: {world}", "states")
    steps = world.steps
    worth, after = world.worths(budget=budget)
    best = steps.safe & (after >= worth[steps.state] - NEAR) & (worth[steps.state] > 0)
    able, keeps = worth > 0, best
    if least is not None:
        wanted = float(least) - NEAR
        able, keeps = worth >= wanted, steps.safe & (after >= wanted)
    outcomes, target = world.step_outcomes()
    first = np.searchsorted(steps.state, np.arange(len(world.space) + 1))
    distance = _steps_to_goal(world.goal & able, steps.state, outcomes, target, best)
    nearer = best & _any_nearer(distance, first, outcomes, target)
    return Prospects(world.space, first, outcomes, target, steps.label, able, keeps, worth, distance, nearer)


def _all_in(states: Mask, outcomes: Ints, target: Ints) -> Mask:
    if len(outcomes) < 2:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(np.logical_and.reduceat(states[target], outcomes[:-1]))


def _any_nearer(distance: Ints, first: Ints, outcomes: Ints, target: Ints) -> Mask:
    if len(outcomes) < 2:
        return np.zeros(0, dtype=np.bool_)
    far = np.iinfo(np.int64).max
    own = np.where(distance == NEVER, far, distance)
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return np.asarray(np.minimum.reduceat(own[target], outcomes[:-1]) < own[owner])


def _steps_to_goal(goal: Mask, state: Ints, outcomes: Ints, target: Ints, usable: Mask) -> Ints:
    """Return the least number of usable actions, each with any of its outcomes, from each state to the goal."""
    distance = np.where(goal, 0, NEVER).astype(np.int64)
    for steps in range(1, len(goal) + 1):
        near = np.logical_or.reduceat((distance != NEVER)[target], outcomes[:-1]) if len(outcomes) > 1 else usable
        fresh = np.unique(state[usable & near])
        fresh = fresh[distance[fresh] == NEVER]
        if not len(fresh):
            break
        distance[fresh] = steps
    return distance


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """What the policy reaches: places in the world in the order they are met, and how it goes on in each."""

    places: Ints
    action: Ints  # the number of the chosen action; NEVER where runs end
    stuck: Mask


def _follow(bound: Bound, can: Prospects, starts: Words, budget: Budget) -> _Chain:
    width = len(bound.task.network.labels) + 1
    owner = np.repeat(np.arange(len(can.first) - 1), np.diff(can.first))
    keys = owner * width + np.maximum(can.label, SILENT) + 1
    order = np.argsort(keys, kind="stable")
    seen = np.zeros(len(can.space), dtype=np.bool_)
    frontier = np.unique([can.space.find(words) for words in starts]).astype(np.int64)
    seen[frontier] = True
    places, actions, stuck = [], [], []
    while len(frontier):
        budget.check()
        parts = [frontier[k : k + BLOCK] for k in range(0, len(frontier), BLOCK)]
        steps = [policy_steps(bound, _states(can.space, part)) for part in parts]
        label = np.concatenate([one.label for one in steps]).astype(np.int64)
        end = np.concatenate([one.end for one in steps])
        goes = (label >= SILENT) & (end != End.FAIL) & (end != End.GOAL)
        action = np.full(len(frontier), NEVER, dtype=np.int64)
        wanted = frontier[goes] * width + label[goes] + 1
        action[goes] = order[np.searchsorted(keys, wanted, sorter=order)]
        places.append(frontier)
        actions.append(action)
        stuck.append(end == End.STUCK)
        following = [can.outcomes_of(one) for one in action[goes].tolist()]
        fresh = np.unique(np.concatenate(following)) if following else np.zeros(0, dtype=np.int64)
        frontier = fresh[~seen[fresh]].astype(np.int64)
        seen[frontier] = True
    return _Chain(np.concatenate(places), np.concatenate(actions), np.concatenate(stuck))


def _states(space: Any, places: Ints) -> Words:
    low, high = int(places.min()), int(places.max()) + 1
    return np.ascontiguousarray(space.states(low, high)[places - low])


def _faults(bound: Bound, can: Prospects, chain: _Chain) -> Iterator[tuple[int, Fault]]:
    able = can.able[chain.places]
    moving = chain.action != NEVER
    gives_up = np.zeros(len(moving), dtype=np.bool_)
    gives_up[moving] = ~can.keeps[chain.action[moving]]
    for k in np.flatnonzero(able & moving & gives_up).tolist():
        place, action = int(chain.places[k]), int(chain.action[k])
        if can.label[action] < 0:
            continue  # only silent operators: there is nothing to choose
        outcomes = can.outcomes_of(action)
        worse = np.unique(outcomes[~can.able[outcomes]])
        yield place, _fault(bound, can, place, action, can.keeps, worse, DEAD_END)
    for k in np.flatnonzero(able & chain.stuck).tolist():
        place = int(chain.places[k])
        yield place, _fault(bound, can, place, None, can.keeps, np.zeros(0, dtype=np.int64), STUCK)
    for k in _livelocked(can, chain):
        place, action = int(chain.places[k]), int(chain.action[k])
        yield place, _fault(bound, can, place, action, can.nearer, np.zeros(0, dtype=np.int64), LIVELOCK)


def _livelocked(can: Prospects, chain: _Chain) -> Iterator[int]:
    """Yield the places in the chain of states that are at fault for a livelock: none of them gives the goal up."""
    number = np.full(len(can.space), NEVER, dtype=np.int64)
    number[chain.places] = np.arange(len(chain.places))
    outcomes = [can.outcomes_of(action) if action != NEVER else can.target[:0] for action in chain.action.tolist()]
    lengths = np.array([len(one) for one in outcomes], dtype=np.int64)
    moving = lengths > 0
    target = number[np.concatenate(outcomes)] if moving.any() else np.zeros(0, dtype=np.int64)
    mdp = SparseMdp(
        np.concatenate([[0], np.cumsum(moving)]).astype(np.uint64),
        np.concatenate([[0], np.cumsum(lengths[moving])]).astype(np.uint64),
        target.astype(np.uint32),
        np.repeat(1.0 / np.maximum(lengths[moving], 1), lengths[moving]),
        np.zeros(1, dtype=np.uint32),
    )
    count, component = connected_components(mdp)
    component = component.astype(np.int64)
    source = np.repeat(np.arange(len(lengths)), lengths)
    endless = np.ones(count, dtype=np.bool_)
    endless[component[source[component[source] != component[target]]]] = False  # it can be left
    endless[component[~moving]] = False
    able, worth = can.able[chain.places], can.worth[chain.places]
    distance = can.distance[chain.places]
    gives_up = np.zeros(len(moving), dtype=np.bool_)
    gives_up[moving] = ~can.keeps[chain.action[moving]]
    for one in np.flatnonzero(endless).tolist():
        members = np.flatnonzero(component == one)
        if (gives_up & able)[members].any() or not able[members].any():
            continue  # the goal is given up by another fault there, or was before
        best = members[worth[members] >= worth[members].max() - NEAR]
        best = best[distance[best] != NEVER]
        yield from best[distance[best] == distance[best].min(initial=len(can.space))].tolist()


def _fault(bound: Bound, can: Prospects, place: int, action: int | None, good: Mask, worse: Ints, kind: str) -> Fault:
    state = bound.compiled.unpack(_states(can.space, np.array([place])))[0]
    mends = [one for one in can.actions_of(place) if good[one] and can.label[one] >= 0]
    mends.sort(
        key=lambda one: (not can.nearer[one], bound.label(int(can.label[one])))
    )  # what brings the goal nearer first
    mending = tuple(str(bound.label(int(can.label[one]))) for one in mends)
    taken = _raw_choice(bound, state) if action is None else bound.label(int(can.label[action]))
    lost = tuple(bound.compiled.unpack(_states(can.space, worse))) if len(worse) else ()
    return Fault(state, taken or "", mending, lost, kind)


def _raw_choice(bound: Bound, state: Any) -> str:
    """Return what a stuck policy would do: the name of its output, as it reads the state."""
    fitted = bound.fitted
    applicable = {move.label for move in bound.compiled.semantics.moves(state) if move.label is not None}
    choice = int(fitted.policy.choose(fitted.row(state), fitted.mask(applicable))[0])
    return fitted.policy.outputs[choice] if choice >= 0 else ""
