"""The debugging loop of a policy: (A) fuzz, (B) find faults, (C) repair, (D) verify, until nothing more is found.

Source   Cascioli, Jain, Steinmetz, Davis, Hoffmann, Safety Debugging of Tree-Ensemble Action Policies in AI Planning,
         section 4 and Fig. 1: `debug` is the loop; faults accumulate, so that every policy fixes all faults so far
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

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.campaign.about import dump_about
from polvet.campaign.outcome import Outcome, OutcomeRecord, dump_outcome
from polvet.campaign.policies import copy_policy, place_of, policy_stem
from polvet.campaign.record import (
    BEGIN,
    EVALUATE,
    POSSIBLE,
    PROVE,
    REPAIR,
    SEARCH,
    STRENGTHEN,
    VERIFY,
    F,
    Figures,
    Record,
    SearchFigures,
    Step,
)
from polvet.campaign.settings import Settings
from polvet.campaign.steps import LITTLE, Done, Steps
from polvet.campaign.store import Store
from polvet.campaign.usefulness import Usefulness, usefulness
from polvet.confirm.outcome import Confirmation, read_told, told
from polvet.errors import InputError, LimitReached, Where
from polvet.interrupts import noting
from polvet.model.expressions import FALSE
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound
from polvet.policy.functions import named_function
from polvet.policy.identity import policy_sha256
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


def debug(
    task: Task,
    policy: Path,
    folder: str | Path,
    settings: Settings | None = None,
    *,
    threads: int = 1,
    budget: Budget = UNLIMITED,
    listener: Listener = lambda record: None,
) -> Ending:
    """Debug the policy in the file and keep everything in the folder; called again it goes on where it stopped."""
    chosen = settings or Settings()
    identity = chosen.identity(
        task_sha256=task.sha256, policy_sha256=policy_sha256(policy), choice=task.reading.mode,
        out_of_bounds=task.network.out_of_bounds.value,
    )  # fmt: skip
    if named_function(policy) is not None:
        raise InputError(
            "a Python function cannot be repaired.", Where(str(policy)), "Debug the network, trees or table behind it."
        )
    fitted = load_fitted(task, policy).task
    with Store(folder, identity) as store:
        store.write("about.json", dump_about(task, policy))
        try:
            steps = Steps(fitted, store, chosen, budget, threads=threads)
        except LimitReached as limit:  # while start states were drawn: there is nothing of the campaign's own yet
            return Ending(Outcome.LIMIT, policy, 0, 0, None, str(limit), tuple(store.records))
        return _Loop(policy, store, steps, chosen, listener).run()


class _Loop:
    def __init__(self, given: Path, store: Store, steps: Steps, settings: Settings, listener: Listener) -> None:
        self.given, self.store, self.steps, self.settings, self.listener = given, store, steps, settings, listener

    def run(self) -> Ending:
        """Iterate until there is an outcome."""
        # SOUND: the campaign works on its own copy: what it claims must be about a file that nobody changes under it.
        kept = self._do(0, BEGIN, lambda: (self.steps.sizes(), self._copy()))
        policy = first = self.store.path(kept, "policy")
        for iteration in range(self.settings.iterations + 1):
            try:
                ended = self._iterate(iteration, policy, first)
            except LimitReached as limit:
                return self._end(Outcome.LIMIT, policy, iteration, str(limit))
            if isinstance(ended, Ending):
                return ended
            policy = ended
        used_up = f"{self.settings.iterations} iterations are used up (--iterations)"
        return self._end(Outcome.FAULTS_REMAIN, policy, self.settings.iterations, used_up)

    def _iterate(self, iteration: int, policy: Path, first: Path) -> Ending | Path:
        """Return the next policy, or how the campaign ended."""
        bound = self.steps.load(policy)
        if iteration == 0 and self.steps.task.goal != FALSE:
            self._do(0, POSSIBLE, self.steps.possible)
        self._do(iteration, EVALUATE, lambda: self.steps.evaluate(bound))
        if self._is_fenced(iteration):
            proved = self._do(iteration, PROVE, lambda: self.steps.verify(iteration, bound, policy, "projection"))
            if proved.figures.verdict == "safe":
                return self._end(Outcome.SAFE, policy, iteration, None, proved)
        searched = self._do(iteration, SEARCH, lambda: self.steps.search(iteration, bound, policy))
        new = self._remember(searched)
        if not new:
            if searched.figures.faults:
                return self._end(Outcome.FAULTS_REMAIN, policy, iteration, "the repair left faults it was given")
            if searched.figures.unsafe_starts:
                why = "from some start states no policy is safe; no fault is left to fix"
                return self._end(Outcome.STOPPED, policy, iteration, why, searched)
            if self.settings.verify == "never":
                why = "no new fault is found; not verified (--verify never)"
                return self._end(Outcome.IMPROVED, policy, iteration, why)
            try:
                stronger = self._strengthened(iteration, bound, first, faulty=False)
                if stronger is not None:
                    return stronger
                verified = self._do(iteration, VERIFY, lambda: self.steps.verify(iteration, bound, policy))
            except LimitReached as limit:
                return self._end(Outcome.IMPROVED, policy, iteration, f"no new fault is found; verification: {limit}")
            figures = verified.figures
            if figures.verdict == "safe":
                return self._end(Outcome.SAFE, policy, iteration, None, verified)
            if figures.verdict == "unknown":
                why = f"no new fault is found; verification: {figures.reason}"
                return self._end(Outcome.IMPROVED, policy, iteration, why)
            if not self._remember(verified):
                why = "verification found an unsafe run that never touches the safe region"
                return self._end(Outcome.STOPPED, policy, iteration, why, verified)
        elif self._may_hide(iteration, searched, new):
            stronger = self._strengthened(iteration, bound, first, faulty=True)
            if stronger is not None:
                return stronger
        repaired = self._do(iteration, REPAIR, lambda: self.steps.repair(iteration, bound, first))
        return self.store.path(repaired, "policy")

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
        done = self._do(iteration, STRENGTHEN, lambda: self.steps.strengthen(iteration, bound, first, faulty=faulty))
        return self.store.path(done, "policy") if "policy" in done.files else None

    def _do(self, iteration: int, step: Step[F], work: Callable[[], Done[F]]) -> Record[F]:
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

    def _remember(self, record: Record[Figures]) -> int:
        """Add the step's new faults to those so far and return how many they are."""
        if "faults" not in record.files:
            return 0
        faults = read_faults(self.steps.task, self.store.path(record, "faults")).faults
        self.steps.faults |= {(fault.state, fault.action): fault for fault in faults}
        return len(faults)

    def _end(
        self,
        outcome: Outcome,
        policy: Path,
        iteration: int,
        reason: str | None,
        shown_by: Record[Figures] | None = None,
    ) -> Ending:
        """Leave the last policy and all faults where people look for them."""
        useful = None
        if self.steps.task.goal != FALSE:
            useful = usefulness(self.store.records, iteration, self.settings.max_goal_loss)
        if useful is not None and useful.lost and outcome is Outcome.SAFE:
            outcome, reason = Outcome.GOAL_LOST, useful.warning()
        name = place_of(policy, "policy")
        copy_policy(policy, self.store.folder, name)
        final = self.store.folder / name
        by_state = {fault.state: fault for fault in self.steps.faults.values()}
        task = self.steps.task
        write_faults(task, FaultList(tuple(by_state.values()), task.sha256), self.store.folder / "faults.json")
        proof = None
        if shown_by is not None and "certificate" in shown_by.files:
            proof = self.store.path(shown_by, "certificate")
        checked = None if shown_by is None else read_told(shown_by.line())
        faults = len(self.steps.faults)
        shown = OutcomeRecord(
            outcome,
            reason,
            iteration,
            faults,
            policy=name,
            certificate=None if proof is None else str(proof.relative_to(self.store.folder)),
            **told(checked),
            warning=None if useful is None else useful.warning(),
        )
        self.store.write("outcome.json", dump_outcome(shown, useful))
        return Ending(outcome, final, iteration, faults, proof, reason, tuple(self.store.records), checked, useful)
