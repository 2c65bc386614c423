"""False runs of transition systems that always end: as if a guard, a product, a bracket or the order of parameters did not count."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import product

from polvet.check.checker import Subjects
from polvet.errors import InputError, Where
from polvet.policy.finite_memory.its_text import parse_its
from tests.attack.plans import number
from tests.attack.systems import is_linear, random_system

MOST = 200
LARGEST = 2**200
"""Squares grow fast where nothing keeps them."""


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    system = random_system(rng)
    if system.is_endless:
        return
    file = system.save(folder)
    try:
        variables = parse_its(file.read_text(), Where("system")).variables
    except InputError:
        return
    for _ in range(4):
        for claim in _claims(rng, system, variables):
            yield claim, Subjects(file), nullcontext()


def _claims(rng, system, variables):
    """Runs of the system as it would be if something did not count: through a cycle, or a walk that does not come back."""
    other = _as_if(rng, system)
    start = rng.choice(system.starts)
    seen, steps = {start: 0}, []
    here = start
    for _ in range(12):
        following = other(here)
        if not following or max(map(abs, here[1])) > LARGEST:
            break
        steps.append(rng.choice(following))
        here = steps[-1][2]
        if here in seen and rng.random() < 0.8:
            break
        seen.setdefault(here, len(steps))
    if not steps:
        return
    first = seen[here] if seen.get(here, len(steps)) < len(steps) else rng.randrange(len(steps))
    rows = []
    before = start
    for _, names, after in [*steps, (None, {}, None)]:
        row = {name: number(x) for name, x in names.items()}
        row |= {name: number(x) for name, x in zip(variables, before[1], strict=False)}
        rows.append(row)
        before = after
    numbers = [step[0] for step in steps]
    claim = {"kind": "its-run", "prefix": numbers[:first], "cycle": numbers[first:], "values": rows}
    yield claim
    yield {**claim, "closed": True}


def _as_if(rng, system):
    """Return the steps of a configuration as if some things did not count."""
    blind = rng.random() < 0.7  # products in guards are not seen, and mean any value in updates
    dropped = rng.random() < 0.4
    still = rng.random() < 0.2  # rules with other names change nothing
    rules = []
    for rule in system.rules:
        guard = [one for one in rule.guard if not (blind and not (is_linear(one[0]) and is_linear(one[2])))]
        if dropped and guard:
            guard.remove(rng.choice(guard))
        rules.append(replace(rule, guard=guard))
    seen = replace(system, rules=rules)

    def steps(configuration):
        found = []
        for number_, names, (target, after) in seen.steps(configuration)[:MOST]:
            rule, k = _rule(system, number_)
            if still and rule.names[0] != "A":
                after = configuration[1]
            loose = [blind and not is_linear(term) for term in rule.calls[k][1]]
            ranges = [
                range(low, high + 1) if free else [x]
                for x, free, (low, high) in zip(after, loose, system.windows, strict=True)
            ]
            found += [(number_, names, (target, values)) for values in product(*ranges)]
        return found[:MOST]

    return steps


def _rule(system, number_):
    for rule in system.rules:
        if number_ < len(rule.calls):
            return rule, number_
        number_ -= len(rule.calls)
    raise IndexError(number_)
