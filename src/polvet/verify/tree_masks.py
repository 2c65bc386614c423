"""Which leaves of a tree ensemble a box of states reaches, as bits: bounds of scores and worthwhile cuts for many boxes at once.

The states that reach a leaf are a product of intervals, one per input: a box reaches the leaf iff each of its intervals meets
the leaf's. The thresholds of an input number its intervals (*classes*); per input and class, the leaves that begin
before it or in it are a mask, and so are those that end behind it or in it. The leaves that a box reaches are the conjunction of
two masks per input. The same masks over inner nodes tell which splits a box leaves open; these are where it is worth cutting.

SOUND: a value is rounded to float32 first, which is monotone, as is its class; the least and greatest reachable leaves are summed
in tree order in the ensemble's own arithmetic, which is monotone, too. What counts as zero and goes another way widens intervals.
Cost     a few dozen operations on words of 64 leaves per box
Limits   tables of classes times leaves: `fits` says whether they are small enough
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polvet.policy.trees import LIGHTGBM_ZERO, MISSING_ZERO, VECTOR, Tree, TreeEnsemble

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Ends = tuple[Ints, Ints]
"""The classes of the least and the greatest value of each input, arrays [inputs, n]."""
MOST_BYTES = 2**28
LEAVES = 8
"""Leaves of one byte; a tree begins with a new one."""


def fits(ensemble: TreeEnsemble) -> bool:
    """Return whether the tables of masks and of values are small enough to be made."""
    if not ensemble.trees:
        return False
    thresholds = sum(len(one) + 1 for one in _Classes(ensemble).thresholds)
    masks = thresholds * sum(len(tree.feature) + LEAVES for tree in ensemble.trees) // 4
    values = sum((len(tree.leaves) + LEAVES) * tree.values.shape[1] for tree in ensemble.trees) * 512
    return bool(masks + values <= MOST_BYTES)


class TreeMasks:
    """Score intervals and cuts of one tree ensemble whose inputs are the given variables."""

    def __init__(self, ensemble: TreeEnsemble, places: Sequence[int]) -> None:
        self.ensemble, self.places = ensemble, tuple(places)
        self.classes = _Classes(ensemble)
        walked = [_walk(tree, self.classes) for tree in ensemble.trees]
        self._take_leaves(walked)
        self._take_nodes(walked)

    # -- tables

    def _take_leaves(self, walked: Sequence[_Walked]) -> None:
        features = len(self.places)
        first, last, values, starts = [], [], [], []
        at = 0
        for tree, walk in zip(self.ensemble.trees, walked, strict=True):
            starts.append(at // LEAVES)
            for node, low, high in walk.leaves:
                first.append(low)
                last.append(high)
                values.append(np.broadcast_to(tree.values[node], tree.values.shape[1]))
            at += len(walk.leaves)
            padding = -at % LEAVES
            for _ in range(padding):  # never reached: it begins behind every class
                first.append(np.full(features, self.classes.most + 1))
                last.append(np.full(features, -1))
                values.append(np.zeros(tree.values.shape[1]))
            at += padding
        self.tree_starts = np.array(starts)
        self.leaf_masks = _Masks(np.array(first), np.array(last), self.classes)
        # Per byte and pattern of its bits the least and greatest value, one table per tree's column of values.
        width = max(tree.values.shape[1] for tree in self.ensemble.trees)
        table = np.zeros((len(values), width))
        for k, value in enumerate(values):
            table[k, : len(value)] = value
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).view(np.bool_)
        grouped = table.reshape(-1, 1, LEAVES, width)
        self.least = [np.where(bits, grouped[..., k], np.inf).min(axis=2).ravel() for k in range(width)]
        self.most = [np.where(bits, grouped[..., k], -np.inf).max(axis=2).ravel() for k in range(width)]
        self.offsets = np.arange(len(table) // LEAVES) * 256

    def _take_nodes(self, walked: Sequence[_Walked]) -> None:
        """Make masks of inner nodes per output, and a matrix from nodes to the distinct cuts."""
        cuts: dict[tuple[int, int], int] = {}
        nodes: dict[int, list[tuple[Ints, Ints, int, float]]] = {}
        for tree, walk in zip(self.ensemble.trees, walked, strict=True):
            for low, high, feature, number, weight in walk.nodes:
                value = self.classes.last_left(feature, number)
                cut = cuts.setdefault((self.places[feature], value), len(cuts))
                # Open iff the box reaches it and has values on both sides.
                low, high = low.copy(), high.copy()
                low[feature], high[feature] = number + 1, number
                nodes.setdefault(tree.output, []).append((low, high, cut, weight))
        self.cut_places = np.array([place for place, _ in cuts], dtype=np.int64)
        self.cut_values = np.array([value for _, value in cuts], dtype=np.int64)
        self.node_masks: dict[int, tuple[_Masks, npt.NDArray[np.float32]]] = {}
        for output, found_nodes in nodes.items():
            matrix = np.zeros((len(found_nodes), len(cuts)), dtype=np.float32)
            for k, (_, _, cut, weight) in enumerate(found_nodes):
                matrix[k, cut] = weight
            masks = _Masks(np.array([n[0] for n in found_nodes]), np.array([n[1] for n in found_nodes]), self.classes)
            self.node_masks[output] = masks, matrix

    # -- questions

    def ends(self, lower: Ints, upper: Ints) -> Ends:
        """Return the classes of each box's ends [n, variables], which the other questions ask for."""
        first = np.zeros((len(self.places), len(lower)), dtype=np.int64)
        last = first.copy()
        for feature in self.classes.used:
            first[feature] = self.classes.of(feature, lower[:, self.places[feature]])
            last[feature] = self.classes.of(feature, upper[:, self.places[feature]])
        return first, last

    def scores(self, ends: Ends) -> tuple[Floats, Floats]:
        """Return the least and greatest scores [n, outputs] in each box."""
        ensemble, count = self.ensemble, ends[0].shape[1]
        real = np.float32 if ensemble.arithmetic == "float32" else np.float64
        places = self.leaf_masks.reached(ends) + self.offsets
        low = np.tile(np.array(ensemble.base, dtype=real), (count, 1))
        high = low.copy()
        leaves = [
            (
                np.minimum.reduceat(least[places], self.tree_starts, axis=1).astype(real),
                np.maximum.reduceat(most[places], self.tree_starts, axis=1).astype(real),
            )
            for least, most in zip(self.least, self.most, strict=True)
        ]
        for k, tree in enumerate(ensemble.trees):
            for column in range(tree.values.shape[1]):
                output = column if tree.output == VECTOR else tree.output
                low[:, output] += leaves[column][0][:, k]
                high[:, output] += leaves[column][1][:, k]
        if ensemble.divisor:
            low, high = low / real(ensemble.divisor), high / real(ensemble.divisor)
            low, high = np.minimum(low, high), np.maximum(low, high)
        return low, high

    def losers(self, output: int, rivals: Sequence[int], low: Floats, high: Floats) -> Bools:
        """Return [n, rivals]: does the rival surely win against the output, given bounds of all scores."""
        mine = high[:, output]
        columns = [(mine < low[:, r]) | ((mine == low[:, r]) & (r < output)) for r in rivals]
        return np.stack(columns, axis=1) if columns else np.zeros((len(low), 0), dtype=np.bool_)

    def cuts(self, output: int, rival: Ints, lower: Ints, upper: Ints, ends: Ends) -> tuple[Ints, Ints]:
        """Return the variable and the value of the cut that decides most for the output and its rival [n]; variable -1: none is open."""
        weight = np.zeros((len(lower), len(self.cut_values)), dtype=np.float32)
        everyone = np.arange(len(lower))
        groups = [(VECTOR, everyone), (output, everyone)]
        groups += [(int(one), np.flatnonzero(rival == one)) for one in np.unique(rival) if one >= 0]
        for one, members in groups:
            if one in self.node_masks and len(members):
                masks, matrix = self.node_masks[one]
                reached = masks.reached(ends if members is everyone else (ends[0][:, members], ends[1][:, members]))
                open_nodes = np.unpackbits(reached, axis=1, count=len(matrix))
                weight[members] += open_nodes.astype(np.float32) @ matrix
        if not weight.shape[1]:
            return np.full(len(lower), -1), np.zeros(len(lower), dtype=np.int64)
        # A cut between two integers only.
        inside = (lower[:, self.cut_places] <= self.cut_values) & (self.cut_values < upper[:, self.cut_places])
        weight[~inside] = 0
        best = weight.argmax(axis=1)
        has_cut = weight[everyone, best] > 0
        return np.where(has_cut, self.cut_places[best], -1), self.cut_values[best]


