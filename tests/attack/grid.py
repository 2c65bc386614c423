"""False grids: runs of real-valued models that meet `fail`, or break a rule, by the last bit of a double."""

from __future__ import annotations

import json
import math
import operator
from contextlib import nullcontext

import numpy as np

from polvet.check.checker import Subjects
from polvet.check.grid import pack_marks
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.policy.binding import load_fitted
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import TaskOptions, load_task
from tests.attack.worlds import World, op

STEPS = 60
OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "min": min,
    "<": operator.lt,
}
NUMBERS = (0.1, 0.2, 0.3, 0.7, 1.1, 1 / 3, 1e-3, 1e-9, 1e-17, 2.0**-30, 0.5, 0.9, 0.99)


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    world = _world(rng, folder)
    if world is None or not _goes_wrong(world):
        return
    flags = [variable for variable in world.task.network.variables if variable.kind.value == "bool"]
    for _ in range(3):
        cuts = sorted({0.0, *(round(rng.uniform(0, 4), rng.randint(1, 3)) for _ in range(rng.randint(0, 6)))})
        if rng.random() < 0.5:  # a line where the run is
            cuts = sorted({*cuts, *(float(s[0]) for s in _run(world)[:3])})
        lines = {"x": [cut for cut in cuts if 0 <= cut <= 4.0]} | {flag.name: [0, 1] for flag in flags}
        marks = np.ones([len(line) for line in lines.values()], dtype=np.bool_)
        marks[:, 1] = False  # not bad
        certificate = {"kind": "grid", **world.base, "lines": lines, "steps": rng.choice([1, 1, 2, 5])}
        if rng.random() < 0.5:  # followed for long, in pieces and halves
            some = sorted({*rng.sample(lines["x"], rng.randint(0, len(lines["x"]))), round(rng.uniform(0, 4), 2)})
            more = {"cuts": {"x": some}, "parts": rng.choice([1, 4, 256]), "halvings": rng.choice([0, 1, 5])}
            certificate |= {**more, "steps": rng.choice([1, 5, 100])}
            if rng.random() < 0.5:  # a part of the cells: runs leave them and come back, or do not
                kept = np.array([rng.random() < 0.7 for _ in range(marks.size)]).reshape(marks.shape)
                marks = marks & kept
        yield {**certificate, "cells": pack_marks(marks.ravel())}, world.subjects, nullcontext()


