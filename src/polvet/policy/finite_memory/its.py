"""Integer transition systems of the Termination Problem Data Base, abstracted to finite-memory policies.

`its_text.py` reads them: linear guards and updates. Every linear form that a
guard compares with a constant becomes a counter; the change of a form over a transition is bounded under its guard.
Every run of the system is a run of the policy, so a proof of termination carries over. The other direction needs a
run of the system itself: `polvet.termination.its` looks for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import gcd

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory.fmp import (
    ALWAYS,
    NO_EFFECT,
    Atom,
    Choice,
    Edge,
    Effect,
    FiniteMemoryPolicy,
    Variable,
    check_fmp,
)
from polvet.policy.finite_memory.linear import CONSTANT, bounds_of, is_infeasible, plus, substituted

Linear = dict[str, int]


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition: constraints (>= 0) over the variables and free names, and what every variable becomes."""

    source: str
    target: str
    guard: tuple[Mapping[str, int], ...]
    update: Mapping[str, Mapping[str, int] | None]  # None: any value
    exact: bool = True  # False: something nonlinear was left out, so that the transition can do more than the system's


@dataclass(frozen=True, slots=True)
class TransitionSystem:
    """An integer transition system; names in guards that are no variables are free at every step."""

    name: str
    variables: tuple[str, ...]
    initial: str
    transitions: tuple[Transition, ...]


# ---------------------------------------------------------------------------------------------------- abstraction
def abstract_its(system: TransitionSystem, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the policy over the linear forms of the system's guards; it can do whatever the system can.

    Two constraints of one guard are added up where their sum changes by a constant though they do not. Every
    transition is guarded by all bounds on forms that its own guard implies, and followed by a test of the bounds on
    new values that the update implies.
    """
    variables = set(system.variables)
    live = [step for step in system.transitions if not is_infeasible(step.guard)]
    forms: dict[str, Linear] = {}
    for step in live:
        budget.check()
        plain = [constraint for constraint in step.guard if set(constraint) <= variables | {CONSTANT}]
        for constraint in plain:
            if form := form_of(constraint):
                forms.setdefault(form_name(form), form)
        for first, second in combinations(plain, 2):
            form = form_of(plus(first, second))
            if form and _is_steady(step, form) and not _is_steady(step, first):
                forms.setdefault(form_name(form), form)
    edges: list[Edge] = []
    states = dict.fromkeys([system.initial, *(end for step in live for end in (step.source, step.target))])
    for number, step in enumerate(live):
        before: list[Atom] = []
        after: list[Atom] = []
        effects: dict[str, Effect] = {}
        for name, form in forms.items():
            budget.check()
            before += _within(name, bounds_of(form, step.guard))
            change = Effect(*bounds_of(form_change(step, form), step.guard))
            if change != NO_EFFECT:
                effects[name] = change
            if not change.is_fixed:
                after += _within(name, bounds_of(plus(form, form_change(step, form)), step.guard))
        target = step.target
        if after:  # what is known of the new values, such as x := 100, is tested in a control state of its own
            target = f"{step.source} to {step.target} ({number})"
            states[target] = None
            edges.append(Edge(f"{number} after", target, step.target, (Choice(),), (tuple(after),)))
        guard = (tuple(before),) if before else ALWAYS
        edges.append(Edge(number, step.source, target, (Choice(effects),), guard))
    counters = tuple(Variable(name, None, None) for name in forms)
    return check_fmp(FiniteMemoryPolicy(counters, tuple(states), (system.initial,), tuple(edges), "mixed", system.name))


def _within(name: str, bounds: tuple[int | None, int | None]) -> list[Atom]:
    low, high = bounds
    if low is not None and low == high:
        return [Atom(name, "==", low)]
    return [Atom(name, operator, bound) for operator, bound in ((">=", low), ("<=", high)) if bound is not None]


def _is_steady(step: Transition, form: Mapping[str, int]) -> bool:
    return set(form_change(step, form)) <= {CONSTANT}


def form_change(step: Transition, form: Mapping[str, int]) -> Linear:
    """Return how much the form changes over the transition, as an expression; unknown values get names of their own."""
    values = {name: {f"{name}'": 1} if value is None else value for name, value in step.update.items()}
    plain = {name: value for name, value in form.items() if name}
    return plus(substituted(plain, values), plain, -1)


def form_of(constraint: Mapping[str, int]) -> Linear:
    """Return the constraint's form: without constant and common divisor, the first coefficient positive."""
    form = {name: value for name, value in sorted(constraint.items()) if name and value}
    if not form:
        return {}
    divisor = gcd(*form.values()) * (1 if next(iter(form.values())) > 0 else -1)
    return {name: value // divisor for name, value in form.items()}


def form_name(form: Mapping[str, int]) -> str:
    """Return the form as a name.

    >>> form_name({"A": 1, "B": -2})
    'A-2*B'
    """
    parts: list[str] = []
    for name, value in form.items():
        sign = "-" if value < 0 else "+" if parts else ""
        parts.append(f"{sign}{'' if abs(value) == 1 else f'{abs(value)}*'}{name}")
    return "".join(parts)
