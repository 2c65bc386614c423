"""Integer transition systems: a ranking of their abstraction, or a run of their own that never ends.

For each simple cycle of transitions, taken once or twice, Z3 proposes a run from the start that comes back to the same
values, or that enters the cycle's closed region (see `polvet.check.its_run`); the checker executes and decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.its_run import closed_region, find_flaw
from polvet.errors import LimitReached
from polvet.files import Json
from polvet.policy.finite_memory import portable
from polvet.policy.finite_memory.its import Transition, TransitionSystem, abstract_its
from polvet.policy.finite_memory.linear import CONSTANT
from polvet.solvers.smt import Question, Term, exactly, integer
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Nonterminating, Terminating, TerminationResult, Unknown

SECONDS = 2.0
"""The longest that Z3 may look for one run."""
MOST_CYCLES, LONGEST_CYCLE = 60, 12
ABSTRACT_SHARE = 0.7
"""Part of the time for the abstraction; the rest is for runs of the system."""


def its_terminates(system: TransitionSystem, budget: Budget = UNLIMITED) -> TerminationResult:
    """Return whether every run of the transition system ends, from every initial values, with evidence."""
    result = terminates(abstract_its(system, budget), budget=budget.share(ABSTRACT_SHARE))
    if isinstance(result, Terminating):
        return result
    try:
        run = find_endless_run(system, budget)
    except LimitReached as limit:
        return Unknown(str(limit), "its", result.figures, limit.kind)
    if run is not None:
        return Nonterminating(run, "its-run", result.figures)
    reason = (
        result.reason
        if isinstance(result, Unknown)
        else "the abstraction runs for ever, no run of the system was found that does"
    )
    return Unknown(reason, "its", result.figures)


def find_endless_run(system: TransitionSystem, budget: Budget = UNLIMITED) -> Json | None:
    """Return an `its-run` certificate that the checker accepts, or None."""
    for prefix, cycle in islice(_candidates(system), MOST_CYCLES):
        budget.check()
        region = closed_region(system, cycle)
        attempts = [(cycle, None), ([*cycle, *cycle], None), *([(cycle, region)] if region is not None else [])]
        for repeated, inside in attempts:
            outcome = _propose(system, prefix, repeated, inside, budget)
            if outcome is not None and find_flaw(system, outcome) is None:
                return outcome
    return None


def _candidates(system: TransitionSystem) -> Iterator[tuple[list[Transition], list[Transition]]]:
    """Yield simple cycles, short ones first, each with a shortest path from the initial location."""
    leaving: dict[str, list[Transition]] = {}
    for step in system.transitions:
        leaving.setdefault(step.source, []).append(step)
    reached: dict[str, list[Transition]] = {system.initial: []}
    agenda = [system.initial]
    for here in agenda:
        for step in leaving.get(here, ()):
            if step.target not in reached:
                reached[step.target] = [*reached[here], step]
                agenda.append(step.target)
    for length in range(1, LONGEST_CYCLE + 1):
        for start in agenda:
            paths: list[list[Transition]] = [[step] for step in leaving.get(start, ())]
            for _ in range(length - 1):
                paths = [
                    [*path, step]
                    for path in paths
                    if path[-1].target != start
                    for step in leaving.get(path[-1].target, ())
                    if step.target == start or all(step.target != earlier.target for earlier in path)
                ][:2000]
            for path in paths:
                if path[-1].target == start:
                    yield reached[start], path


def _propose(
    system: TransitionSystem,
    prefix: Sequence[Transition],
    cycle: Sequence[Transition],
    region: Sequence[Mapping[str, int]] | None,
    budget: Budget,
) -> Json | None:
    """Return a run along the transitions that Z3 finds: periodic, or into the region."""
    question = Question(budget, SECONDS)
    names: dict[str, Term] = {}

    def term(expression: Mapping[str, int], values: Mapping[str, Any], number: int) -> Any:
        outcome: Term = exactly(expression.get(CONSTANT, 0))
        for name, coefficient in expression.items():
            if name:
                if name not in values and f"{name}@{number}" not in names:
                    names[f"{name}@{number}"] = integer(f"{name}@{number}")
                outcome = outcome + coefficient * (values[name] if name in values else names[f"{name}@{number}"])
        return outcome

    values: dict[str, Term] = {name: integer(name) for name in system.variables}
    trail: list[Json] = []
    for number, step in enumerate([*prefix, *cycle]):
        if number == len(prefix):
            entry = dict(values)
        trail.append(dict(values))
        question.add([term(constraint, values, number) >= 0 for constraint in step.guard])
        after = {}
        for name, value in step.update.items():
            after[name] = integer(f"{name}'@{number}") if value is None else term(value, values, number)
        values = {**values, **after}
    trail.append(dict(values))
    if region is None:
        question.add([values[name] == entry[name] for name in system.variables])
    else:
        question.add([term(constraint, entry, -1) >= 0 for constraint in region])
    if question.ask() != "sat":
        return None
    given = question.values()
    recorded = []
    for number, before in enumerate(trail):
        row = {name: given.number(value) for name, value in before.items()}
        for name, symbol in names.items():
            plain, _, when = name.rpartition("@")
            if when == str(number):
                row[plain] = given.number(symbol)
        recorded.append(row)
    number_of = {id(step): number for number, step in enumerate(system.transitions)}
    return {
        "kind": "its-run",
        "prefix": [number_of[id(step)] for step in prefix],
        "cycle": [number_of[id(step)] for step in cycle],
        "values": [{name: portable(value) for name, value in row.items()} for row in recorded],
        "closed": region is not None,
    }
