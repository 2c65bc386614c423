"""False claims about strong-cyclic policies: policies that lose the goal, and rounds that hide an action which keeps it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from polvet.check import listed_actions
from polvet.check.checker import Subjects
from polvet.sources import TaskOptions, load_task
from tests.attack.bulk import in_bulk
from tests.attack.safe_policy import actions_of
from tests.attack.worlds import random_world


def _world(rng, folder):
    """A world with a goal; states with their actions (None: the model breaks a rule there), goal states, won states."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return None
    file = folder / "goal.toml"
    reached, _ = world.reached(follow=False)
    names = [variable.name for variable in world.task.network.variables]
    values = sorted({state[names.index("y")] for state in reached} - {world.start[names.index("y")]})
    if not values:
        return None
    file.write_text(f'model = "world.jani"\nfail = "bad"\ngoal = "y == {rng.choice(values)}"\n', encoding="utf-8")
    task = load_task(file, TaskOptions())
    world = replace(world, task=task, subjects=Subjects(file))
    is_goal = world.semantics.compile(task.goal)
    goals = {state for state in reached if is_goal(state) and not world.is_fail(state)}
    actions = {
        state: {} if state in goals or world.is_fail(state) else actions_of(world, state) for state in sorted(reached)
    }
    return world, actions, goals, _won(actions, goals)


def _won(actions, goals):
    """States with a strong-cyclic policy, by plain iteration; where the model breaks a rule nothing is won."""
    won = set(actions)
    while True:
        near, grows = set(goals), True
        while grows:
            more = {
                state for state, mine in actions.items()
                if state in won and state not in near and any(o <= won and o & near for o in (mine or {}).values())
            }  # fmt: skip
            near |= more
            grows = bool(more)
        if near == won:
            return won
        won = near


def false_policies(rng, folder):
    """Yield claims that a start which is lost is won: as if some outcomes did not exist, or some states were goals."""
    found = _world(rng, folder)
    if found is None:
        return
    world, actions, goals, won = found
    if world.start in won:
        return
    for _ in range(3):
        distance = dict.fromkeys(goals, 0)
        if not distance or rng.random() < 0.3:
            distance[rng.choice(list(actions))] = 0
        chosen = dict.fromkeys(distance)
        for _ in range(len(actions)):
            for state, mine in actions.items():
                good = {a: o for a, o in (mine or {}).items() if o & distance.keys()}
                if state not in distance and good:
                    chosen[state] = rng.choice(list(good))
                    distance[state] = 1 + min(distance[one] for one in good[chosen[state]] & distance.keys())
        chosen.setdefault(world.start, rng.choice(list(actions[world.start] or {"a": 0})))
        distance.setdefault(world.start, 1 + max(distance.values()))
        listed = sorted(distance)
        rows = [{"state": world.names(s), "action": chosen[s], "distance": distance[s]} for s in listed]
        claim = _certificate(world, "strong-cyclic", listed, rows)
        yield claim, world.subjects, nullcontext()
        yield claim, world.subjects, in_bulk(listed_actions)


def false_rounds(rng, folder):
    """Yield claims that a start which is won is lost: as if some actions were not there, or some states had lost."""
    found = _world(rng, folder)
    if found is None:
        return
    world, actions, goals, won = found
    if world.start not in won or world.start in goals:
        return
    for _ in range(3):
        rounds = {state: 0 for state in actions if world.is_fail(state)}
        hidden = {(state, a) for state, mine in actions.items() for a in mine or {} if rng.random() < 0.4}
        left = set(actions) - goals - rounds.keys()
        for number in range(1, 6):
            near, grows = set(goals), True
            while grows:
                more = {
                    s for s in left - near
                    if any((s, a) not in hidden and o & near and not o & rounds.keys() for a, o in (actions[s] or {}).items())
                }  # fmt: skip
                near |= more
                grows = bool(more)
            rounds |= dict.fromkeys(left - near, number)
            left &= near
        rounds.setdefault(world.start, rng.randint(1, 6))
        listed = sorted(rounds)
        rows = [{"state": world.names(s), "round": rounds[s]} for s in listed]
        claim = _certificate(world, "no-strong-cyclic", listed, rows)
        yield claim, world.subjects, nullcontext()
        yield claim, world.subjects, in_bulk(listed_actions)


def _certificate(world, kind, listed, rows):
    base = {"kind": kind, "format": "certificate/1", "task_sha256": world.task.sha256}
    return {**base, "start": [listed.index(world.start)], "states": rows}
