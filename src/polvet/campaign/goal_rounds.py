"""A campaign that looks after the goal as well: once the policy is proved safe, its goal faults are mended, and it is proved again.

That is done where it is asked for (`kind = "goal"`), and where the loss of %Goal breaks the budget although some safe policy keeps it.
Each mending may bring runs to the next goal fault; faults accumulate as those of safety do. Whatever happens later, a policy that was
proved safe is what the campaign ends with: of several the one that reaches the goal most often.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polvet.campaign.goal_steps import GoalSteps
from polvet.campaign.outcome import Outcome
from polvet.campaign.record import EVALUATE, GOALS, REPAIR, Record, VerificationFigures
from polvet.campaign.rounds import Conclusion, Ending
from polvet.campaign.safety_rounds import SafetyRounds
from polvet.campaign.usefulness import usefulness
from polvet.errors import LimitReached
from polvet.policy.compiled import Bound


@dataclass(frozen=True, slots=True)
class _Proved:
    goal_percent: float
    iteration: int
    policy: Path
    proof: Record[VerificationFigures]


class GoalRounds(SafetyRounds):
    """A campaign that ends when the policy is proved safe and reaches the goal as it should."""

    steps: GoalSteps
    best: _Proved | None = None

    def proved(
        self, iteration: int, policy: Path, first: Path, bound: Bound, proof: Record[VerificationFigures]
    ) -> Ending | Path:
        """Return a policy without the goal faults of this one; the campaign ends where it has none."""
        evaluated = self.store.find(iteration, EVALUATE)
        reached = 0.0 if evaluated is None else evaluated.figures.goal_percent
        if self.best is None or reached >= self.best.goal_percent:
            self.best = _Proved(reached, iteration, policy, proof)
        if not self._minds_the_goal(iteration):
            return self.end(Outcome.SAFE, policy, iteration, None, proof)
        try:
            goals = self.do(iteration, GOALS, lambda: self.steps.goals(iteration, bound, policy))
        except LimitReached as limit:
            return self.end(Outcome.LIMIT, policy, iteration, f"goal faults are not known: {limit}")
        new = self.remember(goals)
        if not goals.figures.faults:
            return self.end(Outcome.SAFE, policy, iteration, None, proof)
        if not new:
            return self.end(Outcome.FAULTS_REMAIN, policy, iteration, "the repair left goal faults it was given")
        mended = self.do(iteration, REPAIR, lambda: self.steps.mend(iteration, bound, first))
        if "policy" not in mended.files:
            return self.end(Outcome.FAULTS_REMAIN, policy, iteration, f"goal faults remain: {mended.figures.refused}")
        return self.store.path(mended, "policy")

    def _minds_the_goal(self, iteration: int) -> bool:
        """Whether goal faults are to be mended."""
        if self.settings.kind == "goal":
            return True
        useful = usefulness(self.store.records, iteration, self.settings.max_goal_loss)
        if self.settings.mode != "safe" or useful is None or not useful.lost or useful.possible is None:
            return False
        return useful.last < useful.possible - useful.allowed_loss

    def choose(self, last: Conclusion) -> Conclusion:
        """Return the last policy; where that is not proved safe, or reaches the goal less often, the best that was."""
        best = self.best
        if best is None or (last.outcome is Outcome.SAFE and best.policy == last.policy):
            return last
        why = last.reason or "the policy without goal faults reaches the goal less often than this one"
        if self.settings.kind != "goal":  # nobody asked: whether the budget is kept is what counts
            return Conclusion(Outcome.SAFE, best.policy, best.iteration, None, best.proof)
        return Conclusion(Outcome.GOAL_FAULTS, best.policy, best.iteration, why, best.proof)
