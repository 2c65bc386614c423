"""The checker of invariants against an oracle that tries every state: tree policies on lines, and steps out of bounds."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from polvet.check import invariant_states
from polvet.check.arena import Arena
from polvet.check.checker import Accepted
from polvet.check.invariant import check_claim
from polvet.domains import generate
from polvet.errors import ModelError
from polvet.jani.write import dump_model
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Destination,
    Edge,
    Instance,
    Location,
    Model,
    ModelType,
    VariableDeclaration,
)  # fmt: skip
from polvet.model.expressions import TRUE, Binary, IntLiteral, Name, RealLiteral
from polvet.model.network import OutOfBounds
from polvet.model.semantics import Semantics
from polvet.model.task import PolicyReading, TaskOptions
from polvet.model.types import IntType
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.rounding import possible_choices
from polvet.policy.trees import TreeEnsemble, make_tree
from polvet.sources import load_task
from polvet.verify import split_tree
from polvet.verify.ic3 import IC3
from polvet.verify.method import Request
from polvet.verify.projection import PROJECTION
from polvet.verify.verdicts import Safe
from tests.safety.networks import TOP, random_model
from tests.verify.line_policies import random_line_policy
from tests.verify.test_engine import random_network, random_trees


class Oracle:
    """Steps of a policy by the interpreter, and whether a claim is an invariant of them, by trying every state."""

    def __init__(self, fitted, states, *, disable=False):
        if disable:
            network = replace(fitted.task.network, out_of_bounds=OutOfBounds.DISABLE)
            fitted = replace(fitted, task=replace(fitted.task, network=network))
        self.fitted, task = fitted, fitted.task
        self.semantics = Semantics(task.network)
        self.fail, self.goal = self.semantics.compile(task.fail), self.semantics.compile(task.goal)
        self.arena = Arena(task, self.semantics, self.fail, self.goal, "the task")
        self.names = [variable.name for variable in task.network.variables]
        found = self.semantics.initial_states() if task.start is None else self.semantics.states_satisfying(task.start)
        self.starts = list(found)
        self.after = {state: self.steps(state) for state in states}

    def steps(self, state):
        """All outcomes in some order of float32 operations; None where the model breaks a rule."""
        if self.fail(state) or self.goal(state):
            return set()
        try:
            moves = self.semantics.moves(state)
        except ModelError:
            return None
        labels = {move.label for move in moves if move.label is not None}
        taken = set()
        if labels:
            mask = np.array([[output in labels for output in self.fitted.policy.outputs]])
            if self.fitted.filtered and not mask.any():
                return set()
            given = mask if self.fitted.filtered else None
            possible = possible_choices(self.fitted.policy, self.fitted.row(state), given)[0]
            taken = {name for name, may in zip(self.fitted.policy.outputs, possible, strict=True) if may} & labels
            if not taken:
                return set()
        return {o.state for move in moves if move.label is None or move.label in taken for o in move.outcomes}

    def inside(self, state, certificate):
        named = dict(zip(self.names, map(int, state), strict=True))
        for row in certificate["rows"]:
            total = sum(c * named[name] for name, c in row["terms"].items())
            total += sum(c for name, value, c in row["marks"] if named[name] == value)
            if (row["lower"] is not None and total < row["lower"]) or (
                row["upper"] is not None and total > row["upper"]
            ):
                return False
        blocked = certificate["blocked"]
        return not self.fail(state) and not any(
            all(low <= named[name] <= high for name, (low, high) in box.items()) for box in blocked
        )

    def is_invariant(self, certificate):
        if not all(self.inside(state, certificate) for state in self.starts):
            return False
        for state, after in self.after.items():
            if self.inside(state, certificate) and (
                after is None or not all(self.inside(one, certificate) for one in after)
            ):
                return False
        return True

    def is_accepted(self, certificate):
        whole = json.loads(json.dumps(split_tree.with_tree(certificate, self.fitted)))
        answer = check_claim(self.arena, self.fitted, whole, "the policy")
        return isinstance(answer, Accepted)


@pytest.fixture(params=["masks", "halving"])
def boxes_alone(request, monkeypatch):
    """No set of states is small enough to be tried; with "halving", no ensemble is small enough for masks."""
    monkeypatch.setattr(invariant_states, "MOST_POINTS", 0)
    monkeypatch.setattr(split_tree, "SMALL", 4)
    if request.param == "halving":
        monkeypatch.setattr(split_tree, "fits", lambda ensemble: False)


def altered(certificate, rng, bounds):
    """Yield certificates with a box left out, with a box made smaller or larger, and with one more."""
    blocked = certificate["blocked"]
    for k in range(len(blocked)):
        less = copy.deepcopy(certificate)
        del less["blocked"][k]
        yield less
        for by in (-1, 1):
            moved = copy.deepcopy(certificate)
            box = moved["blocked"][k]
            name = rng.choice(sorted(box))
            low, high = box[name]
            box[name] = [low - by, high] if rng.random() < 0.5 else [low, high + by]
            yield moved
    more = copy.deepcopy(certificate)
    name = rng.choice(sorted(bounds))
    more["blocked"].append({name: [bounds[name][1], bounds[name][1]]})
    yield more


@pytest.mark.slow
@pytest.mark.parametrize("park", [False, True])
def test_claims_about_lines_are_accepted_where_trying_every_state_says_so(park, boxes_alone):
    task = generate("two-way-line", n=2, p=3, icy=True, park=park).task()
    bounds = {v.name: (v.lower, v.upper) for v in task.network.variables}
    states = list(Semantics(task.network).states_satisfying(sum_of_loads(task)))
    met = {True: 0, False: 0}
    last = None
    for seed in range(2):
        fitted = fit(task, random_line_policy(task, seed))
        found = PROJECTION(compile_policy(fitted)) if seed % 2 == 0 else IC3(compile_policy(fitted), Request(seed=seed))
        assert isinstance(found, Safe)
        certificate = dict(found.certificate)
        oracle = Oracle(fitted, states)
        assert oracle.is_accepted(certificate)
        assert oracle.is_invariant(certificate)
        chance = random.Random(seed)
        claims = list(altered(certificate, chance, bounds))
        claims = chance.sample(claims, min(len(claims), 4))
        for claim in [*claims, *([] if last is None else [last])]:  # `last` was made for another policy
            truth = oracle.is_invariant(claim)
            assert oracle.is_accepted(claim) == truth
            met[truth] += 1
        last = certificate
    assert met[False] > 2


def sum_of_loads(task):
    """The condition that all packages are somewhere; all certificates here have it as a row."""
    total = IntLiteral(0)
    for variable in task.network.variables:
        if "load" in variable.name:
            total = Binary("+", total, Name(variable.name))
    return Binary("=", total, IntLiteral(2))


def unbounded(model):
    """The same random model, but what was kept within the bounds may now leave them."""

    def freed(value):
        match value:
            case Binary("max", IntLiteral(0), Binary("min", IntLiteral(_), moved)):
                return moved
        return value

    def edge(one):
        destinations = tuple(
            replace(d, assignments=tuple(replace(a, value=freed(a.value)) for a in d.assignments))
            for d in one.destinations
        )
        return replace(one, destinations=destinations)

    automata = tuple(replace(one, edges=tuple(map(edge, one.edges))) for one in model.automata)
    return replace(model, automata=automata)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("way", ["states", "many states", "boxes"])
def test_operators_that_leave_the_bounds_are_read_as_the_task_says(seed, way, tmp_path, monkeypatch):
    rng, chance = np.random.default_rng(seed), random.Random(seed)
    path = tmp_path / "world.jani"
    path.write_text(dump_model(unbounded(random_model(chance))), encoding="utf-8")
    task = load_task(path, TaskOptions(fail=f"x == {chance.randint(0, TOP)} && y >= {chance.randint(0, TOP)}"))
    if not task.network.labels:
        return
    reading = PolicyReading("filtered" if rng.integers(3) else "raw")
    make = random_trees if rng.integers(2) else random_network
    policy = make(rng, [v.name for v in task.network.variables][:2], list(task.network.labels), False)
    fitted = fit(replace(task, reading=reading), policy)
    if way == "many states":
        monkeypatch.setattr(invariant_states, "FEW_POINTS", 0)
    if way == "boxes":
        monkeypatch.setattr(invariant_states, "MOST_POINTS", 0)
        monkeypatch.setattr(split_tree, "SMALL", 1)
    states = list(Semantics(task.network).states_satisfying(Binary("≥", IntLiteral(0), IntLiteral(0))))
    for disable in (False, True):
        oracle = Oracle(fitted, states, disable=disable)
        if None in oracle.after.values():  # not settled: an operator that is not chosen leaves the bounds
            continue
        met = set(oracle.starts)
        pending = list(met)
        while pending:
            for one in (oracle.after[pending.pop()] or set()) - met:
                met.add(one)
                pending.append(one)
        names = [v.name for v in task.network.variables]
        boxes = [{name: [int(x), int(x)] for name, x in zip(names, s, strict=True)} for s in states if s not in met]
        for blocked in (boxes, boxes[1:], boxes[: len(boxes) // 2], []):
            claim = {"rows": [], "blocked": blocked}
            assert oracle.is_accepted(claim) == oracle.is_invariant(claim), (disable, blocked)


def world_of_two(folder):
    """x in 0..4 counts up while label `a` is taken; `b` leads to fail (y = 1). The policy prefers `a` everywhere."""

    def edge(label, name, value):
        return Edge("l", label, TRUE, (Destination("l", RealLiteral(Fraction(1)), (Assignment(Name(name), value),)),))

    up = edge("a", "x", Binary("+", Name("x"), IntLiteral(1)))
    automaton = Automaton("m", (Location("l"),), ("l",), (up, edge("b", "y", IntLiteral(1))))
    variables = tuple(
        VariableDeclaration(name, IntType(IntLiteral(0), IntLiteral(top)), IntLiteral(0))
        for name, top in (("x", 4), ("y", 1))
    )
    model = Model("two", ModelType.MDP, (automaton,), Composition((Instance("m"),)), ("a", "b"), variables=variables)
    path = folder / "two.jani"
    path.write_text(dump_model(model), encoding="utf-8")
    leaf = make_tree(0, [-1], [0.0], [-1], [-1], [1.0])
    return fit(load_task(path, TaskOptions(fail="y == 1")), TreeEnsemble(("x",), ("a", "b"), (leaf,), (0.0, 0.0)))


@pytest.mark.parametrize("most", [0, 1_000_000])
def test_a_rival_that_is_disabled_at_the_bounds_excludes_nothing(most, tmp_path, monkeypatch):
    monkeypatch.setattr(invariant_states, "MOST_POINTS", most)
    monkeypatch.setattr(invariant_states, "FEW_POINTS", 0)
    monkeypatch.setattr(split_tree, "SMALL", 1)
    oracle = Oracle(world_of_two(tmp_path), [(x, y) for x in range(5) for y in range(2)], disable=True)
    claim = {"rows": [], "blocked": []}
    assert not oracle.is_invariant(claim)
    assert not oracle.is_accepted(claim)