class _Classes:
    """The thresholds of each input in order; the class of a value is how many of them it goes right at."""

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.side = "right" if ensemble.comparison == "<" else "left"
        thresholds: list[list[float]] = [[] for _ in ensemble.inputs]
        for tree in ensemble.trees:
            for feature, threshold in zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True):
                if feature >= 0:
                    thresholds[feature].append(threshold)
        self.thresholds = [np.unique(np.array(one, dtype=np.float64)) for one in thresholds]
        self.used = [feature for feature, one in enumerate(self.thresholds) if len(one)]
        self.most = max((len(one) for one in self.thresholds), default=0)

    def of(self, feature: int, values: npt.NDArray[np.generic]) -> Ints:
        """Return the classes of values of an input."""
        rounded = values.astype(np.float64).astype(np.float32).astype(np.float64)
        classes: Ints = np.searchsorted(self.thresholds[feature], rounded, side=self.side)  # type: ignore[call-overload]
        return classes

    def last_left(self, feature: int, number: int) -> int:
        """Return the greatest integer that goes left at a threshold, as far as float64 tells: where to cut."""
        threshold = float(np.clip(self.thresholds[feature][number], -(2.0**52), 2.0**52))
        return int(np.ceil(threshold)) - 1 if self.side == "right" else int(np.floor(threshold))


