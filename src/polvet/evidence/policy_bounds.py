"""Which outputs a policy cannot choose anywhere in a box: the checker's own bounds, in numpy over many boxes at once.

Networks: backward linear bounds (Zhang et al., CROWN, 2018) over a box and linear rows, with any multiplier of a row being a
valid choice. SOUND: float32 rounding in any order is covered by Higham's gamma over sums of absolute values, and what is
lost in float64 here is far below that; `_SLACK` says by how much. Trees: the least and greatest reachable leaves,
summed in tree order in the ensemble's own arithmetic, which is monotone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polvet.policy.networks import Network
from polvet.policy.trees import LIGHTGBM_ZERO, MISSING_ZERO, VECTOR, TreeEnsemble

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = Sequence[tuple[Floats, float, float]]
"""Rows (coefficients over variables, lower, upper) that hold in every state asked about."""
_SLACK = 1.02
_UNIT = 2.0**-24


class NetworkBounds:
    """Margins of one network whose inputs are the given variables."""

    def __init__(self, network: Network, places: Sequence[int], variables: int, *, rounded: bool = False) -> None:
        self.rounded = rounded  # inputs may be reals, which a row of float32 rounds
        first = network.layers[0]
        weights = np.zeros((len(first.bias), variables))
        for column, place in enumerate(places):
            weights[:, place] += first.weights[:, column].astype(np.float64)
        self.weights = [weights, *(layer.weights.astype(np.float64) for layer in network.layers[1:])]
        self.bias = [layer.bias.astype(np.float64) for layer in network.layers]
        if sum(w.shape[1] for w in self.weights) * 2 ** len(self.weights) > 2**19:
            raise ValueError("the network is too large for the checker's bounds")

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: does the rival surely have the greater score everywhere; and [n, variables]: how much each matters."""
        errors = self._errors(np.maximum(np.abs(lower), np.abs(upper)))
        bounds: list[tuple[Floats, Floats]] = []
        for depth in range(len(self.weights) - 1):
            form = np.broadcast_to(self.weights[depth], (len(lower), *self.weights[depth].shape))
            high, _ = self._greatest(form, self.bias[depth], depth, bounds, lower, upper, rows)
            low, _ = self._greatest(-form, -self.bias[depth], depth, bounds, lower, upper, rows)
            bounds.append((-low - errors[depth], high + errors[depth]))
        last = len(self.weights) - 1
        margins = self.weights[last][output] - self.weights[last][list(rivals)]
        constant = self.bias[last][output] - self.bias[last][list(rivals)]
        form = np.broadcast_to(margins, (len(lower), *margins.shape))
        greatest, reduced = self._greatest(form, constant, last, bounds, lower, upper, rows)
        total = greatest + errors[last][:, [output]] + errors[last][:, list(rivals)]
        best = np.argmin(total, axis=1)
        return total < 0, np.abs(reduced[np.arange(len(lower)), best])

    def beaten(self, lower: Floats, upper: Floats) -> Bools:
        """Return [n, outputs, rivals]: does the rival surely have the greater score everywhere in the box."""
        outputs = len(self.bias[-1])
        found = np.zeros((len(lower), outputs, outputs), dtype=np.bool_)
        for output in range(outputs):
            rivals = [k for k in range(outputs) if k != output]
            found[:, output, rivals] = self.losers(output, rivals, lower, upper, ())[0]
        return found

    def _errors(self, reach: Floats) -> list[Floats]:
        """Return per layer [n, neurons] how far any float32 evaluation is from exact arithmetic."""
        error = reach * 2.0**-23 + 2.0**-149 if self.rounded else np.where(reach > 2.0**24, reach * 2.0**-23, 0.0)
        found = []
        for weights, bias in zip(self.weights, self.bias, strict=True):
            summands = weights.shape[1] + 4
            gamma = summands * _UNIT / (1 - summands * _UNIT)
            size = np.abs(weights)
            total = (reach + error) @ size.T + np.abs(bias)
            error = (error @ size.T + gamma * total + 64 * summands * 2.0**-126) * _SLACK
            error = np.where(total + error < 2.0**126, error, np.inf)
            found.append(error)
            reach = total * (1 + 2.0**-30)
        return found

    def _greatest(
        self,
        form: Floats,
        constant: Floats,
        depth: int,
        bounds: Sequence[tuple[Floats, Floats]],
        lower: Floats,
        upper: Floats,
        rows: Rows,
    ) -> tuple[Floats, Floats]:
        """Return upper bounds of form @ (inputs of layer `depth`) + constant, and the form over variables they rest on."""
        added = np.broadcast_to(constant, form.shape[:2]).copy()
        for level in range(depth - 1, -1, -1):
            low, high = bounds[level]
            low, high = low[:, None, :], high[:, None, :]
            with np.errstate(invalid="ignore", divide="ignore"):
                slope = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / (high - low)))
            below = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, (high > -low).astype(np.float64)))
            positive = form > 0
            added += np.where(positive & (low < 0) & (high > 0), -form * slope * low, 0.0).sum(axis=2)
            form = form * np.where(positive, slope, below)
            added += form @ self.bias[level]
            form = form @ self.weights[level]
        box_low, box_high = lower[:, None, :], upper[:, None, :]
        for coefficients, least, most in rows:
            form, gain = _with_row(form, coefficients, least, most, box_low, box_high)
            added += gain
        best = np.where(form > 0, form * box_high, form * box_low).sum(axis=2) + added
        size = np.abs(form) * np.maximum(np.abs(box_low), np.abs(box_high))
        return best + (size.sum(axis=2) + np.abs(added)) * 2.0**-40, form


