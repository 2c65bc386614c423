"""False rankings: of plans that run for ever, as a plan that differs in one place would have them, or nearly right by themselves."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from polvet.budget import Budget
from polvet.check.checker import Subjects
from polvet.errors import InputError, LimitReached, Where
from polvet.policy.finite_memory import load_fmp, normalise, parse_fmp
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Terminating
from tests.attack import sketches, starts
from tests.attack.plans import SECONDS, neighbour, number, random_plan
from tests.attack.systems import random_system

WEIGHTS = (0, 0, 1, 1, -1, -1, 2, 2**53, -(2**63), 2**64 + 1)


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    yield from _systems(rng, folder)
    yield from starts.false_rankings(rng, folder)
    yield from sketches.false_rankings(rng, folder) if rng.random() < 0.2 else ()
    plan = random_plan(rng)
    if not plan.is_endless:
        return
    file = plan.save(folder)
    for _ in range(4):
        if (claim := borrowed(rng, plan)) is not None:
            yield claim, Subjects(file), nullcontext()
    for _ in range(4):
        if (claim := nearly(rng, plan)) is not None:
            yield claim, Subjects(file), nullcontext()
            yield {**claim, "fmp": plan.document}, Subjects(), nullcontext()


def _systems(rng, folder):
    """Rankings of transition systems that run for ever: the engine's own, by what the reader makes of the text, or another's."""
    system = random_system(rng)
    if not system.is_endless:
        return
    texts = list(system.texts)
    del texts[rng.randrange(len(texts))]
    for other in (system, replace(system, texts=texts)):
        file = other.save(folder)
        try:
            found = terminates(load_fmp(file), budget=Budget(SECONDS))
        except InputError:
            continue
        if isinstance(found, Terminating) and found.certificate is not None:
            claim = {key: value for key, value in found.certificate.items() if key != "fmp"}
            yield claim, Subjects(system.save(folder)), nullcontext()


def borrowed(rng, plan):
    """The ranking of a plan that differs in one place."""
    other = neighbour(rng, plan).verdict()
    if not isinstance(other, Terminating) or other.certificate is None:
        return None
    return {key: value for key, value in other.certificate.items() if key != "fmp"}


def nearly(rng, plan):
    """A ranking with potentials that are right for most edges, over some windows; a component may be left out or hide edges."""
    tracked = {}
    for name, (low, high) in zip(plan.names, plan.windows, strict=True):
        if rng.random() < 0.3:
            first = low + rng.randint(-1, 1)
            tracked[name] = first, rng.choice([first - 1, first, high, high + 1])
    try:
        graph = normalise(parse_fmp(plan.document, Where("plan")), tracked, max_nodes=300)
    except (InputError, LimitReached):
        return None
    weights = {name: rng.choice(WEIGHTS) for name in plan.names}

    def component(depth):
        left_out = rng.random() * 0.4
        height = [0] * len(graph.nodes)
        for _ in range(len(graph.nodes)):
            for edge in graph.edges:
                change = 0
                for name, effect in zip(plan.names, edge.effects, strict=True):
                    amount = effect.high if weights[name] > 0 else effect.low
                    change += weights[name] * (amount or 0)
                if height[edge.target] + change > height[edge.source] and rng.random() > left_out:
                    height[edge.source] = height[edge.target] + change + rng.choice([0, 0, 1])
        potential = {name: number(-height[k]) for k, name in enumerate(graph.names)}
        states = list(graph.names)
        if rng.random() < 0.2:
            states = rng.sample(states, rng.randint(0, len(states)))
        if rng.random() < 0.2:
            states = states * 2
        lambdas = {name: number(-weight) for name, weight in weights.items() if weight or rng.random() < 0.5}
        entry = {"states": states, "lambda": lambdas, "potential": potential}
        return entry | ({"children": [component(depth + 1)]} if depth < 2 and rng.random() < 0.5 else {})

    weights = {name: -weight for name, weight in weights.items()}
    components = [] if rng.random() < 0.05 else [component(0)]
    return {
        "kind": "lex-rank", "components": components,
        "tracked": {name: [number(first), number(last)] for name, (first, last) in tracked.items()},
    }  # fmt: skip
