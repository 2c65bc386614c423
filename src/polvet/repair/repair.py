"""Repair: the policy changed so that no listed fault remains, and as little else as can be.

Source   section 5 of the paper on safety debugging of tree-ensemble policies; Definition 2 is `Repaired.fixed`
Differs  modes: `safe` (the new action is one of the fault's safe ones) and `avoid` (not the faulty one, as in the paper);
         retention of kept states; networks, tables and rules
Methods  `repair/methods.py` lists them; auto is the first that fits the policy: leaves, last-layer or direct
Cost     see the file of each method. Equal inputs give equal policies unless a time limit is reached
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.choices import AUTO, listed, one_of
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import Compiled
from polvet.model.semantics import State
from polvet.policy.binding import Fitted, fit
from polvet.policy.protocol import Policy, Scores
from polvet.policy.rules import Rules
from polvet.policy.unit_graph import AnyNetwork
from polvet.records.fault_files import Fault
from polvet.repair.demands import Applicability, Demands, Mode, fault_demands, keep_demands
from polvet.repair.method import Change, Method, Request
from polvet.repair.methods import METHODS, MODES, SOLVERS

MARGIN = 1e-5
KEEP_WEIGHT = 20.0
MOST_KEPT = 1000  # so many kept states are demands of a program; all of them are counted afterwards


@dataclass(frozen=True, slots=True)
class Left:
    """A fault that remains, and why."""

    fault: Fault
    reason: str


@dataclass(frozen=True, slots=True)
class Retention:
    """How many kept states (each as often as it was given) take another action than before."""

    states: int
    changed: int

    @property
    def loss(self) -> float:
        """The share that changed."""
        return self.changed / self.states if self.states else 0.0


NOTHING_KEPT = Retention(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Repaired:
    """A repaired policy and what it took."""

    policy: Policy
    fixed: tuple[Fault, ...]
    left: tuple[Left, ...]
    objective: float  # L1 change of leaf values, weights or scores, as stored
    bound: (
        float | None
    )  # no change of the same trees that meets the same demands is smaller, as far as the solver tells
    trees_added: int
    units_added: int
    before: Scores  # [faults, outputs]
    after: Scores
    method: str
    mode: Mode
    retention: Retention = NOTHING_KEPT
    seconds: float = 0.0
    limit: LimitReached | None = None

    @property
    def gap(self) -> float | None:
        """How far the objective is above the bound, as a share of the objective; None where there is no bound."""
        if self.bound is None:
            return None
        return max(0.0, (self.objective - self.bound) / self.objective) if self.objective > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a policy is to be repaired.

    `keep` are states of runs that reach the goal, as often as they are visited: at most the share `max_goal_loss` of them may
    change their action where that can be had.
    """

    method: str = AUTO
    mode: str = "safe"
    keep: Sequence[State] = ()
    max_goal_loss: float = 0.01
    margin: float = MARGIN
    seed: int = 0
    solver: str = "highs"  # of the big-M program
    starts: Sequence[State] = ()  # `retrain` follows the policy from here; none: from the task's own starts

    def __post_init__(self) -> None:
        METHODS.chosen(self.method)
        one_of(self.mode, MODES, "--repair-mode")
        one_of(self.solver, SOLVERS, "--solver")


def repair(
    fitted: Fitted,
    faults: Sequence[Fault],
    options: Options | None = None,
    *,
    budget: Budget = UNLIMITED,
    compiled: Compiled | None = None,
) -> Repaired:
    """Return the policy repaired at the faults; `compiled` is the task's network where it is compiled already."""
    spent = stopwatch()
    how = options or Options()
    keep, margin = how.keep, how.margin
    mode = cast(Mode, how.mode)  # `Options` has looked at it
    chosen = _fitting_method(fitted.policy, how.method)
    program = compiled or Compiled(fitted.task.network)
    known = Applicability(fitted, program)
    demands = fault_demands(known, faults, mode, margin)
    keeps = _keeps(known, keep, demands)
    before = fitted.policy.scores(demands.rows)
    change = chosen.run(
        Request(
            fitted,
            faults,
            mode,
            known,
            demands,
            keeps,
            _sampled(keeps, how.seed),
            how.max_goal_loss,
            budget,
            how.solver,
            thrifty=how.method == AUTO,
            starts=how.starts,
            seed=how.seed,
        )
    )
    if isinstance(change.policy, Rules):
        # The new rules may read more variables and name more labels.
        known = Applicability(fit(fitted.task, change.policy), program)
        demands = fault_demands(known, faults, mode, margin)
        retention = _retention_by_label(fitted, known, keep, {fault.state for fault in faults})
    else:
        retention = _retention(keeps, change.policy)
    judgement = _judged(faults, demands, change, before, change.method or chosen.name, mode)
    limit = budget.reached("time") if change.timed_out else None
    return replace(judgement, retention=retention, seconds=spent(), limit=limit)


