"""A fitted policy made fast: bound to a compiled network in the kernel, for whoever simulates, searches or explores.

What the policy means is `policy/binding.py`. SOUND: no checker imports this file, nor anything that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.kernel.compiled import Compiled
from polvet.kernel.lower import Reward, lower
from polvet.model.network import Network
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import Fitted
from polvet.policy.inputs import Input, InputFunction, Names, StateView, as_number
from polvet.policy.protocol import Policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork

FROM_FUNCTION = 2**32 - 1
"""The kernel's number of a column that a Python function answers."""
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
            self.fitted.row(state)  # an input that has no value says so
            shown = self.compiled.semantics.show(state)
            raise InputError(
                f"a score of the policy is not a number in state {shown}.", hint="Its values overflow there."
            )
        self.compiled.explain_fault(state, fault)


def compile_policy(fitted: Fitted, budget: Budget = UNLIMITED) -> Bound:
    """Return the policy bound to its task's network in the kernel, with the conditions FAIL and GOAL."""
    task = fitted.task
    return bind_policy(fitted, Compiled(task.network, conditions=[task.fail, task.goal], budget=budget))


def bind_policy(fitted: Fitted, compiled: Compiled) -> Bound:
    """Return the policy bound to a compiled network (made of its task's network)."""
    policy: Any = fitted.policy
    scorer = policy.kernel if isinstance(policy, AnyNetwork | TreeEnsemble) else _chooser(policy)
    columns, features = lower_inputs(fitted.task.network, fitted.inputs)
    core = _core.BoundPolicy(
        compiled.program,
        scorer,
        columns,
        list(fitted.labels),
        len(fitted.task.network.labels),
        fitted.filtered,
        features,
        _function_inputs(fitted, compiled),
    )
    return Bound(fitted, compiled, core)


def lower_inputs(network: Network, inputs: Sequence[Input]) -> tuple[list[int], _core.Program | None]:
    """Return the numbers by which the kernel knows the inputs, and the program of those that are expressions."""
    columns: list[int] = []
    rewards: list[Reward] = []
    for one in inputs:
        if isinstance(one, int):
            columns.append(one)
        elif isinstance(one, InputFunction):
            columns.append(FROM_FUNCTION)
        else:
            columns.append(len(network.variables) + len(rewards))
            rewards.append(Reward(as_number(network, one), None))
    if not rewards:
        return columns, None
    still = replace(network, edges=(), joints=())
    return columns, _core.Program.make(lower(still, rewards=rewards))


def _function_inputs(fitted: Fitted, compiled: Compiled) -> Any:
    """Return the function of packed states that answers for the inputs that are Python functions; None where none is."""
    functions = [one for one in fitted.inputs if isinstance(one, InputFunction)]
    if not functions:
        return None
    names = Names(fitted.task.network)

    def answers(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
        views = [StateView(names, state) for state in compiled.unpack(words)]
        with np.errstate(over="ignore"):
            return np.array([[one.value(view) for one in functions] for view in views], dtype=np.float32)

    return answers


def _chooser(policy: Policy) -> Any:
    """Return the policy as the kernel asks it: rows and masks to choices."""

    def choose(rows: npt.NDArray[np.float32], masks: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.int32]:
        chosen = policy.choose(rows, None if masks is None else masks.astype(np.bool_))
        return np.ascontiguousarray(chosen, dtype=np.int32)

    return choose
