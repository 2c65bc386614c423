"""A repair method as data: its name, what it does, the policies it fits, and the function that changes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.model.semantics import State
from polvet.policy.binding import Fitted
from polvet.policy.inputs import is_whole
from polvet.policy.protocol import Policy
from polvet.records.fault_files import Fault
from polvet.repair.demands import Applicability, Demands, Mode


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A policy, its faults, and what is asked of the repaired one: `demands` in the faults' rows, `keeps` in kept states."""

    fitted: Fitted
    faults: Sequence[Fault]
    mode: Mode
    known: Applicability
    demands: Demands
    keeps: Demands
    sample: Demands  # of the kept states: demands of a program, too
    most_changed: float = 1.0  # the share of the kept states that may change
    budget: Budget = UNLIMITED
    solver: str = "highs"  # of the big-M program
    thrifty: bool = False  # nobody asked for a method in particular: no more work than it is worth
    starts: Sequence[State] = ()  # whoever learns anew follows the policy from here; none: from the task's own starts
    seed: int = 0

    @property
    def policy(self) -> Any:
        """Return the policy to repair; `Method.policies` says of which class it is."""
        return self.fitted.policy

    @property
    def integers(self) -> list[bool]:
        """Return which inputs of the policy are whole numbers."""
        return [is_whole(self.fitted.task.network, one) for one in self.fitted.inputs]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The changed policy, and how much was changed."""

    policy: Policy
    objective: float  # L1 change of leaf values, weights or scores, as stored
    bound: float | None = None
    trees_added: int = 0
    units_added: int = 0
    timed_out: bool = False
    method: str | None = None  # where it is another one than was asked for


@dataclass(frozen=True, slots=True)
class Method:
    """A way to repair policies of some classes."""

    name: str
    help: str
    policies: tuple[type, ...]
    run: Callable[[Request], Change]

    def fits(self, policy: Policy) -> bool:
        """Return whether it can repair this policy."""
        return isinstance(policy, self.policies)
