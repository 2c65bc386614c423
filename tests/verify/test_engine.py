"""The engine's answers about boxes are what trying every state says: networks and trees, filtered and raw, ties included."""

from __future__ import annotations

import random
from itertools import pairwise, product

import numpy as np
import pytest

from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics
from polvet.model.task import PolicyReading, Task
from polvet.policy.binding import fit
from polvet.policy.networks import network_of
from polvet.policy.rounding import possible_choices
from polvet.policy.trees import TreeEnsemble, make_tree
from polvet.symbolic.cells import Box, cell_of, row_of
from polvet.symbolic.linear import Reader
from polvet.symbolic.operators import state_of
from polvet.verify.engine import ANYTHING, Answer, Engine
from tests.policy.graphs import SMOOTH, STRAIGHT, random_graph
from tests.safety.networks import random_model


def random_network(rng, inputs, outputs, exact):
    sizes = [len(inputs), *(int(rng.integers(2, 9)) for _ in range(rng.integers(1, 4))), len(outputs)]
    layers = []
    for width, neurons in pairwise(sizes):
        if exact:
            layers.append((rng.integers(-2, 3, (neurons, width)) / 2, rng.integers(-2, 3, neurons) / 2))
        else:
            layers.append((rng.normal(size=(neurons, width)), rng.normal(size=neurons)))
    return network_of(layers, inputs, outputs, softmax=bool(rng.integers(4) == 0))


def random_trees(rng, inputs, outputs, exact):
    """Random trees of depth three: scalar leaves per output, or vectors."""
    wide, vector = bool(rng.integers(2)), bool(rng.integers(2))

    def values(count, width):
        found = rng.normal(size=(count, width))
        return np.round(found * 2) / 2 if exact else found

    trees = []
    for k in range(int(rng.integers(1, 4)) * (1 if vector else len(outputs))):
        inner = 7
        feature = [int(rng.integers(len(inputs))) for _ in range(inner)] + [-1] * (inner + 1)
        threshold = [float(rng.integers(-1, 6)) + float(rng.choice([0, 0.5])) for _ in range(inner)] + [0.0] * (
            inner + 1
        )
        left = [2 * i + 1 for i in range(inner)] + [-1] * (inner + 1)
        right = [2 * i + 2 for i in range(inner)] + [-1] * (inner + 1)
        width = len(outputs) if vector else 1
        missing = int(rng.integers(3)) if wide else 2
        default = rng.integers(0, 2, 2 * inner + 1).astype(bool)
        trees.append(
            make_tree(
                -1 if vector else k % len(outputs),
                feature,
                threshold,
                left,
                right,
                values(2 * inner + 1, width),
                default,
                missing,
            )
        )
    base = tuple(values(1, len(outputs))[0].tolist())
    return TreeEnsemble(
        tuple(inputs), tuple(outputs), tuple(trees), base, "<=" if wide else "<", "float64" if wide else "float32",
        float(rng.choice([0.0, 3.0])) if wide else 0.0,
    )  # fmt: skip


def random_fitted(seed, mode=None, graph=None):
    rng = np.random.default_rng(seed)
    model = random_model(random.Random(seed))
    network = instantiate(model)
    if not network.labels:
        return None
    names = [variable.name for variable in network.variables]
    inputs = [name for name in names if rng.integers(4)] or names[:1]
    outputs = [label for label in network.labels if rng.integers(6)] or list(network.labels)
    rng.shuffle(outputs)
    mode = mode or ("filtered" if rng.integers(2) else "raw")
    exact = bool(rng.integers(2))
    make = graph or (random_trees if rng.integers(2) else random_network)
    return fit(Task(network, reading=PolicyReading(mode)), make(rng, inputs, outputs, exact))


def random_units(rng, inputs, outputs, exact):
    return random_graph(rng, inputs, outputs, units=STRAIGHT if exact else (*SMOOTH, *STRAIGHT))


def all_points(bounds):
    return product(*(range(low, high + 1) for low, high in zip(bounds.lower, bounds.upper, strict=True)))


def chosen(fitted, semantics, point):
    """The reference choice and all possible choices (outputs) in a state, by the interpreter; None: not asked or stuck."""
    state = state_of(fitted.task.network, point)
    applicable = semantics.applicable(state)
    mask = np.array([[label in applicable for label in fitted.policy.outputs]])
    if fitted.filtered and not mask.any():
        return -1, set()
    given = mask if fitted.filtered else None
    reference = int(fitted.policy.choose(fitted.row(state), given)[0])
    return reference, set(np.flatnonzero(possible_choices(fitted.policy, fitted.row(state), given)[0]).tolist())