def judged(fitted: Fitted, faults: Sequence[Fault], change: Change, method: str, compiled: Compiled) -> Repaired:
    """Return what was changed elsewhere as a repair of the faults, in mode `safe`."""
    demands = fault_demands(Applicability(fitted, compiled), faults, "safe", MARGIN)
    return _judged(faults, demands, change, fitted.policy.scores(demands.rows), method, "safe")


def _judged(
    faults: Sequence[Fault], demands: Demands, change: Change, before: Scores, method: str, mode: Mode
) -> Repaired:
    """Return which of the faults the changed policy fixes."""
    met = demands.met_by(change.policy).tolist()
    return Repaired(
        change.policy,
        tuple(fault for fault, good in zip(faults, met, strict=True) if good),
        tuple(Left(fault, _why(demands, k, change.policy)) for k, fault in enumerate(faults) if not met[k]),
        change.objective,
        change.bound,
        change.trees_added,
        change.units_added,
        before,
        change.policy.scores(demands.rows),
        method,
        mode,
    )


def _fitting_method(policy: Policy, name: str) -> Method:
    """Return the method, or raise an InputError where it does not fit the policy's kind."""
    fitting = {method.name: method for method in METHODS.values() if method.fits(policy)}
    kind = type(policy).__name__
    if not fitting:
        raise InputError(f"a {kind} cannot be repaired.", hint="Give the network or the trees behind it.")
    archive = policy.archive if isinstance(policy, AnyNetwork) else None
    if archive is not None and (name == "units" or archive.layer is None):
        what = "units" if name == "units" else "another last layer"
        raise InputError(
            f"{archive.kind} has no room for {what}.",
            Where("--method"),
            "Use last-layer, or save the policy as .onnx first.",
        )
    if name == AUTO:
        return next(iter(fitting.values()))
    if name not in fitting:
        raise InputError(f"'{name}' does not fit a {kind}.", Where("--method"), f"Use {listed((AUTO, *fitting))}.")
    return fitting[name]


def _keeps(known: Applicability, keep: Sequence[State], faults: Demands) -> Demands:
    """Return the kept states' demands, without states that are faults."""
    demands = keep_demands(known, keep, KEEP_WEIGHT, MARGIN)
    own = {row.tobytes() for row in faults.rows}
    return demands.pick(np.array([row.tobytes() not in own for row in demands.rows], dtype=np.bool_))


def _sampled(keeps: Demands, seed: int) -> Demands:
    """Return at most MOST_KEPT of the demands, each as likely as it is often."""
    if len(keeps) <= MOST_KEPT:
        return keeps
    rng = random.Random(seed)
    # Efraimidis and Spirakis: the greatest u^(1/w) are a weighted sample without repetition.
    keys = np.array([math.log(1.0 - rng.random()) / weight for weight in keeps.weight.tolist()])
    return keeps.pick(np.sort(np.argsort(-keys, kind="stable")[:MOST_KEPT]))


def _retention(keeps: Demands, policy: Policy) -> Retention:
    times = np.rint(keeps.weight / KEEP_WEIGHT)
    return Retention(int(times.sum()), int(times[~keeps.held_by(policy)].sum()))


def _retention_by_label(fitted: Fitted, known: Applicability, keep: Sequence[State], faults: set[State]) -> Retention:
    """Return the retention where the two policies do not read the same columns."""
    states = [state for state in dict.fromkeys(keep) if state not in faults]
    names = known.fitted.policy.outputs
    changed = {}
    for state, mask in zip(states, known.masks(states), strict=True):
        labels = [name for name, good in zip(names, mask.tolist(), strict=True) if good]
        changed[state] = fitted.choose(state, labels) != known.fitted.choose(state, labels)
    return Retention(sum(state in changed for state in keep), sum(changed.get(state, False) for state in keep))


def _why(demands: Demands, k: int, policy: Policy) -> str:
    if not demands.targets[k].any():
        return "the policy has no output for an action that would do"
    if isinstance(policy, AnyNetwork) and policy.archive is not None:
        return f"the last layer alone does not fix it, and {policy.archive.kind} has no room for units; save it as .onnx first"
    return "the policy reads the same values in another fault that needs another action"
