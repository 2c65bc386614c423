"""False invariants: rows and boxes that leave a state out, or keep one from which a step leads away or breaks a rule of the model.

Each comes with split trees: an honest one, one whose maker lies about the reasons of some boxes, and one that is damaged.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product

import numpy as np

from polvet.check import invariant_states
from polvet.check.invariant_tree import Reason
from polvet.check.packing import pack, unpack
from polvet.errors import LimitReached
from polvet.verify import split_tree
from tests.attack.worlds import random_world

MOST_MEMBERS = 2_000


@contextmanager
def way(name):
    """Let the checker try states one by one, many at once, or boxes, however few states there are."""
    few, most, small, boxes = (
        invariant_states.FEW_POINTS, invariant_states.MOST_POINTS, split_tree.SMALL, split_tree.MOST_BOXES
    )  # fmt: skip
    invariant_states.MOST_POINTS, split_tree.MOST_BOXES = 5_000, 20_000
    if name == "many":
        invariant_states.FEW_POINTS = 0
    if name == "boxes":
        invariant_states.MOST_POINTS = 0
        split_tree.SMALL = 1
    try:
        yield
    finally:
        invariant_states.FEW_POINTS, invariant_states.MOST_POINTS = few, most
        split_tree.SMALL, split_tree.MOST_BOXES = small, boxes


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = random_world(rng.randrange(2**40), folder)
    if world is None:
        return
    reached, wrong = world.reached()
    variables = world.task.network.variables
    for _ in range(4):
        rows, blocked = _claim(rng, world, [state for state in reached if not world.is_fail(state)])
        if wrong is None and not _is_broken(world, variables, rows, blocked):
            continue
        certificate = {"kind": "invariant", **world.base, "rows": rows, "blocked": blocked}
        for name in ("states", "many", "boxes"):
            try:
                for tree in _trees(rng, certificate, world, name):
                    yield {**certificate, "tree": tree}, world.subjects, way(name)
            except LimitReached:  # nobody finds a tree here
                continue


def _trees(rng, certificate, world, name):
    """Yield an honest tree, and in the way of boxes lies and damage."""
    with way(name):
        honest = split_tree.completed(certificate, world.subjects)["tree"]
    yield honest
    if name != "boxes":
        return
    with way(name), liar(rng, rng.choice([0.1, 0.5, 1.0, 1.0])):
        yield split_tree.completed(certificate, world.subjects)["tree"]
    nodes = np.frombuffer(unpack(honest["packed"], 16 * honest["nodes"], "tree"), dtype="<i8").reshape(2, -1).copy()
    lie, often = _lies(rng), rng.choice([0.0, 0.05])
    for k in range(nodes.shape[1]):
        if nodes[0, k] == Reason.STATES and rng.random() < 0.9:
            nodes[:, k] = lie()
        elif rng.random() < often:
            nodes[0, k] = rng.choice([nodes[0, k], rng.randint(0, 4)])
            nodes[1, k] += rng.randint(-1, 1)
    yield {**honest, "packed": pack(nodes.tobytes()), "sums": [[[0, 1]], [[0, 1], [1, -1]], []]}
    yield {"by": "boxes", "nodes": 0, "packed": pack(b"")}


def _lies(rng):
    """Return what makes up a reason: of one sort, or of any."""
    sorts = [Reason.BLOCKED, Reason.TEST, Reason.BEATEN, Reason.SUM]
    reasons = rng.choice([*([one] for one in sorts), sorts, [Reason.ROWS, *sorts]])
    return lambda: (rng.choice(reasons), rng.randint(0, 2))


@contextmanager
def liar(rng, share):
    """Let whoever makes trees name reasons that need not hold, for a share of the boxes that it would try or cut."""
    honest, lie = split_tree._Part.decide, _lies(rng)

    def decide(part, lower, upper):
        what, value = honest(part, lower, upper)
        for k in range(len(what)):
            if (what[k] >= 0 or what[k] == Reason.STATES) and rng.random() < share:
                what[k], value[k] = lie()
        return what, value

    split_tree._Part.decide = decide
    try:
        yield
    finally:
        split_tree._Part.decide = honest


def _claim(rng, world, states):
    variables = world.task.network.variables
    style = rng.randint(0, 3)
    rows, blocked = [], [{"bad": [1, 1]}] if rng.random() < 0.5 else []
    if not blocked:
        rows.append({"terms": {"bad": 1}, "lower": 0, "upper": 0})
    for place, variable in enumerate(variables):
        if variable.name == "bad":
            continue
        values = [int(state[place]) for state in states] or [0]
        low, high = min(values), max(values)
        if style == 0 and variable.name == "y":
            continue
        if style == 1 or (style == 2 and low == high):
            low = high = int(variable.initial)
        if style == 3 and rng.random() < 0.3:
            high = max(low, high - 1)
        rows.append({"terms": {variable.name: 1}, "lower": low, "upper": high})
    names = [variable.name for variable in variables if variable.name not in ("bad",)]
    if rng.random() < 0.3:
        one, other = rng.choice(names), rng.choice(names)
        if one != other:
            places = [k for k, v in enumerate(variables) if v.name in (one, other)]
            sums = [sum(int(state[k]) for k in places) for state in states] or [0]
            rows.append({"terms": {one: 1, other: 1}, "lower": min(sums), "upper": max(sums)})
    if rng.random() < 0.3 and states:
        state = rng.choice(states)
        blocked.append(
            {v.name: [int(x), int(x)] for v, x in zip(variables, state, strict=True) if state != world.start}
        )
        if not blocked[-1]:
            blocked.pop()
    return rows, blocked


def _is_broken(world, variables, rows, blocked):
    """Whether the claim is no invariant, by trying all its states; False where they are too many to tell."""
    ranges = [[0, 1] if v.lower is None else [int(v.lower), int(v.upper)] for v in variables]
    place = {v.name: k for k, v in enumerate(variables)}
    for row in rows:
        if len(row["terms"]) == 1:
            k = place[next(iter(row["terms"]))]
            ranges[k] = [max(ranges[k][0], row["lower"]), min(ranges[k][1], row["upper"])]
    count = 1
    for low, high in ranges:
        count *= max(0, high - low + 1)
    if count > MOST_MEMBERS:
        return False

    def holds(state):
        values = [int(x) for x in state]
        if world.is_fail(state) or any(not low <= x <= high for x, (low, high) in zip(values, ranges, strict=True)):
            return False
        for row in rows:
            if not row["lower"] <= sum(c * values[place[name]] for name, c in row["terms"].items()) <= row["upper"]:
                return False
        return not any(all(a <= values[place[n]] <= b for n, (a, b) in box.items()) for box in blocked)

    if not holds(world.start):
        return True
    for values in product(*(range(low, high + 1) for low, high in ranges)):
        state = tuple(bool(x) if v.kind.value == "bool" else x for v, x in zip(variables, values, strict=True))
        if not holds(state):
            continue
        moves = world.moves(state)
        if moves is None:
            return True
        if any(not holds(o.state) for move in world.chosen(state, moves) for o in move.outcomes):
            return True
    return False