def random_box(rng, bounds):
    lower, upper = [], []
    for low, high in zip(bounds.lower, bounds.upper, strict=True):
        a, b = sorted((rng.randint(low, high), rng.randint(low, high)))
        lower.append(a)
        upper.append(b)
    return Box(tuple(lower), tuple(upper))


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("seed", range(110))
def test_answers_are_what_trying_every_state_says(seed, graph):
    fitted = random_fitted(seed, graph=random_units if graph else None)
    if fitted is None:
        return
    engine = Engine(fitted, seed=seed)
    engine.core.enumerated = 1 if seed % 3 else 8  # otherwise such small boxes are never bounded
    semantics = Semantics(fitted.task.network)
    bounds = engine.linear.system.bounds
    rng = random.Random(seed)
    choices = {point: chosen(fitted, semantics, point) for point in all_points(bounds)}
    for _ in range(12):
        box, hole = random_box(rng, bounds), random_box(rng, bounds)
        total = rng.randint(0, 6)
        rows = [row_of({0: 1, 1: rng.choice([-1, 1, 2])}, rng.choice([None, total - 2]), total)] * rng.randint(0, 1)
        output = rng.randrange(len(fitted.policy.outputs))
        cell = cell_of(box, rows)
        if cell is None:
            continue
        holes = [hole] * rng.randint(0, 1)
        reply = engine.find([cell], output, without_boxes=holes, use_rows=False)
        counted = [p for p in choices if cell.holds(p) and not any(hole.holds(p) for hole in holes)]
        sure = [p for p in counted if choices[p][0] == output]
        maybe = [p for p in counted if output in choices[p][1]]
        if reply.answer == Answer.YES:
            assert reply.state in sure
        elif reply.answer == Answer.NEAR_TIE:
            assert reply.state in maybe
        else:
            assert reply.answer == Answer.NO
            assert not maybe


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("seed", range(110))
def test_steps_into_a_box_are_those_of_the_policy(seed, graph):
    fitted = random_fitted(seed, graph=random_units if graph else None)
    if fitted is None:
        return
    engine = Engine(fitted, seed=seed)
    engine.core.enumerated = 1 if seed % 3 else 8  # otherwise such small boxes are never bounded
    network = fitted.task.network
    semantics = Semantics(network)
    bounds = engine.linear.system.bounds
    rng = random.Random(seed)
    for _ in range(8):
        target, hole = random_box(rng, bounds), random_box(rng, bounds)
        reply = engine.find_step_into(target, without_boxes=[hole])
        leading = set()
        for point in all_points(bounds):
            state = state_of(network, point)
            if hole.holds(point):
                continue
            moves = semantics.moves(state)
            labels = {move.label for move in moves if move.label is not None}
            _, possible = chosen(fitted, semantics, point)
            taken = {fitted.policy.outputs[k] for k in possible} & labels
            for move in moves:
                goes = (move.label in taken) if move.label is not None else (not labels or bool(taken))
                if goes and any(target.holds(outcome.state) for outcome in move.outcomes):
                    leading.add(point)
        if reply.answer == Answer.NO:
            assert not leading
        else:
            assert reply.state in leading
            assert target.holds(engine.successor(reply.state, reply.step))


def larger_fitted(seed, variables=8, top=15, hidden=(16, 16), trees=False):
    from polvet.model.build import ModelBuilder

    m = ModelBuilder("wide")
    names = [m.int(f"v{k}", 0, top, initial=0) for k in range(variables)]
    m.labels("a", "b", "c", "d")
    for label, variable in zip("abcd", names, strict=False):
        m.edge(label, guard=variable <= top - 1, to={variable: variable + 1})
    network = instantiate(m.build())
    rng = np.random.default_rng(seed)
    inputs, outputs = [f"v{k}" for k in range(variables)], list("abcd")
    if trees:
        policy = random_trees(rng, inputs, outputs, False)
    else:
        layers = [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise([variables, *hidden, 4])]
        policy = network_of(layers, inputs, outputs)
    return fit(Task(network), policy)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("trees", [False, True])
def test_larger_questions_agree_with_many_samples(seed, trees):
    fitted = larger_fitted(seed, trees=trees)
    engine = Engine(fitted)
    rng = np.random.default_rng(seed)
    bounds = engine.linear.system.bounds
    for output in range(4):
        box = Box((2, 2, 0, 0, 3, 0, 0, 0), (9, 9, 6, 15, 9, 15, 8, 9))
        row = row_of(dict.fromkeys(range(8), 1), 20, 20)
        cell = cell_of(box, [row])
        reply = engine.find([cell], output, use_rows=False)
        assert reply.answer in (Answer.YES, Answer.NO)
        points = rng.integers(box.lower, np.array(box.upper) + 1, size=(200_000, 8))
        points = points[points.sum(axis=1) == 20]
        mask = points[:, :4] <= 14
        choices = fitted.policy.choose(points.astype(np.float32), mask)
        if reply.answer == Answer.NO:
            assert not (choices == output).any()
        else:
            state = np.array([reply.state])
            assert cell.holds(reply.state)
            assert fitted.policy.choose(state.astype(np.float32), state[:, :4] <= 14)[0] == output
    assert bounds.count == 16**8


def test_a_question_ends_at_its_limit():
    engine = Engine(larger_fitted(0, variables=24, top=30, hidden=(64, 64)))
    whole = Reader(engine.fitted.task.network).whole
    cell = cell_of(whole.box, [row_of({k: 2 for k in range(24)} | {0: 1}, 701, 701)])
    reply = engine.find([cell], ANYTHING, use_rows=False, nodes=3)
    assert reply.nodes <= 4
