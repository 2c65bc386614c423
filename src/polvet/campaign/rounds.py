"""The rounds of a campaign: iterations on one policy after another until there is an outcome, each step stored when it is done.

What an iteration does is left to those who say what a campaign is after: `safety_rounds.py`, `goal_rounds.py`, `risk_rounds.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polvet.budget import stopwatch
from polvet.campaign.ground import Done
from polvet.campaign.outcome import Outcome, OutcomeRecord, dump_outcome
from polvet.campaign.policies import copy_policy, place_of, policy_stem
from polvet.campaign.record import BEGIN, F, Figures, Record, Step
from polvet.campaign.risk_course import RiskCourse, risk_course
from polvet.campaign.settings import Settings
from polvet.campaign.steps import Steps
from polvet.campaign.store import Store
from polvet.campaign.usefulness import Usefulness, usefulness
from polvet.confirm.outcome import Confirmation, confirmation_json, read_confirmation
from polvet.errors import LimitReached
from polvet.files import Json
from polvet.interrupts import noting
from polvet.model.expressions import FALSE
from polvet.records.fault_files import FaultList, read_faults, write_faults

Listener = Callable[[Record[Figures]], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """What a campaign ended with; `policy` and `certificate` are files in its folder."""

    outcome: Outcome
    policy: Path
    iterations: int
    faults: int
    certificate: Path | None
    reason: str | None
    records: tuple[Record[Figures], ...]
    checked: Confirmation | None = None  # of the certificate
    usefulness: Usefulness | None = None  # None: the task has no goal, or the final policy was not evaluated
    risk: RiskCourse | None = None  # None: no bound on the risk was asked for, or nothing is known yet

    @property
    def figures(self) -> Json:
        """Return what is left of the goal, and what is risked, as numbers."""
        return {
            **({} if self.usefulness is None else self.usefulness.figures()),
            **({} if self.risk is None else self.risk.figures()),
        }


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A policy that a campaign may end with: of which iteration, with which outcome, and the step that proves it."""

    outcome: Outcome
    policy: Path
    iteration: int
    reason: str | None
    proof: Record[Figures] | None


class Rounds(ABC):
    """A campaign under way."""

    def __init__(self, policy: Path, store: Store, steps: Steps, settings: Settings, listener: Listener) -> None:
        self.given, self.store, self.steps, self.settings, self.listener = policy, store, steps, settings, listener

    def run(self) -> Ending:
        """Iterate until there is an outcome."""
        # SOUND: the campaign works on its own copy: what it claims must be about a file that nobody changes under it.
        kept = self.do(0, BEGIN, lambda: (self.steps.sizes(), self._copy()))
        policy = first = self.store.path(kept, "policy")
        for iteration in range(self.settings.iterations + 1):
            try:
                ended = self.iterate(iteration, policy, first)
            except LimitReached as limit:
                return self.end(Outcome.LIMIT, policy, iteration, str(limit))
            if isinstance(ended, Ending):
                return ended
            policy = ended
        used_up = f"{self.settings.iterations} iterations are used up (--iterations)"
        return self.end(Outcome.FAULTS_REMAIN, policy, self.settings.iterations, used_up)

    @abstractmethod
    def iterate(self, iteration: int, policy: Path, first: Path) -> Ending | Path:
        """Return the next policy, or how the campaign ended."""

    def do(self, iteration: int, step: Step[F], work: Callable[[], Done[F]]) -> Record[F]:
        """Return the record of the step, which is done now unless it was before."""
        record = self.store.find(iteration, step)
        if record is None:
            spent = stopwatch()
            with noting() as interrupts:
                figures, files = work()
                interrupts.check()  # a step that was interrupted is not finished, whoever swallowed it
            record = self.store.finish(iteration, step, figures, round(spent(), 3), files)
        self.listener(record)
        return record

    def _copy(self) -> dict[str, str]:
        return copy_policy(self.given, self.store.folder, place_of(self.given, policy_stem(0)))

    def remember(self, record: Record[Figures]) -> int:
        """Add the step's new faults to those so far and return how many they are."""
        if "faults" not in record.files:
            return 0
        faults = read_faults(self.steps.task, self.store.path(record, "faults")).faults
        self.steps.faults |= {(fault.state, fault.action): fault for fault in faults}
        return len(faults)

    def end(
        self, outcome: Outcome, policy: Path, iteration: int, reason: str | None, proof: Record[Figures] | None = None
    ) -> Ending:
        """Leave the final policy and all faults where people look for them."""
        return self._write(self.choose(Conclusion(outcome, policy, iteration, reason, proof)))

    def choose(self, last: Conclusion) -> Conclusion:
        """Return what the campaign ends with: the last policy, or a better one of those before."""
        return last

    def _write(self, conclusion: Conclusion) -> Ending:
        outcome, reason, iteration = conclusion.outcome, conclusion.reason, conclusion.iteration
        useful = None
        if self.steps.task.goal != FALSE:
            useful = usefulness(self.store.records, iteration, self.settings.max_goal_loss)
        if useful is not None and useful.lost and outcome is Outcome.SAFE:
            outcome, reason = Outcome.GOAL_LOST, useful.warning()
        name = place_of(conclusion.policy, "policy")
        copy_policy(conclusion.policy, self.store.folder, name)
        final = self.store.folder / name
        by_state = {fault.state: fault for fault in self.steps.faults.values()}
        task = self.steps.task
        write_faults(task, FaultList(tuple(by_state.values()), task.sha256), self.store.folder / "faults.json")
        proof = conclusion.proof
        certificate = None
        if proof is not None and "certificate" in proof.files:
            certificate = self.store.path(proof, "certificate")
        checked = None if proof is None else read_confirmation(proof.line())
        faults = len(self.steps.faults)
        record = OutcomeRecord(
            outcome,
            reason,
            iteration,
            faults,
            policy=name,
            certificate=None if certificate is None else str(certificate.relative_to(self.store.folder)),
            **confirmation_json(checked),
            warning=None if useful is None else useful.warning(),
        )
        risk = risk_course(self.store.records, iteration, self.settings.max_risk)
        records = tuple(self.store.records)
        ending = Ending(outcome, final, iteration, faults, certificate, reason, records, checked, useful, risk)
        self.store.write("outcome.json", dump_outcome(record, ending.figures))
        return ending
