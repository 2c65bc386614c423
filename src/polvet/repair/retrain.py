"""Retraining: another ensemble that learnt what is right in the states the policy meets, and corrected where it still goes wrong.

A repair mends the faults it is given, one by one; where a policy is at fault nearly everywhere, faults elsewhere are like them, and
what a learner can see in them is worth more than any of them. So: follow the policy from some starts, let a teacher say what is
right in every safe state on the way (`repair/teachers.py`), train on all right labels at once (`repair/set_loss.py`), follow the
new policy, and so on; then go over all starts and learn from the runs that fail; then mend what is left as any repair does.
Source   data aggregation: Ross, Gordon and Bagnell, A reduction of imitation learning and structured prediction to no-regret
         online learning, AISTATS 2011 (DAgger), with a teacher that names sets
Limits   replaces the policy: `Schooling.kept` says how much of what it did right is left. XGBoost's ensembles only (extra `trees`)
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.debug.faults import policy_steps
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import Compiled, Words, limit_of
from polvet.kernel.starts import Starts
from polvet.model.task import Task
from polvet.policy.binding import UNKNOWN_LABEL, Fitted, fit
from polvet.policy.boosting import Growth
from polvet.policy.compiled import FAIL, GOAL, Bound, bind_policy
from polvet.policy.protocol import Policy, Rows
from polvet.policy.runs import Inspection
from polvet.policy.trees import TreeEnsemble
from polvet.records.fault_files import Fault
from polvet.repair.demands import Applicability
from polvet.repair.method import Change, Method, Request
from polvet.repair.set_loss import Lessons, train_on_sets
from polvet.repair.teachers import Teacher, find_teacher
from polvet.safety.decide import SAFE, UNSAFE, compile_task

Flags = NDArray[np.bool_]
FEW = 50
"""So many unsafe starts, and fewer, are left to be mended: training again would move them elsewhere."""
MOST_VISITED = 400_000
MOST_STARTS = 100_000
"""More starts are not gone over one by one."""
KEPT = 2_000
"""Visited states whose action a correction should leave alone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to learn: starts to follow, rounds over them, passes over all starts, and corrections afterwards."""

    starts: int = 500
    rounds: int = 5
    passes: int = 5
    corrections: int = 8
    growth: Growth = field(default_factory=Growth)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Lesson:
    """One step of learning: what was done, how much was learnt from, and how many of how many starts are unsafe after it."""

    step: str
    lessons: int
    starts: int
    unsafe: int


@dataclass(frozen=True, slots=True, eq=False)
class Schooling:
    """The new policy, how it came about, and which share of the right decisions on the old one's runs it takes as well."""

    policy: TreeEnsemble
    teacher: str
    course: tuple[Lesson, ...]
    kept: float
    decisions: int
    limit: LimitReached | None = None


def is_retrained(policy: Policy) -> bool:
    """Return whether the policy is of a kind that is retrained, and the library is there that does it."""
    kind = isinstance(policy, TreeEnsemble) and (policy.origin is None or policy.origin.kind == "xgboost")
    return kind and find_spec("xgboost") is not None


def retrain(
    fitted: Fitted, plan: Plan | None = None, *, starts: Words | None = None, budget: Budget = UNLIMITED
) -> Schooling:
    """Return a policy that was taught what is right from the packed starts (or some of the task's own) on, and corrected."""
    policy = fitted.policy
    if not isinstance(policy, TreeEnsemble) or (policy.origin is not None and policy.origin.kind != "xgboost"):
        raise InputError("only XGBoost's ensembles are retrained.", Where("--method"), "Use auto.")
    return _School(fitted, plan or Plan(), starts, budget).teach()


