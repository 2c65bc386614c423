"""Repair: the policy changed so that no listed fault remains, and as little else as can be.

Source   section 5 of the paper on safety debugging of tree-ensemble policies; Definition 2 is `Repaired.fixed`
Differs  modes: `safe` (the new action is one of the fault's safe ones) and `avoid` (not the faulty one, as in the paper);
         retention of kept states; networks, tables and rules
Methods  leaves: chosen targets and linear programs; tree: one tree over faults and kept states; milp: the paper's big-M program;
         penalty: a tree per fault; last-layer: the last layer of a network, gated units where that does not do;
         direct: tables and rules; auto: leaves, last-layer or direct, whichever fits the policy
Cost     see the file of each method. Equal inputs give equal policies unless a time limit is reached
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import Compiled
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.policy.binding import Fitted, fit
from polvet.policy.networks import Network
from polvet.policy.protocol import Policy, Scores
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.records.fault_files import Fault
from polvet.repair.demands import Applicability, Demands, Mode, fault_demands, keep_demands
from polvet.repair.direct import repair_rules, repair_table

METHODS = ("auto", "leaves", "tree", "milp", "penalty", "last-layer", "units", "direct")
MODES = ("safe", "avoid")
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
    retention: Retention
    before: Scores  # [faults, outputs]
    after: Scores
    method: str
    mode: Mode
    seconds: float
    limit: LimitReached | None = None

    @property
    def gap(self) -> float | None:
        """How far the objective is above the bound, as a share of the objective; None where there is no bound."""
        if self.bound is None:
            return None
        return max(0.0, (self.objective - self.bound) / self.objective) if self.objective > 0 else 0.0


def repair(
    fitted: Fitted,
    faults: Sequence[Fault],
    *,
    method: str = "auto",
    mode: Mode = "safe",
    keep: Sequence[State] = (),
    max_goal_loss: float = 0.01,
    margin: float = MARGIN,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    compiled: Compiled | None = None,
    solver: str = "highs",
) -> Repaired:
    """Return the policy repaired at the faults.

    `keep` are states of runs that reach the goal, as often as they are visited: at most the share `max_goal_loss` of them may
    change their action where that can be had. `compiled` is the task's network where it is compiled already.
    `solver` (highs or scip) solves the big-M program.
    """
    spent = stopwatch()
    thrifty = method == "auto"
    method = _fitting_method(fitted.policy, method)
    if mode not in MODES:
        raise InputError(f"'{mode}' is unknown.", Where("--mode"), f"Known are {', '.join(MODES)}.")
    program = compiled or Compiled(fitted.task.network)
    known = Applicability(fitted, program)
    demands = fault_demands(known, faults, mode, margin)
    keeps = _keeps(known, keep, demands)
    before = fitted.policy.scores(demands.rows)
    if isinstance(fitted.policy, Rules):
        made = Made(repair_rules(fitted, fitted.policy, faults, mode, known), 0.0)
        # The new rules may read more variables and name more labels.
        known = Applicability(fit(fitted.task, made.policy), program)
        demands = fault_demands(known, faults, mode, margin)
        retention = _retention_by_label(fitted, known, keep, {fault.state for fault in faults})
    else:
        sample = _sampled(keeps, seed)
        made = _by_method(
            fitted, faults, demands, keeps, sample, method, mode, max_goal_loss, budget, solver, thrifty=thrifty
        )
        retention = _retention(keeps, made.policy)
    limit = budget.reached("time") if made.timed_out else None
    used = made.method or method
    return _repaired(faults, demands, made, retention, before, used, mode, spent(), limit)


def judged(fitted: Fitted, faults: Sequence[Fault], made: Made, method: str, compiled: Compiled) -> Repaired:
    """Return what was made elsewhere as a repair of the faults, in mode `safe`."""
    demands = fault_demands(Applicability(fitted, compiled), faults, "safe", MARGIN)
    before = fitted.policy.scores(demands.rows)
    return _repaired(faults, demands, made, Retention(0, 0), before, method, "safe", 0.0, None)


def _repaired(
    faults: Sequence[Fault],
    demands: Demands,
    made: Made,
    retention: Retention,
    before: Scores,
    method: str,
    mode: Mode,
    seconds: float,
    limit: LimitReached | None,
) -> Repaired:
    met = demands.met_by(made.policy).tolist()
    return Repaired(
        made.policy,
        tuple(fault for fault, good in zip(faults, met, strict=True) if good),
        tuple(Left(fault, _why(demands, k, made.policy)) for k, fault in enumerate(faults) if not met[k]),
        made.objective, made.bound, made.trees_added, made.units_added, retention, before,
        made.policy.scores(demands.rows), method, mode, seconds, limit,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What a method made."""

    policy: Policy
    objective: float
    bound: float | None = None
    trees_added: int = 0
    units_added: int = 0
    timed_out: bool = False
    method: str | None = None  # where it is another one than was asked for


