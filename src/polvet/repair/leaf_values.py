"""Leaf values of a tree ensemble as columns: scores are sums of the leaves a row reaches, its output configuration.

Source   section 5.2: only leaves in the output configuration of some row can matter, the others are dropped
Differs  XGBoost stores one scalar tree per class and round, the paper vectors in leaves; both are columns (leaf, output)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.policy.protocol import Rows
from polvet.policy.trees import VECTOR, TreeEnsemble
from polvet.repair.demands import Reals
from polvet.solvers.highs import Row


@dataclass(frozen=True, slots=True, eq=False)
class LeafValues:
    """A `LinearScores` of an ensemble over rows."""

    ensemble: TreeEnsemble
    base: Reals  # [rows, outputs]: the scores as they are, in the policy's arithmetic
    reached: tuple[
        npt.NDArray[np.int32], ...
    ]  # per output [rows, trees that add to it]: the column of the leaf's value
    places: npt.NDArray[np.int64]  # per column, its place among all values of all trees
    scale: float

    @property
    def columns(self) -> int:
        """How many leaf values may be changed."""
        return len(self.places)

    def scores(self, change: Reals) -> Reals:
        """Return the scores after the change, in doubles."""
        result = self.base.copy()
        for output, columns in enumerate(self.reached):
            if columns.shape[1]:
                result[:, output] += self.scale * change[columns].sum(axis=1)
        return result

    def terms(self, row: int, output: int) -> Row:
        """Return the columns and coefficients of the output's score."""
        columns = self.reached[output][row]
        return columns, np.full(len(columns), self.scale)

    def apply(self, change: Reals) -> TreeEnsemble:
        """Return the ensemble with changed leaf values; unchanged trees stay the same objects."""
        sizes = np.array([tree.values.size for tree in self.ensemble.trees], dtype=np.int64)
        ends = np.cumsum(sizes)
        moved = np.flatnonzero(change)
        owner = np.searchsorted(ends, self.places[moved], side="right")
        trees = list(self.ensemble.trees)
        for index in np.unique(owner).tolist():
            mine = moved[owner == index]
            values = trees[index].values.copy().reshape(-1)
            values[self.places[mine] - (ends[index] - sizes[index])] += change[mine]
            trees[index] = trees[index].with_values(values)
        return self.ensemble.with_trees(trees)


def leaf_values(ensemble: TreeEnsemble, rows: Rows) -> LeafValues:
    """Return the leaf values that the rows reach as columns."""
    nodes = ensemble.leaf_nodes(rows).astype(np.int64) if ensemble.trees else np.zeros((len(rows), 0), dtype=np.int64)
    sizes = np.array([tree.values.size for tree in ensemble.trees], dtype=np.int64)
    first = np.cumsum(sizes) - sizes
    widths = np.array([tree.values.shape[1] for tree in ensemble.trees], dtype=np.int64)
    starts = nodes * widths + first  # the place of the leaf's first value
    outputs = len(ensemble.outputs)
    used = []
    for output in range(outputs):
        mine = [k for k, tree in enumerate(ensemble.trees) if tree.output in (VECTOR, output)]
        shift = np.array([output if ensemble.trees[k].output == VECTOR else 0 for k in mine], dtype=np.int64)
        used.append(starts[:, mine] + shift)
    places = np.unique(np.concatenate([part.reshape(-1) for part in used])) if used else np.zeros(0, dtype=np.int64)
    number = np.full(int(sizes.sum()), -1, dtype=np.int32)
    number[places] = np.arange(len(places), dtype=np.int32)
    return LeafValues(
        ensemble,
        ensemble.scores(rows).astype(np.float64),
        tuple(number[part] for part in used),
        places,
        1.0 / ensemble.divisor if ensemble.divisor else 1.0,
    )


def leaf_change(old: TreeEnsemble, new: TreeEnsemble) -> float:
    """Return the L1 distance of the leaf values, as stored; leaves of added trees count with their full value."""
    total = 0.0
    for index, tree in enumerate(new.trees):
        before = old.trees[index].values if index < len(old.trees) else np.zeros_like(tree.values)
        if before is not tree.values:
            leaves = tree.leaves
            total += float(np.abs(tree.values[leaves] - before[leaves]).sum())
    return total


def configurations(ensemble: TreeEnsemble, rows: Rows) -> npt.NDArray[np.intp]:
    """Return for each row the number of its output configuration; rows with equal numbers reach the same leaves."""
    if not ensemble.trees:
        return np.zeros(len(rows), dtype=np.intp)
    nodes = np.ascontiguousarray(ensemble.leaf_nodes(rows))
    keys = nodes.view(np.dtype((np.void, nodes.dtype.itemsize * nodes.shape[1]))).reshape(-1)
    _, number = np.unique(keys, return_inverse=True)
    return np.asarray(number, dtype=np.intp).reshape(-1)