class _School:
    def __init__(self, fitted: Fitted, plan: Plan, starts: Words | None, budget: Budget) -> None:
        self.fitted, self.plan, self.budget = fitted, plan, budget
        self.task: Task = fitted.task
        self.compiled: Compiled = compile_task(fitted.task)
        self.first = bind_policy(fitted, self.compiled)
        self.best, self.fewest = self.first, 2**62
        self.some, self.every = self._starts(starts)
        self.own: tuple[Words, NDArray[np.int32]] | None = (
            None  # states in which the first policy is right, and its labels
        )
        self.taught_by = "nobody"
        self.seen = _core.StateSet(self.compiled.program.words)
        self.lessons: list[Lessons] = []
        self.course: list[Lesson] = []
        labels = np.array(fitted.labels, dtype=np.int64)
        self.known_output = labels != UNKNOWN_LABEL
        self.label_of = np.where(self.known_output, labels, 0)

    def teach(self) -> Schooling:
        """Return the best policy that came up before a limit did."""
        limit = None
        try:
            teacher = find_teacher(self.task, self.compiled, self.first, self.some, budget=self.budget)
            self.taught_by = teacher.name
            self._learn(teacher)
            self._correct(teacher)
        except LimitReached as reached:
            limit = reached
        kept, decisions = self._kept()
        policy = self.best.fitted.policy
        assert isinstance(policy, TreeEnsemble)
        return Schooling(policy, self.taught_by, tuple(self.course), kept, decisions, limit)

    def _starts(self, starts: Words | None) -> tuple[Words, Words]:
        """Return the starts to follow the policy from, and those to go over."""
        if starts is None:
            known = Starts.of(self.task, self.budget)
            if known.count is not None and known.count <= MOST_STARTS:
                starts = self.compiled.pack_starts(known, budget=self.budget)
            else:
                drawn = known.sample(20 * self.plan.starts, random.Random(self.plan.seed), budget=self.budget)
                starts = self.compiled.pack(drawn)
        few = min(len(starts), self.plan.starts)
        chosen = np.sort(np.random.default_rng(self.plan.seed).choice(len(starts), few, replace=False))
        return np.ascontiguousarray(starts[chosen]), starts

    def _learn(self, teacher: Teacher) -> None:
        """Train until no start that is followed is unsafe, then on what fails among all of them."""
        bound = self.first
        for number in range(self.plan.rounds):
            self._study(teacher, bound, self.some)
            if not sum(map(len, self.lessons)):
                return  # every label is right everywhere, or none is
            bound = self._trained()
            if not len(self._unsafe(bound, self.some, f"round {number + 1}")):
                break
        for number in range(self.plan.passes):
            unsafe = self._unsafe(bound, self.every, f"pass {number + 1}")
            if len(unsafe) <= FEW:
                return
            self._study(teacher, bound, unsafe)
            bound = self._trained()
        self._unsafe(bound, self.every, "last pass")

    def _correct(self, teacher: Teacher) -> None:
        """Mend the best policy where it goes wrong, until no start is unsafe."""
        from polvet.repair.repair import Options, repair

        faults: dict[bytes, Fault] = {}
        bound = self.best
        keep = self._sample(self._visited(bound, self.some))
        unsafe = self._unsafe(bound, self.every, "before corrections")
        for number in range(self.plan.corrections):
            fresh = {key: fault for key, fault in self._slips(teacher, bound, unsafe).items() if key not in faults}
            if not fresh:
                return
            faults |= fresh
            chosen = Options("leaves", "safe", self.compiled.unpack(keep), seed=self.plan.seed)
            mended = repair(bound.fitted, list(faults.values()), chosen, budget=self.budget, compiled=self.compiled)
            bound = bind_policy(fit(self.task, mended.policy), self.compiled)
            unsafe = self._unsafe(bound, self.every, f"correction {number + 1} of {len(faults)} faults")

    def _study(self, teacher: Teacher, bound: Bound, starts: Words) -> None:
        """Learn what is right in the states that the policy visits from the starts."""
        before = len(self.seen)
        self.seen.insert(self._visited(bound, starts))
        states = self.seen.states(before, len(self.seen))
        taught = teacher.teach(states, self.budget)
        if taught.limit is not None:
            raise taught.limit
        if self.own is None:
            chosen = policy_steps(bound, states).label
            mine = np.flatnonzero(chosen >= 0)
            mine = mine[taught.right[mine, chosen[mine]]]
            self.own = np.ascontiguousarray(states[mine]), chosen[mine]
        applicable = taught.applicable[:, self.label_of] & self.known_output
        right = taught.right[:, self.label_of] & self.known_output
        allowed = applicable if self.fitted.filtered else np.ones_like(applicable)
        useful = right.any(axis=1) & (allowed & ~right).any(axis=1)
        self.lessons.append(Lessons(self._rows(states[useful]), allowed[useful], right[useful]))

    def _trained(self) -> Bound:
        parts = self.lessons
        whole = Lessons(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.allowed for part in parts]),
            np.concatenate([part.right for part in parts]),
        )
        policy = self.fitted.policy
        trained = train_on_sets(whole, policy.inputs, policy.outputs, self.plan.growth, budget=self.budget)
        return bind_policy(replace(self.fitted, policy=trained), self.compiled)

    def _visited(self, bound: Bound, starts: Words) -> Words:
        space = self.compiled.explore(
            starts, stop_at=[FAIL, GOAL], policy=bound.core, budget=self.budget.at_most(states=MOST_VISITED)
        )
        limit = limit_of(space.status, self.budget)
        if limit is not None and limit.kind != "states":
            raise limit
        return space.states(0, len(space))

    def _unsafe(self, bound: Bound, starts: Words, step: str) -> Words:
        """Return the starts from which the policy may fail; the policy with the fewest among all starts is remembered."""
        inspection = Inspection(bound)
        places = inspection.unsafe(starts, budget=self.budget)
        if inspection.limit is not None:
            raise inspection.limit
        count = len(places) if starts is self.every else len(places) + len(self.every)
        if count < self.fewest:
            self.best, self.fewest = bound, count
        self.course.append(Lesson(step, sum(map(len, self.lessons)), len(starts), len(places)))
        return np.ascontiguousarray(starts[places])

    def _slips(self, teacher: Teacher, bound: Bound, starts: Words) -> dict[bytes, Fault]:
        """Return the safe states on runs from the starts where the policy's label may lead to an unsafe one."""
        slips: dict[bytes, Fault] = {}
        if not len(starts):
            return slips
        states = self._visited(bound, starts)
        states = states[teacher.known(states, self.budget) == SAFE]
        steps = policy_steps(bound, states)
        lost = teacher.known(steps.outcomes, self.budget) == UNSAFE
        owner = np.repeat(np.arange(len(states)), np.diff(steps.outcome_start))
        faulty = np.unique(owner[lost])
        faulty = faulty[steps.label[faulty] >= 0]
        right = teacher.teach(np.ascontiguousarray(states[faulty]), self.budget).right
        names = self.task.network.labels
        for k, place in enumerate(faulty.tolist()):
            if right[k].any():
                labels = tuple(names[label] for label in np.flatnonzero(right[k]).tolist())
                outcomes = tuple(self.compiled.unpack(steps.outcomes[(owner == place) & lost]))
                state = self.compiled.unpack(states[place : place + 1])[0]
                slips[states[place].tobytes()] = Fault(state, names[steps.label[place]], labels, outcomes)
        return slips

    def _sample(self, states: Words) -> Words:
        few = min(len(states), KEPT)
        return np.ascontiguousarray(
            states[np.random.default_rng(self.plan.seed).choice(len(states), few, replace=False)]
        )

    def _kept(self) -> tuple[float, int]:
        """Return the share of the first policy's right decisions on its runs that the new one takes as well, and their number."""
        if self.own is None or not len(self.own[0]):
            return 1.0, 0
        states, chosen = self.own
        return float((policy_steps(self.best, states).label == chosen).mean()), len(states)

    def _rows(self, states: Words) -> Rows:
        return self.first.core.rows(np.ascontiguousarray(states))


def _retrain(request: Request) -> Change:
    """Return the retrained policy, corrected where the request's faults ask for it."""
    from polvet.repair.leaves import LEAVES

    plan = Plan(seed=request.seed)
    compiled = request.known.compiled
    starts = compiled.pack(request.starts) if request.starts else None
    schooling = retrain(request.fitted, plan, starts=starts, budget=request.budget)
    policy, late = schooling.policy, schooling.limit is not None
    if not request.demands.met_by(policy).all():
        fitted = replace(request.fitted, policy=policy)
        change = LEAVES.run(replace(request, fitted=fitted, known=Applicability(fitted, compiled)))
        assert isinstance(change.policy, TreeEnsemble)
        policy, late = change.policy, late or change.timed_out
    values = [np.abs(tree.values[tree.feature < 0]).sum() for tree in (*request.policy.trees, *policy.trees)]
    return Change(policy, float(sum(values)), trees_added=len(policy.trees), timed_out=late, method="retrain")


RETRAIN = Method(
    "retrain",
    "another ensemble, taught all right labels of the states on the policy's runs (`repair/retrain.py`), then corrected; "
    "for policies that are at fault nearly everywhere",
    (TreeEnsemble,),
    _retrain,
)
