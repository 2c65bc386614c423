"""Evidence for verdicts: `safe-policy` for safe states, `unsafe-rank` for unsafe ones; `check/` checks both.

Source   Schmalz and Jain 2026, section 2 (a safe policy is closed and avoids `fail`; the unsafe region is an attractor)
Differs  evidence is always made by `lazy`, whatever decided the state: a verdict that `lazy` does not share is a bug
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polvet.budget import UNLIMITED, Budget
from polvet.files import Json
from polvet.model.semantics import State
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.state_json import state_to_json
from polvet.safety.decide import Decider
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
        kind = "safe-policy"
    else:
        ranked = prover.unsafe_rank(distinct, budget=budget, most=most)
        rows = [
            {
                "state": state_to_json(task, one.state),
                "rank": one.rank,
                "actions": [{"action": action, "outcome": place} for action, place in one.outcomes],
            }
            for one in ranked
        ]
        places = {one.state: k for k, one in enumerate(ranked)}
        kind = "unsafe-rank"
    head = {**certificate_head(kind, task), **conditions_of(task)}
    if task.avoid.deadlock:
        head["avoids"] = ["deadlock"]
    return {**head, "start": [places[state] for state in distinct], "states": rows}


def prove_states(
    prover: Decider, claims: Mapping[str, Sequence[State]], *, budget: Budget = UNLIMITED
) -> dict[str, Certificate]:
    """Return a certificate each for the `safe` and the `unsafe` states, as far as there are any."""
    return {word: prove(prover, states, Verdict(word), budget=budget) for word, states in claims.items() if states}
