"""Repair of a tree ensemble: leaf values where that suffices, new trees where it does not or would cost too much.

Source   sections 5.2 and 5.3. `repair_leaves` is the loop of 5.3: conflicts, new trees, the program again
Differs  conflicts come from the exact pre-check (equal output configurations) and from the elastic program: the demands it leaves
         unmet and those whose rows have a high price. After `ROUNDS` separating trees, what is still in conflict gets leaves of
         its own (`point_shape`), so the loop ends with a repair in any case.
         Where more of the kept states change than is allowed: trees that separate faults from the states that changed;
         then leaves of their own for the faults that cost most; at last for all faults, which changes nothing else.
         Many faults: one tree that meets everything at once (`fault_tree.py`), unless leaf values suffice. Thrifty repairs take
         it sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from polvet.choices import imported
from polvet.policy.trees import TreeEnsemble
from polvet.repair.big_m import Milp, binaries, coefficients, solve_big_m
from polvet.repair.demands import Demands, Flags, changed_share, conflicts, equal_rows, join
from polvet.repair.fault_tree import add_fault_tree
from polvet.repair.leaf_values import LeafValues, configurations, leaf_change, leaf_values
from polvet.repair.method import Change, Method, Request
from polvet.repair.methods import SOLVERS
from polvet.repair.new_trees import point_shape, round_of_trees, separating_shape, wishes, without_idle_trees
from polvet.repair.target_lp import Solution, TargetLp, Unmet

ROUNDS = 4  # separating trees
MANY, LARGE = 300, 2000  # more faults (thrifty, or not): a tree instead of a program where they are in conflict
MOST_WORK = 500  # simplex iterations of thrifty repairs: what needs more generalises worse than a tree does
PRICES = (50.0, 2.0)  # of a missing unit of a fault's margin, where leaves of their own are the alternative
RAISES = 12
MOST_LOST = 1000  # so many of the states that changed become demands of the next program
MOST_BINARIES = 40  # up to so many, the default asks for a bound, too
MOST_COEFFICIENTS = 5_000  # a single node of a larger program may take minutes
NODES = 200
MILP_SECONDS = 120.0


@dataclass(frozen=True, slots=True, eq=False)
class RepairedTrees:
    """A repaired ensemble; `objective` is the change of its leaf values as stored."""

    policy: TreeEnsemble
    objective: float
    trees_added: int
    fixed: Flags  # per fault demand
    changed: float  # share of the kept states, by how often they were seen
    bound: float | None  # on the change of leaf values of the same trees
    grown: TreeEnsemble  # the ensemble before values were changed, with all new trees
    timed_out: bool
    by_tree: bool = False


Attempt = Callable[[RepairedTrees | None], RepairedTrees | None]
"""Takes the best repair so far."""


def repair_leaves(request: Request, *, exact: bool = False, only_tree: bool = False) -> RepairedTrees:
    """Return the ensemble in which the faults' demands are met: by the big-M program too, or by one tree alone."""
    task = _Task(request, exact)
    best: RepairedTrees | None = None
    attempts: list[Attempt] = [] if only_tree else [task.by_leaves]
    if only_tree or task.many:
        attempts += [task.by_tree]
    else:
        attempts += [task.by_separation, *(task.isolating(price) for price in PRICES), task.by_points]
    for attempt in attempts:
        repair = attempt(best)
        if repair is None:
            continue
        better = best is None or (repair.fixed.sum(), -repair.changed) > (best.fixed.sum(), -best.changed)
        best = repair if better else best
        if best is repair and repair.changed <= request.most_changed and repair.fixed.sum() == task.possible:
            break
    if best is None:
        request.budget.check()
        raise AssertionError("leaves of their own repair every fault that can be repaired")
    return best


