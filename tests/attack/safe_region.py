"""False regions: the false claims of the kinds that may prove one, about regions that hold the start state."""

from __future__ import annotations

import math

from polvet.errors import LimitReached
from polvet.model.semantics import Semantics
from polvet.sources import load_task
from polvet.verify import split_tree
from tests.attack import grid, invariant, reachable_set, safe_policy
from tests.attack.worlds import random_world

PROOFS = [reachable_set, invariant, safe_policy, grid]
HEAD = ("format", "task_sha256", "policy_sha256")


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    kind = rng.choice(PROOFS)
    if kind is invariant:
        yield from _false_invariants(rng, folder)
        return
    for certificate, subjects, context in kind.false_claims(rng, folder):
        task = load_task(subjects.task)
        if kind is grid:
            yield _wrapped(certificate, _around(rng, task)), subjects, context
            continue
        start = tuple(variable.initial for variable in task.network.variables)
        failing = bool(Semantics(task.network).compile(task.fail)(start))
        region = rng.choice([*_inside(rng, task, start), *([] if failing else _outside(rng, task, start))])
        yield _wrapped(certificate, region), subjects, context


def _false_invariants(rng, folder):
    """Yield invariants about what boxes leave of the starts, with honest trees and with lies."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None or world.is_fail(world.start):  # what fails is never outside
        return
    reached, wrong = world.reached()
    variables = world.task.network.variables
    for _ in range(4):
        rows, blocked = invariant._claim(rng, world, [state for state in reached if not world.is_fail(state)])
        if wrong is None and not invariant._is_broken(world, variables, rows, blocked):
            continue
        claim = {"kind": "invariant", **world.base, "rows": rows, "blocked": blocked}
        certificate = _wrapped(claim, rng.choice(_outside(rng, world.task, world.start)))
        for name in ("states", "many", "boxes"):
            try:
                with invariant.way(name):
                    honest = split_tree.completed(certificate, world.subjects)
                yield honest, world.subjects, invariant.way(name)
                with invariant.way(name), invariant.liar(rng, rng.choice([0.1, 0.5, 1.0])):
                    lie = split_tree.completed(certificate, world.subjects)
                yield lie, world.subjects, invariant.way(name)
            except LimitReached:  # nobody finds a tree here
                continue


def _wrapped(certificate, region):
    head = {key: certificate[key] for key in HEAD if key in certificate}
    proof = {key: value for key, value in certificate.items() if key not in HEAD}
    return {"kind": "safe-region", **head, "region": region, "proof": proof}


def _around(rng, task):
    """Boxes of which one holds the start state of a real-valued world, at its very end or further inside."""
    boxes = [{}]
    for variable in task.network.variables:
        if rng.random() < 0.7:
            x = float(variable.initial)
            near, far = math.nextafter(x, -9), math.nextafter(x, 9)
            ends = [rng.choice([x, x, near, x - 0.1, 0.0]), rng.choice([x, x, far, x + 0.1, 4.0])]
            boxes[0][variable.name] = ends if variable.kind.value == "real" else [int(variable.initial)] * 2
            if rng.random() < 0.3 and variable.kind.value == "real":  # one that does not hold it
                boxes.append({variable.name: [far, x + 1]})
    rng.shuffle(boxes)
    return {"in": boxes}


def _small(task, start):
    return [(v.name, int(x)) for v, x in zip(task.network.variables, start, strict=True) if abs(int(x)) < 2**50]


def _inside(rng, task, start):
    """Boxes that hold the start state."""
    small = _small(task, start)
    around = {name: [x - rng.randint(0, 2), x + rng.randint(0, 2)] for name, x in small if rng.random() < 0.5}
    return [{"in": [around]}, {"in": [{name: [x + 1, x + 2] for name, x in small[:1]}, around]}, {"in": [{}]}]


def _outside(rng, task, start):
    """Boxes that do not hold the start state, which does not fail."""
    name, x = rng.choice(_small(task, start))
    return [{"out": []}, {"out": [{name: [x + 1, x + 3]}, {name: [x - 3, x - 1]}]}]
