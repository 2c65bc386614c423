"""Do runs of the policy surely end, and end well (`--avoid loop`)? A ranking of all it reaches, or a livelock that it may come to.

First explicit search shows that `fail`, and what else is avoided, is not reached (`verify/explicit.py`). Then states get the least
number of steps in which a run may end from there, whatever label near ties make it choose. If all have one, runs end with probability
1: from everywhere there is a way to the end, and states are finitely many. Those that have none are never left: runs go on for ever.
Where several operators may move, that counts on a fair environment: their outcomes are one choice. With `--avoid delay` each of them
is a choice of its own, which all must lead nearer to an end; else the environment may keep a run from it.
Source   almost sure reachability in finite Markov chains: Baier & Katoen, Principles of Model Checking, section 10.1
Cost     linear in the transitions of the policy's chain
Limits   all states it reaches in memory; with near ties up to TIED_STATES states, and then no livelock is told, only that runs surely end
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import Arena
from polvet.check.ends import possible_outcomes
from polvet.check.followed import Followed
from polvet.check.risk_bound import is_certain
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import describe_limit
from polvet.kernel.starts import Starts
from polvet.model.options import ADVERSARIAL, FAIR
from polvet.model.semantics import State
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import End, Run
from polvet.records.certificate_files import certificate_head
from polvet.records.packed import fits, pack_columns
from polvet.safety.strong_cyclic import has_goal
from polvet.verify.explicit import METHOD, MOST_LISTED, Search
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.replay import replay
from polvet.verify.slicing import Slice, sliced
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe

TIED_STATES = 20_000
NEVER = -1
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """What the policy reaches: the labels it may choose in s are first[s] .. first[s + 1], their outcomes likewise in `target`."""

    first: Ints
    outcomes: Ints
    target: Ints
    starts: Ints

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.first) - 1


def verify_ends(bound: Bound, *, budget: Budget = UNLIMITED, seed: int = 0, threads: int = 1) -> SafetyResult:
    """Return whether runs of the policy surely end, never in `fail` nor in what else is avoided."""
    spent = stopwatch()
    if not has_goal(bound.task):
        raise InputError("the task has no goal, so that every run loops.", Where("--avoid"), "Give one with --goal.")
    part = sliced(bound)
    try:
        run = find_unsafe_run(bound, seed=seed, threads=threads, budget=budget)
        if run is not None:
            replay(bound, run)
            return Unsafe(run, "simulation")
        result = _judged(part, budget, threads)
        if isinstance(result, Unsafe) and part.kept is not None:
            result = _judged(Slice(bound, bound, None), budget, threads)  # a livelock is shown over all variables
    except LimitReached as limit:
        return Unknown(str(limit), METHOD, limit=limit.kind)
    if isinstance(result, Unsafe):
        replay(bound, result.run)
    environment = ADVERSARIAL if bound.task.avoid.delay else FAIR
    told = {"seconds": round(spent(), 6), "left_out": list(part.left_out), "environment": environment}
    return replace(result, figures={**result.figures, **told})


def _judged(part: Slice, budget: Budget, threads: int) -> SafetyResult:
    bound = part.bound
    result = Search(bound, budget).go_on(budget, threads=threads)
    if not isinstance(result, Safe):
        return result
    starts = bound.compiled.pack_starts(Starts.of(bound.task, budget), budget=budget)
    space = bound.compiled.explore(starts, build=True, stop_at=[FAIL, GOAL], budget=budget, policy=bound.core)
    if (limit := describe_limit(space, budget)) is not None:
        raise limit
    if space.near_ties:
        return _with_ties(part, result, budget)
    choice_start, branch_start, target, _, labels, _ = space.take_matrix()
    first, outcomes = choice_start.astype(np.int64), branch_start.astype(np.int64)
    if not part.whole.task.avoid.delay:
        # Silent operators move beside the chosen label's: whatever is enabled is one choice.
        going = np.diff(first) > 0
        outcomes = np.concatenate([outcomes[first[:-1][going]], outcomes[-1:]])
        first = np.concatenate([[0], np.cumsum(going)]).astype(np.int64)
    chain = Chain(first, outcomes, target.astype(np.int64), space.initial.astype(np.int64))
    distance = distances(chain)
    packed = space.states(0, len(space))
    if (distance != NEVER).all():
        return _sure(part, result, bound.compiled.machine.unpack(packed), distance)
    operator = np.repeat(np.arange(len(labels)), np.diff(branch_start).astype(np.int64))
    run, trap = _trapped(chain, distance == NEVER)
    states = bound.compiled.unpack(np.ascontiguousarray(packed[[place for place, _ in run]]))
    actions = tuple(bound.label(int(labels[operator[branch]])) for _, branch in run[:-1])
    made = Run(tuple(states), actions, End.LOOP)
    rows = bound.compiled.machine.unpack(np.ascontiguousarray(packed[trap]))
    variables = bound.task.network.variables
    closed = None
    if fits(variables, len(rows)):
        closed = {"kind": "livelock", "count": len(rows), "set": pack_columns(variables, rows)}
        if part.whole.task.avoid.delay:
            closed["environment"] = ADVERSARIAL
    return Unsafe(made, METHOD, {**result.figures, "livelock_states": len(trap)}, closed=closed)


def distances(chain: Chain) -> Ints:
    """Return the least number of steps within which a run may end, whichever label is chosen; NEVER where it cannot."""
    owner = np.repeat(np.arange(chain.states), np.diff(chain.first))
    group = np.repeat(np.arange(len(owner)), np.diff(chain.outcomes))
    order = np.argsort(chain.target, kind="stable")
    arrivals = np.concatenate(([0], np.cumsum(np.bincount(chain.target, minlength=chain.states)))).astype(np.int64)
    before = group[order]
    missing = np.diff(chain.first)
    distance = np.where(missing == 0, 0, NEVER).astype(np.int64)
    known = np.zeros(len(owner), dtype=np.bool_)
    frontier, steps = np.flatnonzero(distance == 0), 0
    while len(frontier):
        steps += 1
        lengths = arrivals[frontier + 1] - arrivals[frontier]
        places = np.repeat(arrivals[frontier] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        fresh = np.unique(before[places])
        fresh = fresh[~known[fresh]]
        known[fresh] = True
        np.subtract.at(missing, owner[fresh], 1)
        touched = np.unique(owner[fresh])
        frontier = touched[missing[touched] == 0]
        distance[frontier] = steps
    return distance


def _trapped(chain: Chain, lost: NDArray[np.bool_]) -> tuple[list[tuple[int, int]], Ints]:
    """Return a shortest way from a start into lost states, and all that is reached from its end by choices that never leave them.

    The way has a place and the number of the outcome after it (NEVER at the end) for each state.
    """
    came = dict.fromkeys(chain.starts.tolist(), (NEVER, NEVER))
    walk = list(came)
    for place in walk:  # grows while it is walked
        if lost[place]:
            break
        for branch in range(chain.outcomes[chain.first[place]], chain.outcomes[chain.first[place + 1]]):
            following = int(chain.target[branch])
            if following not in came:
                came[following] = (place, branch)
                walk.append(following)
    way, after = [(place, NEVER)], place
    while came[after][0] != NEVER:
        way.append(came[after])
        after = came[after][0]
    closed = {place: None}
    pending = [place]
    while pending:
        state = pending.pop()
        choices = (
            chain.target[chain.outcomes[choice] : chain.outcomes[choice + 1]]
            for choice in range(chain.first[state], chain.first[state + 1])
        )
        for following in next(targets for targets in choices if lost[targets].all()).tolist():
            if following not in closed:
                closed[following] = None
                pending.append(following)
    return way[::-1], np.array(sorted(closed), dtype=np.int64)


def _sure(part: Slice, closure: Safe, rows: Any, distance: Ints) -> SafetyResult:
    variables, avoid = part.bound.task.network.variables, part.whole.task.avoid
    if len(rows) > MOST_LISTED or not fits(variables, len(rows)):
        return Unknown(
            f"runs surely end, but {len(rows):,} states are too many to list as evidence", METHOD, closure.figures
        )
    order = np.lexsort(rows.T[::-1]) if rows.size else np.arange(len(rows))
    head = {**certificate_head("sure-end", part.whole.fitted), "avoids": list(avoid.names), "count": len(rows)}
    if part.kept is not None:
        head["kept"] = list(part.kept)
    listed = {"states": pack_columns(variables, rows[order]), "distances": distance[order].tolist()}
    return Safe({**head, **listed}, METHOD, {**closure.figures, "longest": int(distance.max(initial=0))})


def _with_ties(part: Slice, closure: Safe, budget: Budget) -> SafetyResult:
    """Return that runs surely end in every order of evaluation; otherwise the near tie is the reason for not knowing."""
    bound = part.bound
    states, chain, tied = _follow(bound, budget.at_most(states=TIED_STATES))
    distance = distances(chain)
    if (distance == NEVER).any():
        shown = bound.compiled.semantics.show(tied)
        return Unknown(f"near-tie in state {shown}", METHOD, closure.figures, tie=tied)
    return _sure(part, closure, bound.compiled.machine.unpack(bound.compiled.pack(states)), distance)


def _follow(bound: Bound, budget: Budget) -> tuple[list[State], Chain, State]:
    """Return what is reached in any order of evaluation, and a state in which orders differ."""
    task = bound.task
    arena = Arena.of(task, budget=budget)
    followed = Followed(arena, bound.fitted)
    number = {state: k for k, state in enumerate(dict.fromkeys(iter_all_starts(arena)))}
    starts, frontier, tied = len(number), list(number), next(iter(number))
    groups: dict[State, list[list[int]]] = {}
    while frontier:
        budget.check(len(number))
        going = [state for state in frontier if not arena.is_fail(state) and not arena.is_goal(state)]
        before = len(number)
        for state, step in zip(going, followed.steps(going), strict=True) if going else ():
            choices = possible_outcomes(step, adversarial=bound.task.avoid.delay)
            if choices and not is_certain(step):
                tied = state
            groups[state] = [[number.setdefault(one, len(number)) for one in sorted(outcomes)] for outcomes in choices]
        frontier = list(number)[before:]
    mine = [groups.get(state, []) for state in number]
    flat = [outcomes for state in mine for outcomes in state]
    chain = Chain(
        np.cumsum([0, *map(len, mine)]).astype(np.int64),
        np.cumsum([0, *map(len, flat)]).astype(np.int64),
        np.array([one for outcomes in flat for one in outcomes], dtype=np.int64),
        np.arange(starts),
    )
    return list(number), chain, tied
