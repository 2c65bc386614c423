"""Reading an `invariant` certificate: the states that it claims to be never left, and the policy that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polvet.check.arena import Arena
from polvet.check.invariant_space import ANYTHING, Space, read_space
from polvet.policy.binding import UNKNOWN_LABEL, Fitted


@dataclass(frozen=True, eq=False)
class Question(Space):
    """The states of a claim about a policy, which the claim says is never left."""

    fitted: Fitted


def read_question(arena: Arena, fitted: Fitted, certificate: Mapping[str, Any]) -> Question:
    """Return what the certificate claims; Malformed if it is no claim over bounded integers and truth values."""
    output_of: dict[str | None, int] = {None: ANYTHING}
    for output, number in enumerate(fitted.labels):
        if number != UNKNOWN_LABEL:
            output_of.setdefault(arena.task.network.labels[number], output)
    starts = arena.task.network.initial_condition if arena.task.start is None else arena.task.start
    space = read_space(arena, output_of, certificate.get("rows"), certificate.get("blocked"), starts)
    return Question(arena, space.place, space.lower, space.upper, space.claim, space.operators, fitted)
