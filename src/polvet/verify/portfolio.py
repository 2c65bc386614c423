"""`verify(bound)`: is the policy safe from every start state? One method, or the order of methods that pays.

auto     variables that do not matter are left out (verify/slicing.py), states are counted, runs are simulated: an unsafe run ends
         it. Then the methods take turns (verify/turns.py), the cheapest proof first, short turns before long ones.
Whatever is found is brought back to all variables, and a run is executed once more in the slow interpreter before it is believed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from polvet.budget import UNLIMITED, Budget, machine_megabytes, stopwatch
from polvet.choices import AUTO, listed
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Figures
from polvet.kernel.starts import drawable_starts
from polvet.model.expressions import Expression
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.rounding import near_ties
from polvet.policy.runs import Run
from polvet.records.certificate_files import certificate_head
from polvet.verify.box_system import Parallelism
from polvet.verify.ends import verify_ends
from polvet.verify.explicit import Search
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.linearized import linearized
from polvet.verify.method import Method, Request, has_reals
from polvet.verify.methods import METHODS
from polvet.verify.replay import replay
from polvet.verify.slicing import Slice, sliced
from polvet.verify.turns import EXPLICIT, ORDER, REAL_ORDER, Turn, iter_turns
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe
from polvet.workers.protocol import Workers


def verify(
    bound: Bound,
    *,
    method: str | Method = AUTO,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    threads: int = 1,
    workers: Workers | None = None,
) -> SafetyResult:
    """Return whether the policy is safe from every start state, with the evidence; workers elsewhere answer hard questions."""
    decide: Callable[[Bound, Request], SafetyResult] = _auto
    name = method.name if isinstance(method, Method) else METHODS.chosen(method)
    if bound.task.avoid.loop and name in (AUTO, "explicit"):
        return verify_ends(bound, budget=budget, seed=seed, threads=threads)
    if name != AUTO:
        decide = chosen = method if isinstance(method, Method) else METHODS[name]
        _refuse_options(chosen, bound)
    request = Request(budget, seed, Parallelism(threads, workers))
    spent = stopwatch()
    part = sliced(bound)
    try:
        starts = drawable_starts(bound.task, budget=budget)
        result = decide(part.bound, request)
    except LimitReached as limit:
        result = Unknown(str(limit), name, limit=limit.kind)
    if isinstance(result, Safe) and starts.count is None:
        try:
            starts.sample(1, random.Random(seed), budget=budget)
        except LimitReached as limit:
            result = Unknown(f"whether there is a start state: {limit}", name, result.figures)
    return _brought_back(result, part, spent())


def _refuse_options(method: Method, bound: Bound) -> None:
    """Raise an InputError where an option asks for what the named method cannot do."""
    for need in method.needs:
        if need.option is not None and (reason := need.refusal(bound)) is not None:
            able = (AUTO, *(other.name for other in METHODS.values() if need not in other.needs))
            what = f"the method '{method.name}' does not fit: {reason}."
            raise InputError(what, Where(need.option), f"Use --method {listed(able)}.")


def _auto(bound: Bound, request: Request) -> SafetyResult:
    limit = request.budget.left()
    run = find_unsafe_run(bound, seed=request.seed, threads=request.parallelism.threads, budget=request.budget)
    if run is not None:
        return Unsafe(run, "simulation")
    order = REAL_ORDER if has_reals(bound) else ORDER
    waiting = list(order.methods)
    reasons: dict[str, str] = {}
    proved: dict[Expression, None] = {}
    figures: Figures = {}
    unread = -1  # the last round in which there was no time to read the model as linear data
    for turn in iter_turns(order, request.budget, limit, waiting):
        method = METHODS[turn.method]
        if method.linear and request.linear is None and method.refusal(bound) is None:
            if turn.round == unread:
                continue
            reading = request.budget.at_most(turn.reading)
            linear = linearized(bound, reading)
            if isinstance(linear, str) and reading.is_over():
                reasons[turn.method], unread = linear, turn.round
                continue
            request = replace(request, linear=linear)
        within = _budget_of(turn, request.budget)
        if turn.method == EXPLICIT and request.search is None:
            try:  # later turns go on where the one before ended
                request = replace(request, search=Search(bound, within))
            except LimitReached as reached:
                reasons[turn.method] = str(reached)
                continue
        result = method(bound, replace(request, budget=within))
        if isinstance(result, Unsafe):
            proved.update(dict.fromkeys(result.proved_starts))
            return replace(result, proved_starts=tuple(proved))
        if not isinstance(result, Unknown) or result.tie is not None:
            return result
        reasons[turn.method] = result.reason
        proved.update(dict.fromkeys(result.proved_starts))
        figures[turn.method] = dict(result.figures)
        if not (within.is_over() or result.limit in ("time", "states")):
            waiting.remove(turn.method)  # more time is no help
    told = "; ".join(f"{method}: {reason}" for method, reason in reasons.items())
    return Unknown(told, AUTO, figures, tuple(proved))


def _budget_of(turn: Turn, budget: Budget) -> Budget:
    """Return what the method may use: its part of the time, and no more than most of the machine's memory."""
    return budget.at_most(turn.seconds, megabytes=machine_megabytes(), states=turn.states)


def _tie_of_a_narrowed_network(bound: Bound, run: Run) -> State | None:
    """Return the first near tie on a run of a network that was rounded to float32: there its library may choose otherwise."""
    fitted = bound.fitted
    if not getattr(fitted.policy, "narrowed", False):
        return None
    for state in run.states[:-1]:
        applicable = {move.label for move in bound.compiled.semantics.moves(state) if move.label is not None}
        if applicable and near_ties(fitted.policy, fitted.row(state), fitted.mask(applicable))[0]:
            return state
    return None


def _brought_back(result: SafetyResult, part: Slice, seconds: float) -> SafetyResult:
    """Return the result about the whole task, its head filled in; a run is executed before it is believed."""
    figures: Figures = {**result.figures, "seconds": round(seconds, 6), "left_out": list(part.left_out)}
    match result:
        case Unsafe(run):
            whole = part.lift(run)
            replay(part.whole, whole)
            if (tie := _tie_of_a_narrowed_network(part.whole, whole)) is not None:
                shown = part.whole.compiled.semantics.show(tie)
                return Unknown(f"near-tie in state {shown}", result.method, figures, tie=tie)
            return replace(result, run=whole, figures=figures)
        case Safe(certificate):
            head = certificate_head(certificate["kind"], part.whole.fitted)
            if part.kept is not None:
                head["kept"] = list(part.kept)
            return replace(result, certificate={**head, **certificate}, figures=figures)
        case Unknown():
            return replace(result, figures=figures)
