"""The most that safe policies can reach: in a small world, the greatest probability of the goal among all of them.

A safe policy never takes an action with an unsafe outcome. What is left of the world is an MDP (`SafeWorld`): its states are
the safe ones, its choices their safe labels; in a step one operator is drawn uniformly among those of the label and the
silent ones, as simulated runs do (`policy/runs.py`). `best` is its maximal reachability of the goal, however long it takes;
`soonest` the least expected number of steps where the goal can be reached surely; `plan` lets a policy choose anew only where
its own choice is not safe, and names the actions that then reach the goal best.
Source   maximal reachability: Baier & Katoen, Principles of Model Checking, section 10.6; see `mdp/solve.py`
Differs  safe states come from the decider (`safety/decide.py`); operators that share a step stand behind states of their own,
         so that no probability is rounded twice
Limits   WORLD_STATES states
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.debug.faults import policy_steps
from polvet.debug.goal_chance import Chances, places_of
from polvet.kernel.compiled import Compiled, Words, describe_limit
from polvet.mdp.graph import find_probability_one
from polvet.mdp.query import Reach, Reward
from polvet.mdp.scheduler import NO_CHOICE
from polvet.mdp.solve import Value, solve
from polvet.mdp.sparse import Mask, SparseMdp
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import End
from polvet.records.fault_files import Fault
from polvet.safety.decide import SAFE, SILENT, Decider

WORLD_STATES = 200_000
FINE = 1e-12
"""The gap between bounds where steps of equal worth are to be told from others."""
Numbers = NDArray[np.int64]


def find_safe_world(decider: Decider, starts: Words, *, budget: Budget = UNLIMITED) -> SafeWorld | str:
    """Return what safe policies can meet from the packed starts, or why that cannot be told; a time limit raises."""
    few = budget.at_most(states=WORLD_STATES)
    space = decider.compiled.explore(starts, build=True, stop_at=[FAIL, GOAL], budget=few)
    limit = describe_limit(space, few)
    if limit is not None:
        if limit.kind == "time":
            raise limit
        return f"the world is too large ({limit})"
    known = decider.known_packed(space.states(0, len(space)), budget=budget)
    if decider.stopped is not None:
        if decider.stopped.kind == "time":
            raise decider.stopped
        return f"not every state is decided ({decider.stopped})"
    return SafeWorld(decider.compiled, space, places_of(space, starts), known == SAFE, _Matrix.of(space))


@dataclass(frozen=True, slots=True, eq=False)
class _Matrix:
    """The world's operators: those of state s are choice_start[s] .. choice_start[s + 1]; a label each, SILENT where it has none."""

    choice_start: Numbers
    branch_start: Numbers
    target: NDArray[np.uint32]
    probability: NDArray[np.float64]
    labels: Numbers

    @classmethod
    def of(cls, space: _core.Space) -> _Matrix:
        choice_start, branch_start, target, probability, labels, _ = space.take_matrix()
        return cls(
            choice_start.astype(np.int64), branch_start.astype(np.int64), target, probability, labels.astype(np.int64)
        )


