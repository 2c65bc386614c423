"""False lost projections: boxes and ranks that hold a state from which an action avoids `fail`."""

from __future__ import annotations

from contextlib import nullcontext

from tests.attack.unsafe_rank import doomed_states
from tests.attack.worlds import random_world


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false: the start is not doomed."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    reached, _ = world.reached(follow=False)
    doomed, actions = doomed_states(world, reached)
    if world.start in doomed:
        return
    for _ in range(4):
        ranks = _ranks(rng, world, reached, actions)
        boxes = [_box(rng, world, state, rank) for state, rank in ranks.items() if rank > 0]
        listed = [{"state": world.names(world.start), "rank": 0, "actions": []}]
        if rng.random() < 0.4:  # a step before the boxes
            listed = _stepped(rng, world, actions, listed)
        base = {"kind": "lost-projection", "format": "certificate/1", "task_sha256": world.task.sha256}
        rows = _rows(rng, world, sorted(reached))
        yield {**base, "start": [0], "states": listed, "rows": rows, "lost": [boxes]}, world.subjects, nullcontext()


def _ranks(rng, world, reached, actions):
    """Ranks as if some actions were not there, or where a rule is broken; the start has one in any case."""
    ranks = {state: 0 for state in reached if world.is_fail(state)}
    ranks |= {state: 1 for state in sorted(reached) if actions.get(state, ()) is None and rng.random() < 0.3}
    for _ in range(len(reached)):
        for state, mine in actions.items():
            if not mine:
                continue
            towards = [[o for o in outcomes if o in ranks] for outcomes in mine.values()]
            found = [min(ranks[o] for o in some) for some in towards if some]
            if state not in ranks and found and (len(found) == len(mine) or rng.random() < 0.5):
                ranks[state] = 1 + max(found)
    ranks.setdefault(world.start, 1 + max(ranks.values(), default=0))
    if ranks[world.start] == 0:
        ranks[world.start] = 1
    return ranks


def _box(rng, world, state, rank):
    """A box around the state with that rank in it, mostly the state alone or free in what seems not to matter."""
    ends, slopes, constant = {}, {}, rank
    for variable, value in zip(world.task.network.variables, state, strict=True):
        low, high = (0, 1) if variable.lower is None else (int(variable.lower), int(variable.upper))
        if rng.random() < 0.2:
            ends[variable.name] = [rng.choice([low, int(value)]), rng.choice([high, int(value)])]
        elif rng.random() < 0.9:
            ends[variable.name] = [int(value), int(value)]
        if rng.random() < 0.15:
            slopes[variable.name] = slope = rng.choice([-1, 1, 2**20, -(2**20)])
            constant -= slope * int(value) if abs(slope * int(value)) < 2**39 else 0
    return {"box": ends, "rank": constant, "slopes": slopes}


def _stepped(rng, world, actions, listed):
    """The start as a state of rank 1, all of whose listed actions lead to one that is said to be lost."""
    mine = actions.get(world.start)
    if not mine:
        return listed
    target = rng.choice(sorted(rng.choice(sorted(mine.items(), key=str))[1]))
    steps = [{"action": action, "outcome": 1} for action, outcomes in mine.items() if target in outcomes]
    lost = {"state": world.names(target), "rank": 0, "actions": []}
    return [{"state": world.names(world.start), "rank": 1, "actions": steps}, lost]


def _rows(rng, world, reached):
    """Rows that hold in the start, and perhaps elsewhere."""
    rows = []
    for place, variable in enumerate(world.task.network.variables):
        if rng.random() < 0.3:
            values = [int(state[place]) for state in reached]
            some = [int(world.start[place])] if rng.random() < 0.3 else values
            rows.append({"terms": {variable.name: 1}, "marks": [], "lower": min(some), "upper": max(some)})
    return rows
