"""Random worlds at the edges of numbers: sums of huge products that are off by one, wide bounds, assignments on the way, indices."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polvet.check.checker import Subjects
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.model.task import state_to_names
from polvet.policy.binding import load_fitted
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import TaskOptions, load_task

BASES = (0, 0, 7, -3, 10**6, 2**31 - 2, 2**39, -(2**39))
WIDTHS = (10**5, 2_000_000, 2**31, 2**39)
POWERS = (2, 18, 30, 38, 39, 39, 45, 59, 70)
MOST_STATES = 400


@dataclass(frozen=True)
class World:
    """A model in files, with the interpreter and a policy; all that is true of it is found by brute force."""

    subjects: Subjects
    task: object
    fitted: object
    semantics: Semantics

    @property
    def base(self):
        return {"format": "certificate/1", "task_sha256": self.task.sha256, "policy_sha256": self.fitted.sha256}

    @property
    def start(self):
        return tuple(variable.initial for variable in self.task.network.variables)

    def names(self, state):
        return {
            name: str(value) if type(value) is int and abs(value) > 2**53 else value
            for name, value in state_to_names(self.task.network, state).items()
        }

    def is_fail(self, state):
        return bool(self.semantics.compile(self.task.fail)(state))

    def moves(self, state):
        """The moves of the state, None where the model breaks a rule."""
        try:
            return self.semantics.moves(state)
        except InputError:
            return None

    def chosen(self, state, moves):
        """The moves of the policy's choice, with silent ones; none where it is stuck."""
        labels = tuple(dict.fromkeys(move.label for move in moves if move.label is not None))
        if not labels:
            return moves
        label = self.fitted.choose(state, labels)
        return [move for move in moves if move.label in (None, label)] if label in labels else []

    def reached(self, *, follow=True):
        """States from the start, fail states included but not left, and what goes wrong: None, 'fail' or 'error'."""
        seen, pending, wrong = {self.start}, [self.start], None
        while pending and len(seen) < MOST_STATES:
            state = pending.pop()
            if self.is_fail(state):
                wrong = wrong or "fail"
                continue
            moves = self.moves(state)
            if moves is None:
                wrong = wrong or "error"
                continue
            for move in self.chosen(state, moves) if follow else moves:
                for outcome in move.outcomes:
                    if outcome.state not in seen:
                        seen.add(outcome.state)
                        pending.append(outcome.state)
        return seen, wrong


def op(operator, left, right):
    return {"op": operator, "left": left, "right": right}


def tenth(number):
    """A tenth of a digit, as it is written."""
    return float(f"0.{number}")


def total(parts):
    found = parts[0]
    for part in parts[1:]:
        found = op("+", found, part)
    return found


