"""Verdicts on states, proved and checked before they are said: one certificate for all, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from polvet.budget import Budget
from polvet.confirm.confirmation import BESIDES, SMALL_STATES, About, about_task, confirm, refuse, seconds_for
from polvet.confirm.outcome import Checked, Confirmation, NotChecked
from polvet.errors import LimitReached
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.certificate_files import Certificate
from polvet.records.state_json import state_to_json
from polvet.safety.certificates import prove
from polvet.safety.decide import Decided, Decider
from polvet.safety.game_verdicts import GameVerdicts
from polvet.verdict import Verdict

FIRST_BATCH = 2_000
"""States that are proved and checked together first; each further batch is twice as large."""
A_SECOND = 10_000
"""States that a batch's certificate may have for each second that checking may take."""
TOO_LONG = "proving and checking takes too long beside deciding; --certificates FOLDER writes the evidence"
Prover = Callable[[Sequence[State]], Certificate]
"""Makes one certificate for the states; ValueError: they are not what the verdict says."""


class UnsafeProver(Protocol):
    """Makes certificates that states are unsafe."""

    def __call__(self, states: Sequence[State], *, budget: Budget, most: int | None = None) -> Certificate:
        """Return the certificate, of no more listed states than are wanted."""


def knowing(task: Task, lost: Sequence[GameVerdicts] = ()) -> Decider:
    """Return a decider that makes evidence, and knows what is lost; then for safe states alone."""
    decider = Decider(task, algorithm="lazy", share=True)
    for told in lost:
        decider.foresee(told)
    return decider


class Won(Protocol):
    """A game over a few variables, with evidence for the states that it wins."""

    def holds(self, state: State) -> bool:
        """Return whether the state is won."""

    def prove(self, states: Sequence[State], *, budget: Budget) -> Certificate:
        """Return the certificate that the states are safe."""


def confirm_states(
    task: Task,
    verdict: str,
    states: Sequence[State],
    prover: Prover,
    *,
    found: float,
    budget: Budget,
    output: Path | None = None,
) -> tuple[Certificate, Confirmation]:
    """Return the certificate of the verdict on all the states, and whether it was checked."""
    about = about_task(task)
    try:
        certificate = prover(states)
    except ValueError as disagreement:
        if isinstance(about, About):
            refuse(_claimed(task, verdict, states), str(disagreement), about, output)
        raise
    if isinstance(about, About) and (other := _other_states(task, certificate, states)) is not None:
        return certificate, refuse(certificate, other, about, output)
    checked = confirm(verdict, certificate, about, found=found, budget=budget, output=output)
    assert checked is not None
    return certificate, checked


def confirm_answers(
    task: Task,
    states: Sequence[State],
    answers: Sequence[Decided],
    *,
    found: float,
    budget: Budget,
    won: Won | None = None,
    lost: Sequence[GameVerdicts] = (),
    unsafe: UnsafeProver | None = None,
) -> Confirmation | None:
    """Return whether the verdicts on many states were checked, in so much time as finding them took, and a little more.

    Safe states that are `won` are proved together, by who knows that; others by a search that knows what is `lost`. Unsafe ones are
    proved by who is given, or by a search that knows nothing.
    """
    within = budget.at_most(seconds_for(found, small=len(states) <= SMALL_STATES))
    deciders = {Verdict.SAFE: knowing(task, lost), Verdict.UNSAFE: knowing(task)}
    most = int(A_SECOND * (found + BESIDES))
    claims: list[tuple[str, Sequence[State], Prover]] = []
    for verdict in (Verdict.SAFE, Verdict.UNSAFE):
        chosen = [state for state, answer in zip(states, answers, strict=True) if answer.verdict is verdict]
        if won is not None and verdict is Verdict.SAFE:
            told = [state for state in chosen if won.holds(state)]
            claims += [(verdict.value, told, partial(won.prove, budget=within))] if told else []
            chosen = [state for state in chosen if not won.holds(state)]
        make: Prover = partial(_prove, deciders[verdict], verdict, within, most)
        if unsafe is not None and verdict is Verdict.UNSAFE:
            make = partial(unsafe, budget=within, most=most)
        claims += [(verdict.value, batch, make) for batch in _batches(chosen)]
    return confirm_batches(task, claims, found=found, budget=within)


def confirm_batches(
    task: Task, claims: Sequence[tuple[str, Sequence[State], Prover]], *, found: float, budget: Budget
) -> Confirmation | None:
    """Return whether the claims (a verdict, its states, who proves it) were all checked, or how many were within the budget."""
    done = 0
    for verdict, states, prover in claims:
        try:
            budget.check()
            said = confirm_states(task, verdict, states, prover, found=found, budget=budget)[1]
        except LimitReached:
            said = NotChecked(TOO_LONG)
        if isinstance(said, NotChecked):
            total = sum(len(states) for _, states, _ in claims)
            return NotChecked(f"{done:,} of {total:,} verdicts were checked; {said.reason}") if done else said
        done += len(states)
    return Checked() if claims else None


def _prove(decider: Decider, verdict: Verdict, budget: Budget, most: int, states: Sequence[State]) -> Certificate:
    return prove(decider, states, verdict, budget=budget, most=most)


def _batches(states: Sequence[State]) -> Iterator[Sequence[State]]:
    begin, size = 0, FIRST_BATCH
    while begin < len(states):
        yield states[begin : begin + size]
        begin, size = begin + size, 2 * size


def _claimed(task: Task, verdict: str, states: Sequence[State]) -> Certificate:
    shown = [state_to_json(task, state) for state in states]
    return {"kind": f"none: a verdict '{verdict}' without proof", "task_sha256": task.sha256, "states": shown}


def _other_states(task: Task, certificate: Certificate, states: Sequence[State]) -> str | None:
    """Return that the certificate is not about exactly these states, else None."""
    rows = certificate["states"]
    about = [rows[place]["state"] for place in certificate["start"]]
    own = [state_to_json(task, state) for state in dict.fromkeys(states)]
    return None if about == own else "it is not about the states that were asked about"
