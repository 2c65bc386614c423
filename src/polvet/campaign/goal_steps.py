"""The steps that mend goal faults of a policy that is proved safe (`debug/goal_faults.py`), never at the cost of safety or of %Goal.

`goals`   the goal faults on all runs of the policy
`mend`    the policy without any fault so far, whatever its kind; no new safety fault is made (`repair/guarded.py`). An action that
          only keeps the goal in reach may be one that waits for ever: where repairs lose some of the goal, they are tried with the
          actions that bring it nearer. Where every way to do that loses some of it, or safety, there is no new policy
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polvet.campaign.ground import Done
from polvet.campaign.record import RepairFigures, WorldFigures
from polvet.campaign.steps import OTHERS, Candidate, Steps
from polvet.debug.goal_faults import find_goal_faults
from polvet.debug.questions import Question
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.records.fault_files import GOAL_KINDS, Fault
from polvet.repair.guarded import repair_guarded
from polvet.repair.repair import Options


class GoalSteps(Steps):
    """The steps on the policies of one campaign that looks after the goal, too."""

    def goals(self, iteration: int, bound: Bound, policy: Path) -> Done[WorldFigures]:
        """Return the goal faults on all runs of the policy."""
        within = self._left(self.settings.max_states)
        question = Question.of("goal", self.settings.goal_chance, None, "0")
        analysis = find_goal_faults(bound, self.decider, least=question.goal_chance, budget=within)
        return self._world_faults(analysis, f"faults/{iteration}-goal.json", policy)

    def mend(self, iteration: int, bound: Bound, first: Path) -> Done[RepairFigures]:
        """Make a policy without the faults so far that is as safe as this one and reaches the goal no less often."""
        goals = self._goals(iteration, bound)
        keep, chosen = self._kept(bound, goals), self.settings.method
        tried: list[Candidate] = []
        why = "every repair would make a new safety fault"
        others = OTHERS.get(type(bound.fitted.policy), ()) if chosen == "auto" else ()
        faults = self._to_fix()
        ways = [(faults, method) for method in (chosen, *others)]
        if (nearest := _nearest(faults)) != faults:
            ways += [(nearest, method) for method in (chosen, *others)]
        for wanted, method in ways:
            how = Options(method, self.settings.mode, keep, seed=self.settings.seed)
            repair, _, guard = repair_guarded(bound, wanted, how, budget=self._left())
            if guard.refused:
                continue
            one = self._tried(bound, repair, goals)
            if one.reached.share < goals.before.reached.share:
                why = "every repair would lose some of the goal"
                continue
            tried.append(one)
            if goals.floor.is_kept(one.reached) and not repair.left:
                break
        if not tried:
            nothing = RepairFigures(
                faults_fixed=0,
                faults_left=len(self.faults),
                objective=0.0,
                trees_added=0,
                method=chosen,
                attempts=len(ways),
                kept_states=len(keep),
                repair_seconds=0.0,
                gap=None,
                goal_percent_before=100 * goals.before.reached.share,
                goal_percent_after=100 * goals.before.reached.share,
                refused=why,
            )
            return nothing, {}
        best = min(tried, key=lambda one: (len(one.repair.left), goals.floor.cost(one.reached)))
        figures = self._repair_figures(best, len(tried), len(keep), goals)
        return figures, self._save(f"repair-{iteration}", iteration, bound, best.repair, first)

    def _to_fix(self) -> list[Fault]:
        """Each state once: with the actions that mend all its faults, or else the last one."""
        if self.settings.mode != "safe":
            return super()._to_fix()  # where any other action will do, a state may have been at fault with several
        merged: dict[State, Fault] = {}
        for fault in self.faults.values():
            before = merged.get(fault.state)
            both = () if before is None else tuple(one for one in fault.safe_actions if one in before.safe_actions)
            merged[fault.state] = replace(fault, safe_actions=both) if both else fault
        return list(merged.values())


def _nearest(faults: list[Fault]) -> list[Fault]:
    """Return the faults with one action for each goal fault: the first, which brings the goal nearer where any does."""
    return [replace(one, safe_actions=one.safe_actions[:1]) if one.kind in GOAL_KINDS else one for one in faults]
