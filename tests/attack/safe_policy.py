"""False policies: a listed set whose actions lead out of it, into `fail`, or are not applicable."""

from __future__ import annotations

from contextlib import nullcontext

from polvet.check import listed_actions
from tests.attack.bulk import in_bulk
from tests.attack.worlds import random_world


def actions_of(world, state):
    """The outcomes of each action, silent ones added; None where the model breaks a rule."""
    moves = world.moves(state)
    if moves is None:
        return None
    silent = {o.state for move in moves if move.label is None for o in move.outcomes}
    labels = {move.label for move in moves if move.label is not None}
    if not labels:
        return {None: silent} if silent else {}
    return {
        label: silent | {o.state for move in moves if move.label == label for o in move.outcomes} for label in labels
    }


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    reached, _ = world.reached(follow=False)
    for _ in range(4):
        inside = sorted(state for state in reached if not world.is_fail(state))
        if rng.random() < 0.5 and len(inside) > 1:
            inside.remove(rng.choice([state for state in inside if state != world.start]))
        chosen = {}
        for state in inside:
            actions = actions_of(world, state) or {}
            good = [a for a, outcomes in actions.items() if outcomes <= set(inside)]
            chosen[state] = rng.choice(good or list(actions) or [None, "a"])
        # Only what is reached may be listed.
        seen, pending = {world.start}, [world.start]
        while pending:
            state = pending.pop()
            for following in (actions_of(world, state) or {}).get(chosen.get(state), ()):
                if following in chosen and following not in seen:
                    seen.add(following)
                    pending.append(following)
        listed = sorted(seen & set(chosen))
        if not listed or not _is_broken(world, listed, chosen):
            continue
        states = [{"state": world.names(state), "action": chosen[state]} for state in listed]
        base = {"kind": "safe-policy", "format": "certificate/1", "task_sha256": world.task.sha256}
        claim = {**base, "start": [listed.index(world.start)], "states": states}
        yield claim, world.subjects, nullcontext()
        yield claim, world.subjects, in_bulk(listed_actions)


def _is_broken(world, listed, chosen):
    known = set(listed)
    for state in listed:
        actions = actions_of(world, state)
        if world.is_fail(state) or actions is None:
            return True
        if not actions and chosen[state] is None:
            continue
        if chosen[state] not in actions or not actions[chosen[state]] <= known:
            return True
    return False
