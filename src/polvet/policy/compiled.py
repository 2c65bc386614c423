"""A fitted policy made fast: bound to a compiled network in the kernel, for whoever simulates, searches or explores.

What the policy means is `policy/binding.py`. SOUND: no checker imports this file, nor anything that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet import _core
from polvet.errors import InputError
from polvet.kernel.compiled import Compiled
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import Fitted
from polvet.policy.protocol import Policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork

FAIL, GOAL = 0, 1
"""The places of the two conditions in a program made by `compile_policy`."""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A fitted policy and a compiled network that know each other."""

    fitted: Fitted
    compiled: Compiled
    core: _core.BoundPolicy

    @property
    def task(self) -> Task:
        """Return the task whose network is compiled."""
        return self.fitted.task

    def label(self, number: int) -> str | None:
        """Return the label of that number; None for a silent operator."""
        return None if number < 0 else self.task.network.labels[number]

    def explain(self, state: State, fault: _core.Fault, policy_broken: bool) -> None:
        """Raise the error behind a run that could not go on."""
        if policy_broken:
            shown = self.compiled.semantics.show(state)
            raise InputError(
                f"a score of the policy is not a number in state {shown}.", hint="Its values overflow there."
            )
        self.compiled.explain_fault(state, fault)


def compile_policy(fitted: Fitted) -> Bound:
    """Return the policy bound to its task's network in the kernel, with the conditions FAIL and GOAL."""
    return bind_policy(fitted, Compiled(fitted.task.network, conditions=[fitted.task.fail, fitted.task.goal]))


def bind_policy(fitted: Fitted, compiled: Compiled) -> Bound:
    """Return the policy bound to a compiled network (made of its task's network)."""
    policy: Any = fitted.policy
    scorer = policy.kernel if isinstance(policy, AnyNetwork | TreeEnsemble) else _chooser(policy)
    core = _core.BoundPolicy(
        compiled.program, scorer, list(fitted.variables), list(fitted.labels), len(fitted.task.network.labels),
        fitted.filtered,
    )  # fmt: skip
    return Bound(fitted, compiled, core)


def _chooser(policy: Policy) -> Any:
    """Return the policy as the kernel asks it: rows and masks to choices."""

    def choose(rows: npt.NDArray[np.float32], masks: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.int32]:
        chosen = policy.choose(rows, None if masks is None else masks.astype(np.bool_))
        return np.ascontiguousarray(chosen, dtype=np.int32)

    return choose
