"""Bounds over boxes hold at samples: the checker's intervals and rivals, and the kernel's answers, whoever evaluates the network.

100,000 samples in 400 boxes; POLVET_ROUNDS=10 makes them a million.
"""

import os

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.check.unit_bounds import UnitBounds
from polvet.model.build import ModelBuilder
from polvet.model.instantiate import instantiate
from polvet.model.task import PolicyReading, Task
from polvet.policy.binding import fit
from polvet.policy.unit_graph import UnitGraph
from polvet.symbolic.cells import Box, cell_of
from polvet.verify.engine import Answer, Engine
from tests.policy.graphs import random_graph
from tests.policy.test_units import another_evaluation

ROUNDS = int(os.environ.get("POLVET_ROUNDS", "1"))
BOXES, POINTS = 40, 250
NAMES, LABELS = ["x", "y", "z"], ["a", "b", "c"]


def engine_of(graph):
    m = ModelBuilder("box")
    places = [m.int(name, -6, 12, initial=0) for name in NAMES]
    m.labels(*LABELS)
    for label in LABELS:
        m.edge(label, to={places[0]: places[0]})
    return Engine(fit(Task(instantiate(m.build()), reading=PolicyReading("raw")), graph))


@pytest.mark.parametrize("seed", range(10 * ROUNDS))
def test_bounds_hold_at_every_sample(seed):
    rng = np.random.default_rng(50_000 + seed)
    graph = random_graph(rng, NAMES, LABELS)
    while not isinstance(graph, UnitGraph):
        graph = random_graph(rng, NAMES, LABELS)
    lower = rng.integers(-6, 7, (BOXES, 3))
    upper = lower + rng.integers(0, 6, (BOXES, 3))
    points = rng.integers(lower, upper + 1, (POINTS, BOXES, 3)).astype(np.float32).reshape(-1, 3)
    bounds = UnitBounds(graph, [0, 1, 2], 3)
    low, high = bounds.scores(lower.astype(float), upper.astype(float))
    beaten = bounds.beaten(lower.astype(float), upper.astype(float))
    assert beaten.any(), "there is something to be wrong about"
    evaluations = [graph.scores(points), another_evaluation(graph, points, rng)]
    evaluations = [scores.reshape(POINTS, BOXES, 3).astype(np.float64) for scores in evaluations]
    for scores in evaluations:
        assert (low <= scores).all()
        assert (scores <= high).all()
        below = scores[..., :, None] < scores[..., None, :]
        assert (below | ~beaten).all()
    engine = engine_of(graph)
    for k in range(0, BOXES, 4):
        cell = cell_of(Box(tuple(lower[k].tolist()), tuple(upper[k].tolist())), [])
        for output in range(3):
            chosen = any((scores[:, k].argmax(axis=1) == output).any() for scores in evaluations)
            if engine.find([cell], output, budget=Budget(20.0)).answer is Answer.NO:
                assert not chosen
