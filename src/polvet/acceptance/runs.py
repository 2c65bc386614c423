"""How the policy's runs end, and how much of the world they see: what a gate says of every policy, safe or not.

A policy that goes round in three states for ever has no fault. Whether that is wanted, thresholds say; without any,
`useless` is a reason not to let it pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from polvet.debug.evaluate import Evaluation
from polvet.files import Figures
from polvet.model.expressions import FALSE
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, within_steps

ENDLESS = (End.LIMIT.text, End.STUCK.text)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Simulated runs and the states that searching met from the same starts."""

    goal: float | None  # the share of runs that reach it; None: the task has no goal
    ends: dict[str, int]  # how many runs ended so
    starts: int
    max_steps: int
    states: int  # reached under the policy
    all_states: bool  # those are all there are, from these starts
    reaches_goal: bool  # some run does: a simulated one, or one that searching met
    cut: str | None  # the limit that came before the runs were over
    unsaid: str | None = None  # what no check of the gate judges

    @property
    def useless(self) -> str | None:
        """Return why the policy is of no use as far as was seen, else None."""
        if self.cut is not None:
            return None
        if self.goal is not None:
            return None if self.reaches_goal else "no run reaches the goal"
        if set(self.ends) <= set(ENDLESS):
            return "the task has no goal, and every run is stuck or does not end"
        return None

    def text(self) -> str:
        """Return one line for people."""
        count = sum(self.ends.values())
        ends = ", ".join(f"{number:,} {_word(end, self.max_steps)}" for end, number in self.ends.items())
        share = "no goal" if self.goal is None else f"%Goal{within_steps(self.max_steps)} {100 * self.goal:.2f}"
        reached = f"{self.states:,} states reached" + ("" if self.all_states else " at least")
        over = f"{count:,} runs from {self.starts:,} start states: {ends or 'none'}; {reached}"
        warning = f"WARNING: {self.useless}; " if self.useless else ""
        steps = "; all but %Goal is about runs of any length" if within_steps(self.max_steps) else ""
        over += f"{steps}; cut short: {self.cut}" if self.cut else steps
        return f"{warning}{share}; {over}" + (f"; not judged: {self.unsaid}" if self.unsaid else "")

    def figures(self) -> Figures:
        """Return the same as numbers."""
        return {
            "goal_percent": None if self.goal is None else 100 * self.goal,
            "max_steps": self.max_steps,
            "ends": dict(self.ends),
            "states": self.states,
            "all_states": self.all_states,
            "useless": self.useless,
            "not_judged": self.unsaid,
        }


def run_summary(bound: Bound, evaluation: Evaluation) -> RunSummary:
    """Return what an evaluation tells about the policy's runs."""
    search, batch = evaluation.inspection, evaluation.batch
    return RunSummary(
        goal=evaluation.goal if bound.task.goal != FALSE else None,
        ends=evaluation.ends,
        starts=len(evaluation.starts.states),
        max_steps=evaluation.max_steps,
        states=search.figures["states"],
        all_states=search.limit is None,
        reaches_goal=evaluation.goal > 0 or search.figures["goal_states"] > 0,
        cut=None if batch.limit is None else str(batch.limit),
    )


def _word(end: str, max_steps: int) -> str:
    return f"not ended after {max_steps:,} steps" if end == End.LIMIT.text else end
