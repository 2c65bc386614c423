"""Units that fire in one state only, and move its scores: a repair of a network that changes nothing else.

A gate for the row s is relu(1 - sum_i k_i |x_i - s_i|), with |z| = relu(z) + relu(-z): two hidden layers of ReLU. Integer inputs
have k_i = 1, so that the gate is exactly 1 in s and exactly 0 in every other state; real inputs have k_i = 2^16, so that it is 0
from a distance of 2^-16 on. A network with fewer hidden layers gets layers that hand their values on exactly.
SOUND: all sums in a gate are sums of small integers (or of zeros), exact in every order; other neurons read gates with weight 0
or as a summand 0. So the scores of other states keep their bits in the reference order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.policy.networks import Layer, Network
from polvet.policy.protocol import Rows
from polvet.repair.demands import Reals

REAL_SLOPE = 2.0**16


def add_gates(network: Network, rows: Rows, shifts: Reals, integers: Sequence[bool]) -> Network:
    """Return the network with a gate for each of the (different) rows that adds shifts[k] to the scores there."""
    if not len(rows):
        return network
    layers = list(_with_hidden_layers(network, 2))
    first, second = layers[0], layers[1]
    distances = _distances(rows)
    extra = len(distances)
    place = {key: first.weights.shape[0] + 2 * k for k, key in enumerate(distances)}
    # First hidden layer: relu(x_i - v) and relu(v - x_i) for every value v of input i in some row.
    below = np.zeros((2 * extra, rows.shape[1]), dtype=np.float32)
    offset = np.zeros(2 * extra, dtype=np.float32)
    for k, (feature, value) in enumerate(distances):
        below[2 * k, feature], offset[2 * k] = 1.0, -value
        below[2 * k + 1, feature], offset[2 * k + 1] = -1.0, value
    layers[0] = Layer(np.concatenate([first.weights, below]), np.concatenate([first.bias, offset]))
    # Second hidden layer: the gates.
    width = first.weights.shape[0] + 2 * extra
    gates = np.zeros((len(rows), width), dtype=np.float32)
    for k, row in enumerate(rows.tolist()):
        for feature, value in enumerate(row):
            slope = 1.0 if integers[feature] else REAL_SLOPE
            start = place[feature, value]
            gates[k, start : start + 2] = -slope
    padded = np.concatenate([second.weights, np.zeros((second.weights.shape[0], 2 * extra), np.float32)], axis=1)
    ones = np.ones(len(rows), dtype=np.float32)
    layers[1] = Layer(np.concatenate([padded, gates]), np.concatenate([second.bias, ones]))
    for index in range(2, len(layers) - 1):  # hand the gates on
        layers[index] = _beside(layers[index], len(rows))
    last = layers[-1]
    weights = np.concatenate([last.weights, shifts.T.astype(np.float32)], axis=1)
    layers[-1] = Layer(weights, last.bias)
    return Network(network.inputs, network.outputs, tuple(layers))


def _distances(rows: Rows) -> list[tuple[int, float]]:
    return [(k, float(value)) for k in range(rows.shape[1]) for value in np.unique(rows[:, k])]


def _with_hidden_layers(network: Network, count: int) -> tuple[Layer, ...]:
    """Return the layers of a network with at least so many hidden layers and the same scores, bit for bit."""
    layers = network.layers
    if len(layers) == 1:
        # x = relu(x) - relu(-x); the two stand side by side, so that the order of the summands stays.
        size = layers[0].weights.shape[1]
        signs = np.zeros((2 * size, size), dtype=np.float32)
        signs[::2], signs[1::2] = np.eye(size), -np.eye(size)
        weights = np.zeros((layers[0].weights.shape[0], 2 * size), dtype=np.float32)
        weights[:, ::2], weights[:, 1::2] = layers[0].weights, -layers[0].weights
        layers = (Layer(signs, np.zeros(2 * size, dtype=np.float32)), Layer(weights, layers[0].bias))
    while len(layers) - 1 < count:  # hidden values are not negative: ReLU keeps them
        size = layers[-1].weights.shape[1]
        identity = Layer(np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32))
        layers = (*layers[:-1], identity, layers[-1])
    return layers


def _beside(layer: Layer, count: int) -> Layer:
    """Return the layer with `count` more inputs that it hands on as its last outputs."""
    outputs, inputs = layer.weights.shape
    weights = np.zeros((outputs + count, inputs + count), dtype=np.float32)
    weights[:outputs, :inputs] = layer.weights
    weights[outputs:, inputs:] = np.eye(count)
    return Layer(weights, np.concatenate([layer.bias, np.zeros(count, dtype=np.float32)]))
