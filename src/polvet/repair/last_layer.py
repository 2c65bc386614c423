"""The last layer of a network as columns: scores are linear in its weights and biases, the hidden values stay what they are.

Differs  from the paper, which repairs trees: a row of the last layer plays the part of an action's leaf values
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.policy.networks import Layer, Network
from polvet.policy.protocol import Rows
from polvet.repair.demands import Reals
from polvet.solvers.highs import Row


@dataclass(frozen=True, slots=True, eq=False)
class LastLayer:
    """A `LinearScores` of a network over rows; column o * (hidden + 1) + k is a weight, k = hidden the bias."""

    network: Network
    base: Reals  # [rows, outputs]
    hidden: Reals  # [rows, hidden + 1]; the last value is 1

    @property
    def columns(self) -> int:
        """How many weights and biases may be changed."""
        return len(self.network.outputs) * int(self.hidden.shape[1])

    def scores(self, change: Reals) -> Reals:
        """Return the scores after the change, in doubles."""
        moved: Reals = self.base + self.hidden @ change.reshape(len(self.network.outputs), -1).T
        return moved

    def terms(self, row: int, output: int) -> Row:
        """Return the columns and coefficients of the output's score."""
        used = np.flatnonzero(self.hidden[row])
        return output * self.hidden.shape[1] + used, self.hidden[row, used]

    def apply(self, change: Reals) -> Network:
        """Return the network with the last layer changed, rounded to float32."""
        moved = change.reshape(len(self.network.outputs), -1)
        last = self.network.layers[-1]
        weights = (last.weights.astype(np.float64) + moved[:, :-1]).astype(np.float32)
        bias = (last.bias.astype(np.float64) + moved[:, -1]).astype(np.float32)
        layers = (*self.network.layers[:-1], Layer(weights, bias))
        return Network(self.network.inputs, self.network.outputs, layers)


def last_layer(network: Network, rows: Rows) -> LastLayer:
    """Return the last layer as columns, over these rows."""
    hidden = hidden_values(network, rows).astype(np.float64)
    scores = network.scores(rows).astype(np.float64)
    return LastLayer(network, scores, np.concatenate([hidden, np.ones((len(rows), 1))], axis=1))


def hidden_values(network: Network, rows: Rows) -> npt.NDArray[np.float32]:
    """Return what the last layer reads: the last hidden layer's values, or the rows where there is none."""
    if len(network.layers) == 1:
        return np.asarray(rows, dtype=np.float32)
    names = tuple(f"h{k}" for k in range(network.layers[-2].weights.shape[0]))
    below = Network(network.inputs, names, network.layers[:-1]).scores(rows)
    return np.where(below <= 0, np.float32(0), below)


def weight_change(old: Network, new: Network) -> float:
    """Return the L1 distance of the last layers of two networks of the same shape."""
    before, after = old.layers[-1], new.layers[-1]
    moved = np.abs(after.weights.astype(np.float64) - before.weights).sum()
    return float(moved + np.abs(after.bias.astype(np.float64) - before.bias).sum())
