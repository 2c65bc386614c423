"""Checking `its-run`: a run of an integer transition system that never ends, executed and proved to repeat.

The certificate names the transitions of `prefix` and `cycle` by number and gives the `values` before each step, free
names included, and after the last. Every step is executed. The cycle repeats because it is *periodic* (the values come
back), or because it is *closed*: let F be the values after one round, g >= 0 the guards along the round, and
h = g(F) - g. If R = {g >= 0, h >= 0} implies h(F) >= 0, then F maps R into R, and every state in R runs for ever. The
implication is proved by elimination over the integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polvet.check.counters import Malformed, integer, mapping, sequence
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects, find_other_file
from polvet.errors import InputError, Where
from polvet.files import read_text
from polvet.policy.finite_memory.its import Transition, TransitionSystem
from polvet.policy.finite_memory.its_text import parse_its
from polvet.policy.finite_memory.linear import CONSTANT, is_infeasible, plus, substituted


def check_its_run(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the transition system has a run that never ends."""
    if subjects.task is None:
        raise InputError("this certificate speaks about a transition system.", hint="Give its file with --task.")
    if (other := find_other_file(certificate, subjects)) is not None:
        return other
    system = parse_its(read_text(subjects.task), Where(str(subjects.task)))
    try:
        problem = find_flaw(system, certificate)
    except Malformed as error:
        problem = str(error)
    return Accepted(f"a run of {subjects.task} never ends") if problem is None else Rejected(problem)


def find_flaw(system: TransitionSystem, certificate: Mapping[str, Any]) -> str | None:
    """Return the first thing that is wrong with the run, or None if it can be followed for ever."""
    numbers = [[integer(number, key) for number in sequence(certificate.get(key), key)] for key in ("prefix", "cycle")]
    if any(not 0 <= number < len(system.transitions) for part in numbers for number in part) or not numbers[1]:
        return "prefix or cycle name no transitions"
    prefix, cycle = ([system.transitions[number] for number in part] for part in numbers)
    values = [
        {name: integer(value, f"values[{index}].{name}") for name, value in mapping(row, f"values[{index}]").items()}
        for index, row in enumerate(sequence(certificate.get("values"), "values"))
    ]
    steps = [*prefix, *cycle]
    if len(values) != len(steps) + 1 or any(name not in row for row in values for name in system.variables):
        return "values are missing"
    for number, step in enumerate(steps):
        # SOUND: what the reader left out may forbid the step, or give it other values.
        if not step.exact:
            return f"step {number} is not linear, so it cannot be executed"
    here = system.initial
    for number, step in enumerate(steps):
        before, after = values[number], values[number + 1]
        if step.source != here:
            return f"step {number} leaves '{step.source}', but the run is in '{here}'"
        here = step.target
        if any(evaluated(constraint, before) < 0 for constraint in step.guard):
            return f"step {number} is against its guard"
        for name in system.variables:
            value = step.update.get(name, {name: 1})
            if value is not None and evaluated(value, before) != after[name]:
                return f"step {number} gives '{name}' another value"
    if cycle[0].source != here:
        return "the cycle does not come back to its location"
    entry, end = values[len(prefix)], values[-1]
    if certificate.get("closed"):
        region = closed_region(system, cycle)
        if region is None:
            return "the cycle is not closed"
        return None if all(evaluated(row, entry) >= 0 for row in region) else "the cycle starts outside its region"
    return None if all(entry[name] == end[name] for name in system.variables) else "the values do not come back"


def closed_region(system: TransitionSystem, cycle: Sequence[Transition]) -> list[dict[str, int]] | None:
    """Return constraints R over the values before the cycle such that a round maps R into itself, if h(F) allows."""
    values: dict[str, dict[str, int]] = {name: {name: 1} for name in system.variables}
    guards: list[dict[str, int]] = []
    for step in cycle:
        if any(value is None for value in step.update.values()):
            return None
        guards += [substituted(constraint, values) for constraint in step.guard]
        values = {**values, **{name: substituted(value or {}, values) for name, value in step.update.items()}}
    known = set(system.variables) | {CONSTANT}
    if any(not set(row) <= known for row in [*guards, *values.values()]):
        return None  # a free name: the next round may have to choose another value
    growth = [plus(substituted(row, values), row, -1) for row in guards]
    region = [*guards, *growth]
    for row in growth:
        # SOUND: R and h(F) <= -1 together must be impossible.
        below = plus(plus({}, substituted(row, values), -1), {CONSTANT: -1})
        if not is_infeasible([*region, below]):
            return None
    return region


def evaluated(expression: Mapping[str, int], values: Mapping[str, int]) -> int:
    """Return the value of the expression; a free name without a value counts 0."""
    return sum(coefficient * (values.get(name, 0) if name else 1) for name, coefficient in expression.items())
