"""False claims about how runs of a policy end: rankings that hide a way out or an end, and sets that runs can leave after all."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise

import numpy as np

from polvet.check import bulk
from polvet.records.packed import pack_columns
from tests.attack.bulk import in_bulk
from tests.attack.risk_bound import ruled_world


def _world(rng, folder):
    """A small world with a policy and a goal: what each state's choices lead to, what is avoided, and states that end runs well.

    A fair environment's choice is one of all outcomes, an adversarial one's an operator.
    """
    world = ruled_world(rng, folder)
    if world is None or world.small.goal is None:
        return None
    small = world.small
    avoids = [name for name in ("stuck", "deadlock", "loop") if rng.random() < 0.6 or name == "loop"]
    after = [[{target for target, chance in row.items() if chance} for row in mine] for mine in world.choices]
    if rng.random() < 0.5:
        avoids.append("delay")
    else:
        after = [[set().union(*mine)] if mine else [] for mine in after]
    goals = {small.goal}
    for state, mine in enumerate(after):
        if not mine and state not in (small.goal, small.fail):
            stuck = any(operator.label is not None for operator in small.operators[state])
            if ("stuck" if stuck else "deadlock") not in avoids:
                goals.add(state)
    return world, after, avoids, goals


def _ranked(after, goals):
    found, steps = dict.fromkeys(goals, 0), 0
    while True:
        steps += 1
        fresh = {
            state
            for state, mine in enumerate(after)
            if state not in found and mine and all(one & found.keys() for one in mine)
        }
        if not fresh:
            return found
        found |= dict.fromkeys(fresh, steps)


def _packed(world, listed):
    rows = np.array([[world.small.base + state] for state in listed], dtype=np.int64).reshape(len(listed), 1)
    return pack_columns(world.task.network.variables, rows)


def _head(world, kind):
    return {"kind": kind, "format": "certificate/1", "task_sha256": world.task.sha256, "policy_sha256": world.digest}


def false_ends(rng, folder):
    """Yield claims that runs surely end where some do not, or end badly."""
    if (found := _world(rng, folder)) is None:
        return
    world, after, avoids, goals = found
    reached = world.reached()
    ranked = _ranked(after, goals)
    for _ in range(3):
        made = dict(ranked)
        for state in reached:
            if state not in made or rng.random() < 0.3:
                made[state] = rng.choice([0, 1, 2, max(made.values(), default=0) + 1])
        listed = [state for state in reached if rng.random() < 0.9]
        true = set(listed) == set(reached) and all(state in ranked for state in reached)
        exact = all((made[s] == 0) == (s in goals) for s in listed)
        if (
            true
            and exact
            and all(s in goals or all(any(made[t] < made[s] for t in one) for one in after[s]) for s in listed)
        ):
            continue  # it happens to be a proof
        claim = {"avoids": avoids, "count": len(listed), "states": _packed(world, listed)}
        certificate = {**_head(world, "sure-end"), **claim, "distances": [made[s] for s in listed]}
        yield certificate, world.subjects, nullcontext()
        yield certificate, world.subjects, in_bulk(bulk)


def false_livelocks(rng, folder):
    """Yield claims that runs go on for ever in sets that can be left, are not reached, or where runs end."""
    if (found := _world(rng, folder)) is None:
        return
    world, choices, avoids, _ = found
    small, size, after = world.small, len(choices), [set().union(*mine) for mine in choices]
    for _ in range(3):
        closed = {rng.randrange(size)}
        for state in list(closed):
            closed |= {target for target in after[state] if rng.random() < 0.7}
        way = [rng.choice([*small.starts, rng.randrange(size)])]
        while way[-1] not in closed and len(way) < 6 and after[way[-1]]:
            way.append(rng.choice(sorted(after[way[-1]])))
        closed.add(way[-1])
        ends = {small.fail, small.goal}
        leads = way[0] in small.starts and not set(way[:-1]) & ends
        if leads and all(s not in ends and any(one <= closed for one in choices[s]) for s in closed):
            continue  # it happens to be one
        actions = [_label(world, one, other) for one, other in pairwise(way)]
        claim = {
            "count": len(closed), "set": _packed(world, sorted(closed)), "end": "loop", "actions": actions,
            "states": [{"s": small.base + state} for state in way],
        }  # fmt: skip
        certificate = {**_head(world, "livelock"), **claim}
        if "delay" in avoids:
            certificate["environment"] = "adversarial"
        yield certificate, world.subjects, nullcontext()
        yield certificate, world.subjects, in_bulk(bulk)


def _label(world, state, following):
    """A label that leads from one state to the other, whether the policy chooses it or not."""
    fitting = [o.label for o in world.small.operators[state] if o.chances.get(following)]
    return fitting[0] if fitting else None
