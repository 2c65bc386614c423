"""A policy fitted to a task: what each input is, which label each output is, and what it chooses in a state.

Names come from the task (`[policy]` in task.toml), else from the policy file, else by position: the non-location variables
and the labels in the model's order (or, where the policy has so many outputs, all declared actions). A model without
labels (all operators silent, one automaton) is given one label `#i` per edge i where the policy has one output per edge:
so MoGym reads its networks.
An input may also be an expression or a function (policy/inputs.py). `Fitted.choose` is the slow twin of the kernel's
`_core.BoundPolicy` (policy/compiled.py). This is what a policy means, and all that checkers need: nothing here runs it in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where, did_you_mean
from polvet.files import Json
from polvet.model.network import Joint, Network
from polvet.model.semantics import Move, State
from polvet.model.task import Task
from polvet.policy.agents import check_agent
from polvet.policy.callables import CallablePolicy
from polvet.policy.format import Content, Names
from polvet.policy.functions import named_function
from polvet.policy.identity import content_sha256, policy_sha256
from polvet.policy.inputs import Input, InputFunction, Reader, defined_names, find_inputs, first_names, truth_values
from polvet.policy.load import load_policy, read_policy
from polvet.policy.networks import Archive
from polvet.policy.protocol import Policy, has_positional_names, numbered, renamed

UNKNOWN_LABEL = -1


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A policy with its columns resolved; `task` has the network the labels belong to."""

    task: Task
    policy: Policy
    inputs_from: str  # "task", "policy" or "model": who named them
    outputs_from: str  # the same, or "edges"
    inputs: tuple[Input, ...]
    labels: tuple[int, ...]  # per output, its number among the network's labels; UNKNOWN_LABEL: no operator has it
    sha256: str | None = None  # of all files of the policy

    @property
    def filtered(self) -> bool:
        """Return whether the best *applicable* label is chosen."""
        return self.task.reading.mode == "filtered"

    @property
    def is_plain(self) -> bool:
        """Return whether every input is a variable."""
        return all(isinstance(one, int) for one in self.inputs)

    @property
    def variables(self) -> tuple[int, ...]:
        """Return the place in a state of each input; an InputError where one is computed.

        SOUND: whoever argues about a policy over sets of states asks here, so that none takes a computed input for a variable.
        """
        for name, one in zip(self.policy.inputs, self.inputs, strict=True):
            if not isinstance(one, int):
                what = f"the policy's input '{name}' is computed, which this does not follow over sets of states."
                raise InputError(what, hint="Use the method explicit, or a policy over variables.")
        return tuple(one for one in self.inputs if isinstance(one, int))

    @property
    def unscored(self) -> tuple[str, ...]:
        """Return the labels that may be applicable and that the policy never chooses: it has no output for them."""
        network = self.task.network
        moving = {joint.label for joint in network.joints}
        return tuple(label for i, label in enumerate(network.labels) if i not in self.labels and label in moving)

    def row(self, state: State) -> npt.NDArray[np.float32]:
        """Return the state as a row [1, inputs] of the nearest float32 values, infinite beyond them; locations by number."""
        return self._reader.row(state)

    @property
    def _reader(self) -> Reader:
        kept = self.task.network.derived.setdefault("readers of inputs", {})
        if self.inputs not in kept:
            kept[self.inputs] = Reader(self.task.network, self.inputs)
        reader: Reader = kept[self.inputs]
        return reader

    def choose(self, state: State, applicable: Collection[str | None]) -> str | None:
        """Return the label chosen where these are applicable; None where that is none of them: the policy is stuck."""
        choice = int(self.policy.choose(self.row(state), self.mask(applicable))[0])
        name = self.names[choice] if choice >= 0 else None
        return name if name in applicable else None

    @property
    def names(self) -> list[str | None]:
        """Return the label of each output; None where no operator has it."""
        return [self.task.network.labels[i] if i != UNKNOWN_LABEL else None for i in self.labels]

    def mask(self, applicable: Collection[str | None]) -> npt.NDArray[np.bool_] | None:
        """Return which outputs may be chosen where these labels are applicable; None in raw mode: all."""
        if not self.filtered:
            return None
        return np.array([[name is not None and name in applicable for name in self.names]], dtype=np.bool_)

    def followed(self, state: State, moves: Sequence[Move]) -> list[Move]:
        """Return the moves a step of the policy may make: those of its label and the silent ones; none where it is stuck."""
        applicable = {move.label for move in moves if move.label is not None}
        if not applicable:
            return list(moves)
        chosen = self.choose(state, applicable)
        return [] if chosen is None else [move for move in moves if move.label in (chosen, None)]

    def describe(self) -> Json:
        """Return which inputs and outputs are used, and who named them."""
        return {
            "inputs": list(self.policy.inputs),
            "inputs_from": self.inputs_from,
            "outputs": list(self.policy.outputs),
            "outputs_from": self.outputs_from,
            "mode": self.task.reading.mode,
            "by_execution": self.by_execution,
        }

    @property
    def by_execution(self) -> bool:
        """Return whether the policy, or an input, is a Python function: everything holds for the answers it gave."""
        functions = any(isinstance(one, InputFunction) for one in self.inputs)
        return functions or isinstance(self.policy, CallablePolicy)


def load_fitted(task: Task, file: str | Path) -> Fitted:
    """Return the policy in the file, fitted to the task."""
    booleans = truth_values(task.network, task.reading.expressions)
    inputs, outputs = task.reading.inputs, task.reading.outputs
    if named_function(file) is not None:
        inputs, outputs = function_inputs(task), default_outputs(task)
        policy = load_policy(file, inputs, outputs, booleans=booleans)
        return replace(fit(task, policy, Where(str(file))), sha256=policy_sha256(file))
    content = Content.of(file)
    policy = read_policy(content, Names(inputs, outputs, task.reading.output, booleans=booleans))
    return replace(fit(task, policy, Where(str(file))), sha256=content_sha256(content))


