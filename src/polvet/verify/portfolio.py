"""`verify(bound)`: is the policy safe from every start state? One method, or the order of methods that pays.

auto     variables that do not matter are left out (verify/slicing.py), states are counted, runs are simulated: an unsafe run ends
         it. Then the methods follow each other, the cheapest proof first, each with a share of the time that is left.
Whatever is found is brought back to all variables, and a run is executed once more in the slow interpreter before it is believed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.starts import drawable_starts
from polvet.model.expressions import Expression
from polvet.model.network import Kind
from polvet.model.task import NOTHING_ELSE
from polvet.policy.compiled import Bound
from polvet.symbolic.operators import LinearTask
from polvet.system import physical_bytes
from polvet.verify.abstraction import verify_abstractly
from polvet.verify.bmc import verify_bounded
from polvet.verify.box_system import ALONE, Power
from polvet.verify.explicit import Search
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.grid import verify_on_grid
from polvet.verify.ic3 import verify_by_ic3
from polvet.verify.induction import verify_by_induction
from polvet.verify.linearized import linearized, stopped_after
from polvet.verify.projection import verify_by_projection
from polvet.verify.replay import replay
from polvet.verify.slicing import Slice, sliced
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe
from polvet.workers.protocol import Workers


@dataclass(frozen=True, slots=True)
class Settings:
    """What all methods are told."""

    budget: Budget
    seed: int = 0
    power: Power = ALONE
    search: Search | None = None  # explicit search as far as it got; None: not begun
    linear: LinearTask | str | None = None  # the task as linear data, or why there is none; None: not read yet


Method = Callable[[Bound, Settings], SafetyResult]


def verify(
    bound: Bound,
    *,
    method: str = "auto",
    budget: Budget = UNLIMITED,
    seed: int = 0,
    threads: int = 1,
    workers: Workers | None = None,
) -> SafetyResult:
    """Return whether the policy is safe from every start state, with the evidence; workers elsewhere answer hard questions."""
    if method not in METHODS:
        raise InputError(f"'{method}' is unknown.", Where("--method"), f"Use one of {', '.join(METHODS)}.")
    if method in ONLY_FAIL and bound.task.avoid != NOTHING_ELSE:
        raise InputError(
            f"the method '{method}' knows no other failure than fail.",
            Where("--avoid"),
            "Use --method auto or explicit.",
        )
    settings = Settings(budget, seed, Power(threads, workers))
    spent = stopwatch()
    part = sliced(bound)
    try:
        starts = drawable_starts(bound.task, budget=budget)
        found = _auto(part.bound, settings) if method == "auto" else METHODS_BY_NAME[method](part.bound, settings)
    except LimitReached as limit:
        found = Unknown(str(limit), method, limit=limit.kind)
    if isinstance(found, Safe) and starts.count is None:
        try:
            starts.sample(1, random.Random(seed), budget=budget)
        except LimitReached as limit:
            found = Unknown(f"whether there is a start state: {limit}", method, found.figures)
    return _brought_back(found, part, spent())


def _explicit(bound: Bound, settings: Settings) -> SafetyResult:
    try:
        search = settings.search or Search(bound, settings.budget)
    except LimitReached as limit:
        return Unknown(str(limit), "explicit")
    return search.go_on(settings.budget, threads=settings.power.threads)


def _bmc(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_bounded(bound, budget=settings.budget, seed=settings.seed, threads=settings.power.threads)


def _grid(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_on_grid(bound, budget=settings.budget, seed=settings.seed)


def _with_linear(method: str, run: Callable[[Bound, Settings, LinearTask], SafetyResult]) -> Method:
    """Return the method that reads the task as linear data first, unless that was done, and counts the time it takes."""

    def verified(bound: Bound, settings: Settings) -> SafetyResult:
        linear = settings.linear
        if linear is None:
            linear = linearized(bound, settings.budget)
        if isinstance(linear, str):
            return Unknown(linear, method)
        try:
            # Methods look at their budget themselves; this stops what they do in between.
            with stopped_after(settings.budget, GRACE):
                return run(bound, settings, linear)
        except LimitReached as limit:
            return Unknown(str(limit), method)

    return verified


def _abstraction(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_abstractly(bound, budget=settings.budget, seed=settings.seed, linear=linear, power=settings.power)


def _induction(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_by_induction(
        bound.fitted, budget=settings.budget, seed=settings.seed, linear=linear, power=settings.power
    )


def _projection(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_by_projection(
        bound.fitted, budget=settings.budget, seed=settings.seed, linear=linear, power=settings.power
    )


def _ic3(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_by_ic3(bound.fitted, budget=settings.budget, seed=settings.seed, linear=linear, power=settings.power)


METHODS_BY_NAME: Mapping[str, Method] = {
    "explicit": _explicit,
    "projection": _with_linear("projection", _projection),
    "induction": _with_linear("induction", _induction),
    "abstraction": _with_linear("abstraction", _abstraction),
    "ic3": _with_linear("ic3", _ic3),
    "grid": _grid,
    "bmc": _bmc,
}
METHODS = ("auto", *METHODS_BY_NAME)


@dataclass(frozen=True, slots=True)
class Turn:
    """A method's turn in `auto`: its share of the time that is left, its cap, and the most states it may store."""

    method: str
    share: float
    seconds: float | None = None
    states: int | None = None