@dataclass(frozen=True, eq=False)
class SafeWorld:
    """The states of a small world with what is safe in them; `places` are the numbers of the starts it was found from."""

    compiled: Compiled
    space: _core.Space
    places: Numbers
    safe: Mask
    matrix: _Matrix

    def best(self, *, budget: Budget = UNLIMITED) -> Chances | str:
        """Return the greatest probability of the goal from each start among all safe policies; a text where there are none."""
        if not self.safe[self.places].all():
            return "from some start states no policy is safe"
        value = self._solved(np.ones(len(self.steps.state), dtype=np.bool_), self.places, budget)[0]
        return Chances(value.lowers[self.places], value.uppers[self.places])

    def soonest(self, *, budget: Budget = UNLIMITED) -> Chances | None:
        """Return bounds on the least expected steps from each start by safe steps that reach the goal surely; None where one cannot."""
        safe = np.flatnonzero(self.steps.safe)
        sure = self._sure(safe, self.places)
        if not (self.safe[self.places] & sure[self.places]).all():
            return None
        value, _ = self._quickest(safe, sure, self.places, budget)
        return Chances(value.lowers[self.places], value.uppers[self.places])

    def worths(self, *, budget: Budget = UNLIMITED) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the greatest probability of the goal from each state by safe steps, and after each step, both from above."""
        every = np.arange(len(self.space))  # so that no state counts as not reached
        value = self._solved(np.ones(len(self.steps.state), dtype=np.bool_), every, budget, gap=FINE)[0]
        worth = np.where(self.safe | self.goal, value.uppers[: len(self.space)], 0.0)
        if not len(self.steps.state):
            return worth, np.zeros(0)
        gained = np.add.reduceat(self.matrix.probability * worth[self.matrix.target], self.matrix.branch_start[:-1])
        sums = np.add.reduceat(gained[self.steps.operator], self.steps.start[:-1])
        return worth, sums / np.diff(self.steps.start)

    def step_outcomes(self) -> tuple[Numbers, Numbers]:
        """Return where the outcomes of each step begin, and the outcomes of all its operators."""
        first, last = self.matrix.branch_start[self.steps.operator], self.matrix.branch_start[self.steps.operator + 1]
        counts = np.concatenate([[0], np.cumsum(last - first)])
        return counts[self.steps.start], self.matrix.target[_ranges(first, last - first)].astype(np.int64)

    def plan(self, bound: Bound, faults: Sequence[Fault], *, budget: Budget = UNLIMITED) -> list[Fault]:
        """Return the faults, the safe actions of each narrowed to one that reaches the goal best.

        The policy keeps every choice that is safe; wherever it is not, now or on runs to come, the best safe action is taken.
        Faults outside this world, or from which the goal is out of reach then, stay as they are.
        """
        steps = self.steps
        chosen = policy_steps(bound, self.space.states(0, len(self.space)))
        own = (steps.label == chosen.label[steps.state]) & steps.safe
        keeps = np.zeros(len(self.space), dtype=np.bool_)
        keeps[steps.state[own]] = True
        stuck = chosen.end == End.STUCK
        places = [self.space.find(words) for words in self.compiled.pack([fault.state for fault in faults])]
        met = np.array([place for place in places if place >= 0], dtype=np.int64)
        allowed = (own | ~keeps[steps.state]) & ~stuck[steps.state]
        taken = self._best_steps(allowed, np.concatenate([self.places, met]), budget)

        def narrowed(fault: Fault, place: int) -> Fault:
            number = -1 if place < 0 or taken[place] < 0 else int(steps.label[taken[place]])
            label = None if number < 0 else self.compiled.network.labels[number]
            return replace(fault, safe_actions=(label,)) if label in fault.safe_actions else fault

        return [narrowed(fault, place) for fault, place in zip(faults, places, strict=True)]

    def _best_steps(self, allowed: Mask, starts: Numbers, budget: Budget) -> Numbers:
        """Return for each state the step that reaches the goal best, the soonest where it is reached surely; -1: none does."""
        value, kept = self._solved(allowed, starts, budget)
        taken = self._scheduled(value, kept, value.lowers[: len(self.space)] > 0)
        sure = self._sure(kept, starts)
        begins = starts[sure[starts]]
        if not len(begins):
            return taken
        soonest, left = self._quickest(kept, sure, begins, budget)
        shortest = self._scheduled(soonest, left, np.isfinite(soonest.uppers[: len(self.space)]) & sure)
        return np.where(shortest >= 0, shortest, taken)

    def _sure(self, kept: Numbers, starts: Numbers) -> Mask:
        """Return from which states some of the kept steps reach the goal with probability 1."""
        mdp = self._mdp(kept, starts)
        return find_probability_one(mdp, self._padded(self.goal, mdp))[: len(self.space)]

    def _quickest(self, kept: Numbers, sure: Mask, starts: Numbers, budget: Budget) -> tuple[Value, Numbers]:
        """Return the least expected steps from sure starts, and the steps to choose from: of the kept ones, those that keep it sure."""
        left = kept[sure[self.steps.state[kept]] & self._all_in(sure, self.steps.start, self.steps.operator)[kept]]
        mdp = self._mdp(left, starts)
        cost = np.zeros(mdp.choices)
        cost[: len(left)] = 1.0
        ends = self._padded(self.goal, mdp)
        value = solve(replace(mdp, rewards={"steps": cost}), Reward("steps", ends, minimise=True), budget=budget)
        budget.check()
        return value, left

    @staticmethod
    def _padded(states: Mask, mdp: SparseMdp) -> Mask:
        """Return the states as those of the MDP, which has others behind shared steps."""
        return np.concatenate([states, np.zeros(mdp.states - len(states), dtype=np.bool_)])

    def _scheduled(self, value: Value, kept: Numbers, where: Mask) -> Numbers:
        """Return the number of the step that the scheduler takes in each state; -1 where it takes none, and elsewhere."""
        assert value.scheduler is not None
        choice = value.scheduler[: len(self.space)]
        first = np.searchsorted(self.steps.state[kept], np.arange(len(self.space)))
        taken = np.full(len(self.space), -1, dtype=np.int64)
        chosen = np.flatnonzero((choice != NO_CHOICE) & where)
        taken[chosen] = kept[first[chosen] + choice[chosen].astype(np.int64)]
        return taken

    @cached_property
    def goal(self) -> Mask:
        """Where the goal is reached."""
        return self.space.mask(GOAL).astype(np.bool_) & ~self.space.mask(FAIL).astype(np.bool_)

    def _solved(self, allowed: Mask, starts: Numbers, budget: Budget, *, gap: float = 1e-6) -> tuple[Value, Numbers]:
        """Return the maximal reachability where only these steps are allowed, and the numbers of the steps that are choices."""
        kept = np.flatnonzero(allowed & self.steps.safe)
        mdp = self._mdp(kept, starts)
        value = solve(mdp, Reach(self._padded(self.goal, mdp)), relative_gap=gap, budget=budget)
        budget.check()  # a solver that was cut short leaves values that depend on the clock
        return value, kept

    def _all_in(self, states: Mask, start: Numbers, operator: Numbers) -> Mask:
        """Return for each step whether every outcome of every operator is among the states."""
        if not len(operator):
            return np.ones(len(start) - 1, dtype=np.bool_)
        inside = np.logical_and.reduceat(states[self.matrix.target], self.matrix.branch_start[:-1])
        return np.asarray(np.logical_and.reduceat(inside[operator], start[:-1]))

    @cached_property
    def steps(self) -> Steps:
        """All steps a policy may take: a state and a label, with the operators that may move then, ordered by state."""
        matrix, states = self.matrix, len(self.space)
        owner = np.repeat(np.arange(states), np.diff(matrix.choice_start))
        width = len(self.compiled.network.labels) + 1
        labelled = matrix.labels >= 0
        chooses = np.zeros(states, dtype=np.bool_)
        chooses[owner[labelled]] = True
        # Where only silent operators are enabled, they are one step of their own.
        own = labelled | ~chooses[owner]
        keys = owner * width + np.where(labelled, matrix.labels + 1, 0)
        distinct = np.unique(keys[own])
        state, label = distinct // width, distinct % width - 1
        begin = np.searchsorted(state, np.arange(states + 1))
        silent = np.flatnonzero(~own)
        times = (begin[1:] - begin[:-1])[owner[silent]]
        step = np.concatenate([np.searchsorted(distinct, keys[own]), _ranges(begin[owner[silent]], times)])
        operator = np.concatenate([np.flatnonzero(own), np.repeat(silent, times)])
        order = np.lexsort((operator, step))
        step, operator = step[order], operator[order]
        start = np.searchsorted(step, np.arange(len(distinct) + 1))
        safe = self.safe[state] & self._all_in(self.safe, start, operator)
        return Steps(state, np.where(label < 0, SILENT, label), start, operator, safe)

    def _mdp(self, kept: Numbers, starts: Numbers) -> SparseMdp:
        """Return the MDP with these steps as choices; where several operators share a step, each has a state behind it."""
        matrix, steps, states = self.matrix, self.steps, len(self.space)
        count = steps.start[kept + 1] - steps.start[kept]
        pair = _ranges(steps.start[kept], count)  # the operators of the kept steps, one after the other
        pair_start = np.concatenate([[0], np.cumsum(count)])
        shared = np.unique(steps.operator[pair][np.repeat(count > 1, count)])
        behind = states + np.searchsorted(shared, steps.operator[pair])
        # Branches of a step: those of its only operator, or one to the state behind each of its operators.
        only = steps.operator[steps.start[kept]]
        first = np.where(count == 1, matrix.branch_start[only], len(matrix.target) + pair_start[:-1])
        length = np.where(count == 1, matrix.branch_start[only + 1] - matrix.branch_start[only], count)
        first = np.concatenate([first, matrix.branch_start[shared]])
        length = np.concatenate([length, matrix.branch_start[shared + 1] - matrix.branch_start[shared]])
        branches = _ranges(first, length)
        begin = np.searchsorted(steps.state[kept], np.arange(states + 1))
        return SparseMdp(
            choice_start=np.concatenate([begin, len(kept) + 1 + np.arange(len(shared))]).astype(np.uint64),
            branch_start=np.concatenate([[0], np.cumsum(length)]).astype(np.uint64),
            target=np.concatenate([matrix.target, behind.astype(np.uint32)])[branches],
            probability=np.concatenate([matrix.probability, 1.0 / np.repeat(count, count)])[branches],
            initial=np.unique(starts).astype(np.uint32),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps ordered by state and label; the operators of step k are operator[start[k]:start[k + 1]]."""

    state: Numbers
    label: Numbers
    start: Numbers
    operator: Numbers
    safe: Mask  # the state is safe, and so is every outcome of every operator


def _ranges(first: Numbers, length: Numbers) -> Numbers:
    """Return first[0], first[0] + 1, ... (length[0] numbers), then the same from first[1], and so on.

    >>> _ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    length = length.astype(np.int64)
    offset = np.cumsum(length) - length
    return np.repeat(first.astype(np.int64) - offset, length) + np.arange(int(length.sum()))
