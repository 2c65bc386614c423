"""The last layer of a network as columns: scores are linear in its weights and biases, the hidden values stay what they are.

Differs  from the paper, which repairs trees: a row of the last layer plays the part of an action's leaf values
Means    where scores are means of several values each (QRDQN's quantiles), the layer below is the last one, and all rows of an
         action move together
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from polvet.policy.networks import Layer, Network
from polvet.policy.protocol import Rows
from polvet.policy.unit_graph import Affine, AnyNetwork, UnitGraph
from polvet.repair.demands import Reals
from polvet.solvers.highs import Row


@dataclass(frozen=True, slots=True, eq=False)
class LastLayer:
    """A `LinearScores` of a network over rows; column o * (hidden + 1) + k is a weight, k = hidden the bias."""

    network: AnyNetwork
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

    def apply(self, change: Reals) -> AnyNetwork:
        """Return the network with the last layer changed, rounded to float32."""
        moved = change.reshape(len(self.network.outputs), -1)
        if self.network.archive is not None and self.network.archive.against_zero:
            moved = np.stack([np.zeros_like(moved[0]), moved[1] - moved[0]])  # the same margins
        last, rows = last_of(self.network), pooled_rows(self.network)
        if rows is not None:
            whole = np.zeros((last.weights.shape[0], moved.shape[1]))
            whole[rows] = moved[:, None, :]
            moved = whole
        weights = (last.weights.astype(np.float64) + moved[:, :-1]).astype(np.float32)
        bias = (last.bias.astype(np.float64) + moved[:, -1]).astype(np.float32)
        if isinstance(self.network, UnitGraph):
            assert isinstance(last, Affine)
            layer = Affine(last.columns, weights, bias, np.abs(bias))
            return replace(self.network, nodes=tuple(layer if node is last else node for node in self.network.nodes))
        return replace(self.network, layers=(*self.network.layers[:-1], Layer(weights, bias)))


def ending_in_a_layer(network: AnyNetwork) -> AnyNetwork:
    """Return the network with the same scores whose last node is one affine map that makes them all, in order."""
    if isinstance(network, Network) or pooled_rows(network) is not None:
        return network
    begin = len(network.inputs) + sum(node.size for node in network.nodes[:-1])
    last, scores = network.nodes[-1], network.score_columns
    if isinstance(last, Affine) and last.is_shared and np.array_equal(scores, np.arange(begin, begin + last.size)):
        return network
    size = len(scores)
    zero = np.zeros(size, dtype=np.float32)
    identity = Affine(scores, np.eye(size, dtype=np.float32), zero, zero)
    place = begin + last.size
    return replace(
        network, nodes=(*network.nodes, identity), score_columns=np.arange(place, place + size, dtype=np.int32)
    )


def pooled_rows(network: AnyNetwork) -> npt.NDArray[np.intp] | None:
    """Return [outputs, rows]: the rows of the last layer whose means are the scores; None where scores are no such means."""
    if isinstance(network, Network) or len(network.nodes) < 2:
        return None
    below, last = network.nodes[-2:]
    if not (isinstance(below, Affine) and below.is_shared and isinstance(last, Affine)) or last.is_shared:
        return None
    end = len(network.inputs) + sum(node.size for node in network.nodes[:-1])
    rows = last.columns - (end - below.size)
    is_partition = np.array_equal(np.sort(rows, axis=None), np.arange(below.size))
    is_mean = (last.weights == last.weights[0, 0]).all() and abs(last.weights[0].astype(float).sum() - 1) < 1e-6
    in_order = np.array_equal(network.score_columns, np.arange(end, end + last.size))
    return rows.astype(np.intp) if is_partition and is_mean and in_order and not last.bias.any() else None


def last_of(network: AnyNetwork) -> Layer | Affine:
    """Return the last layer of a network that ends in one."""
    if isinstance(network, Network):
        return network.layers[-1]
    last = network.nodes[-1] if pooled_rows(network) is None else network.nodes[-2]
    assert isinstance(last, Affine)
    return last


def last_layer(network: AnyNetwork, rows: Rows) -> LastLayer:
    """Return the last layer as columns, over these rows; the network ends in one."""
    hidden = hidden_values(network, rows).astype(np.float64)
    scores = network.scores(rows).astype(np.float64)
    return LastLayer(network, scores, np.concatenate([hidden, np.ones((len(rows), 1))], axis=1))


def hidden_values(network: AnyNetwork, rows: Rows) -> npt.NDArray[np.float32]:
    """Return what the last layer reads: the last hidden layer's values, or the rows where there is none."""
    if isinstance(network, UnitGraph):
        columns = last_of(network).columns  # type: ignore[union-attr]
        if columns.max() < len(network.inputs):
            return np.asarray(rows, dtype=np.float32)[:, columns]
        names = tuple(f"h{k}" for k in range(len(columns)))
        kept = network.nodes[: -1 if pooled_rows(network) is None else -2]
        below = UnitGraph(network.inputs, names, kept, columns)
        return np.asarray(below.scores(rows), dtype=np.float32)
    if len(network.layers) == 1:
        return np.asarray(rows, dtype=np.float32)
    names = tuple(f"h{k}" for k in range(network.layers[-2].weights.shape[0]))
    values = Network(network.inputs, names, network.layers[:-1]).scores(rows)
    return np.where(values <= 0, np.float32(0), values)


def weight_change(old: AnyNetwork, new: AnyNetwork) -> float:
    """Return the L1 distance of the last layers of two networks of the same shape."""
    before, after = last_of(old), last_of(new)
    moved = np.abs(after.weights.astype(np.float64) - before.weights).sum()
    return float(moved + np.abs(after.bias.astype(np.float64) - before.bias).sum())
