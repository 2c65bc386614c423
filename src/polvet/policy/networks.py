"""Fully connected ReLU networks with float32 weights, evaluated in one fixed order of operations.

Reference order, for every neuron: acc = bias; for k = 0, 1, 2, ...: acc = fl32(acc + fl32(weight[k] * x[k])).
Between layers: values that compare <= 0 become +0. `reference_scores` is the slow twin of the kernel `_core.Mlp`.
Cost     one multiplication and one addition per weight and row
Limits   finite float32 weights; ReLU between layers, nothing after the last
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import polvet._core as _core
from polvet.errors import InputError, Where
from polvet.policy.protocol import (
    Choices,
    Mask,
    Rows,
    Scores,
    checked_choices,
    checked_mask,
    checked_names,
    checked_rows,
    names_or_positions,
)

AGAIN = "Export the network again as a plain chain of linear layers."

MAX_PARAMETERS = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """An affine map: `weights` [outputs, inputs] and `bias` [outputs], both float32, finite and read-only."""

    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Archive:
    """What a network of a fixed shape was read from: bytes of a stable-baselines3 archive, or an estimator of scikit-learn.

    `layer` names the last layer in there; None: it cannot be changed. `against_zero`: it has one score, that of the second output; the
    first output's is 0 and stays so.
    """

    kind: str  # "stable-baselines3", "scikit-learn", or the name of another package's format
    document: Any = field(repr=False)
    layer: str | None
    against_zero: bool = False
    values: tuple[int, ...] = ()  # per input, how many values from 0 on it knows; empty: it reads any number
    masked: bool = False  # its library takes the best of the actions that a mask leaves open


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A network as a policy: layers with ReLU between them; the last layer's values are the scores."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    softmax: bool = False  # what is executed ends with a softmax, which may level scores that are close
    archive: Archive | None = field(default=None, repr=False)
    kernel: _core.Mlp = field(init=False, repr=False)

    def __post_init__(self) -> None:
        layers = tuple(Layer(_frozen(layer.weights), _frozen(layer.bias)) for layer in self.layers)
        check_layers(layers, None)
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "inputs", checked_names(self.inputs, layers[0].weights.shape[1], "input"))
        object.__setattr__(self, "outputs", checked_names(self.outputs, layers[-1].weights.shape[0], "output"))
        object.__setattr__(self, "kernel", _core.Mlp([(layer.weights, layer.bias) for layer in layers], self.softmax))

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, (self.inputs, self.outputs, self.layers, self.softmax, self.archive)

    def scores(self, rows: Rows) -> Scores:
        """Return the float32 scores [n, outputs] in the reference order."""
        result: Scores = self.kernel.scores32(checked_rows(self, rows))
        return result

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""
        rows = checked_rows(self, rows)
        return checked_choices(self, self.kernel.choose(rows, checked_mask(self, rows, applicable)), rows)

    def with_names(self, inputs: Sequence[str], outputs: Sequence[str]) -> Network:
        """Return the same network under other names."""
        return Network(tuple(inputs), tuple(outputs), self.layers, self.softmax, self.archive)


def network_of(
    layers: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    where: Where | None = None,
    *,
    softmax: bool = False,
) -> Network:
    """Return the network of these (weights, bias) pairs, or raise an InputError that names the layer at fault.

    >>> network_of([([[1.0, -1.0]], [0.5])]).scores(np.array([[2, 1]], dtype=np.float32))
    array([[1.5]], dtype=float32)
    """
    parts = tuple(Layer(_frozen(weights), _frozen(bias)) for weights, bias in layers)
    check_layers(parts, where)
    width, depth = parts[0].weights.shape[1], parts[-1].weights.shape[0]
    return Network(
        names_or_positions(inputs, None, width, "input", where),
        names_or_positions(outputs, None, depth, "output", where),
        parts,
        softmax,
    )


def check_layers(layers: Sequence[Layer], where: Where | None) -> None:
    """Raise an InputError unless shapes fit, every number is finite and the size is within the limit."""
    if not layers:
        raise InputError("the network has no layers.", where, AGAIN)
    total = sum(layer.weights.size for layer in layers)
    if total > MAX_PARAMETERS:
        raise InputError(f"the network has {total} weights; at most {MAX_PARAMETERS} are read.", where, AGAIN)
    for index, layer in enumerate(layers):
        weights, bias = layer.weights, layer.bias
        if weights.ndim != 2 or 0 in weights.shape:
            raise InputError(f"layer {index} has weights of shape {weights.shape}, not outputs x inputs.", where, AGAIN)
        if bias.shape != (weights.shape[0],):
            raise InputError(
                f"layer {index} has {weights.shape[0]} neurons but a bias of shape {bias.shape}.", where, AGAIN
            )
        if index and weights.shape[1] != layers[index - 1].weights.shape[0]:
            raise InputError(
                f"layer {index} takes {weights.shape[1]} values, layer {index - 1} gives "
                f"{layers[index - 1].weights.shape[0]}.",
                where,
                AGAIN,
            )
        for name, array in (("weight", weights), ("bias", bias)):
            broken = np.argwhere(~np.isfinite(array))
            if len(broken):
                place = tuple(int(i) for i in broken[0])
                raise InputError(
                    f"layer {index} has the {name} {array[place]} at {list(place)}.",
                    where,
                    "Every weight must be finite.",
                )


def reference_scores(network: Network, rows: Rows) -> Scores:
    """Return the scores by the definition above, operation by operation: the slow twin of the kernel."""
    values = checked_rows(network, rows)
    with np.errstate(over="ignore", invalid="ignore"):
        for index, layer in enumerate(network.layers):
            acc = np.broadcast_to(layer.bias, (len(values), len(layer.bias))).copy()
            for k in range(layer.weights.shape[1]):
                acc = acc + values[:, k : k + 1] * layer.weights[:, k]  # two float32 operations, each rounded
            last = index + 1 == len(network.layers)
            values = acc if last else np.where(acc <= 0, np.float32(0), acc)
    return values


def _frozen(array: npt.ArrayLike) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite and is refused by check_layers
        numbers = np.array(array, dtype=np.float32, order="C")
    numbers.setflags(write=False)
    return numbers