class _Task:
    def __init__(self, request: Request, exact: bool) -> None:
        faults, sample = request.demands, request.sample
        self.ensemble: TreeEnsemble = request.policy
        self.all_faults, self.keeps, self.integers = faults, request.keeps, request.integers
        self.budget, self.exact, self.timed_out = request.budget, exact, False
        self.milp: Milp = imported(SOLVERS[request.solver])
        hopeful = np.flatnonzero(faults.targets.any(axis=1))
        torn = conflicts(faults.pick(hopeful), equal_rows(faults.rows[hopeful]))
        self.faults = faults.pick(np.delete(hopeful, torn))
        self.possible = len(self.faults)
        self.many = len(self.faults) > (MANY if request.thrifty else LARGE) and not exact
        self.most_work = MOST_WORK if self.many and request.thrifty else None
        own = {row.tobytes() for row in faults.rows}
        self.sample = sample.pick(np.array([row.tobytes() not in own for row in sample.rows], dtype=np.bool_))

    def by_leaves(self, _: RepairedTrees | None) -> RepairedTrees | None:
        """Change leaf values; separate what is in conflict."""
        work = self._without_conflicts(self.ensemble)
        return None if self.many and work is not self.ensemble else self._solve(work)

    def by_separation(self, best: RepairedTrees | None) -> RepairedTrees | None:
        """Separate faults from the kept states that changed, by new trees."""
        if best is None or not len(self.keeps) or self._late():
            return None
        base = best.grown
        lost = self.keeps.pick(~self.keeps.held_by(best.policy))
        lost = lost.pick(np.sort(np.argsort(-lost.weight, kind="stable")[:MOST_LOST]))
        moved = self.faults.pick(~self.faults.met_by(self.ensemble))
        both = join(moved, lost)
        if not len(lost):
            return None
        # More of the kept states are asked for: those that were lost may not have been in the sample.
        self.sample = join(self.sample, lost)
        shape, _ = separating_shape(both, np.zeros(len(both), dtype=np.intp), wishes(base, both), base.comparison)
        return self._solve(base.with_trees([*base.trees, *round_of_trees(base, shape)]))

    def isolating(self, price: float) -> Attempt:
        """Give leaves of their own to the faults that cost more than the price."""

        def attempt(best: RepairedTrees | None) -> RepairedTrees | None:
            if best is None or not len(self.sample) or self._late():
                return None
            both = join(self.faults.with_weight(price), self.sample)
            answer = TargetLp(leaf_values(self.ensemble, both.rows), both, self.budget).solve(passes=1)
            if isinstance(answer, Unmet):
                return None
            costly = np.flatnonzero(answer.lost[: len(self.faults)])
            return self._solve(self._with_points(self.ensemble, costly))

        return attempt

    def by_tree(self, _: RepairedTrees | None) -> RepairedTrees | None:
        """Add one tree that meets all demands and keeps all states that are not faults."""
        faults = self.faults
        for _round in range(RAISES):
            policy = without_idle_trees(add_fault_tree(self.ensemble, faults, self.keeps), len(self.ensemble.trees))
            missed = ~faults.met_by(policy)
            if not missed.any():
                break
            faults = faults.raised(missed)
        return replace(self._result(policy, None, policy), by_tree=True)

    def by_points(self, _: RepairedTrees | None) -> RepairedTrees | None:
        """Give every fault that is not fixed a leaf of its own and move its best target; nothing else changes."""
        wrong = np.flatnonzero(~self.faults.met_by(self.ensemble))
        margin = self.faults.margin.copy()
        first = len(self.ensemble.trees)
        for _round in range(RAISES):
            ensemble = self._with_points(self.ensemble, wrong)
            view = leaf_values(ensemble, self.faults.rows)
            change = np.zeros(view.columns)
            best = wishes(ensemble, self.faults)
            scores = view.base
            for k in wrong.tolist():
                t = int(best[k])
                need = margin[k] - float(scores[k, t] - np.where(self.faults.rivals[k], scores[k], -np.inf).max())
                movable = view.reached[t].shape[1] > 0
                outputs = [t] if movable else [c for c in range(scores.shape[1]) if self.faults.rivals[k, c]]
                for output in outputs:
                    own = view.reached[output][k, -1]  # the leaf in the last tree of the output: its own
                    value = (need if movable else -need) / view.scale
                    change[own] = value if abs(value) > abs(change[own]) else change[own]
            policy = without_idle_trees(view.apply(change), first)
            missed = ~self.faults.met_by(policy)
            if not missed.any():
                return self._result(policy, None, ensemble)
            margin[missed] *= 4
        return self._solve(ensemble)  # equal rows with different demands: a program finds values that serve all of them

    def _solve(self, work: TreeEnsemble) -> RepairedTrees | None:
        """Return the repair by leaf values of this ensemble; margins are raised until every choice is right bit for bit."""
        faults = self.faults
        for _ in range(RAISES):
            both = join(faults, self.sample)
            solved = self._solve_or_separate(work, both)
            if solved is None:
                return None
            solution, view = solved
            work = view.ensemble
            policy = without_idle_trees(view.apply(solution.change), len(self.ensemble.trees))
            missed = ~faults.met_by(policy)
            if not missed.any():
                break
            faults = faults.raised(missed)
        return self._improved(policy, solution, view, both)

    def _improved(self, policy: TreeEnsemble, solution: Solution, view: LeafValues, demands: Demands) -> RepairedTrees:
        """Return the repair, or a smaller one that the big-M program finds, with its bound."""
        large = binaries(demands) > MOST_BINARIES or coefficients(view, demands, solution) > MOST_COEFFICIENTS
        if large and not self.exact:
            return self._result(policy, None, view.ensemble)
        # SOUND for equal inputs, equal policies: the default's program is limited by nodes, never by the clock.
        within = self.budget.at_most(MILP_SECONDS) if self.exact else self.budget
        answer = solve_big_m(
            view, demands, solution, budget=within, nodes=None if self.exact else NODES, solver=self.milp
        )
        # A program that the time limit stopped answers differently on another day: the default takes only its bound.
        if answer.objective < solution.objective - 1e-9 and (self.exact or not answer.timed_out):
            other = without_idle_trees(view.apply(answer.change), len(self.ensemble.trees))
            if self.faults.met_by(other).sum() >= self.faults.met_by(policy).sum():
                policy = other
        return self._result(policy, answer.bound, view.ensemble)

    def _solve_or_separate(self, work: TreeEnsemble, both: Demands) -> tuple[Solution, LeafValues] | None:
        for attempt in range(ROUNDS + 4):
            view = leaf_values(work, both.rows)
            answer = TargetLp(view, both, self.budget).solve(most_work=self.most_work)
            if isinstance(answer, Solution):
                return answer, view
            if answer.timed_out or self._late():
                self.timed_out = True
                return None
            torn, partners = answer.torn, answer.partners
            if not len(torn) or self.many:
                return None
            if attempt >= ROUNDS:
                work = self._with_points(work, torn)
            else:
                members = self.faults.pick(np.union1d(torn, partners))
                group = np.zeros(len(members), dtype=np.intp)
                shape, _ = separating_shape(members, group, wishes(work, members), work.comparison)
                if len(shape.feature) == 1:  # these do not conflict by their actions alone
                    work = self._with_points(work, torn)
                else:
                    work = work.with_trees([*work.trees, *round_of_trees(work, shape)])
        return None

    def _without_conflicts(self, ensemble: TreeEnsemble) -> TreeEnsemble:
        """Return the ensemble with one more tree if faults with the same output configuration are in conflict."""
        groups = configurations(ensemble, self.faults.rows)
        torn = conflicts(self.faults, groups)
        if not len(torn):
            return ensemble
        members = np.flatnonzero(np.isin(groups, groups[torn]))
        involved = self.faults.pick(members)
        shape, _ = separating_shape(involved, groups[members], wishes(ensemble, involved), ensemble.comparison)
        return ensemble.with_trees([*ensemble.trees, *round_of_trees(ensemble, shape)])

    def _with_points(self, ensemble: TreeEnsemble, who: npt.NDArray[np.intp]) -> TreeEnsemble:
        if not len(who):
            return ensemble
        rows = np.unique(self.faults.rows[who], axis=0)
        shape, _ = point_shape(rows, self.integers, ensemble.comparison)
        return ensemble.with_trees([*ensemble.trees, *round_of_trees(ensemble, shape)])

    def _result(self, policy: TreeEnsemble, bound: float | None, grown: TreeEnsemble) -> RepairedTrees:
        changed = changed_share(self.keeps, ~self.keeps.held_by(policy))
        added = sum(len(tree.feature) > 1 for tree in policy.trees[len(self.ensemble.trees) :])
        fixed = self.all_faults.met_by(policy)
        return RepairedTrees(
            policy, leaf_change(self.ensemble, policy), added, fixed, changed, bound, grown, self.timed_out
        )

    def _late(self) -> bool:
        self.timed_out |= self.budget.is_over()
        return self.timed_out


def _leaves(request: Request, *, exact: bool = False, only_tree: bool = False) -> Change:
    trees = repair_leaves(request, exact=exact, only_tree=only_tree)
    used = "tree" if trees.by_tree else None
    return Change(trees.policy, trees.objective, trees.bound, trees.trees_added, timed_out=trees.timed_out, method=used)


LEAVES = Method(
    "leaves",
    "leaf values by linear programs with one chosen target per fault (`repair/target_lp.py`); new trees for conflicts",
    (TreeEnsemble,),
    _leaves,
)
TREE = Method(
    "tree",
    "one more decision tree over faults and kept states, whose leaves put the actions in order (`repair/fault_tree.py`); "
    "no program is solved, and it grows only where a fault is to be fixed",
    (TreeEnsemble,),
    partial(_leaves, only_tree=True),
)
MILP = Method(
    "milp",
    "the paper's big-M program (`repair/big_m.py`) on top: at least as small a change, with a bound; `--solver highs`, `scip`",
    (TreeEnsemble,),
    partial(_leaves, exact=True),
)
