"""False runs: a step that no operator makes, an action the policy does not choose, an end that is none, a start that is none."""

from __future__ import annotations

from contextlib import nullcontext

from tests.attack.worlds import random_world


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    variables = world.task.network.variables
    for _ in range(4):
        states, actions = [world.start], []
        for _ in range(rng.randint(0, 4)):
            moves = world.moves(states[-1])
            if not moves or world.is_fail(states[-1]):
                break
            move = rng.choice(moves)
            states.append(rng.choice(move.outcomes).state)
            actions.append(move.label)
        if not world.is_fail(states[-1]):  # an end that looks right
            bad = next(k for k, v in enumerate(variables) if v.name == "bad")
            last = list(states[-1])
            last[bad] = True
            if rng.random() < 0.5 or len(states) == 1:
                states.append(tuple(last))
                actions.append(rng.choice([*world.task.network.labels, None]))
            else:
                states[-1] = tuple(last)
        elif rng.random() < 0.5:
            k, place = rng.randrange(len(states)), rng.randrange(len(variables))
            near = list(states[k])
            near[place] = not near[place] if isinstance(near[place], bool) else near[place] + rng.choice([-1, 1])
            states[k] = tuple(near)
        base = {"kind": "run", **world.base, "end": rng.choice(["fail", "fail", "stuck", "deadlock"])}
        if _is_run(world, states, actions, base["end"]):
            continue
        yield {**base, "states": [world.names(s) for s in states], "actions": actions}, world.subjects, nullcontext()


def _is_run(world, states, actions, end):
    bounds = [(v.lower, v.upper) for v in world.task.network.variables]
    for state in states:
        if any(low is not None and not low <= x <= high for x, (low, high) in zip(state, bounds, strict=True)):
            return False
    if states[0] != world.start:
        return False
    for before, action, after in zip(states, actions, states[1:], strict=False):
        moves = None if world.is_fail(before) else world.moves(before)
        if moves is None:
            return False
        taken = [move for move in world.chosen(before, moves) if move.label == action]
        if not any(o.state == after for move in taken for o in move.outcomes):
            return False
    if end == "fail":
        return world.is_fail(states[-1])
    moves = None if world.is_fail(states[-1]) else world.moves(states[-1])
    if moves is None:
        return False
    return not moves if end == "deadlock" else bool(moves) and not world.chosen(states[-1], moves)
