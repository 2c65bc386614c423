"""False ranks: states called doomed though an action avoids `fail`, or though the model breaks a rule there."""

from __future__ import annotations

from contextlib import nullcontext

from polvet.check import listed_actions
from tests.attack.bulk import in_bulk
from tests.attack.safe_policy import actions_of
from tests.attack.worlds import random_world


def doomed_states(world, states):
    """States from which no policy avoids `fail`: the attractor, by plain iteration; errors are no way to fail."""
    actions = {state: actions_of(world, state) for state in states if not world.is_fail(state)}
    doomed = {state for state in states if world.is_fail(state)}
    while True:
        more = {s for s, a in actions.items() if s not in doomed and a and all(o & doomed for o in a.values())}
        if not more:
            return doomed, actions
        doomed |= more


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    reached, _ = world.reached(follow=False)
    doomed, actions = doomed_states(world, reached)
    if world.start in doomed:
        return
    for _ in range(3):
        # As if some states outside `fail` were fail states, or some actions were not there.
        ranks = {state: 0 for state in reached if world.is_fail(state)}
        if not ranks or rng.random() < 0.3:
            ranks[rng.choice(sorted(reached))] = 0
        pairs = {state: [] for state in ranks}
        for _ in range(len(reached)):
            for state, mine in actions.items():
                if state in ranks or not mine:
                    continue
                towards = {a: [o for o in outcomes if o in ranks] for a, outcomes in mine.items()}
                found = {a: min(os, key=ranks.__getitem__) for a, os in towards.items() if os}
                if found and (len(found) == len(mine) or rng.random() < 0.5):
                    ranks[state] = 1 + max(ranks[o] for o in found.values())
                    pairs[state] = list(found.items())
        if world.start not in ranks:
            ranks[world.start] = 1 + max(ranks.values())
            target = rng.choice(sorted(ranks))
            pairs[world.start] = [(action, target) for action in actions.get(world.start) or {"a": ()}]
        used, pending = {world.start}, [world.start]
        while pending:
            for _, outcome in pairs[pending.pop()]:
                if outcome not in used:
                    used.add(outcome)
                    pending.append(outcome)
        listed = sorted(used)
        states = [
            {
                "state": world.names(state),
                "rank": ranks[state],
                "actions": [{"action": a, "outcome": listed.index(o)} for a, o in pairs[state]],
            }
            for state in listed
        ]
        base = {"kind": "unsafe-rank", "format": "certificate/1", "task_sha256": world.task.sha256}
        claim = {**base, "start": [listed.index(world.start)], "states": states}
        yield claim, world.subjects, nullcontext()
        yield claim, world.subjects, in_bulk(listed_actions)
