"""Shields: a `permissive` list with mixtures and attained values; `action-risk` allows exactly what a rule on the least risk says.

SOUND of a budget: an action costs what it risks above the least. After it, the least risk is expected to be at most what it was
before, and what was paid. So the least risk and what is left to pay never grow on average; they begin with the bound, and the least
risk is 1 where a run fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .listed import (
    Choices,
    Evidence,
    Label,
    List,
    check_listed,
    choices_of,
    labels,
    leads_on,
    mean,
    natural,
    probability,
)
from .text import Rejected, Unreadable
from .world import World


def check_shield(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim of a shield: `permissive` as listed, with mixtures and attained values; `action-risk` with its rule."""
    the = List.of(world, evidence, None)
    claim, done = check_listed(world, evidence, "permissive")
    value, allowed = the.column("value", probability), the.column("allowed", labels)
    the.said["value"] = value
    if "mixed" in the.said:
        _check_mixtures(the, value)
    if "rank" in the.said or "rank" in evidence:
        the.said["rank"] = the.column("rank", natural)
        _check_attained(the, allowed)
        claim += "; the listed values are attained"
    if kind == "action-risk":
        claim += _check_rule(the, evidence, allowed)
    return claim, done


def _check_mixtures(the: List, value: Sequence[Fraction]) -> None:
    """SOUND: only where a label is one operator and nothing else moves does a mixture of labels mix their outcomes."""
    for k, mixtures in enumerate(the.said["mixed"]):
        for mixture in mixtures or ():
            state = the.states[k]
            choices = {} if the.world.is_fail(state) or the.world.is_goal(state) else choices_of(the.world, state)
            shares = {label: probability(share) for label, share in mixture.items()}
            if sum(shares.values()) != 1 or not all(len(choices.get(label, ())) == 1 for label in shares):
                raise the.reject(
                    "mixtures", k, "mixes labels that do not have one operator each, or shares that do not sum to 1"
                )
            if sum(share * mean(the, k, choices[label][0], value) for label, share in shares.items()) > value[k]:
                raise the.reject("mixtures", k, "has a mixture that is expected to fail with more than its value")


def _check_attained(the: List, allowed: Sequence[list[Label]]) -> None:
    """Raise Rejected unless following allowed labels some run has each value: no move loses any, and ranks fall to fail states."""
    value = the.said["value"]
    for k, state in enumerate(the.states):
        if value[k] and not the.world.is_fail(state):
            choices = {} if the.world.is_goal(state) else choices_of(the.world, state)
            moves = [outcomes for label in allowed[k] for outcomes in choices.get(label, ())]
            if not any(leads_on(the, k, outcomes, value) for outcomes in moves):
                raise the.reject(
                    "values", k, f"does not attain its value {value[k]} by an allowed choice of falling rank"
                )


def _check_rule(the: List, evidence: Evidence, allowed: Sequence[list[Label]]) -> str:
    rule, horizon = evidence.get("rule"), evidence.get("horizon")
    if not isinstance(rule, dict) or len(rule) != 1 or not rule.keys() <= {"per-state", "relative", "budget"}:
        raise Unreadable("'rule' is not 'per-state', 'relative' or 'budget' with a threshold")
    ((name, threshold),) = ((name, probability(value)) for name, value in rule.items())
    if name == "budget" and (horizon is not None or threshold != probability(evidence.get("bound"))):
        raise Rejected("rule: a budget has no horizon, and is the bound")
    world, states = the.world, the.states
    choices = [{} if world.is_fail(s) or world.is_goal(s) else choices_of(world, s) for s in states]
    least = the.column("least", probability)
    later = least if horizon is None else _within(the, choices, natural(horizon) - 1)
    for k, state in enumerate(states):
        risks = {label: max(mean(the, k, outcomes, later) for outcomes in moves) for label, moves in choices[k].items()}
        told = the.said.get("risks", evidence.get("risks"))
        if told is not None and {label: probability(risk) for label, risk in told[k]} != risks:
            raise the.reject("risks", k, "does not have the listed risks")
        if least[k] != min(risks.values(), default=Fraction(world.is_fail(state))):
            raise the.reject("risks", k, f"does not have the least risk {least[k]}")
        limit = {"per-state": max(threshold, least[k]), "relative": 1 - threshold * (1 - least[k]), "budget": least[k]}[
            name
        ]
        if sorted(map(str, allowed[k])) != sorted(str(label) for label, risk in risks.items() if risk <= limit):
            raise the.reject("labels", k, "does not allow exactly what the rule says")
        if horizon is None and least[k] and choices[k]:
            for label, moves in choices[k].items():
                if not any(leads_on(the, k, outcomes, least) for outcomes in moves):
                    raise the.reject("risks", k, f"need not have the risk {least[k]} under {label}")
    within = "" if horizon is None else f" within {horizon} steps"
    return {
        "per-state": f"; exactly the actions are allowed of risk at most {threshold}{within}, or the least there is",
        "relative": f"; exactly the actions are allowed that keep {threshold} of the best chance of not failing{within}",
        "budget": f"; who pays for each action what it risks above the least, out of the bound, fails with at most {threshold}",
    }[name]


def _within(the: List, choices: Sequence[Choices], steps: int) -> list[Fraction]:
    """Return the least probability of failing within so many steps, by backward induction."""
    now = [Fraction(the.world.is_fail(state)) for state in the.states]
    for _ in range(steps):
        now = [
            min(max(mean(the, k, outcomes, now) for outcomes in moves) for moves in mine.values()) if mine else now[k]
            for k, mine in enumerate(choices)
        ]
    return now