TURNS = (
    Turn("explicit", 0.3, 20.0, 3_000_000),
    Turn("projection", 0.3, 60.0),
    Turn("induction", 0.2, 30.0),
    Turn("abstraction", 0.2, 10.0),
    Turn("ic3", 0.4, 60.0),
    Turn("explicit", 1.0),
)
"""The order that pays: small state spaces at once, then the cheapest proof, and everything that is left for the surest method."""
REAL_TURNS = (Turn("explicit", 0.3, 20.0, 3_000_000), Turn("grid", 0.7), Turn("explicit", 1.0))
"""The same for models with real-valued variables, which are not read as linear data."""
COUNTING_SHARE = 0.3
"""The share of the time in which start states are counted before they are listed."""
GRACE = 0.5
"""Seconds beyond its limit after which a method is stopped from outside."""
READING_SECONDS, READING_SHARE = 20.0, 0.1
"""How long `auto` tries to read the model as linear data."""
LINEAR = ("projection", "induction", "abstraction", "ic3")
"""Methods that read the task as linear data."""
ONLY_FAIL = tuple(name for name in METHODS_BY_NAME if name != "explicit")
"""Methods that know no other failure than the condition `fail`."""


def _auto(bound: Bound, settings: Settings) -> SafetyResult:
    run = find_unsafe_run(bound, seed=settings.seed, threads=settings.power.threads, budget=settings.budget)
    if run is not None:
        return Unsafe(run, "simulation")
    reasons: dict[str, str] = {}
    try:  # its second turn goes on where the first ended
        settings = replace(settings, search=Search(bound, settings.budget.share(COUNTING_SHARE)))
    except LimitReached as limit:
        reasons["explicit"] = str(limit)
    proved: dict[Expression, None] = {}
    figures: dict[str, Any] = {}
    for turn in REAL_TURNS if has_reals(bound) else TURNS:
        if turn.method in ONLY_FAIL and bound.task.avoid != NOTHING_ELSE:
            continue
        if turn.method == "explicit" and settings.search is None:
            continue
        if turn.method in LINEAR and settings.linear is None:
            reading = settings.budget.share(READING_SHARE).at_most(READING_SECONDS)
            settings = replace(settings, linear=linearized(bound, reading))
        found = METHODS_BY_NAME[turn.method](bound, replace(settings, budget=_budget_of(turn, settings.budget)))
        if isinstance(found, Unsafe):
            proved.update(dict.fromkeys(found.proved_starts))
            return replace(found, proved_starts=tuple(proved))
        if not isinstance(found, Unknown) or found.tie is not None:
            return found
        reasons[turn.method] = found.reason
        proved.update(dict.fromkeys(found.proved_starts))
        figures[turn.method] = dict(found.figures)
    told = "; ".join(f"{method}: {reason}" for method, reason in reasons.items())
    return Unknown(told, "auto", figures, tuple(proved))


def has_reals(bound: Bound) -> bool:
    """Return whether a variable is real."""
    return any(variable.kind is Kind.REAL for variable in bound.task.network.variables)


def _budget_of(turn: Turn, budget: Budget) -> Budget:
    """Return what the method may use: its share of the time, and no more than most of the machine's memory."""
    most = physical_bytes() * 7 // 10 // 2**20
    return budget.share(turn.share).at_most(turn.seconds, megabytes=most, states=turn.states)


def _brought_back(found: SafetyResult, part: Slice, seconds: float) -> SafetyResult:
    """Return the result about the whole task, its head filled in; a run is executed before it is believed."""
    figures: dict[str, Any] = {**found.figures, "seconds": round(seconds, 6), "left_out": list(part.left_out)}
    match found:
        case Unsafe(run):
            whole = part.lift(run)
            replay(part.whole, whole)
            return replace(found, run=whole, figures=figures)
        case Safe(certificate):
            fitted = part.whole.fitted
            head: dict[str, Any] = {
                "kind": certificate["kind"], "format": "certificate/1", "task_sha256": fitted.task.sha256,
                "policy_sha256": fitted.sha256,
            }  # fmt: skip
            if part.kept is not None:
                head["kept"] = list(part.kept)
            return replace(found, certificate={**head, **certificate}, figures=figures)
        case Unknown():
            return replace(found, figures=figures)
