"""The steps of a campaign with a bound on the risk: the policy is judged by its risk, and its faults are those relative to the bound.

`judge`   whether runs fail with at most the bound, certified (`verify/risk_bound.py`)
`risks`   the faults, those that raise the least risk most first (`debug/risk_faults.py`)
`repair`  a policy within the bound that still reaches the goal (`debug/risk_plan.py`), or by as few of the faults as it takes: what is
          risked within the bound is left to the policy. Where nothing of that is enough, all faults are fixed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from polvet.budget import stopwatch
from polvet.campaign.examination import VERIFIED
from polvet.campaign.ground import Done
from polvet.campaign.record import RepairFigures, VerificationFigures, WorldFigures
from polvet.campaign.steps import Candidate, GoalRuns, Steps
from polvet.confirm.outcome import NotChecked, confirmation_json
from polvet.debug.questions import Question
from polvet.debug.risk_faults import RiskWorld, find_risk_faults, find_risk_world
from polvet.debug.risk_plan import plan_within
from polvet.errors import LimitReached
from polvet.kernel.compiled import Words
from polvet.kernel.starts import Starts
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.records.fault_files import Fault
from polvet.repair.repair import Repaired
from polvet.verdict import Verdict
from polvet.verify.box_system import Parallelism
from polvet.verify.probability import find_risk
from polvet.verify.risk_bound import judge_risk

PORTION = 4
"""Each portion of the faults that is tried has so many times the faults of the one before."""


class RiskSteps(Steps):
    """The steps on the policies of one campaign that is after a bound on the risk."""

    @cached_property
    def _question(self) -> Question:
        settings = self.settings
        return Question.of(settings.kind, settings.goal_chance, settings.max_risk, settings.delta)

    @cached_property
    def _initial(self) -> Words:
        """All start states where they can be listed, as the verdict is about all; else the debugging starts."""
        starts = Starts.of(self.task, self._left())
        if starts.count is None or starts.count > self.settings.max_states:
            return self.packed
        return self.decider.compiled.pack_starts(starts, budget=self._left())

    @cached_property
    def _risks(self) -> RiskWorld:
        return find_risk_world(self.decider.compiled, self._initial, budget=self._left())

    def judge(self, iteration: int, bound: Bound, policy: Path) -> Done[VerificationFigures]:
        """Return whether the policy keeps the bound; the certificate is checked before it is believed."""
        spent, most = stopwatch(), self._question.max_risk
        assert most is not None
        judgement = judge_risk(
            bound,
            most,
            budget=self._left(VERIFIED * self.settings.max_states),
            seed=self.settings.seed,
            parallelism=Parallelism(self.threads),
        )
        risk = {
            "risk_lower": judgement.figures["probability_lower"],
            "risk_upper": judgement.figures["probability_upper"],
        }
        figures = VerificationFigures(
            judgement.verdict.value, judgement.method, reason=judgement.reason, faults=0, **risk
        )
        if judgement.verdict is Verdict.UNKNOWN:
            if self.budget.seconds is not None and self.budget.is_over():
                raise LimitReached(judgement.reason or "the risk is not known", "time")
            return figures, {}
        if judgement.certificate is None:
            return replace(figures, **confirmation_json(NotChecked("only bounds in floating point were found"))), {}
        verdict, certificate = f"{judgement.verdict.value} risk", judgement.certificate
        files, checked = self._confirmed(verdict, certificate, bound, policy, f"risk-{iteration}", spent())
        return replace(figures, **confirmation_json(checked)), files

    def risks(self, iteration: int, bound: Bound, policy: Path) -> Done[WorldFigures]:
        """Return the faults relative to the bound on all runs of the policy."""
        question, world = self._question, self._risks
        assert question.max_risk is not None
        analysis = find_risk_faults(
            bound, question.max_risk, delta=question.delta, starts=self._initial, world=world, budget=self._left()
        )
        figures, files = self._world_faults(analysis, f"faults/{iteration}.json", policy)
        least = max(float(world.least[world.space.find(words)]) for words in self._initial)
        return replace(figures, least_risk=least), files

    def repair(self, iteration: int, bound: Bound, first: Path) -> Done[RepairFigures]:
        """Make a policy within the bound that reaches the goal as the best so far did; else one that fixes all faults."""
        goals = self._goals(iteration, bound)
        keep = self._kept(bound, goals)
        faults = self._to_fix()
        tried: list[tuple[Candidate, int, float]] = []
        for one, count in self._tries(bound, goals, keep, faults, self._method(iteration, bound)):
            risk = find_risk(one.after, budget=self._left(), seed=self.settings.seed).upper
            tried.append((one, count, risk))
            if risk <= self._allowed and goals.floor.is_kept(one.reached):
                break
        within = [entry for entry in tried if entry[2] <= self._allowed]
        if within:
            best, count, risk = min(within, key=lambda entry: goals.floor.cost(entry[0].reached))
        else:
            whole = [entry for entry in tried if entry[1] == len(faults)]
            best, count, risk = min(whole, key=lambda entry: (len(entry[0].repair.left), entry[2]))
        figures = replace(
            self._repair_figures(best, len(tried), len(keep), goals),
            risk_after=risk,
            faults_given=None if count == len(faults) else count,
        )
        return figures, self._save(f"repair-{iteration}", iteration, bound, best.repair, first)

    @property
    def _allowed(self) -> float:
        assert self._question.max_risk is not None
        return float(self._question.max_risk)

    def _tries(
        self, bound: Bound, goals: GoalRuns, keep: list[State], faults: list[Fault], chosen: str
    ) -> Iterator[tuple[Candidate, int]]:
        """Repairs, each with how many faults it was given: what is planned, then those of the worst faults, more and more of them."""
        planned = plan_within(bound, self._risks, self._initial, faults, self._allowed, budget=self._left())
        if planned is not None:
            yield self._candidate(bound, planned, keep, chosen, goals), len(faults)
        few = 1
        while few < len(faults):
            wanted = self._wanted(bound, faults[:few], goals.runs)
            yield self._candidate(bound, wanted, keep, chosen, goals), few
            few *= PORTION
        for one in self._candidates(bound, goals, keep, faults, chosen):
            yield one, len(faults)

    def _to_fix(self) -> list[Fault]:
        """Each state once, the faults that raise the least risk most first."""
        world = self._risks
        by_state = {fault.state: fault for fault in self.faults.values()}
        raised = {
            state: world.raised(self.decider.compiled.pack([state])[0], self._number(fault.action))
            for state, fault in by_state.items()
        }
        return sorted(by_state.values(), key=lambda fault: -raised[fault.state])

    def _number(self, label: str) -> int:
        return self.task.network.labels.index(label)

    def _planned(self, bound: Bound, faults: list[Fault]) -> list[Fault] | None:
        return None  # what is planned never fails: more than was asked for

    def _fenced(self, bound: Bound, faults: list[Fault]) -> Repaired | None:
        return None
