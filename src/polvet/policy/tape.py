"""Building a graph of units: readers of files write values on a tape, column after column, and take the graph at the end.

What libraries write in several nodes is put together again where it is one unit: x * sigmoid(x) is SiLU, x * tanh(softplus(x)) Mish,
x * (erf(x / sqrt 2) + 1) / 2 GELU, x * hard sigmoid(x) hard swish, x / (1 + |x|) softsign. A chain of linear layers with ReLU between
becomes a `Network`, which has faster kernels; nodes that no score depends on are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where
from polvet.policy.networks import Network, network_of
from polvet.policy.protocol import names_or_positions
from polvet.policy.unit_graph import (
    MAX_COLUMNS,
    SMALLER,
    Affine,
    Columns,
    Floats,
    Node,
    Product,
    Unit,
    UnitGraph,
    check_nodes,
)
from polvet.policy.units import is_relu

LEAST_NORMAL = 2.0**-126
SCALE = "Scale the network's values."


class Tape:
    """Values written so far; every method that writes returns the new columns."""

    def __init__(self, inputs: int, where: Where | None = None) -> None:
        if not 0 < inputs <= MAX_COLUMNS:
            raise InputError(f"the network has {inputs} inputs; 1 to {MAX_COLUMNS} are read.", where, SMALLER)
        self.inputs, self.where = inputs, where
        self.narrowed = False  # float64 numbers were met
        self.nodes: list[Node] = []
        self.begins: list[int] = []
        self.count = inputs

    @classmethod
    def of(cls, graph: UnitGraph) -> Tape:
        """Return a tape that goes on where a graph ends."""
        tape = cls(len(graph.inputs))
        tape.narrowed = graph.narrowed
        for node in graph.nodes:
            tape._append(node)
        return tape

    def affine(
        self,
        columns: npt.ArrayLike,
        weights: npt.ArrayLike,
        bias: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
        roundings: int = 0,
    ) -> Columns:
        """Write weighted sums: `columns` [terms] serve all outputs, [outputs, terms] each its own.

        SOUND: float64 numbers are rounded to float32, one rounding more per summand; a weight that is lost below 2^-126 is
        covered as any number below is.
        """
        if any(_is_wide(part) for part in (weights, bias)):
            self.narrowed = True
            roundings += 2
        matrix = _floats(weights)
        shift = np.zeros(len(matrix), dtype=np.float32) if bias is None else _floats(bias)
        return self._append(
            Affine(
                _columns(columns),
                matrix,
                shift,
                _frozen(np.abs(shift)) if sizes is None else _upwards(sizes),
                roundings,
            )
        )

    def scaled(
        self,
        columns: npt.ArrayLike,
        factor: npt.ArrayLike,
        shift: npt.ArrayLike = 0.0,
        sizes: npt.ArrayLike | None = None,
        roundings: int = 0,
    ) -> Columns:
        """Write factor * x + shift per column."""
        flat = _columns(columns).reshape(-1)
        spread = [
            np.broadcast_to(np.asarray(part, dtype=np.float64).reshape(-1), flat.shape) for part in (factor, shift)
        ]
        narrow = _floats(spread[0])
        if ((np.abs(narrow) < LEAST_NORMAL) & (spread[0] != 0)).any():
            raise InputError("a constant factor is below 2^-126, where float32 loses its digits.", self.where, SCALE)
        if any((_floats(part) != part).any() for part in spread):
            roundings += 2  # of the constant, and of what a library rounds instead
        whole = self._whole_affine(flat)
        if whole is not None and (spread[0] == 1).all() and sizes is None and not roundings:
            # A bias added after its matrix: any order of the sum is one of the affine node's orders.
            return self.affine(whole.columns, whole.weights, spread[1], None, whole.roundings)
        return self.affine(flat[:, None], narrow[:, None], _floats(spread[1]), sizes, roundings)

    def normalised(
        self,
        columns: npt.ArrayLike,
        mean: npt.NDArray[np.float64],
        deviation: npt.NDArray[np.float64],
        scale: npt.NDArray[np.float64],
        shift: npt.NDArray[np.float64],
    ) -> Columns:
        """Write (x - mean) / deviation * scale + shift, whatever the order in which a library computes that."""
        factor = scale / deviation
        return self.scaled(
            columns, factor, shift - mean * factor, sizes=np.abs(shift) + np.abs(mean * factor), roundings=10
        )

    def total(self, parts: Sequence[npt.ArrayLike], signs: Sequence[float]) -> Columns:
        """Write the sum of several vectors of columns, each with its sign."""
        stacked = np.stack([_columns(part).reshape(-1) for part in parts], axis=1)
        return self.affine(stacked, np.broadcast_to(np.asarray(signs, dtype=np.float32), stacked.shape))

    def unit(self, name: str, columns: npt.ArrayLike, a: npt.ArrayLike = 0.0, b: npt.ArrayLike = 0.0) -> Columns:
        """Write a function of each column."""
        flat = _columns(columns).reshape(-1)
        spread = [
            _frozen(np.broadcast_to(np.asarray(part, dtype=np.float32).reshape(-1), flat.shape)) for part in (a, b)
        ]
        return self._append(Unit(name, flat, spread[0], spread[1]))

    def relu(self, columns: npt.ArrayLike) -> Columns:
        """Write max(x, 0) of each column."""
        return self.unit("clip", columns, 0.0, inf)

    def product(self, left: npt.ArrayLike, right: npt.ArrayLike) -> Columns:
        """Write the product of two vectors of columns, as one unit where it is one."""
        p, q = _columns(left).reshape(-1), _columns(right).reshape(-1)
        if (p == q).all():
            return self.unit("square", p)
        for x, y in ((p, q), (q, p)):
            single = self._one_unit(x, y)
            if single is not None:
                return single
        return self._append(Product(p, q))

    def quotient(self, left: npt.ArrayLike, right: npt.ArrayLike) -> Columns:
        """Write the quotient of two vectors of columns."""
        p, q = _columns(left).reshape(-1), _columns(right).reshape(-1)
        plus = self._scale_of(q)
        if plus is not None and (plus[1] == 1).all() and (plus[2] == 1).all():
            inner = self._unit_of(plus[0])
            if inner is not None and inner.name == "abs" and (inner.columns == p).all():
                return self.unit("softsign", p)
        return self.product(p, self.unit("reciprocal", q))

    def policy(
        self,
        scores: npt.ArrayLike,
        inputs: Sequence[str] | None,
        outputs: Sequence[str] | None,
        *,
        softmax: bool = False,
    ) -> Network | UnitGraph:
        """Return the policy whose scores are these columns: a `Network` where it is a chain with ReLU, else a `UnitGraph`."""
        nodes, columns = self._alive(_columns(scores).reshape(-1))
        chain = None if self.narrowed else _chain(nodes, self.inputs, columns)
        if chain is not None:
            return network_of(chain, inputs, outputs, self.where, softmax=softmax)
        check_nodes(nodes, self.inputs, columns, self.where)
        return UnitGraph(
            names_or_positions(inputs, None, self.inputs, "input", self.where),
            names_or_positions(outputs, None, len(columns), "output", self.where),
            tuple(nodes),
            columns,
            softmax,
            narrowed=self.narrowed,
        )

    def _append(self, node: Node) -> Columns:
        self.nodes.append(node)
        self.begins.append(self.count)
        self.count += node.size
        if self.count > 16 * MAX_COLUMNS:  # what is dropped at the end counts, too
            raise InputError(f"the network computes more than {16 * MAX_COLUMNS} values.", self.where, SMALLER)
        return np.arange(self.count - node.size, self.count, dtype=np.int32)

    # -- what stands behind columns

    def centred(self, squares: Columns) -> Columns | None:
        """Return x where the columns are the squares of x - mean(x), the mean being any one column; else None."""
        unit = self._unit_of(squares)
        if unit is None or unit.name != "square":
            return None
        inner = []
        for column in unit.columns:
            node, at = self._node_of(int(column))
            if not isinstance(node, Affine) or node.is_shared:
                return None
            if node.weights[at].tolist() != [1.0, -1.0] or node.bias[at] != 0:
                return None
            inner.append(node.columns[at, 0])
        return _columns(inner)

    def _node_of(self, column: int) -> tuple[Node | None, int]:
        """Return the node that makes a column, None for an input, and its place there."""
        index = int(np.searchsorted(self.begins, column, side="right")) - 1
        return (None, column) if index < 0 else (self.nodes[index], column - self.begins[index])

    def _whole_affine(self, columns: Columns) -> Affine | None:
        """Return the affine node without bias whose values these are, all in order."""
        node, at = self._node_of(int(columns[0]))
        if not isinstance(node, Affine) or at != 0 or node.size != len(columns) or node.sizes.any():
            return None
        return node if (columns == np.arange(columns[0], columns[0] + len(columns))).all() else None

    def _unit_of(self, columns: Columns) -> Unit | None:
        """Return the unit whose values these columns are, with the columns it reads there."""
        parts: list[tuple[Unit, int]] = []
        for column in columns:
            node, at = self._node_of(int(column))
            if not isinstance(node, Unit) or (parts and parts[0][0].name != node.name):
                return None
            parts.append((node, at))
        places, a, b = zip(*((unit.columns[at], unit.a[at], unit.b[at]) for unit, at in parts), strict=True)
        return Unit(parts[0][0].name, _columns(places), _floats(a), _floats(b))

    def _scale_of(self, columns: Columns) -> tuple[Columns, Floats, Floats] | None:
        """Return what each column is a multiple of plus a constant: columns, factors, constants."""
        parts = []
        for column in columns:
            node, at = self._node_of(int(column))
            if not isinstance(node, Affine) or node.weights.shape[1] != 1:
                return None
            parts.append((node.reads[0 if node.is_shared else at], node.weights[at, 0], node.bias[at]))
        return _columns([r[0] for r in parts]), _floats([r[1] for r in parts]), _floats([r[2] for r in parts])

    def _one_unit(self, x: Columns, y: Columns) -> Columns | None:
        """Return x * y as a single unit of x (or of what x is a multiple of), where y is made of the same columns."""
        outer = self._unit_of(y)
        if outer is not None and outer.name == "sigmoid" and (outer.columns == x).all():
            return self.unit("silu", x)
        if outer is not None and outer.name == "tanh":
            inner = self._unit_of(outer.columns)
            if inner is not None and inner.name == "softplus" and (inner.columns == x).all():
                return self.unit("mish", x)
        if outer is not None and outer.name == "clip" and (outer.a == 0).all() and (outer.b == 1).all():
            line = self._scale_of(outer.columns)
            sixth = np.float32(1) / np.float32(6)
            if line is not None and (line[0] == x).all() and (line[1] == sixth).all() and (line[2] == 0.5).all():
                return self.unit("hard_swish", x)
        return self._gelu(x, y)

    def _gelu(self, x: Columns, y: Columns) -> Columns | None:
        plus = self._scale_of(y)
        inner = None if plus is None else self._unit_of(plus[0])
        if plus is None or inner is None or inner.name != "erf" or not ((plus[1] == 1) & (plus[2] == 1)).all():
            return None
        line = self._scale_of(inner.columns)
        if line is None or (line[2] != 0).any() or (np.abs(line[1] - 1 / sqrt(2)) > 2.0**-22).any():
            return None
        if (line[0] == x).all():
            return self.scaled(self.unit("gelu", x), 2.0)
        multiple = self._scale_of(x)
        if multiple is None or (multiple[0] != line[0]).any() or multiple[2].any():
            return None
        return self.scaled(self.unit("gelu", line[0]), 2.0 * multiple[1].astype(np.float64))

    def _alive(self, scores: Columns) -> tuple[list[Node], Columns]:
        """Return the nodes that the scores depend on, renumbered, and the scores' columns."""
        owner = np.searchsorted(self.begins, np.arange(self.count), side="right") - 1
        needed = np.zeros(len(self.nodes) + 1, dtype=np.bool_)  # the last: the inputs
        needed[owner[scores]] = True
        for index in range(len(self.nodes) - 1, -1, -1):
            if needed[index]:
                needed[owner[self.nodes[index].reads]] = True
        place = np.zeros(self.count, dtype=np.int32)
        place[: self.inputs] = np.arange(self.inputs)
        alive: list[Node] = []
        at = self.inputs
        for index, node in enumerate(self.nodes):
            if needed[index]:
                alive.append(node.moved(place))
                begin = self.begins[index]
                place[begin : begin + node.size] = np.arange(at, at + node.size)
                at += node.size
        return alive, place[scores]


