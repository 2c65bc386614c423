"""Amounts and a start for a given path and closed walk, if the guards allow to follow it for ever: linear constraints.

Z3 proposes integers; the checker of lassos decides. Used where amounts must meet guards exactly: a number lowered to
zero, a counter refilled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.files import Json
from polvet.policy.finite_memory import Atom, Multigraph, portable
from polvet.solvers.smt import Question, Term, either, every, integer
from polvet.termination.lasso import name_step

MAX_STEPS = 400
SECONDS = 3.0
"""The longest that Z3 may look for one walk."""


def realise_walk(
    graph: Multigraph, prefix: Sequence[int], cycle: Sequence[int], budget: Budget = UNLIMITED
) -> Json | None:
    """Return a lasso along these primitive edges, or None if Z3 finds none in time; not yet checked."""
    if len(prefix) + len(cycle) > MAX_STEPS:
        return None
    fmp = graph.fmp
    question = Question(budget, SECONDS)
    names = [variable.name for variable in fmp.variables]
    values = {name: integer(f"{name}@0") for name in names}
    start = dict(values)
    entry = dict(values)
    drift = {name: integer(f"drift {name}") for name in names}
    amounts: list[Json] = []
    steps = [*prefix, *cycle]
    for number, index in enumerate(steps):
        if number == len(prefix):
            entry = dict(values)
        primitive = graph.edges[index]
        edge = fmp.edges[primitive.edge]
        for position, name in enumerate(names):
            low, high = primitive.before[position]
            question.add(*([values[name] >= low] if low is not None else []))
            question.add(*([values[name] <= high] if high is not None else []))
        for atom in edge.guard[primitive.conjunction]:
            question.add(atom.holds(values[atom.variable]))
            if number >= len(prefix):
                question.add(_always(atom, values[atom.variable], drift[atom.variable]))
        chosen = {}
        for position, name in enumerate(names):
            effect = primitive.effects[position]
            amount: Any = integer(f"{name}+{number}") if not effect.is_fixed else effect.low
            if not effect.is_fixed:
                question.add(*([amount >= effect.low] if effect.low is not None else []))
                question.add(*([amount <= effect.high] if effect.high is not None else []))
            chosen[name] = amount
            values[name] = values[name] + amount
            question.add(*_within(values[name], fmp.variables[position].lower, fmp.variables[position].upper))
        amounts.append(chosen)
    for variable in fmp.variables:
        question.add(drift[variable.name] == values[variable.name] - entry[variable.name])
        question.add(*_within(start[variable.name], variable.lower, variable.upper))
        question.add(*([drift[variable.name] >= 0] if variable.lower is not None else []))
        question.add(*([drift[variable.name] <= 0] if variable.upper is not None else []))
    if question.ask() != "sat":
        return None
    outcome = question.values()

    def number_of(term: Term) -> int:
        return term if isinstance(term, int) else outcome.number(term)

    written = []
    for index, chosen in zip(steps, amounts, strict=True):
        primitive = graph.edges[index]
        given = {name: number_of(term) for name, term in chosen.items()}
        written.append(name_step(fmp, fmp.edges[primitive.edge], primitive.choice, given))
    return {
        "kind": "lasso",
        "initial_valuation": {name: portable(number_of(start[name])) for name in names},
        "prefix": written[: len(prefix)],
        "cycle": [{"edges": written[len(prefix) :], "repeat": 1}],
    }


def _within(term: Any, low: int | None, high: int | None) -> list[Any]:
    return [*([term >= low] if low is not None else []), *([term <= high] if high is not None else [])]


def _always(atom: Atom, value: Term, drift: Term) -> Any:
    """Return a condition under which the comparison, true now, stays true when the drift is added again and again."""
    match atom.operator:
        case ">=" | ">":
            return drift >= 0
        case "<=" | "<":
            return drift <= 0
        case "==":
            return drift == 0
    return either((drift == 0, every((drift > 0, value > atom.value)), every((drift < 0, value < atom.value))))
