"""Tree ensembles for the two-way line that brake when they drive and wait when they stand, with noise that may spoil it."""

from __future__ import annotations

import numpy as np

from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree

SPEED = "truck_vel_0"


def random_line_policy(task, seed):
    """Return a careful driver whose scores are stirred by random trees over all variables."""
    rng = np.random.default_rng(seed)
    names = tuple(variable.name for variable in task.network.variables)
    labels = task.network.labels
    speed = names.index(SPEED)

    def by_speed(output, below, standing, above):
        feature = np.array([speed, -1, speed, -1, -1])
        threshold = np.array([-0.5, 0.0, 0.5, 0.0, 0.0])
        left, right = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
        values = np.array([[0.0], [below], [0.0], [standing], [above]])
        return make_tree(output, feature, threshold, left, right, values, None, MISSING_NAN)

    def noise(output, size):
        inner = 3
        feature = np.full(7, -1)
        feature[:inner] = rng.integers(0, len(names), inner)
        threshold = np.zeros(7)
        threshold[:inner] = rng.integers(0, 3, inner) + 0.5
        left, right = np.array([1, 3, 5, -1, -1, -1, -1]), np.array([2, 4, 6, -1, -1, -1, -1])
        return make_tree(output, feature, threshold, left, right, rng.normal(0, size, (7, 1)), None, MISSING_NAN)

    scores = {"move_truck_0": (0.0, 1.0, 0.0), "dec_truck_0": (-1.0, -1.0, 1.0), "acc_truck_0": (1.0, -1.0, -1.0)}
    trees = [by_speed(labels.index(name), *parts) for name, parts in scores.items()]
    size = rng.choice([0.1, 0.3, 0.6])
    trees += [noise(output, size) for output in range(len(labels)) for _ in range(3)]
    return TreeEnsemble(names, labels, tuple(trees), (0.0,) * len(labels), "<", "float32", 0.0)