def _chain(nodes: Sequence[Node], inputs: int, scores: Columns) -> list[tuple[Floats, Floats]] | None:
    """Return the layers of a chain of linear maps with ReLU between; a ReLU at the end is followed by the identity."""
    layers: list[tuple[Floats, Floats]] = []
    value, at = np.arange(inputs, dtype=np.int32), inputs
    rectified = True
    for node in nodes:
        if len(node.reads) != len(value) or (node.reads != value).any():
            return None
        if isinstance(node, Affine):
            if not rectified or not node.is_shared or node.roundings or (node.sizes != np.abs(node.bias)).any():
                return None
            layers.append((node.weights, node.bias))
            rectified = False
        elif isinstance(node, Unit) and layers and not rectified and is_relu(node.name, node.a, node.b):
            rectified = True
        else:
            return None
        value = np.arange(at, at + node.size, dtype=np.int32)
        at += node.size
    if not layers or len(scores) != len(value) or (scores != value).any():
        return None
    if rectified:
        layers.append((np.eye(len(value), dtype=np.float32), np.zeros(len(value), dtype=np.float32)))
    return layers


def _is_wide(numbers: npt.ArrayLike | None) -> bool:
    """Return whether there are float64 numbers that are no float32 numbers."""
    array = np.asarray(0.0 if numbers is None else numbers)
    return array.dtype == np.float64 and bool((_floats(array) != array).any())


def _columns(columns: npt.ArrayLike) -> Columns:
    numbers = np.array(columns, dtype=np.int32, order="C")
    numbers.setflags(write=False)
    return numbers


def _frozen(array: npt.ArrayLike) -> Floats:
    numbers = np.array(array, dtype=np.float32, order="C")
    numbers.setflags(write=False)
    return numbers


def _floats(array: npt.ArrayLike) -> Floats:
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite and is refused later
        return _frozen(array)


def _upwards(array: npt.ArrayLike) -> Floats:
    return _frozen(np.nextafter(_floats(array), np.float32(inf)))
