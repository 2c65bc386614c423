"""Networks as graphs of units: vector nodes in topological order, of three kinds, over one tape of columns.

Columns are numbered: first the inputs, then the values of each node. A node reads any earlier columns, so that concatenation,
slices, residual connections and several heads cost nothing.
Affine   bias + sum over k of weights[k] * column[k]; `columns` [terms] serve all outputs, or [outputs, terms] each its own
Unit     an elementwise function from `polvet.policy.units`
Product  of two columns

Reference evaluation: affine nodes as in `polvet.policy.networks` (float32, in order, never fused), units in float64 rounded to
float32, products rounded to float32. `reference_scores` is the slow twin of the kernel `_core.UnitGraph`.
Other evaluations may add in any order, may have constant factors multiplied into weights, and their units may be anywhere
within the enclosure (`units`): `rounding_bounds` covers them all. `sizes` is at least |bias|: the sum of the sizes of what a bias
is made of; `roundings` counts the roundings that a library may make and this node does not, as in (x - mean) / deviation.
Networks with float64 weights are read as the float32 network next to them: the rounding of each weight is one of `roundings`, so that
every evaluation in float64 is within the bounds, too. Their reference evaluation is executed by nobody (`narrowed`): what it does in
a near tie is no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import polvet._core as _core
from polvet.errors import InputError, Where
from polvet.policy.networks import MAX_PARAMETERS, Archive, Network
from polvet.policy.protocol import (
    Choices,
    Mask,
    Rows,
    Scores,
    checked_choices,
    checked_mask,
    checked_names,
    checked_rows,
)
from polvet.policy.units import UNITS

Floats: TypeAlias = npt.NDArray[np.float32]
Columns: TypeAlias = npt.NDArray[np.int32]

MAX_COLUMNS = 1 << 18
SMALLER = "Use a smaller network."


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """Weighted sums of columns."""

    columns: Columns
    weights: Floats
    bias: Floats
    sizes: Floats
    roundings: int = 0

    @property
    def size(self) -> int:
        """Return how many values the node has."""
        return len(self.bias)

    @property
    def is_shared(self) -> bool:
        """Return whether all outputs read the same columns."""
        return self.columns.ndim == 1

    @property
    def reads(self) -> Columns:
        """Return the columns that the node reads."""
        return self.columns.reshape(-1)

    def moved(self, place: Columns) -> Affine:
        """Return the node where column k is `place[k]`."""
        return Affine(place[self.columns], self.weights, self.bias, self.sizes, self.roundings)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One function of each column, with parameters per column."""

    name: str
    columns: Columns
    a: Floats
    b: Floats

    @property
    def size(self) -> int:
        """Return how many values the node has."""
        return len(self.columns)

    @property
    def reads(self) -> Columns:
        """Return the columns that the node reads."""
        return self.columns

    def moved(self, place: Columns) -> Unit:
        """Return the node where column k is `place[k]`."""
        return Unit(self.name, place[self.columns], self.a, self.b)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """Products of two columns each."""

    left: Columns
    right: Columns

    @property
    def size(self) -> int:
        """Return how many values the node has."""
        return len(self.left)

    @property
    def reads(self) -> Columns:
        """Return the columns that the node reads."""
        return np.concatenate([self.left, self.right])

    def moved(self, place: Columns) -> Product:
        """Return the node where column k is `place[k]`."""
        return Product(place[self.left], place[self.right])


Node: TypeAlias = Affine | Unit | Product