def _by_method(
    fitted: Fitted,
    faults: Sequence[Fault],
    demands: Demands,
    keeps: Demands,
    sample: Demands,
    method: str,
    mode: Mode,
    most_changed: float,
    budget: Budget,
    solver: str,
    *,
    thrifty: bool,
) -> Made:
    policy: Any = fitted.policy
    integers = [fitted.task.network.variables[place].kind is not Kind.REAL for place in fitted.variables]
    match method:
        case "penalty":
            from polvet.repair.leaf_values import leaf_change
            from polvet.repair.penalty_trees import add_penalty_trees

            bad = [policy.outputs.index(fault.action) for fault in faults]
            made = add_penalty_trees(policy, demands, bad, mode, integers)
            return Made(made, leaf_change(policy, made), trees_added=len(made.trees) - len(policy.trees))
        case "leaves" | "tree" | "milp":
            from polvet.repair.leaves import repair_leaves

            trees = repair_leaves(
                policy,
                demands,
                sample,
                keeps,
                integers,
                most_changed=most_changed,
                budget=budget,
                exact=method == "milp",
                thrifty=thrifty,
                only_tree=method == "tree",
                milp=_milp(solver),
            )
            used = "tree" if trees.by_tree else None
            return Made(
                trees.policy, trees.objective, trees.bound, trees.trees_added, timed_out=trees.timed_out, method=used
            )
        case "last-layer" | "units":
            from polvet.repair.network_repair import repair_network

            network = repair_network(
                policy,
                demands,
                sample,
                keeps,
                integers,
                only_units=method == "units",
                most_changed=most_changed,
                budget=budget,
            )
            return Made(network.policy, network.objective, units_added=network.units_added, timed_out=network.timed_out)
        case _:
            table, change = repair_table(policy, demands)
            return Made(table, change)


def _milp(name: str) -> Any:
    """Return the function that solves mixed-integer programs."""
    match name:
        case "highs":
            from polvet.solvers import highs

            return highs.solve_milp
        case "scip":
            from polvet.solvers import scip

            return scip.solve_milp
    raise InputError(f"'{name}' is unknown.", Where("--solver"), "Known are highs, scip.")


def _fitting_method(policy: Policy, method: str) -> str:
    """Return the method, or raise an InputError where it does not fit the policy's kind."""
    match policy:
        case TreeEnsemble():
            fitting: tuple[str, ...] = ("leaves", "tree", "milp", "penalty")
        case Network() | UnitGraph():
            fitting = ("last-layer", "units")
        case Table() | Rules():
            fitting = ("direct",)
        case _:
            raise InputError(
                f"a {type(policy).__name__} cannot be repaired.", hint="Give the network or the trees behind it."
            )
    archive = policy.archive if isinstance(policy, Network | UnitGraph) else None
    if archive is not None and (method == "units" or archive.layer is None):
        what = "units" if method == "units" else "another last layer"
        raise InputError(
            f"{archive.kind} has no room for {what}.",
            Where("--method"),
            "Use last-layer, or save the policy as .onnx first.",
        )
    if method == "auto":
        return fitting[0]
    if method not in fitting:
        what = f"'{method}' does not fit a {type(policy).__name__}." if method in METHODS else f"'{method}' is unknown."
        raise InputError(what, Where("--method"), f"Use {', '.join(('auto', *fitting))}.")
    return method


def _keeps(known: Applicability, keep: Sequence[State], faults: Demands) -> Demands:
    """Return the kept states' demands, without states that are faults."""
    found = keep_demands(known, keep, KEEP_WEIGHT, MARGIN)
    own = {row.tobytes() for row in faults.rows}
    return found.pick(np.array([row.tobytes() not in own for row in found.rows], dtype=np.bool_))


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
    if isinstance(policy, Network | UnitGraph) and policy.archive is not None:
        return f"the last layer alone does not fix it, and {policy.archive.kind} has no room for units; save it as .onnx first"
    return "the policy reads the same values in another fault that needs another action"
