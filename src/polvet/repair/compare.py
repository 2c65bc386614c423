"""Two policies side by side: the reachable states in which they differ, and which differences removed or added a fault.

A state counts if one of the policies reaches it from a start state. A difference *removes* a fault where the state is safe, reached
by the old policy, and the old action has an unsafe outcome, but the new policy has no fault there; it *adds* one where it is the
other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached
from polvet.files import Figures, Json
from polvet.kernel.compiled import Compiled, Words, describe_limit
from polvet.kernel.starts import Starts
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import Fitted
from polvet.policy.compiled import FAIL, GOAL, bind_policy
from polvet.records.state_json import state_to_json
from polvet.repair.demands import Applicability
from polvet.safety.decide import Decider

BATCH = 4096


class Effect(Enum):
    """What a difference does to the safety of its state."""

    REMOVED = "fault removed"
    ADDED = "fault added"
    NO_FAULT = "no fault"
    BOTH_FAULTY = "both faulty"
    UNSAFE_STATE = "unsafe state"
    OPEN = "undecided"


@dataclass(frozen=True, slots=True)
class Difference:
    """A state in which the policies differ; an action of None: the policy is stuck there."""

    state: State
    old: str | None
    new: str | None
    reached_by_old: bool
    reached_by_new: bool
    effect: Effect

    def to_json(self, task: Task) -> Json:
        """Return the difference as a line of a file holds it."""
        return {
            "state": state_to_json(task, self.state),
            "old": self.old,
            "new": self.new,
            "reached_by_old": self.reached_by_old,
            "reached_by_new": self.reached_by_new,
            "effect": self.effect.value,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """All differences that were found; `limit` is what stopped the search before it had seen everything."""

    states: int  # reached by one of the policies
    reached_by_old: int
    reached_by_new: int
    differences: tuple[Difference, ...]
    limit: LimitReached | None

    def count(self, effect: Effect) -> int:
        """Return how many differences have the effect."""
        return Counter(difference.effect for difference in self.differences)[effect]

    @property
    def figures(self) -> Figures:
        """Return the comparison as figures for people and files."""
        effects = {effect.value.replace(" ", "_"): self.count(effect) for effect in Effect}
        return {
            "states": self.states,
            "reached_by_old": self.reached_by_old,
            "reached_by_new": self.reached_by_new,
            "differences": len(self.differences),
            "faults_removed": effects["fault_removed"],
            "faults_added": effects["fault_added"],
            "effects": effects,
        }


def compare(
    old: Fitted,
    new: Fitted,
    *,
    starts: Sequence[State] | None = None,
    budget: Budget = UNLIMITED,
    compiled: Compiled | None = None,
) -> Comparison:
    """Return where two policies of the same task differ; from all start states, or from the given ones."""
    if old.task.network.labels != new.task.network.labels:
        raise InputError("the two policies are not fitted to the same task.", hint="Fit both to the same task.")
    program = compiled or Compiled(old.task.network, conditions=[old.task.fail, old.task.goal])
    packed = _packed_starts(old, program, starts, budget)
    reached: list[set[bytes]] = []
    limit = None
    parts = []
    for fitted in (old, new):
        space = program.explore(packed, stop_at=[FAIL, GOAL], budget=budget, policy=bind_policy(fitted, program).core)
        limit = limit or describe_limit(space, budget)
        words = space.states(0, len(space))
        ended = space.mask(FAIL).view(np.bool_) | space.mask(GOAL).view(np.bool_)
        parts.append(words[~ended])
        reached.append({row.tobytes() for row in words[~ended]})
    union = _union(parts)
    decider = Decider(old.task, compiled=program)
    differences = []
    for words, first, second in _choices(program, (old, new), union):
        key = words.tobytes()
        state = program.unpack(words.reshape(1, -1))[0]
        seen = key in reached[0], key in reached[1]
        try:
            effect = _effect(decider, state, (first, second), seen, budget)
        except LimitReached as stopped:
            effect, limit = Effect.OPEN, limit or stopped
        differences.append(Difference(state, first, second, *seen, effect))
    return Comparison(len(union), len(reached[0]), len(reached[1]), tuple(differences), limit)


def _packed_starts(fitted: Fitted, program: Compiled, starts: Sequence[State] | None, budget: Budget) -> Words:
    if starts is not None:
        return program.pack(starts)
    known = Starts.of(fitted.task, budget)
    if known.count is None:
        raise InputError("the task has infinitely many start states.", hint="Give some with --starts N.")
    return program.pack_starts(known, budget=budget)


def _union(parts: Sequence[Words]) -> Words:
    """Return the rows of all parts, each once, in the order of first sight."""
    together = np.concatenate(parts)
    if not len(together):
        return together
    _, first = np.unique(together, axis=0, return_index=True)
    return together[np.sort(first)]


def _choices(
    program: Compiled, policies: tuple[Fitted, Fitted], states: Words
) -> Iterator[tuple[Words, str | None, str | None]]:
    """Yield the states in which the policies take different labels, with both labels."""
    labels = np.array([*policies[0].task.network.labels, None], dtype=object)
    known = [Applicability(fitted, program) for fitted in policies]
    for begin in range(0, len(states), BATCH):
        words = np.ascontiguousarray(states[begin : begin + BATCH])
        taken = []
        for fitted, applicable in zip(policies, known, strict=True):
            mask = applicable.packed_masks(words)
            rows = bind_policy(fitted, program).core.rows(words)
            chosen = fitted.policy.choose(rows, mask if fitted.filtered else None)
            stuck = (chosen < 0) | ~mask[np.arange(len(words)), np.maximum(chosen, 0)]
            numbers = np.array(fitted.labels, dtype=np.int64)[np.maximum(chosen, 0)]
            taken.append(np.where(stuck, len(labels) - 1, numbers))
        for k in np.flatnonzero(taken[0] != taken[1]).tolist():
            yield words[k], labels[taken[0][k]], labels[taken[1][k]]


def _effect(
    decider: Decider, state: State, taken: tuple[str | None, str | None], seen: tuple[bool, bool], budget: Budget
) -> Effect:
    judged = dict(decider.judge_actions(state, budget=budget))
    if not any(judged.values()):
        return Effect.UNSAFE_STATE
    # Where a policy is stuck its run ends, and what it never reaches is no fault of it.
    old, new = (reached and not judged.get(action, True) for action, reached in zip(taken, seen, strict=True))
    match old, new:
        case True, False:
            return Effect.REMOVED
        case False, True:
            return Effect.ADDED
        case True, True:
            return Effect.BOTH_FAULTY
        case _:
            return Effect.NO_FAULT
