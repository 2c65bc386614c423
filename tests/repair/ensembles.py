"""Random small tasks, ensembles and faults for the tests of repair."""

from __future__ import annotations

import numpy as np

from polvet.model.build import ModelBuilder
from polvet.policy.trees import MISSING_NAN, VECTOR, TreeEnsemble, make_tree
from polvet.records.fault_files import Fault

LABELS = ("a", "b", "c")
SIZE = 6


def grid_task():
    """Two integers and three labels; in some states one label is not applicable."""
    m = ModelBuilder("grid")
    x, y = m.int("x", 0, SIZE - 1, initial=0), m.int("y", 0, SIZE - 1, initial=0)
    m.edge("a", guard=x < SIZE - 1, to={"x": x + 1})
    m.edge("b", guard=y < SIZE - 1, to={"y": y + 1})
    m.edge("c", guard=True, to={"x": 0, "y": 0})
    return m.task(fail=(x == SIZE - 1) & (y == 0), goal=y == SIZE - 1)


def applicable(state):
    """The labels of the grid, said once more."""
    return [label for label, good in zip(LABELS, (state[0] < SIZE - 1, state[1] < SIZE - 1, True), strict=True) if good]


def random_tree(rng, output, comparison, depth=2, width=1):
    """A complete tree over two inputs with thresholds between the integers."""
    count = 2 ** (depth + 1) - 1
    inner = 2**depth - 1
    feature = np.full(count, -1)
    feature[:inner] = rng.integers(0, 2, inner)
    threshold = np.zeros(count)
    threshold[:inner] = rng.integers(1, SIZE, inner) - (0.0 if comparison == "<" else 0.5)
    left, right = np.full(count, -1), np.full(count, -1)
    left[:inner], right[:inner] = 2 * np.arange(inner) + 1, 2 * np.arange(inner) + 2
    values = np.round(rng.normal(size=(count, width)), 2)
    return make_tree(output, feature, threshold, left, right, values, None, MISSING_NAN)


def random_ensemble(rng, kind="scalar", rounds=2):
    """`scalar` and `vector` compute as XGBoost does, `double` as scikit-learn's forests do, `binary` has a constant output."""
    comparison = "<=" if kind == "double" else "<"
    if kind == "vector":
        trees = [random_tree(rng, VECTOR, comparison, width=3) for _ in range(rounds)]
    elif kind == "binary":
        trees = [random_tree(rng, 1, comparison) for _ in range(rounds)]
    else:
        trees = [random_tree(rng, output, comparison) for _ in range(rounds) for output in range(3)]
    labels = LABELS[:2] if kind == "binary" else LABELS
    return TreeEnsemble(
        ("x", "y"),
        labels,
        tuple(trees),
        (0.0,) * len(labels),
        comparison,
        "float64" if kind == "double" else "float32",
        float(rounds) if kind == "double" else 0.0,
    )


def random_faults(rng, fitted, count):
    """So many states where the policy's action is called faulty, with some of the others called safe."""
    states = [(int(x), int(y)) for x in range(SIZE) for y in range(SIZE)]
    rng.shuffle(states)
    found = []
    for state in map(tuple, states):
        labels = [label for label in applicable(state) if label in fitted.policy.outputs]
        chosen = fitted.choose(state, labels)
        others = [label for label in labels if label != chosen]
        if chosen is None or not others:
            continue
        safe = [label for label in others if rng.random() < 0.7] or others[:1]
        found.append(Fault((int(state[0]), int(state[1])), chosen, tuple(safe), ()))
        if len(found) == count:
            break
    return found
