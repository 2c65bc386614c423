"""The steps that change a policy, after those that judge it (`examination.py`).

`repair`      (C): a policy that fixes all faults so far and reaches the goal as the best one so far did
`strengthen`  a policy with a fence, so that a proof over a few variables goes through
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from polvet.campaign.examination import Examination
from polvet.campaign.goals import Floor, GoalRate, Goals, find_goals, lost_states, reach_goal
from polvet.campaign.ground import Done
from polvet.campaign.policies import files_of, place_of, policy_stem
from polvet.campaign.record import EVALUATE, POSSIBLE, REPAIR, STRENGTHEN, FenceFigures, RepairFigures
from polvet.campaign.strengthen import strengthen
from polvet.choices import AUTO
from polvet.debug.prospects import RUNS, prefer_goal
from polvet.errors import LimitReached
from polvet.model.expressions import FALSE
from polvet.model.semantics import State
from polvet.policy.binding import fit
from polvet.policy.compiled import Bound, bind_policy
from polvet.policy.networks import Network
from polvet.policy.protocol import Policy
from polvet.policy.save import save_policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.records.fault_files import Fault
from polvet.repair.confirmed import confirm_repair
from polvet.repair.fence import fence
from polvet.repair.leaves import MANY
from polvet.repair.library import repair_checked
from polvet.repair.repair import Options, Repaired
from polvet.repair.retrain import is_retrained
from polvet.safety.decide import SAFE
from polvet.safety.exits import Exits
from polvet.safety.real_exits import RealExits, exits_of
from polvet.symbolic.linear import NotLinear
from polvet.verify.method import has_reals
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Unknown

GOAL_STARTS = 2_000
"""So many debugging starts are simulated to watch over %Goal."""
REPAIR_ROUNDS = 4
OTHERS: dict[type[Policy], tuple[str, ...]] = {
    TreeEnsemble: ("tree", "penalty"),
    Network: ("units",),
    UnitGraph: ("units",),
}
"""Repairs to try where the first one costs too much of %Goal; the last changes the choice in the faulty states only."""
FENCED = ("auto", "leaves", "tree")
"""Methods of repair that go together with fences."""
QUICK_PROOF = 1_000_000
"""Where explicit search needs no more states, nothing is strengthened."""
REAL_PROOF, REAL_PROOF_SECONDS = 0.2, 30.0
"""The share of the time, and the most, in which a policy over real values may be proved without a fence."""
EXITS = 0.3
"""The share of the time in which exits may be looked for: a repair without a fence must be possible after it."""
BY_TREE = ("auto", "tree")
RETRAIN = "retrain"
PATIENCE = 3
"""After so many repairs `auto` turns to retraining where %Unsafe stays high on the evaluation starts."""
HIGH = 20.0
"""This much, in points, and half of what it was at first."""
MOST_SETTLED = 300_000
"""States that a tree over many faults leaves alone, at most."""
GOOD = 0.5
"""From this share of goal-reaching runs on, what a policy does where it has no fault is worth keeping."""


class _Chance(TypedDict):
    max_steps: int
    seed: int
    threads: int


@dataclass(frozen=True, slots=True)
class GoalRuns:
    """Goal-reaching runs to be kept, how many are made per start, and what must be left of them."""

    before: Goals
    runs: int
    floor: Floor


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A repair, the policy ready to run, and how it reaches the goal."""

    repair: Repaired
    after: Bound
    reached: GoalRate


