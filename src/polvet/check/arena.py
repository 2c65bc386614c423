"""A task as a checker sees it: the conditions that end runs, the slow interpreter, and states read back strictly."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.start_region import StartRegion
from polvet.check.subjects import Subjects
from polvet.errors import InputError, ModelError, Where
from polvet.model.arithmetic import Value
from polvet.model.evaluate import Evaluator
from polvet.model.semantics import Move, Semantics, State
from polvet.model.task import NOTHING_ELSE, Task, TaskOptions, state_from_names
from polvet.records.state_json import Malformed
from polvet.sources import load_task, options_from_json


@dataclass(frozen=True, slots=True)
class Arena:
    """A task as a checker sees it: the slow interpreter, and where runs end."""

    task: Task
    semantics: Semantics
    is_fail: Evaluator
    is_goal: Evaluator  # only asked outside `fail`, which beats it
    about: str  # how to name the task in a claim
    budget: Budget = UNLIMITED  # looked at with every state
    region: StartRegion | None = None  # the start states that the claim is about; None: all of them

    @classmethod
    def of(cls, task: Task, about: str = "the task", budget: Budget = UNLIMITED) -> Arena:
        """Return the task with an interpreter of its own."""
        semantics = Semantics(task.network)
        return cls(task, semantics, semantics.compile(task.fail), semantics.compile(task.goal), about, budget)

    def moves(self, state: State) -> list[Move]:
        """Return the enabled operators; a model that breaks a rule there makes the certificate malformed."""
        self.budget.check()
        try:
            return self.semantics.moves(state)
        except ModelError as error:
            raise Malformed(str(error)) from error

    def outcomes(self, state: State) -> dict[str | None, frozenset[State]]:
        """Return the outcomes of each action of the state: silent operators' are added to every label's.

        Where only silent operators are enabled there is one pseudo-action, None; where none is, there is no action.
        """
        moves = self.moves(state)
        silent = frozenset(outcome.state for move in moves if move.label is None for outcome in move.outcomes)
        labels = dict.fromkeys(move.label for move in moves if move.label is not None)
        if not labels:
            return {None: silent} if silent else {}
        return {
            label: silent | {outcome.state for move in moves if move.label == label for outcome in move.outcomes}
            for label in labels
        }

    def read(self, item: Any, what: str) -> State:
        """Return the state that names every variable, or raise Malformed."""
        self.budget.check()
        if not isinstance(item, dict):
            raise Malformed(f"{what} is no state")
        try:
            return state_from_names(self.task.network, item, Where(what))
        except InputError as error:
            raise Malformed(str(error)) from None

    def show(self, state: State) -> str:
        """Return the state as people write it."""
        return self.semantics.show(state)


def find_arena(certificate: Mapping[str, Any], subjects: Subjects) -> Arena:
    """Return the task the certificate speaks about, read from the given file with the options the certificate names.

    The options are part of the claim: they must be those that are asked for, and are told when it is accepted. Only
    `find_policy_arena` leaves variables out.
    """
    if subjects.task is None:
        raise InputError("the certificate speaks about a task.", hint="Give the file with --task.")
    try:
        options = options_from_json(certificate.get("options", {}), Where("options"))
    except InputError as error:
        raise Malformed(str(error)) from None
    options = subjects.read_with(options)
    task = load_task(subjects.task, options)
    if certificate.get("task_sha256") != task.sha256:
        raise Malformed(f"{subjects.task} is not the file the certificate was made for (task_sha256 differs)")
    expected = None if subjects.options is None else subjects.read_with(subjects.options)
    if expected is not None and not _is_same(task, subjects.task, expected):
        raise Malformed(other_options(options))
    given = ", ".join(f"{name} {value}" for name, value in options.to_json().items())
    return Arena.of(task, str(subjects.task) + (f" (with {given})" if given else ""), subjects.budget)


def find_arena_with_deadlocks(certificate: Mapping[str, Any], subjects: Subjects, *, safe: bool) -> Arena:
    """Return the arena in which what the certificate `avoids` is a fail state: deadlocks outside the goal, or nothing.

    A claim that something is safe may avoid more than is asked for, a claim that it is not may count less as unsafe.
    """
    avoids = certificate.get("avoids", [])
    if avoids not in ([], ["deadlock"]):
        raise Malformed("'avoids' is not a list of deadlock")
    if subjects.options is not None:
        wanted = subjects.options.avoid.deadlock
        if safe and wanted and not avoids:
            raise Malformed("it does not speak about deadlocks, which are to be avoided")
        if not safe and avoids and not wanted:
            raise Malformed("it counts deadlocks as unsafe; give --avoid deadlock to ask for that, or --allow-options")
    plain = find_arena(certificate, avoiding_nothing(subjects))
    if not avoids:
        return plain

    def is_fail(state: Sequence[Value]) -> bool:
        return bool(plain.is_fail(state)) or not (plain.is_goal(state) or plain.moves(tuple(state)))

    return replace(plain, is_fail=is_fail, about=f"{plain.about} (deadlocks outside the goal are fail states)")


def avoiding_nothing(subjects: Subjects) -> Subjects:
    """Return the subjects without what is to be avoided, which a certificate names apart from its options."""
    if subjects.options is None:
        return subjects
    return replace(subjects, options=replace(subjects.options, avoid=NOTHING_ELSE))


def other_options(options: TaskOptions) -> str:
    """Return why a certificate with these options is rejected where others are asked for."""
    if not options.to_json():
        return "it is about the task's own conditions, not about those that are asked for"
    return f"it is about other conditions than those asked for; give {shlex.join(options.arguments())} to ask for them, or --allow-options"


def _is_same(task: Task, file: Path, options: TaskOptions) -> bool:
    """Return whether the file and the options mean that task."""
    if task.options == options:
        return True
    try:
        other = load_task(file, options)
    except InputError:
        return False
    return replace(other, options=task.options) == task
