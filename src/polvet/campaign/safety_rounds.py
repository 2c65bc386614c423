"""The debugging loop of a policy: (A) fuzz, (B) find faults, (C) repair, (D) verify, until nothing more is found.

Source   Cascioli, Jain, Steinmetz, Davis, Hoffmann, Safety Debugging of Tree-Ensemble Action Policies in AI Planning,
         section 4 and Fig. 1: `Rounds.run` is the loop, `iterate` its body; faults accumulate, so that every policy fixes all faults so far
Differs  before verification, a fence may make a proof possible (`strengthen.py`);
         where fuzzing finds few new faults, the policy's runs from all debugging starts are searched exhaustively before
         verification; repairs aim at safe actions that lead on to the goal (`debug/prospects.py`, `debug/possible.py`) and keep
         decisions on goal-reaching runs (`goals.py`), those of many faults in all safe states the policy reaches
         (`Steps._settled`); several are tried where one loses too much of the goal; a broken budget is an outcome of its own
         (`usefulness.py`); networks, tables and rules are repaired as well; every step is stored and the loop resumed
         (`store.py`)
Cost     each iteration fixes at least one new fault, so that on finite models the loop ends
Limits   a time limit ends the loop between two steps or within one; the step it cuts is done again on resuming
"""

from __future__ import annotations

from pathlib import Path

from polvet.campaign.examination import LITTLE
from polvet.campaign.outcome import Outcome
from polvet.campaign.record import (
    EVALUATE,
    POSSIBLE,
    PROVE,
    REPAIR,
    SEARCH,
    STRENGTHEN,
    VERIFY,
    Record,
    SearchFigures,
    VerificationFigures,
)
from polvet.campaign.rounds import Ending, Rounds
from polvet.errors import LimitReached
from polvet.model.expressions import FALSE
from polvet.policy.compiled import Bound
from polvet.verify.method import has_reals


class SafetyRounds(Rounds):
    """A campaign that ends when the policy is proved safe."""

    def iterate(self, iteration: int, policy: Path, first: Path) -> Ending | Path:
        """Return the next policy, or how the campaign ended."""
        bound = self.steps.load(policy)
        if iteration == 0 and self.steps.task.goal != FALSE:
            self.do(0, POSSIBLE, self.steps.possible)
        self.do(iteration, EVALUATE, lambda: self.steps.evaluate(bound))
        if self._is_fenced(iteration):
            by = "grid" if has_reals(bound) else "projection"
            proved = self.do(iteration, PROVE, lambda: self.steps.verify(iteration, bound, policy, by))
            if proved.figures.verdict == "safe":
                return self.proved(iteration, policy, first, bound, proved)
        searched = self.do(iteration, SEARCH, lambda: self.steps.search(iteration, bound, policy))
        new = self.remember(searched)
        if not new:
            if searched.figures.faults:
                return self.end(Outcome.FAULTS_REMAIN, policy, iteration, "the repair left faults it was given")
            if searched.figures.unsafe_starts:
                why = "from some start states no policy is safe; no fault is left to fix"
                return self.end(Outcome.STOPPED, policy, iteration, why, searched)
            if self.settings.verify == "never":
                why = "no new fault is found; not verified (--verify never)"
                return self.end(Outcome.IMPROVED, policy, iteration, why)
            try:
                stronger = self._strengthened(iteration, bound, first, faulty=False)
                if stronger is not None:
                    return stronger
                verified = self.do(iteration, VERIFY, lambda: self.steps.verify(iteration, bound, policy))
            except LimitReached as limit:
                return self.end(Outcome.IMPROVED, policy, iteration, f"no new fault is found; verification: {limit}")
            figures = verified.figures
            if figures.verdict == "safe":
                return self.proved(iteration, policy, first, bound, verified)
            if figures.verdict == "unknown":
                why = f"no new fault is found; verification: {figures.reason}"
                return self.end(Outcome.IMPROVED, policy, iteration, why)
            if not self.remember(verified):
                why = "verification found an unsafe run that never touches the safe region"
                return self.end(Outcome.STOPPED, policy, iteration, why, verified)
        elif self._may_hide(iteration, searched, new):
            stronger = self._strengthened(iteration, bound, first, faulty=True)
            if stronger is not None:
                return stronger
        repaired = self.do(iteration, REPAIR, lambda: self.steps.repair(iteration, bound, first))
        return self.store.path(repaired, "policy")

    def proved(
        self, iteration: int, policy: Path, first: Path, bound: Bound, proof: Record[VerificationFigures]
    ) -> Ending | Path:
        """Return how a campaign ends whose policy is proved safe, or a policy to go on with."""
        return self.end(Outcome.SAFE, policy, iteration, None, proof)

    def _is_fenced(self, iteration: int) -> bool:
        """Whether the policy got its fence in the iteration before: then the proof goes through."""
        before = self.store.find(iteration - 1, STRENGTHEN)
        return before is not None and "policy" in before.files

    def _may_hide(self, iteration: int, searched: Record[SearchFigures], new: int) -> bool:
        """Whether other faults may hide among many states, and what was found is rare or repaired once: a fence deals with all."""
        figures = searched.figures
        hidden = not figures.exhaustive and not figures.unsafe_starts
        return hidden and (iteration > 0 or new < LITTLE) and self.settings.verify != "never"

    def _strengthened(self, iteration: int, bound: Bound, first: Path, *, faulty: bool) -> Path | None:
        """Return the policy with a fence, if it gets one; a second one would be of no use."""
        if self._is_fenced(iteration):
            return None
        done = self.do(iteration, STRENGTHEN, lambda: self.steps.strengthen(iteration, bound, first, faulty=faulty))
        return self.store.path(done, "policy") if "policy" in done.files else None