def _with_row(form: Floats, row: Floats, least: float, most: float, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the form minus the best multiple of the row, and what that multiple adds: any multiple gives a valid bound."""
    used = np.flatnonzero(row)
    if len(used) < 2:
        return form, np.zeros(form.shape[:2])
    best = np.where(form > 0, form * high, form * low).sum(axis=2)
    multiplier = np.zeros(form.shape[:2])
    for place in used:
        tried = form[:, :, place] / row[place]
        rest = form - tried[:, :, None] * row
        bound = np.where(tried > 0, most, least)
        with np.errstate(invalid="ignore"):
            gain = np.where(tried == 0, 0.0, tried * bound)
        value = np.where(rest > 0, rest * high, rest * low).sum(axis=2) + gain
        better = value < best
        best, multiplier = np.where(better, value, best), np.where(better, tried, multiplier)
    with np.errstate(invalid="ignore"):
        gain = np.where(multiplier == 0, 0.0, multiplier * np.where(multiplier > 0, most, least))
    scale = np.abs(multiplier) * (np.abs(row) * np.maximum(np.abs(low), np.abs(high))).sum(axis=2)
    return form - multiplier[:, :, None] * row, gain + scale * 2.0**-40


class TreeBounds:
    """Score intervals of one tree ensemble whose inputs are the given variables."""

    def __init__(self, ensemble: TreeEnsemble, places: Sequence[int]) -> None:
        self.ensemble, self.places = ensemble, tuple(places)

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: does the rival surely win against the output everywhere; [n, variables]: how many splits wait."""
        low, high, waiting = self.scores(lower, upper)
        columns = [
            (high[:, output] < low[:, rival]) | ((high[:, output] == low[:, rival]) & (rival < output))
            for rival in rivals
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(lower), 0), dtype=np.bool_), waiting

    def beaten(self, lower: Floats, upper: Floats) -> Bools:
        """Return [n, outputs, rivals]: does the rival surely win against the output everywhere in the box."""
        low, high, _ = self.scores(lower, upper)
        earlier = np.tri(low.shape[1], k=-1, dtype=np.bool_)
        below: Bools = high[:, :, None] < low[:, None, :]
        tied: Bools = (high[:, :, None] == low[:, None, :]) & earlier
        return below | tied

    def scores(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the least and greatest scores [n, outputs] in each box, and how many splits wait [n, variables]."""
        ensemble, count = self.ensemble, len(lower)
        real = np.float32 if ensemble.arithmetic == "float32" else np.float64
        waiting = np.zeros((count, lower.shape[1]))
        low = np.tile(np.array(ensemble.base, dtype=real), (count, 1))
        high = low.copy()
        # A state's value is rounded to float32 first; rounding is monotone, so are both comparisons.
        small = lower.T.astype(np.float32).astype(np.float64)
        large = upper.T.astype(np.float32).astype(np.float64)
        strict = ensemble.comparison == "<"
        for tree in ensemble.trees:
            least = np.full((count, tree.values.shape[1]), np.inf)
            most = -least
            pending = [(0, np.arange(count))]  # a node, and the boxes that reach it
            while pending:
                node, here = pending.pop()
                if not len(here):
                    continue
                if tree.feature[node] < 0:
                    least[here] = np.minimum(least[here], tree.values[node])
                    most[here] = np.maximum(most[here], tree.values[node])
                    continue
                place = self.places[tree.feature[node]]
                from_, to = small[place][here], large[place][here]
                bound = float(tree.threshold[node])
                left = from_ < bound if strict else from_ <= bound
                right = to >= bound if strict else to > bound
                if tree.missing[node] == MISSING_ZERO:
                    zero = (from_ <= LIGHTGBM_ZERO) & (to >= -LIGHTGBM_ZERO)
                    left, right = (left | zero, right) if tree.default_left[node] else (left, right | zero)
                waiting[here[left & right], place] += 1
                pending += [(int(tree.left[node]), here[left]), (int(tree.right[node]), here[right])]
            if tree.output == VECTOR:
                low, high = low + least.astype(real), high + most.astype(real)
            else:
                low[:, tree.output] = low[:, tree.output] + least[:, 0].astype(real)
                high[:, tree.output] = high[:, tree.output] + most[:, 0].astype(real)
        if ensemble.divisor:
            low, high = low / real(ensemble.divisor), high / real(ensemble.divisor)
            low, high = np.minimum(low, high), np.maximum(low, high)
        return low, high, waiting
