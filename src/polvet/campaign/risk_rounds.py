"""A campaign with a bound on the risk: judge, find the faults relative to the bound, repair, until the bound is kept.

Source   the loop of `safety_rounds.py` for safety up to a probability, which its paper leaves open
Why      a policy without faults relative to the bound keeps it wherever a policy does (`debug/risk_faults.py`, with `delta` 0), and each
         iteration fixes more of finitely many faults. A campaign that does not get there leaves the least risky of its policies
Limits   all states that any policy can come to, up to 200,000
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polvet.campaign.outcome import Outcome
from polvet.campaign.record import BEGIN, EVALUATE, REPAIR, RISKS, VERIFY, Record, WorldFigures
from polvet.campaign.risk_steps import RiskSteps
from polvet.campaign.rounds import Conclusion, Ending, Rounds
from polvet.errors import LimitReached


class RiskRounds(Rounds):
    """A campaign that ends when the policy is proved to keep the bound, or when no policy can."""

    steps: RiskSteps

    def iterate(self, iteration: int, policy: Path, first: Path) -> Ending | Path:
        """Return the next policy, or how the campaign ended."""
        bound = self.steps.load(policy)
        self.do(iteration, EVALUATE, lambda: self.steps.evaluate(bound))
        judged = self.do(iteration, VERIFY, lambda: self.steps.judge(iteration, bound, policy))
        if judged.figures.verdict == "safe":
            return self.end(Outcome.SAFE, policy, iteration, None, judged)
        try:
            risks = self.do(iteration, RISKS, lambda: self.steps.risks(iteration, bound, policy))
        except LimitReached as limit:
            if limit.kind == "time":
                raise
            return self.end(
                Outcome.LIMIT, policy, iteration, f"faults relative to the bound are not known: {limit}", judged
            )
        if not self.remember(risks) and not self._was_partial(iteration):
            return self._without_new_faults(iteration, policy, risks, judged.figures.reason)
        repaired = self.do(iteration, REPAIR, lambda: self.steps.repair(iteration, bound, first))
        return self.store.path(repaired, "policy")

    def _was_partial(self, iteration: int) -> bool:
        """Whether the repair before was given some of the faults only: then the others are left to fix."""
        before = self.store.find(iteration - 1, REPAIR)
        return before is not None and before.figures.faults_given is not None

    def _without_new_faults(
        self, iteration: int, policy: Path, risks: Record[WorldFigures], reason: str | None
    ) -> Ending:
        figures = risks.figures
        if figures.lost_starts:
            why = f"from {figures.lost_starts:,} start states no policy keeps the bound: the least risk is {figures.least_risk:.6g}"
            return self.end(Outcome.IMPOSSIBLE, policy, iteration, why)
        if figures.faults:
            return self.end(Outcome.FAULTS_REMAIN, policy, iteration, "the repair left faults it was given")
        if figures.open or figures.near_ties or reason is not None:
            return self.end(
                Outcome.IMPROVED,
                policy,
                iteration,
                f"no new fault is found; {reason or 'the risk is too near the bound'}",
            )
        why = "no new fault is found; what is left raises the least risk by at most --delta a step, or by too little to be told"
        return self.end(Outcome.FAULTS_REMAIN, policy, iteration, why)

    def choose(self, last: Conclusion) -> Conclusion:
        """Return the last policy; where the bound is not kept, the least risky of all."""
        if last.outcome is Outcome.SAFE:
            return last
        risks = {
            record.iteration: record.figures.risk_upper
            for k in range(last.iteration + 1)
            if (record := self.store.find(k, VERIFY)) is not None and record.figures.risk_upper is not None
        }
        if not risks:
            return last
        least = min(risks, key=lambda k: (risks[k], k))
        source = self.store.find(least - 1, REPAIR) if least else self.store.find(0, BEGIN)
        assert source is not None
        policy, proof = self.store.path(source, "policy"), self.store.find(least, VERIFY)
        return replace(last, policy=policy, iteration=least, proof=proof)