class _Masks:
    """For each input and class, which items begin before or in it, and which end behind or in it, as packed bits."""

    def __init__(self, first: Ints, last: Ints, classes: _Classes) -> None:
        padding = -len(first) % 64
        self.count = (len(first) + LEAVES - 1) // LEAVES
        self.used = classes.used
        self.begun: list[Words] = []
        self.open: list[Words] = []
        for feature in self.used:
            numbers = np.arange(len(classes.thresholds[feature]) + 1)[:, None]
            for tables, mask in ((self.begun, first[:, feature] <= numbers), (self.open, last[:, feature] >= numbers)):
                tables.append(np.packbits(np.pad(mask, ((0, 0), (0, padding))), axis=1).view(np.uint64))
        everything = np.pad((first <= last).all(axis=1), (0, padding))
        self.everything: Words = np.packbits(everything).view(np.uint64)

    def reached(self, ends: Ends) -> npt.NDArray[np.uint8]:
        """Return [n, bytes]: the items whose intervals meet those of the boxes."""
        first, last = ends
        words: Words | None = None
        for feature, begun, still_open in zip(self.used, self.begun, self.open, strict=True):
            both = begun[last[feature]] & still_open[first[feature]]
            words = both if words is None else words & both
        if words is None:  # no input is ever tested
            words = np.tile(self.everything, (first.shape[1], 1))
        return np.ascontiguousarray(words).view(np.uint8)[:, : self.count]


class _Walked:
    """The leaves and inner nodes of a tree with the classes of each input that reach them."""

    def __init__(self) -> None:
        self.leaves: list[tuple[int, Ints, Ints]] = []
        self.nodes: list[tuple[Ints, Ints, int, int, float]] = []


def _walk(tree: Tree, classes: _Classes) -> _Walked:
    walk = _Walked()
    sizes = np.array([len(one) for one in classes.thresholds], dtype=np.int64)
    spread = _spreads(tree)
    pending = [(0, np.zeros(len(sizes), dtype=np.int64), sizes)]
    while pending:
        node, low, high = pending.pop()
        feature = int(tree.feature[node])
        if feature < 0:
            walk.leaves.append((node, low, high))
            continue
        number = int(np.searchsorted(classes.thresholds[feature], tree.threshold[node]))
        walk.nodes.append((low, high, feature, number, spread[node]))
        left, right = (low[feature], min(high[feature], number)), (max(low[feature], number + 1), high[feature])
        if tree.missing[node] == MISSING_ZERO:
            zero = classes.of(feature, np.array([-LIGHTGBM_ZERO, LIGHTGBM_ZERO]))
            zeros = max(low[feature], zero[0]), min(high[feature], zero[1])
            if zeros[0] <= zeros[1]:
                if tree.default_left[node]:
                    left = _hull(left, zeros)
                else:
                    right = _hull(right, zeros)
        for child, (a, b) in ((int(tree.right[node]), right), (int(tree.left[node]), left)):
            if a <= b:
                child_low, child_high = low.copy(), high.copy()
                child_low[feature], child_high[feature] = a, b
                pending.append((child, child_low, child_high))
    return walk


def _hull(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    if one[0] > one[1]:
        return other
    return min(one[0], other[0]), max(one[1], other[1])


def _spreads(tree: Tree) -> Floats:
    """Return per inner node how far apart its leaves' values are."""
    low, high = tree.values.min(axis=1), tree.values.max(axis=1)
    order = [0]
    for node in order:
        if tree.feature[node] >= 0:
            order += [int(tree.left[node]), int(tree.right[node])]
    for node in reversed(order):
        if tree.feature[node] >= 0:
            low[node] = min(low[tree.left[node]], low[tree.right[node]])
            high[node] = max(high[tree.left[node]], high[tree.right[node]])
    spread: Floats = high - low
    return spread