class Steps(Examination):
    """The steps on the policies of one campaign."""

    def repair(self, iteration: int, bound: Bound, first: Path) -> Done[RepairFigures]:
        """Make a policy that fixes all faults so far; where it loses what was reached, or more is possible, others are tried."""
        goals = self._goals(iteration, bound)
        keep = self._kept(bound, goals)
        candidates: list[Candidate] = []
        for one in self._candidates(bound, goals, keep, self._to_fix(), self._method(iteration, bound)):
            candidates.append(one)
            enough = [good for good in candidates if goals.floor.is_kept(good.reached) and not good.repair.left]
            if enough and (len(candidates) > 1 or not self._is_below_possible(one.reached)):
                break
        best = min(candidates, key=lambda one: (len(one.repair.left), goals.floor.cost(one.reached)))
        figures = self._repair_figures(best, len(candidates), len(keep), goals)
        return figures, self._save(f"repair-{iteration}", iteration, bound, best.repair, first)

    def _is_below_possible(self, reached: GoalRate) -> bool:
        """Whether some safe policy is known to reach the goal more often: then a plan for it is worth a try."""
        possible = self.store.find(0, POSSIBLE)
        if possible is None or self.settings.mode != "safe":
            return False
        best = possible.figures.goal_percent_possible
        return best is not None and 100 * reached.share < best - self.settings.max_goal_loss

    def _to_fix(self) -> list[Fault]:
        """The faults that a repair is given."""
        return list(self.faults.values())

    def _kept(self, bound: Bound, goals: GoalRuns) -> list[State]:
        """States in which a repair should leave the policy as it is."""
        # The less often the policy reaches the goal, the less there is to keep.
        keep = list(goals.before.states[: math.ceil(self.settings.keep * goals.before.reached.share)])
        if goals.before.reached.share >= GOOD:
            keep += self._settled(bound, without=set(keep))
        return keep

    def _repair_figures(self, best: Candidate, attempts: int, kept: int, goals: GoalRuns) -> RepairFigures:
        repair = best.repair
        return RepairFigures(
            faults_fixed=len(repair.fixed),
            faults_left=len(repair.left),
            objective=repair.objective,
            trees_added=repair.trees_added,
            method=repair.method,
            attempts=attempts,
            kept_states=kept,
            repair_seconds=repair.seconds,
            gap=repair.gap,
            **_before_and_after(goals.before.reached, best.reached),
        )

    def _method(self, iteration: int, bound: Bound) -> str:
        """The method to repair with: retraining, once, where repairs do not generalise to starts that nobody debugged on."""
        chosen = self.settings.method
        repairs = [one.figures for k in range(iteration) if (one := self.store.find(k, REPAIR)) is not None]
        if any(one.method == RETRAIN for one in repairs):
            return AUTO if chosen == RETRAIN else chosen  # it was taught once: what is left is mended
        is_chosen = chosen != AUTO or self.settings.mode != "safe" or self.settings.kind == "risk"
        if is_chosen or len(repairs) < PATIENCE or self.debugging is self.evaluation:
            return chosen
        course = [self.store.find(k, EVALUATE) for k in (0, iteration)]
        first, now = (0.0 if one is None else one.figures.unsafe_percent for one in course)
        return RETRAIN if now >= max(HIGH, first / 2) and is_retrained(bound.fitted.policy) else chosen

    def _candidates(
        self, bound: Bound, goals: GoalRuns, keep: list[State], faults: list[Fault], chosen: str
    ) -> Iterator[Candidate]:
        """Repairs to choose from, until one is good enough: first those that change little, then those that reach the goal."""
        if chosen == RETRAIN:
            yield self._candidate(bound, faults, keep, chosen, goals)
            return
        wanted = self._wanted(bound, faults, goals.runs)
        planned: list[Fault] | None = None
        for number in range(REPAIR_ROUNDS):
            one = self._candidate(bound, wanted, keep, chosen, goals)
            yield one
            if number == 0 and (planned := self._planned(bound, faults)) is not None:
                yield self._candidate(bound, planned, keep, chosen, goals)
            lost = _lost(bound, one.after, goals, keep)[: self.settings.keep]
            # The repaired policy goes on where the present one fails: it knows better which safe action leads to the goal.
            again = self._wanted(one.after, faults, goals.runs)
            if not lost and again == wanted:
                break
            keep += lost
            wanted = again
        policy = bound.fitted.policy
        fixed_shape = getattr(policy, "archive", None) is not None
        others = OTHERS.get(type(policy), ()) if chosen == "auto" and not fixed_shape else ()
        for method in others:
            yield self._candidate(bound, wanted, keep, method, goals)
        if planned is not None:
            for method in others:
                yield self._candidate(bound, planned, keep, method, goals)
        if chosen == "auto" and (fenced := self._fenced(bound, faults)) is not None:
            yield self._tried(bound, fenced, goals)

    def _candidate(
        self, bound: Bound, wanted: list[Fault], keep: list[State], method: str, goals: GoalRuns
    ) -> Candidate:
        return self._tried(bound, self._repaired(bound, wanted, keep, method), goals)

    def _tried(self, bound: Bound, repair: Repaired, goals: GoalRuns) -> Candidate:
        after = bind_policy(fit(bound.fitted.task, repair.policy), bound.compiled)  # a repair may read more variables
        return Candidate(repair, after, self._reach(after, goals.runs))

    def _planned(self, bound: Bound, faults: list[Fault]) -> list[Fault] | None:
        """The faults with the safe actions from which the goal is reached best, where the world is small enough to tell."""
        if self.settings.mode != "safe" or self.task.goal == FALSE or isinstance(self._world, str):
            return None
        return self._world.plan(bound, faults, budget=self._left())

    def _fenced(self, bound: Bound, faults: list[Fault]) -> Repaired | None:
        """The policy kept from leaving what is won, where that can be told and fixes every fault."""
        if self.task.network.disables_out_of_bounds or self.settings.mode != "safe" or isinstance(self._exits, str):
            return None
        repair = fence(bound.fitted, self._exits, faults, bound.compiled)
        return None if isinstance(repair, str) or repair.left else repair

    def _settled(self, bound: Bound, without: set[State]) -> list[State]:
        """States that the policy reaches, with no fault in them: where a tree repairs many faults, it leaves all these alone."""
        settings = self.settings
        if (
            len(self.faults) <= MANY
            or not isinstance(bound.fitted.policy, TreeEnsemble)
            or settings.method not in BY_TREE
        ):
            return []
        words = self._reached(bound, MOST_SETTLED)
        if words is None:
            return []
        known = self.decider.known_packed(words, budget=self._left())
        self._refuse_cut(self.decider.stopped)
        avoided = without | {state for state, _ in self.faults}
        return [state for state in bound.compiled.unpack(words[known == SAFE]) if state not in avoided]

    def strengthen(self, iteration: int, bound: Bound, first: Path, *, faulty: bool) -> Done[FenceFigures]:
        """Give the policy a fence where it has faults or no quick proof, one over a few variables needs it, and %Goal allows it."""
        if self.task.network.disables_out_of_bounds or self.settings.method not in FENCED:
            return FenceFigures("not asked for"), {}
        if not faulty:
            quick = (
                verify(
                    bound,
                    method="grid",
                    budget=self._left().share(REAL_PROOF).at_most(REAL_PROOF_SECONDS),
                    threads=self.threads,
                )
                if has_reals(bound)
                else verify(bound, method="explicit", budget=self._left(QUICK_PROOF), threads=self.threads)
            )
            if not isinstance(quick, Unknown):
                return FenceFigures("not needed"), {}
        exits = self._exits
        if isinstance(exits, str):
            return FenceFigures(exits), {}
        repair = strengthen(bound, exits, list(self.faults.values()), self._left(), self.settings.seed)
        if isinstance(repair, str):
            return FenceFigures(repair), {}
        goals = self._goals(iteration, bound)
        reached = self._reach(bind_policy(fit(bound.fitted.task, repair.policy), bound.compiled), goals.runs)
        figures = FenceFigures(
            reason=None,
            exits=int(exits.labels.sum()),
            won_cells=len(exits.cells),
            fence_trees=repair.trees_added,
            fence_units=repair.units_added,
            **_before_and_after(goals.before.reached, reached),
        )
        if reached.share < min(goals.floor.share, goals.before.reached.share):
            return replace(figures, reason="the goal would be reached less often"), {}
        return figures, self._save(f"strengthen-{iteration}", iteration, bound, repair, first)

    @cached_property
    def _exits(self) -> Exits | RealExits | str:
        """What leaves the states that are won whatever most variables hold, or why that cannot be told."""
        part = self._left().share(EXITS)
        exits: Exits | RealExits | str
        try:
            exits = exits_of(self.task, part)
        except NotLinear as refusal:
            exits = refusal.why
        except LimitReached as limit:
            exits = str(limit)
        self._left()
        return str(part.reached("time")) if part.is_over() else exits  # a game that was cut short tells nothing

    def _goals(self, iteration: int, bound: Bound) -> GoalRuns:
        """What is to be kept of the policy: goal-reaching runs, and how the best policy so far made them."""
        sample = self.packed[:GOAL_STARTS]
        runs = 1 if self._is_certain(iteration) else self._enough_runs(len(sample))
        faulty = {state for state, _ in self.faults}
        before = find_goals(bound, sample, without=faulty, runs=runs, budget=self._left(), **self._chance())
        best = max([before.reached, *self._reached_before(iteration)], key=lambda one: (one.share, -(one.length or 0)))
        # Half of the allowed loss, as the runs are a sample.
        return GoalRuns(before, runs, Floor(best, self.settings.max_goal_loss / 200))

    def _reached_before(self, iteration: int) -> list[GoalRate]:
        """How the policies of earlier iterations reached the goal, as their repairs noted it."""
        fences = [self.store.find(k, STRENGTHEN) for k in range(iteration)]
        repairs = [self.store.find(k, REPAIR) for k in range(iteration)]
        noted = [record.figures for record in (*fences, *repairs) if record is not None]
        return [
            GoalRate(figures.goal_percent_before / 100, figures.run_length_before)
            for figures in noted
            if figures.goal_percent_before is not None
        ]

    def _reach(self, bound: Bound, runs: int) -> GoalRate:
        return reach_goal(bound, self.packed[:GOAL_STARTS], runs=runs, budget=self._left(), **self._chance())

    def _chance(self) -> _Chance:
        return {"max_steps": self.settings.run_steps(self.task), "seed": self.settings.seed, "threads": self.threads}

    def _wanted(self, bound: Bound, faults: list[Fault], runs: int) -> list[Fault]:
        """The faults with the safe actions that the repair should choose from."""
        if self.settings.mode != "safe":
            return faults
        return prefer_goal(bound, faults, runs=1 if runs == 1 else RUNS, budget=self._left(), **self._chance())

    def _repaired(self, bound: Bound, wanted: list[Fault], keep: list[State], method: str) -> Repaired:
        starts = self.debugging.states if method == RETRAIN else ()
        how = Options(method, self.settings.mode, keep, seed=self.settings.seed, starts=starts)
        within = self._left(self.settings.max_states if method == RETRAIN else None)
        repair, _ = repair_checked(bound.fitted, wanted, how, budget=within, compiled=bound.compiled)
        return repair

    def _save(self, proof: str, iteration: int, bound: Bound, repair: Repaired, first: Path) -> dict[str, str]:
        name = place_of(first, policy_stem(iteration + 1))
        save_policy(repair.policy, self.store.folder / name)
        claim, _ = confirm_repair(
            bound.fitted,
            repair,
            self.store.folder / name,
            found=repair.seconds,
            budget=self.budget,
            output=self.store.folder / f"certificates/{proof}.json",
        )
        shown = self.store.write(f"certificates/{proof}.json", json.dumps(claim, ensure_ascii=False))
        return {**files_of(self.store.folder, name), "certificate": shown}

    def _is_certain(self, iteration: int) -> bool:
        """Whether evaluation found one run only from each start: then simulating it once is enough."""
        evaluated = self.store.find(iteration, EVALUATE)
        return evaluated is not None and evaluated.figures.certain


class _BeforeAndAfter(TypedDict):
    goal_percent_before: float
    goal_percent_after: float
    run_length_before: float | None
    run_length_after: float | None


def _before_and_after(before: GoalRate, after: GoalRate) -> _BeforeAndAfter:
    return {
        "goal_percent_before": 100 * before.share,
        "goal_percent_after": 100 * after.share,
        "run_length_before": before.length,
        "run_length_after": after.length,
    }


def _lost(bound: Bound, after: Bound, goals: GoalRuns, keep: list[State]) -> list[State]:
    """States of goal-reaching runs whose action changed although nothing asked for it."""
    kept = set(keep)
    return [state for state in lost_states(bound, after, goals.before.states) if state not in kept]
