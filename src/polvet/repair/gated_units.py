"""Units that fire in one state or one box of states only, and move its scores: changes of a network that change nothing else.

A gate for the box [a, b] is relu(1 - sum_i k_i (relu(a_i - x_i) + relu(x_i - b_i))): two hidden layers of ReLU; a state is a box.
Integer inputs have k_i = 1, so that the gate is exactly 1 in the box and exactly 0 in every other state; real inputs have
k_i = 2^16, so that it is 0 from a distance of 2^-16 on. A network with fewer hidden layers gets layers that hand their values on
exactly.
SOUND: all sums in a gate are sums of small integers (or of zeros), exact in every order; other neurons read gates with weight 0
or as a summand 0. So the scores of other states keep their bits in the reference order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.check.unit_bounds import UnitBounds
from polvet.policy.networks import Layer, Network
from polvet.policy.protocol import Rows
from polvet.policy.tape import Tape
from polvet.policy.unit_graph import AnyNetwork, UnitGraph
from polvet.repair.demands import Reals

REAL_SLOPE = 2.0**16


def add_gates(network: AnyNetwork, rows: Rows, shifts: Reals, integers: Sequence[bool]) -> AnyNetwork:
    """Return the network with a gate for each of the (different) rows that adds shifts[k] to the scores there."""
    return add_box_gates(network, rows, rows, shifts, integers)


def add_box_gates(network: AnyNetwork, lower: Rows, upper: Rows, shifts: Reals, integers: Sequence[bool]) -> AnyNetwork:
    """Return the network with a gate for each box that adds shifts[k] to the scores there; an infinite end is no end."""
    count, inputs = lower.shape
    if not count:
        return network
    # First hidden layer: relu(a - x_i) and relu(x_i - b) for the ends of all boxes.
    ends = [(k, -1.0, value) for k, value in _finite(lower)] + [(k, 1.0, value) for k, value in _finite(upper)]
    number = {end: k for k, end in enumerate(ends)}
    beyond = np.zeros((len(ends), inputs), dtype=np.float32)
    offset = np.zeros(len(ends), dtype=np.float32)
    for k, (feature, sign, value) in enumerate(ends):
        beyond[k, feature], offset[k] = sign, -sign * value
    # Second hidden layer: the gates.
    gates = np.zeros((count, len(ends)), dtype=np.float32)
    for sign, bounds in ((-1.0, lower), (1.0, upper)):
        for k, feature in zip(*np.nonzero(np.isfinite(bounds)), strict=True):
            slope = 1.0 if integers[feature] else REAL_SLOPE
            gates[k, number[int(feature), sign, float(bounds[k, feature])]] = -slope
    moves = shifts.T.astype(np.float32)
    if isinstance(network, UnitGraph):
        return _beside_a_graph(network, (beyond, offset), gates, moves)
    layers = list(_with_hidden_layers(network, 2))
    first, second = layers[0], layers[1]
    layers[0] = Layer(np.concatenate([first.weights, beyond]), np.concatenate([first.bias, offset]))
    # Gates read only ends, and what was there reads only what was there.
    corner = np.zeros((second.weights.shape[0], len(ends)), dtype=np.float32)
    below = np.zeros((count, first.weights.shape[0]), dtype=np.float32)
    weights = np.block([[second.weights, corner], [below, gates]]).astype(np.float32)
    layers[1] = Layer(weights, np.concatenate([second.bias, np.ones(count, dtype=np.float32)]))
    for index in range(2, len(layers) - 1):  # hand the gates on
        layers[index] = _beside(layers[index], count)
    last = layers[-1]
    layers[-1] = Layer(np.concatenate([last.weights, moves], axis=1), last.bias)
    return Network(network.inputs, network.outputs, tuple(layers), network.softmax)


def _beside_a_graph(graph: UnitGraph, ends: tuple[Rows, Rows], gates: Rows, moves: Rows) -> AnyNetwork:
    """Return the graph with the gates as a branch of their own, whose moves are added to the scores at the end."""
    tape = Tape.of(graph)
    beyond = tape.relu(tape.affine(np.arange(len(graph.inputs)), *ends))
    fired = tape.relu(tape.affine(beyond, gates, np.ones(len(gates), dtype=np.float32)))
    weights = np.concatenate([np.eye(len(moves), dtype=np.float32), moves], axis=1)
    scores = tape.affine(np.concatenate([graph.score_columns, fired]), weights)
    return tape.policy(scores, graph.inputs, graph.outputs, softmax=graph.softmax)


def _finite(ends: Rows) -> list[tuple[int, float]]:
    """Return the different finite ends of each input."""
    return [(k, float(value)) for k in range(ends.shape[1]) for value in np.unique(ends[:, k]) if np.isfinite(value)]


def score_spread(network: AnyNetwork, lower: Reals, upper: Reals) -> float:
    """Return more than the scores of one state between these ends can differ: intervals through all layers."""
    low, high = lower, upper
    if isinstance(network, UnitGraph):
        places = range(len(network.inputs))
        low, high = UnitBounds(network, places, len(network.inputs)).scores(lower[None], upper[None])
        return 1.0 + 1.01 * float(high.max() - low.min())
    for k, layer in enumerate(network.layers):
        if k:
            low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
        weights = layer.weights.astype(np.float64)
        up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        low, high = up @ low + down @ high + layer.bias, up @ high + down @ low + layer.bias
    return 1.0 + 1.01 * float(high.max() - low.min())


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
