"""`verify(bound)`: is the policy safe from every start state? One method, or the order of methods that pays.

auto     variables that do not matter are left out (verify/slicing.py), states are counted, runs are simulated: an unsafe run ends
         it. Then the methods follow each other, the cheapest proof first, each with a share of the time that is left.
Whatever is found is brought back to all variables, and a run is executed once more in the slow interpreter before it is believed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import Limits
from polvet.kernel.starts import drawable_starts
from polvet.model.expressions import Expression
from polvet.model.network import Kind
from polvet.model.task import NOTHING_ELSE
from polvet.policy.binding import Bound
from polvet.symbolic.operators import LinearTask
from polvet.verify.abstraction import verify_abstractly
from polvet.verify.bmc import verify_bounded
from polvet.verify.box_system import ALONE, Power
from polvet.verify.explicit import Search
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.grid import verify_on_grid
from polvet.verify.ic3 import verify_by_ic3
from polvet.verify.induction import verify_by_induction
from polvet.verify.linearized import TimeIsUp, linearized, stopped_after
from polvet.verify.projection import verify_by_projection
from polvet.verify.replay import replay
from polvet.verify.slicing import Slice, sliced
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe
from polvet.workers.protocol import Workers


@dataclass(frozen=True, slots=True)
class Settings:
    """What all methods are told."""

    limits: Limits
    seed: int = 0
    power: Power = ALONE
    search: Search | None = None  # explicit search as far as it got; None: not begun
    linear: LinearTask | str | None = None  # the task as linear data, or why there is none; None: not read yet


Method = Callable[[Bound, Settings], SafetyResult]


def verify(
    bound: Bound,
    *,
    method: str = "auto",
    limits: Limits | None = None,
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
    settings = Settings(limits or Limits(), seed, Power(threads, workers))
    begun = time.monotonic()
    part = sliced(bound)
    starts = drawable_starts(bound.task, seconds=_left(settings.limits, begun, COUNTING_SHARE).seconds)
    found = _auto(part.bound, settings) if method == "auto" else METHODS_BY_NAME[method](part.bound, settings)
    if isinstance(found, Safe) and starts.count is None:
        try:
            starts.sample(1, random.Random(seed))
        except LimitReached as limit:
            found = Unknown(f"whether there is a start state: {limit}", method, found.figures)
    return _brought_back(found, part, time.monotonic() - begun)


def _explicit(bound: Bound, settings: Settings) -> SafetyResult:
    search = settings.search or Search(bound)
    return search.go_on(settings.limits, threads=settings.power.threads)


def _bmc(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_bounded(bound, limits=settings.limits, seed=settings.seed, threads=settings.power.threads)


def _grid(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_on_grid(bound, limits=settings.limits, seed=settings.seed)


def _with_linear(method: str, run: Callable[[Bound, Settings, LinearTask], SafetyResult]) -> Method:
    """Return the method that reads the task as linear data first, unless that was done, and counts the time it takes."""

    def verified(bound: Bound, settings: Settings) -> SafetyResult:
        begun = time.monotonic()
        linear = settings.linear
        if linear is None:
            linear = linearized(bound, settings.limits.seconds)
        if isinstance(linear, str):
            return Unknown(linear, method)
        left = _left(settings.limits, begun)
        try:
            # Methods look at the clock themselves; this stops what they do in between.
            with stopped_after(None if left.seconds is None else left.seconds + GRACE):
                return run(bound, replace(settings, limits=left), linear)
        except TimeIsUp:
            return Unknown(f"time limit of {settings.limits.seconds or 0:g} s reached", method)

    return verified


def _abstraction(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_abstractly(bound, limits=settings.limits, seed=settings.seed, linear=linear, power=settings.power)


def _induction(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_by_induction(
        bound.fitted, limits=settings.limits, seed=settings.seed, linear=linear, power=settings.power
    )


def _projection(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_by_projection(
        bound.fitted, limits=settings.limits, seed=settings.seed, linear=linear, power=settings.power
    )


def _ic3(bound: Bound, settings: Settings, linear: LinearTask) -> SafetyResult:
    return verify_by_ic3(bound.fitted, limits=settings.limits, seed=settings.seed, linear=linear, power=settings.power)


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
COUNTING_SHARE = 0.1
"""The share of the time in which start states are counted: a claim about none of them is no verdict."""
GRACE = 0.5
"""Seconds beyond its limit after which a method is stopped from outside."""
READING_SECONDS = 20.0
"""How long `auto` tries to read the model as linear data."""
LINEAR = ("projection", "induction", "abstraction", "ic3")
"""Methods that read the task as linear data."""
ONLY_FAIL = tuple(name for name in METHODS_BY_NAME if name != "explicit")
"""Methods that know no other failure than the condition `fail`."""


def _auto(bound: Bound, settings: Settings) -> SafetyResult:
    begun = time.monotonic()
    run = find_unsafe_run(bound, seed=settings.seed, threads=settings.power.threads, limits=settings.limits)
    if run is not None:
        return Unsafe(run, "simulation")
    settings = replace(settings, search=Search(bound))  # its second turn goes on where the first ended
    reasons: dict[str, str] = {}
    proved: dict[Expression, None] = {}
    figures: dict[str, Any] = {}
    for turn in REAL_TURNS if has_reals(bound) else TURNS:
        if turn.method in ONLY_FAIL and bound.task.avoid != NOTHING_ELSE:
            continue
        if turn.method in LINEAR and settings.linear is None:
            budget = _limits_of(Turn("reading", 0.1, READING_SECONDS), settings.limits, begun).seconds
            settings = replace(settings, linear=linearized(bound, budget))
        found = METHODS_BY_NAME[turn.method](bound, replace(settings, limits=_limits_of(turn, settings.limits, begun)))
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


def _limits_of(turn: Turn, limits: Limits, begun: float) -> Limits:
    """Return what the method may use: its share of the time, and no more than most of the machine's memory."""
    mine = _left(limits, begun, turn.share)
    if turn.seconds is not None:
        mine = replace(mine, seconds=turn.seconds if mine.seconds is None else min(turn.seconds, mine.seconds))
    if turn.states is not None:
        mine = replace(mine, states=turn.states if mine.states is None else min(turn.states, mine.states))
    if mine.megabytes is None:
        mine = replace(mine, megabytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 7 // 10 // 2**20)
    return mine


def _left(limits: Limits, begun: float, share: float = 1.0) -> Limits:
    """Return the limits with that share of the time that is left."""
    if limits.seconds is None:
        return limits
    return replace(limits, seconds=max(0.0, limits.seconds - (time.monotonic() - begun)) * share)


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
