"""What a campaign's steps stand on: the task, the folder, the start states, the faults so far, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from polvet.budget import Budget
from polvet.campaign.record import F, SizeFigures
from polvet.campaign.settings import Settings
from polvet.campaign.store import Store
from polvet.debug.evaluate import disjoint_starts
from polvet.errors import LimitReached
from polvet.kernel.compiled import Words
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.identity import policy_sha256
from polvet.records.fault_files import Fault, FaultList, write_faults
from polvet.safety.decide import Decider

Done: TypeAlias = tuple[F, dict[str, str]]


class Ground:
    """What the steps of one campaign share; `faults` are those found so far, by state and action."""

    def __init__(self, task: Task, store: Store, settings: Settings, budget: Budget, *, threads: int = 1) -> None:
        self.task, self.store, self.settings, self.budget, self.threads = task, store, settings, budget, threads
        self.decider = Decider(task, threads=threads)
        self.faults: dict[tuple[State, str], Fault] = {}
        self.debugging, self.evaluation = disjoint_starts(task, settings.starts, settings.seed, budget=budget)
        self.packed: Words = self.decider.compiled.pack(self.debugging.states)

    def load(self, policy: Path) -> Bound:
        """Return the policy in the file, ready to run."""
        return compile_policy(load_fitted(self.task, policy))

    def sizes(self) -> SizeFigures:
        """Return what the campaign works on."""
        return SizeFigures(
            debugging_starts=len(self.debugging.states),
            evaluation_starts=len(self.evaluation.states),
            same_starts=self.debugging is self.evaluation,
            starts_total=self.debugging.total,
            start_method=self.debugging.method,
        )

    def _new(self, faults: Sequence[Fault]) -> list[Fault]:
        return [fault for fault in faults if (fault.state, fault.action) not in self.faults]

    def _write_faults(self, name: str, new: list[Fault], policy: Path, exhaustive: bool) -> dict[str, str]:
        if not new:
            return {}
        listed = FaultList(tuple(new), self.task.sha256, policy_sha256(policy), exhaustive)
        write_faults(self.task, listed, self.store.folder / name)
        return {"faults": name}

    def _left(self, states: int | None = None) -> Budget:
        """Return what is left of the budget; nothing left raises LimitReached."""
        self.budget.check()
        return self.budget.at_most(states=states)

    def _refuse_cut(self, limit: LimitReached | None) -> None:
        """Raise where time or memory cut the step short: it is not recorded, and done again on resuming."""
        if limit is not None and limit.kind != "states":
            raise limit
