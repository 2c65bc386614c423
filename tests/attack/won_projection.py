"""False projections: tables and boxes that let a run out of what is claimed, or listed states that are not in it."""

from __future__ import annotations

from dataclasses import replace

from polvet.check.arena import Arena
from polvet.check.box_view import Unreadable
from polvet.check.invariant_claim import read_question
from polvet.check.packing import pack
from polvet.check.won_projection import fitted_table
from polvet.errors import InputError, LimitReached
from polvet.model.semantics import Semantics
from polvet.records.state_json import Malformed
from polvet.verify import split_tree
from tests.attack import invariant
from tests.attack.safe_policy import actions_of
from tests.attack.worlds import random_world


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    reached, _ = world.reached(follow=False)
    lost = not is_avoidable(world, reached)
    for _ in range(4):
        document = _table(rng, world, few=lost)
        try:
            fitted = fitted_table(_arena(world.task), document)
        except InputError:
            continue
        followed = replace(world, fitted=fitted)
        variables = world.task.network.variables
        rows, blocked = invariant._claim(rng, followed, [state for state in reached if not world.is_fail(state)])
        broken = invariant._is_broken(followed, variables, rows, blocked)
        states = [world.start]
        if rng.random() < 0.3:  # a claim that may be true, about a state that fails
            states = [state for state in sorted(reached) if world.is_fail(state)][:1] or states
        if not broken and not world.is_fail(states[0]) and not lost:
            continue
        head = {key: world.base[key] for key in ("format", "task_sha256")}
        listed = {"start": [0], "states": [{"state": world.names(state)} for state in states]}
        claim = {"kind": "won-projection", **head, **listed, "policy": document, "rows": rows, "blocked": blocked}
        for name in ("states", "many", "boxes"):
            try:
                yield from (
                    ({**claim, "tree": tree}, world.subjects, invariant.way(name))
                    for tree in _trees(rng, claim, fitted, name)
                )
            except LimitReached:  # nobody finds a tree here
                continue


def is_avoidable(world, states):
    """Whether some policy from the start surely avoids `fail`, and errors of the model: what is left of the states, by plain iteration."""
    actions = {state: None if world.is_fail(state) else actions_of(world, state) for state in states}
    kept = {state for state, mine in actions.items() if mine is not None}
    while True:
        left = {state for state in kept if not actions[state] or any(o <= kept for o in actions[state].values())}
        if left == kept:
            return world.start in kept
        kept = left


def _arena(task):
    semantics = Semantics(task.network)
    return Arena(task, semantics, semantics.compile(task.fail), semantics.compile(task.goal), "the world")


def _trees(rng, claim, fitted, name):
    """Return an honest tree, and in the way of boxes one whose maker lies."""
    made = []
    with invariant.way(name):
        try:
            asked = read_question(_arena(fitted.task), fitted, claim)
            made.append(split_tree.search_tree(asked, starts=False))
            if name == "boxes":
                with invariant.liar(rng, rng.choice([0.1, 0.5, 1.0])):
                    made.append(split_tree.search_tree(asked, starts=False))
        except (Malformed, Unreadable, InputError):
            made.append({"by": "boxes", "nodes": 0, "packed": pack(b"")})
    return made


def _table(rng, world, *, few):
    """A table over y and perhaps another variable, or over nothing but a default; with `few` perhaps of some labels only."""
    network = world.task.network
    labels = list(network.labels)
    labels = rng.sample(labels, rng.randint(1, len(labels))) if few and labels else labels
    inputs = ["y", *rng.sample([v.name for v in network.variables if v.name == "bad"], rng.randint(0, 1))]
    rows = {}
    for _ in range(rng.randint(0, 8)):
        point = (rng.randint(0, 7), *([rng.random() < 0.5] if len(inputs) > 1 else []))
        rows[point] = [rng.randint(0, 1) for _ in labels]
    listed = [{"state": dict(zip(inputs, point, strict=True)), "scores": scores} for point, scores in rows.items()]
    return {"format": "table/1", "inputs": inputs, "outputs": labels, "rows": listed, "default": rng.choice(labels)}
