"""A verification method as data: its name, what it does, what it needs, and the function that answers.

A method is called like a function, `IC3(bound, Request(seed=1))`, and this call is its only door.
SOUND    what a method declares to need is looked at before its function runs, so that no function answers for a task whose meaning
         it does not know: bounds that disable operators, ends of runs that count as failures
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from polvet.budget import UNLIMITED, Budget
from polvet.check.arena import Arena
from polvet.check.box_view import Unreadable
from polvet.check.invariant_space import read_space
from polvet.errors import LimitReached
from polvet.model.network import Kind
from polvet.model.task import NOTHING_ELSE
from polvet.policy.compiled import Bound
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork
from polvet.records.state_json import Malformed
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask
from polvet.verify.box_system import ALONE, Parallelism
from polvet.verify.linearized import linearized, stopped_after
from polvet.verify.verdicts import SafetyResult, Unknown

if TYPE_CHECKING:
    from polvet.verify.explicit import Search

GRACE, GRACE_SHARE = 0.5, 0.1
"""Seconds beyond its limit after which a method that reads linear data is stopped from outside; the most of a turn, as others wait."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a method is told beside the task and the policy."""

    budget: Budget = UNLIMITED
    seed: int = 0
    parallelism: Parallelism = ALONE
    linear: LinearTask | str | None = None  # the task as linear data, or why there is none; None: not read yet
    search: Search | None = None  # explicit search as far as it got; None: not begun


@dataclass(frozen=True, slots=True)
class Need:
    """What a method needs of a task and a policy: in the words of the documents, and why it is not so where it is not."""

    words: str
    refusal: Callable[[Bound], str | None]
    option: str | None = None  # the one that asks for what a method in need of this cannot do


def _other_failures(bound: Bound) -> str | None:
    return None if bound.task.avoid == NOTHING_ELSE else "it knows no other failure than fail"


def _disabled_operators(bound: Bound) -> str | None:
    return "operators that leave the bounds are disabled" if bound.task.network.disables_out_of_bounds else None


def _unread_operators(bound: Bound) -> str | None:
    """Return why the checker cannot tell which operators are disabled."""
    if not bound.task.network.disables_out_of_bounds:
        return None
    try:
        read_space(Arena.of(bound.task), {}, [], [])
    except Unreadable as refusal:
        return str(refusal)
    except Malformed:  # no invariant can speak of this task at all, which linear methods say
        return None
    return None


def _other_policy(bound: Bound) -> str | None:
    policy = bound.fitted.policy
    if isinstance(policy, AnyNetwork | TreeEnsemble):
        return None
    return f"a {type(policy).__name__} is neither a network nor a tree ensemble"


def _other_boxes(bound: Bound) -> str | None:
    policy = bound.fitted.policy
    if isinstance(policy, AnyNetwork | TreeEnsemble | Table | Rules):
        return None
    return f"a {type(policy).__name__} is neither a network, a tree ensemble, a table nor a list of rules"


def _computed_input(bound: Bound) -> str | None:
    computed = (
        name
        for name, one in zip(bound.fitted.policy.inputs, bound.fitted.inputs, strict=True)
        if not isinstance(one, int)
    )
    return next((f"the policy's input '{name}' is computed, not a variable" for name in computed), None)


ONLY_FAIL = Need("no `--avoid`", _other_failures, "--avoid")
STRICT_BOUNDS = Need("no disabled operators", _disabled_operators)
READABLE_BOUNDS = Need("disabled operators that the checker reads", _unread_operators)
NETWORK_OR_TREES = Need("networks and trees", _other_policy)
READ_OVER_BOXES = Need("networks, trees, tables and rules", _other_boxes)
PLAIN_INPUTS = Need("inputs that are variables", _computed_input)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to decide whether a policy is safe; `linear` ones find the task in `Request.linear`, read."""

    name: str
    help: str
    run: Callable[[Bound, Request], SafetyResult]
    needs: tuple[Need, ...] = ()
    linear: bool = False

    @property
    def conditions(self) -> str:
        """Return what it needs, in the words of the documents."""
        return ", ".join((["linear models"] if self.linear else []) + [need.words for need in self.needs])

    def refusal(self, bound: Bound) -> str | None:
        """Return why it cannot answer for this task and policy, as far as that can be told at once."""
        return next((reason for need in self.needs if (reason := need.refusal(bound)) is not None), None)

    def __call__(self, bound: Bound, request: Request | None = None) -> SafetyResult:
        """Return the verdict; unknown where something that it needs is missing, or where a limit comes first."""
        request = request or Request()
        reason = self.refusal(bound)
        if reason is not None:
            return Unknown(reason, self.name)
        try:
            if not self.linear:
                return self.run(bound, request)
            linear = linearized(bound, request.budget) if request.linear is None else request.linear
            if isinstance(linear, str):
                return Unknown(linear, self.name)
            # Methods look at their budget themselves; this stops what they do in between.
            within = request.budget
            grace = GRACE if within.until == within.end else min(GRACE, GRACE_SHARE * within.left())
            with stopped_after(within, grace):
                return self.run(bound, replace(request, linear=linear))
        except NotLinear as error:
            return Unknown(f"not linear: {error.why}", self.name)
        except LimitReached as limit:
            return Unknown(str(limit), self.name, limit=limit.kind)


def read_linear(request: Request) -> LinearTask:
    """Return the task as linear data, which `Method` has read for those that need it."""
    assert isinstance(request.linear, LinearTask)
    return request.linear


def has_reals(bound: Bound) -> bool:
    """Return whether a variable is real."""
    return any(variable.kind is Kind.REAL for variable in bound.task.network.variables)