def _world(rng, folder):
    start = rng.choice([0.0, 0.1, 0.3, 1.0, 1.5, rng.uniform(0, 3)])
    change = _value(rng)
    # The threshold is what the run itself computes, or the next double.
    orbit = _orbit(change, start)
    threshold = rng.choice(orbit) if orbit else 1.0
    threshold = rng.choice([threshold, threshold, math.nextafter(threshold, 0.0), math.nextafter(threshold, 9.0)])
    compare = op(rng.choice(["=", ">", "≥", "<", "≤", "≠"]), rng.choice(["x", change]), threshold)
    first = [{"ref": "x", "value": change, "index": 0}]
    match rng.randint(0, 5):
        case 0:
            first.append({"ref": "bad", "value": compare, "index": 0})
        case 1:
            first = [{"ref": "x", "value": 5.0, "index": 0}, {"ref": "x", "value": start, "index": 1}]
    edges = [(compare if rng.random() < 0.2 else True, first)]
    if rng.random() < 0.7:
        edges.append((compare, [{"ref": "bad", "value": True, "index": 0}]))
    places = [
        {"location": "l", "action": "a", "guard": {"exp": g}, "destinations": [{"location": "l", "assignments": w}]}
        for g, w in edges
    ]
    if rng.random() < 0.4:
        places.append(_unlikely(rng))
    if rng.random() < 0.4:
        places.append(_never_chosen(rng, compare, rng.choice([start, threshold])))
    real = {"kind": "bounded", "base": "real", "lower-bound": 0, "upper-bound": 4}
    model = {
        "jani-version": 1, "name": "attack", "type": "mdp", "actions": [{"name": "a"}, {"name": "b"}],
        "variables": [
            {"name": "x", "type": real, "initial-value": start}, {"name": "bad", "type": "bool", "initial-value": False}
        ],
        "automata": [{"name": "one", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": places}],
        "system": {"elements": [{"automaton": "one"}], "syncs": [{"synchronise": [x], "result": x} for x in "ab"]},
    }  # fmt: skip
    (folder / "world.jani").write_text(json.dumps(model), encoding="utf-8")
    task_file, policy = folder / "world.toml", folder / "policy.onnx"
    task_file.write_text('model = "world.jani"\nfail = "bad"\n', encoding="utf-8")
    save_onnx(network_of([(np.zeros((2, 1)), np.array([1.0, 0.0]))], ["x"], ["a", "b"]), policy)
    try:
        task = load_task(task_file, TaskOptions())
        fitted = load_fitted(task, policy)
    except InputError:
        return None
    return World(Subjects(task_file, policy), task, fitted, Semantics(task.network))


def _unlikely(rng):
    """An edge that sets `bad` with a probability of which doubles do not know whether it is 0."""
    small = 10.0 ** -rng.choice([16, 17, 20, 30])
    one = rng.choice(
        [
            op("-", 1, op("-", 1, op("*", small, "x"))),
            op("-", op("+", "x", small), "x"),
            op("-", 1, op("-", 1, op("*", op("*", small, "x"), "x"))),
            op("min", op("*", op("*", 1e-300, 1e-300), "x"), 1),
            op("max", 0, op("-", op("*", 0.1, "x"), 0.3)),
        ]
    )
    ends = [
        {"location": "l", "probability": {"exp": share}, "assignments": [{"ref": "bad", "value": bad, "index": 0}]}
        for share, bad in ((one, True), (op("-", 1, one), False))
    ]
    return {"location": "l", "action": "a", "guard": {"exp": True}, "destinations": ends}


def _never_chosen(rng, compare, place):
    """An edge that the policy does not take, which may break a rule of the model all the same."""
    beyond = op("+", "x", op("-", rng.choice([4.0, 5.0]), place))
    near = op("*", 0.25, "x")
    guard, shares, value = rng.choice(
        [
            (compare, [1.0], beyond),
            (True, [1.0], beyond),
            (op(">", op("/", 1.0, op("-", "x", place)), -1e300), [1.0], "x"),
            (compare, [1.0], op("min", op("/", 1.0, op("-", "x", place)), 1.0)),
            (compare, [near, op("-", rng.choice([1.0, 1.0, 0.99]), near)], "x"),
            (compare, [op("-", near, 0.25 * place), op("-", 1 + 0.25 * place, near)], "x"),
        ]
    )
    ends = [
        {"location": "l", "probability": {"exp": share}, "assignments": [{"ref": "x", "value": value, "index": 0}]}
        for share in shares
    ]
    return {"location": "l", "action": "b", "guard": {"exp": guard}, "destinations": ends}


def _value(rng):
    one, other = rng.choice(NUMBERS), rng.choice(NUMBERS)
    match rng.randint(0, 5):
        case 0:
            return op("+", op("*", one, "x"), other)
        case 1:
            return op("-", op("+", "x", other), other)
        case 2:
            return op("min", op("+", "x", other), 4.0)
        case 3:
            return op("/", op("+", "x", one), rng.choice([3.0, 7.0, 1.1]))
        case 4:
            return op("-", 1.0, op("-", 1.0, op("*", one, "x")))
        case _:
            return {"op": "ite", "if": op("<", "x", one), "then": op("+", "x", other), "else": op("*", one, "x")}


def _orbit(change, start):
    def value(part, x):
        if part == "x":
            return x
        if not isinstance(part, dict):
            return part
        if part["op"] == "ite":
            return value(part["then"], x) if value(part["if"], x) else value(part["else"], x)
        a, b = value(part["left"], x), value(part["right"], x)
        return OPERATIONS[part["op"]](a, b)

    found, x = [], start
    for _ in range(8):
        x = value(change, x)
        if not 0 <= x <= 4:
            break
        found.append(x)
    return found


def _run(world):
    """The states of all runs from the start, as far as STEPS steps; ends where the model breaks a rule."""
    seen, frontier = [world.start], [world.start]
    for _ in range(STEPS):
        following = []
        for state in frontier:
            moves = [] if world.is_fail(state) else world.moves(state)
            for move in world.chosen(state, moves) if moves else []:
                following += [o.state for o in move.outcomes if o.state not in seen]
        seen += following
        frontier = list(dict.fromkeys(following))
        if not frontier:
            break
    return seen


def _goes_wrong(world):
    return any(world.is_fail(state) or world.moves(state) is None for state in _run(world))
