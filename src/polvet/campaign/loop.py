"""Debugging a policy: the folder is opened, and the rounds that fit what is asked for are run."""

from __future__ import annotations

from pathlib import Path

from polvet.budget import UNLIMITED, Budget
from polvet.campaign.about import dump_about
from polvet.campaign.goal_rounds import GoalRounds
from polvet.campaign.goal_steps import GoalSteps
from polvet.campaign.outcome import Outcome
from polvet.campaign.risk_rounds import RiskRounds
from polvet.campaign.risk_steps import RiskSteps
from polvet.campaign.rounds import Ending, Listener, Rounds
from polvet.campaign.settings import Settings
from polvet.campaign.store import Store
from polvet.errors import InputError, LimitReached, Where
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.functions import named_function
from polvet.policy.identity import policy_sha256


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
        task_sha256=task.sha256,
        policy_sha256=policy_sha256(policy),
        choice=task.reading.mode,
        out_of_bounds=task.network.out_of_bounds.value,
    )
    if named_function(policy) is not None:
        raise InputError(
            "a Python function cannot be repaired.", Where(str(policy)), "Debug the network, trees or table behind it."
        )
    fitted = load_fitted(task, policy).task
    with Store(folder, identity) as store:
        store.write("about.json", dump_about(task, policy, chosen))
        try:
            rounds = _rounds(policy, fitted, store, chosen, budget, threads, listener)
        except LimitReached as limit:  # while start states were drawn: there is nothing of the campaign's own yet
            return Ending(Outcome.LIMIT, policy, 0, 0, None, str(limit), tuple(store.records))
        return rounds.run()


def _rounds(
    policy: Path, task: Task, store: Store, settings: Settings, budget: Budget, threads: int, listener: Listener
) -> Rounds:
    """Return the rounds of the kind that is asked for."""
    if settings.kind == "risk":
        return RiskRounds(policy, store, RiskSteps(task, store, settings, budget, threads=threads), settings, listener)
    return GoalRounds(policy, store, GoalSteps(task, store, settings, budget, threads=threads), settings, listener)
