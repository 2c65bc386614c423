"""Evidence for verdicts: `safe-policy` for safe states, `unsafe-rank` for unsafe ones; `check/` checks both.

Source   Schmalz and Jain 2026, section 2 (a safe policy is closed and avoids `fail`; the unsafe region is an attractor)
Differs  evidence is always made by `lazy`, whatever decided the state: a verdict that `lazy` does not share is a bug
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polvet.budget import UNLIMITED, Budget
from polvet.files import Json
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.state_json import state_to_json
from polvet.safety.decide import Decider, Ranked
from polvet.verdict import Verdict


def prove(
    prover: Decider,
    states: Sequence[State],
    verdict: Verdict,
    *,
    budget: Budget = UNLIMITED,
    most: int | None = None,
) -> Certificate:
    """Return the certificate that all the states are safe, or that all are unsafe; the prover is `lazy` with sharing.

    One that needs more than the `most` states that are wanted raises LimitReached.
    """
    task = prover.task
    distinct = list(dict.fromkeys(states))
    if verdict is Verdict.SAFE:
        policy = prover.safe_policy(distinct, budget=budget, most=most)
        rows: list[Json] = [{"state": state_to_json(task, state), "action": action} for state, action in policy.items()]
        places = {state: k for k, state in enumerate(policy)}
        return {**_head("safe-policy", task), "start": [places[state] for state in distinct], "states": rows}
    # SOUND: what a smaller game lost has a reason of its own, in certificates of another kind.
    if prover.lost_games:
        raise ValueError("ranks of states alone need a search without smaller games")
    return ranked_certificate(task, distinct, prover.unsafe_rank(distinct, budget=budget, most=most))


def ranked_certificate(
    task: Task, states: Sequence[State], ranked: Sequence[Ranked], kind: str = "unsafe-rank"
) -> Certificate:
    """Return the certificate that lists the ranked states, about some of them."""
    rows: list[Json] = [
        {
            "state": state_to_json(task, one.state),
            "rank": one.rank,
            "actions": [{"action": action, "outcome": place} for action, place in one.outcomes],
        }
        for one in ranked
    ]
    places = {one.state: k for k, one in enumerate(ranked)}
    return {**_head(kind, task), "start": [places[state] for state in states], "states": rows}


def _head(kind: str, task: Task) -> Certificate:
    head = {**certificate_head(kind, task), **conditions_of(task)}
    return {**head, "avoids": ["deadlock"]} if task.avoid.deadlock else head


def prove_states(
    prover: Decider, claims: Mapping[str, Sequence[State]], *, budget: Budget = UNLIMITED
) -> dict[str, Certificate]:
    """Return a certificate each for the `safe` and the `unsafe` states, as far as there are any."""
    return {word: prove(prover, states, Verdict(word), budget=budget) for word, states in claims.items() if states}