def fit_function(task: Task, function: Callable[[Any], Any]) -> Fitted:
    """Return a policy that is a Python function in memory, fitted to the task; it has no digest."""
    booleans = frozenset(truth_values(task.network, task.reading.expressions))
    return fit(task, CallablePolicy(function_inputs(task), default_outputs(task), function, booleans), Where("policy"))


def default_inputs(task: Task) -> tuple[str, ...]:
    """Return the inputs of a policy that names none: the task's, else all variables that are no locations."""
    if task.reading.inputs is not None:
        return task.reading.inputs
    return tuple(variable.name for variable in task.network.variables if not variable.is_location)


def function_inputs(task: Task) -> tuple[str, ...]:
    """Return what a policy that is a function sees of a state: the task's inputs, else all variables and what is defined by them."""
    inputs = default_inputs(task)
    return inputs if task.reading.inputs is not None else tuple(dict.fromkeys((*inputs, *defined_names(task.network))))


def default_outputs(task: Task) -> tuple[str, ...]:
    """Return the outputs of a policy that names none: the task's, else all labels."""
    return task.reading.outputs if task.reading.outputs is not None else task.network.labels


def fit(task: Task, policy: Policy, where: Where | None = None) -> Fitted:
    """Return the policy fitted to the task, or raise an InputError that names the input or output that does not fit."""
    task.network.require_choices(where)
    reading = task.reading
    inputs_from = "task" if reading.inputs is not None else "policy"
    outputs_from = "task" if reading.outputs is not None else "policy"
    if reading.inputs is not None and tuple(policy.inputs) != reading.inputs:
        policy = renamed(policy, inputs=reading.inputs)
    if reading.outputs is not None and tuple(policy.outputs) != reading.outputs:
        policy = renamed(policy, outputs=reading.outputs)
    if policy.inputs and has_positional_names(policy.inputs):  # a rule list may read nothing at all
        known = [variable.name for variable in task.network.variables if not variable.is_location]
        policy, inputs_from = _by_position(policy, known, "input", "variable", where), "model"
    if has_positional_names(policy.outputs):
        if not task.network.labels and len(policy.outputs) == len(task.network.edges):
            task, outputs_from = replace(task, network=label_edges(task.network)), "edges"
        else:
            declared, moving = task.network.model.actions, task.network.labels
            names = declared if len(policy.outputs) == len(declared) != len(moving) else moving
            policy = _by_position(policy, names, "output", "label", where)
            outputs_from = "model"
    elif (numbers := numbered(policy.outputs)) is not None and not set(policy.outputs) & set(task.network.labels):
        policy, outputs_from = renamed(policy, outputs=_by_number(numbers, task.network, where)), "model"
    allow_code = task.options.allow_code
    inputs = find_inputs(
        task.network, policy.inputs, reading.expressions, reading.functions, where, allow_code=allow_code
    )
    labels = _find_labels(task.network, policy.outputs, where)
    if isinstance(archive := getattr(policy, "archive", None), Archive) and archive.kind == "stable-baselines3":
        check_agent(task.network, archive, policy.inputs, inputs, where)
    return Fitted(task, policy, inputs_from, outputs_from, inputs, labels)


def label_edges(network: Network) -> Network:
    """Return the network in which each silent edge i of the only automaton has a label of its own, `#i`."""
    if network.labels or any(len(joint.participants) != 1 for joint in network.joints):
        raise InputError(
            "the model has labels or moving partners: its edges cannot be chosen by number.",
            hint="Name the policy's outputs in task.toml: [policy] outputs = [...].",
        )
    ready = sorted({edge for joint in network.joints for edge in joint.participants[0]})
    return replace(
        network,
        labels=tuple(f"#{edge}" for edge in ready),
        joints=tuple(Joint(f"#{edge}", ((edge,),)) for edge in ready),
    )


def _by_position(policy: Policy, names: Sequence[str], what: str, thing: str, where: Where | None) -> Policy:
    columns = policy.inputs if what == "input" else policy.outputs
    if len(columns) != len(names):
        raise InputError(
            f"the policy has {len(columns)} nameless {what}s, the model has {len(names)} {thing}s: {first_names(names)}.",
            where,
            f"Name the policy's {what}s in task.toml: [policy] {what}s = [...].",
        )
    return renamed(policy, inputs=names) if what == "input" else renamed(policy, outputs=names)


def _by_number(numbers: Sequence[int], network: Network, where: Where | None) -> list[str]:
    """Return the declared actions with these numbers."""
    names = network.model.actions
    if max(numbers) >= len(names):
        raise InputError(
            f"the policy chooses action number {max(numbers)}, the model has {len(names)} actions.",
            where,
            "Count the actions from 0, or name the policy's outputs in task.toml: [policy] outputs = [...].",
        )
    return [names[number] for number in numbers]


def _find_labels(network: Network, outputs: Sequence[str], where: Where | None) -> tuple[int, ...]:
    number = {label: i for i, label in enumerate(network.labels)}
    declared = set(network.model.actions)
    for name in outputs:
        if name not in number and name not in declared:
            hint = did_you_mean(name, number) or f"The model's labels are: {first_names(number)}."
            raise InputError(f"the policy chooses '{name}', which is no label of the model.", where, hint)
    return tuple(number.get(name, UNKNOWN_LABEL) for name in outputs)