@dataclass(frozen=True, slots=True, eq=False)
class UnitGraph:
    """A graph of units as a policy: `scores` of a row are the values of `score_columns`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    score_columns: Columns
    softmax: bool = False  # the file ends with a softmax, which may level scores that are close
    archive: Archive | None = field(default=None, repr=False)
    narrowed: bool = (
        False  # float64 weights were rounded to float32: the reference is near what is executed, not one way of it
    )
    kernel: _core.UnitGraph = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_nodes(self.nodes, len(self.inputs), self.score_columns, None)
        object.__setattr__(self, "inputs", checked_names(self.inputs, len(self.inputs), "input"))
        object.__setattr__(self, "outputs", checked_names(self.outputs, len(self.score_columns), "output"))
        kernel = _core.UnitGraph(len(self.inputs))
        for node in self.nodes:
            match node:
                case Affine():
                    kernel.add_affine(
                        node.reads.tolist(), node.is_shared, node.weights, node.bias, node.sizes, node.roundings
                    )
                case Unit():
                    kernel.add_unit(node.name, node.columns.tolist(), node.a, node.b)
                case Product():
                    kernel.add_product(node.left.tolist(), node.right.tolist())
        kernel.finish(self.score_columns.tolist(), self.softmax)
        object.__setattr__(self, "kernel", kernel)

    def __reduce__(self) -> tuple[Any, ...]:
        return UnitGraph, (
            self.inputs,
            self.outputs,
            self.nodes,
            self.score_columns,
            self.softmax,
            self.archive,
            self.narrowed,
        )

    def scores(self, rows: Rows) -> Scores:
        """Return the float32 scores [n, outputs] of the reference evaluation."""
        result: Scores = self.kernel.scores32(checked_rows(self, rows))
        return result

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""
        rows = checked_rows(self, rows)
        return checked_choices(self, self.kernel.choose(rows, checked_mask(self, rows, applicable)), rows)

    def with_names(self, inputs: Sequence[str], outputs: Sequence[str]) -> UnitGraph:
        """Return the same graph under other names."""
        return replace(self, inputs=tuple(inputs), outputs=tuple(outputs))

    @property
    def unit_names(self) -> tuple[str, ...]:
        """Return the names of the units in use, each once."""
        return tuple(dict.fromkeys(node.name for node in self.nodes if isinstance(node, Unit)))


AnyNetwork: TypeAlias = Network | UnitGraph
"""What libraries evaluate in several ways: sums in any order, smooth units within an enclosure."""


def dense_layers(network: AnyNetwork) -> list[tuple[Floats, Floats]]:
    """Return weights and bias of every affine map of a whole vector, in order."""
    if isinstance(network, Network):
        return [(layer.weights, layer.bias) for layer in network.layers]
    return [(node.weights, node.bias) for node in network.nodes if isinstance(node, Affine) and node.is_shared]


def check_nodes(nodes: Sequence[Node], inputs: int, scores: Columns, where: Where | None) -> None:
    """Raise an InputError unless every number is finite, nodes read earlier columns only, and the size is within the limit."""
    count, weights = inputs, 0
    for index, node in enumerate(nodes):
        if not node.size or (len(node.reads) and not 0 <= node.reads.min() <= node.reads.max() < count):
            raise InputError(
                f"node {index} reads values that do not come before it.", where, "Export the network again."
            )
        if isinstance(node, Affine):
            weights += node.weights.size
            for name, array in (("weight", node.weights), ("bias", node.bias), ("bias", node.sizes)):
                broken = np.argwhere(~np.isfinite(array))
                if len(broken):
                    place = tuple(int(i) for i in broken[0])
                    raise InputError(
                        f"node {index} has the {name} {array[place]} at {list(place)}.",
                        where,
                        "Every weight must be finite.",
                    )
        elif isinstance(node, Unit) and not all(_is_parameter(node.name, part).all() for part in (node.a, node.b)):
            raise InputError(
                f"node {index} ({node.name}) has a parameter that is not a number.", where, "Export again."
            )
        count += node.size
        if count > MAX_COLUMNS or weights > MAX_PARAMETERS:
            raise InputError(
                f"the network has more than {MAX_COLUMNS} values or {MAX_PARAMETERS} weights.", where, SMALLER
            )
    if not len(scores) or not 0 <= scores.min() <= scores.max() < count:
        raise InputError("the network has no scores.", where, "Export the network again.")


def _is_parameter(name: str, numbers: Floats) -> npt.NDArray[np.bool_]:
    """Return which numbers may be parameters of a unit: only a clip has infinite ends."""
    return np.asarray(~np.isnan(numbers) if name == "clip" else np.isfinite(numbers))


def reference_scores(graph: UnitGraph, rows: Rows) -> Scores:
    """Return the scores by the definition above, operation by operation: the slow twin of the kernel."""
    tape = checked_rows(graph, rows)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            match node:
                case Affine():
                    acc = np.broadcast_to(node.bias, (len(tape), node.size)).copy()
                    for k in range(node.weights.shape[1]):
                        column = node.columns[k : k + 1] if node.is_shared else node.columns[:, k]
                        acc = acc + tape[:, column] * node.weights[:, k]  # two float32 operations, each rounded
                    results = acc
                case Unit():
                    value = UNITS[node.name].value
                    x = tape[:, node.columns].astype(np.float64)
                    results = value(x, node.a.astype(np.float64), node.b.astype(np.float64)).astype(np.float32)
                case Product():
                    results = tape[:, node.left] * tape[:, node.right]
            tape = np.concatenate([tape, results], axis=1)
    return tape[:, graph.score_columns]