class Maker:
    """Draws one world."""

    def __init__(self, rng):
        self.rng = rng
        self.ints = {}
        for name in ("x", "u", "w")[: rng.randint(1, 3)]:
            low = rng.choice(BASES)
            if rng.random() < 0.5:
                high = min(low + rng.choice(WIDTHS), 2**40)
                self.ints[name] = low, high, rng.randint(low, high)
            else:
                high = low + rng.randint(0, 3)
                self.ints[name] = low, high, rng.randint(low, high)
        self.ints["y"] = 0, 7, rng.randint(0, 7)
        self.near = {name: start for name, (_, _, start) in self.ints.items()} | {"y": rng.randint(0, 7)}

    def hair(self):
        """A sum of huge products and its value in a state near the start: what hangs on one bit."""
        rng = self.rng
        names = list(self.ints)
        factors = {name: rng.choice([-1, 1]) * rng.randint(1, 2 ** rng.choice(POWERS)) for name in names}
        factors["y"] = rng.choice([1, -1, 1, 2, factors["y"]])
        if len(names) > 2 and rng.random() < 0.6:  # as large numbers that cancel
            others = [name for name in names[1:] if name != "y"]
            factors[names[0]] = -sum(factors[name] for name in others)
        terms, value = [], 0
        for name, factor in factors.items():
            style = rng.random()
            if style < 0.1:
                factor = max(-(2**62), min(2**62, factor))
                terms.append(op("*", {"op": "floor", "exp": name}, factor))
            else:
                terms.append(op("*", factor, name) if style < 0.6 else op("*", name, factor))
            value += factor * self.near[name]
        rng.shuffle(terms)
        return total(terms), value

    def condition(self):
        rng = self.rng
        left, value = self.hair()
        value += rng.choice([0, 0, 0, 1, -1])
        difference = op("-", left, value)
        match rng.randint(0, 7):
            case 0 | 1 | 2:
                return op(rng.choice(["=", "≤", "≥", "<", ">", "≠"]), left, value)
            case 3:
                return op("≤", {"op": "abs", "exp": difference}, rng.choice([0, 1]))
            case 4:
                return op("=", op("%", difference, 2 ** rng.choice([1, 3, 40, 54])), 0)
            case 5:
                return op("=", op(rng.choice(["min", "max"]), difference, 0), 0)
            case 6:
                return op("∧", op("≤", left, value), op("≥", left, value))
            case _:
                return op("=", {"op": "ite", "if": op("<", left, value), "then": 1, "else": 0}, rng.choice([0, 1]))

    def guard(self):
        rng = self.rng
        match rng.choice([0, 0, 2, 3, 3, 4, 4, 4, 4, 4]):
            case 0:
                return True
            case 2:
                return op("=", op("%", 7, op("-", "y", self.near["y"])), 0)  # no value where y is near
            case 3:
                return op("∧", op("≤", "y", rng.randint(0, 7)), self.condition())
            case _:
                return self.condition()

    def effects(self):
        rng = self.rng
        name = rng.choice(list(self.ints))
        low, high, start = self.ints[name]
        left, value = self.hair()
        difference = op("-", left, value)
        turn = {"ref": "y", "value": op("%", op("+", "y", rng.randint(0, 7)), 8), "index": 0}
        match rng.choice([0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9]):
            case 0 | 1:
                return [{"ref": "bad", "value": True, "index": 0}]
            case 2:
                return [{"ref": "bad", "value": self.condition(), "index": 0}]
            case 3:
                return [turn]
            case 4:
                return [{"ref": name, "value": op("+", name, difference), "index": 0}]
            case 5:
                clipped = op("min", op("max", op("+", name, difference), low), high)
                return [{"ref": name, "value": clipped, "index": 0}]
            case 6:  # made good by a later assignment
                wrong = rng.choice([high + 1, low - 1, op("+", name, 1), op("+", high, op("-", "y", 6))])
                return [{"ref": name, "value": wrong, "index": 0}, {"ref": name, "value": start, "index": 1}]
            case 7:
                at = op("-", "y", rng.choice([0, 4, 5, 6]))
                return [{"ref": {"op": "aa", "exp": "cells", "index": at}, "value": 1, "index": 0}]
            case 8:
                one, other = ({"op": "aa", "exp": "cells", "index": op("%", e, 4)} for e in ("y", op("*", "y", "y")))
                return [{"ref": one, "value": 1, "index": 0}, {"ref": other, "value": 0, "index": 0}]
            case _:
                return [turn, {"ref": "bad", "value": op("=", op("*", difference, difference), 0), "index": 0}]

    def shares(self):
        """Probabilities that hang on the state, of which doubles do not know whether they are 0."""
        rng, k = self.rng, tenth(self.near["y"])
        one = rng.choice(
            [
                op("-", 1, op("-", 1, op("*", 10.0 ** -rng.choice([16, 17, 20, 30]), "y"))),
                op("max", 0, op("-", op("*", 0.1, "y"), k)),
                op("max", 0, op("-", k, op("*", 0.1, "y"))),
                op("-", op("+", "y", 1e-20), "y"),
                {"op": "ite", "if": op(">", op("*", 0.1, "y"), k), "then": 0.25, "else": 0},
            ]
        )
        return [one, op("-", 1, one)]

    def document(self):
        rng = self.rng
        labels = ["a", "b"][: rng.randint(1, 2)]
        edges = []
        for label in [*labels, *([None] if rng.random() < 0.2 else [])]:
            for _ in range(rng.randint(1, 2)):
                shares = rng.choice([[1.0], [1.0], [0.5, 0.5], [0.0, 1.0], self.shares()])
                places = [
                    {"location": "l", "probability": {"exp": share}, "assignments": self.effects()} for share in shares
                ]
                edge = {"location": "l", "guard": {"exp": self.guard()}, "destinations": places}
                edges.append(edge if label is None else {**edge, "action": label})
        bounded = {
            name: {"kind": "bounded", "base": "int", "lower-bound": low, "upper-bound": high}
            for name, (low, high, _) in self.ints.items()
        }
        variables = [{"name": n, "type": bounded[n], "initial-value": self.ints[n][2]} for n in self.ints]
        variables.append({"name": "bad", "type": "bool", "initial-value": False})
        cell = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 1}
        listed = {"op": "av", "elements": [0, 0, 0, 0]}
        variables.append({"name": "cells", "type": {"kind": "array", "base": cell}, "initial-value": listed})
        automaton = {"name": "one", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": edges}
        return labels, {
            "jani-version": 1, "name": "attack", "type": "mdp", "features": ["arrays"],
            "actions": [{"name": label} for label in labels], "variables": variables, "automata": [automaton],
            "system": {"elements": [{"automaton": "one"}], "syncs": [{"synchronise": [x], "result": x} for x in labels]},
        }  # fmt: skip


def random_world(seed, folder: Path):
    """Return a world in files of the folder; None where a model is refused before it is run."""
    rng = random.Random(seed)
    labels, document = Maker(rng).document()
    model, policy, toml = folder / "world.jani", folder / "policy.json", folder / "world.toml"
    model.write_text(json.dumps(document), encoding="utf-8")
    toml.write_text('model = "world.jani"\nfail = "bad"\n', encoding="utf-8")
    least = rng.randint(0, 8)  # the first label from here on, else the last one
    if rng.random() < 0.4:
        policy = folder / "policy.onnx"
        layer = np.eye(len(labels), 1), -np.eye(len(labels), 1)[:, 0] * (least - 0.5)
        save_onnx(network_of([layer], ["y"], labels), policy)
    else:
        rules = [{"when": f"y >= {least}", "action": labels[0]}, {"when": "true", "action": labels[-1]}]
        policy.write_text(json.dumps({"format": "rules/1", "rules": rules}), encoding="utf-8")
    try:
        task = load_task(toml, TaskOptions())
        fitted = load_fitted(task, policy)
    except InputError:
        return None
    return World(Subjects(toml, policy), task, fitted, Semantics(task.network))
