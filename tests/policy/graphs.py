"""Random graphs of units: every unit, residual connections, products, shared and own columns, softmax at the end."""

from __future__ import annotations

import numpy as np

from polvet.policy.tape import Tape

PARAMETERS = {"clip": (-0.5, 1.5), "leaky": (0.2, 0.0), "elu": (1.4, 1.1)}
SMOOTH = ("tanh", "sigmoid", "erf", "softsign", "softplus", "silu", "gelu", "gelu_tanh", "mish", "hard_swish", "elu")
STRAIGHT = ("clip", "leaky", "abs")


def random_graph(rng, inputs, outputs, *, units=(*SMOOTH, *STRAIGHT), layers=None, scale=1.0):
    """A graph of one to three layers over named inputs; some have a residual, a product, an exponential or a one-hot input."""
    tape = Tape(len(inputs))
    value = np.arange(len(inputs))
    if rng.integers(4) == 0:
        marks = tape.unit("equal", np.zeros(3, dtype=int), [0, 1, 2], [0, 1, 2])
        value = np.concatenate([value, marks])
    for _ in range(layers or int(rng.integers(1, 4))):
        size = int(rng.integers(2, 9))
        spread = scale / np.sqrt(len(value))
        weights, bias = rng.normal(size=(size, len(value))) * spread, rng.normal(size=size) * 0.5
        linear = tape.affine(value, weights.astype(np.float32), bias.astype(np.float32))
        name = str(rng.choice(units))
        made = tape.unit(name, linear, *PARAMETERS.get(name, (0.0, 0.0)))
        match rng.integers(6):
            case 0:
                made = tape.total([made, linear], [1.0, -1.0])
            case 1:
                made = tape.scaled(made, rng.normal(size=size), rng.normal(size=size))
            case 2:
                made = tape.product(made, np.roll(made, 1))
            case 3:
                made = np.concatenate([made, linear[:2]])
            case 4 if "tanh" in units:
                made = tape.unit("exp", tape.unit("tanh", made))
        value = made
    weights = rng.normal(size=(len(outputs), len(value))).astype(np.float32)
    scores = tape.affine(value, weights, rng.normal(size=len(outputs)).astype(np.float32))
    if rng.integers(3) == 0:  # dueling heads
        mean = tape.affine(scores, np.full((1, len(outputs)), 1 / len(outputs)), None, None, 2)
        scores = tape.total([scores, np.repeat(mean, len(outputs))], [1.0, -1.0])
    return tape.policy(scores, list(inputs), list(outputs), softmax=bool(rng.integers(4) == 0))
