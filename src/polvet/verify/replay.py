"""Unsafe runs are executed before they are believed: by the checker of `run` certificates, in the slow interpreter."""

from __future__ import annotations

from polvet.check.arena import Arena
from polvet.check.run import replay_run
from polvet.errors import ModelError
from polvet.model.semantics import Semantics
from polvet.policy.binding import Fitted
from polvet.policy.compiled import Bound
from polvet.policy.functions import fickle
from polvet.policy.runs import Run
from polvet.records.state_json import Malformed


def replay(bound: Bound, run: Run) -> None:
    """Raise a RuntimeError, which is a bug of polvet, unless this is a run of the policy's reference choices.

    Where a Python function was asked, it is an InputError: the function does not depend on the state alone.
    """
    replay_fitted(bound.fitted, Semantics(bound.task.network), run)


def replay_fitted(fitted: Fitted, semantics: Semantics, run: Run) -> None:
    """Do the same with an interpreter that is there already."""
    task = fitted.task
    arena = Arena(task, semantics, semantics.compile(task.fail), semantics.compile(task.goal), "the task")
    try:
        replay_run(arena, run.states, run.actions, run.end.text, fitted.choose)
    except Malformed as error:
        if isinstance(error.__cause__, ModelError):  # the run comes to where the model breaks a rule
            raise error.__cause__ from None
        if fitted.by_execution:
            raise fickle(None, str(error)) from None
        raise RuntimeError(f"the run found does not replay: {error}") from None
