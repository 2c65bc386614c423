"""`verify(bound)`: is the policy safe from every start state? One method, or the order of methods that pays.

auto     variables that do not matter are left out (verify/slicing.py), states are counted, runs are simulated: an unsafe run ends
         it. Then the methods follow each other, the cheapest proof first, each with a share of the time that is left.
Whatever is found is brought back to all variables, and a run is executed once more in the slow interpreter before it is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from polvet.errors import InputError, Where
from polvet.kernel.compiled import Limits
from polvet.model.semantics import Semantics
from polvet.policy.binding import Bound
from polvet.policy.runs import End, Run
from polvet.verify.abstraction import verify_abstractly
from polvet.verify.bmc import verify_bounded
from polvet.verify.explicit import NOTHING_ELSE, Avoid, verify_explicitly
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.slicing import Slice, sliced
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe


@dataclass(frozen=True, slots=True)
class Settings:
    """What all methods are told."""

    limits: Limits
    seed: int = 0
    threads: int = 1
    avoid: Avoid = NOTHING_ELSE


Method = Callable[[Bound, Settings], SafetyResult]


def verify(
    bound: Bound,
    *,
    method: str = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    threads: int = 1,
    avoid: Avoid = NOTHING_ELSE,
) -> SafetyResult:
    """Return whether the policy is safe from every start state, with the evidence."""
    if method not in METHODS:
        raise InputError(f"'{method}' is unknown.", Where("--method"), f"Use one of {', '.join(METHODS)}.")
    settings = Settings(limits or Limits(), seed, threads, avoid)
    begun = time.monotonic()
    part = sliced(bound)
    found = _auto(part.bound, settings) if method == "auto" else METHODS_BY_NAME[method](part.bound, settings)
    return _brought_back(found, part, time.monotonic() - begun)


def _explicit(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_explicitly(bound, limits=settings.limits, threads=settings.threads, avoid=settings.avoid)


def _bmc(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_bounded(bound, limits=settings.limits, seed=settings.seed, threads=settings.threads)


def _abstraction(bound: Bound, settings: Settings) -> SafetyResult:
    return verify_abstractly(bound, limits=settings.limits, seed=settings.seed)


METHODS_BY_NAME: Mapping[str, Method] = {"explicit": _explicit, "bmc": _bmc, "abstraction": _abstraction}
METHODS = ("auto", *METHODS_BY_NAME)


def _auto(bound: Bound, settings: Settings) -> SafetyResult:
    begun = time.monotonic()
    run = find_unsafe_run(
        bound, seed=settings.seed, threads=settings.threads, avoid=settings.avoid, limits=settings.limits
    )
    if run is not None:
        return Unsafe(run, "simulation")
    return _explicit(bound, replace(settings, limits=_left(settings.limits, begun)))


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


def replay(bound: Bound, run: Run) -> None:
    """Raise a RuntimeError unless the slow interpreter and the policy's reference evaluation make this run."""
    semantics = Semantics(bound.task.network, disable_out_of_bounds=bound.compiled.disable_out_of_bounds)
    fails = semantics.compile(bound.task.fail)
    for state, action, following in zip(run.states, run.actions, run.states[1:], strict=False):
        moves = bound.fitted.followed(state, semantics.moves(state))
        if not any(o.state == following for move in moves if move.label == action for o in move.outcomes):
            raise RuntimeError(f"the run found does not replay from {semantics.show(state)}")
    if run.end is End.FAIL and not fails(run.states[-1]):
        raise RuntimeError(f"the run found ends outside fail, in {semantics.show(run.states[-1])}")
