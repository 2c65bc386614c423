"""Which outputs a policy cannot choose anywhere in a box: the checker's own bounds, in numpy over many boxes at once.

Networks: backward linear bounds (Zhang et al., CROWN, 2018) over a box and linear rows, with any multiplier of a row being a
valid choice. Two kinds of rounding are bounded, both by Higham's gamma_n = n u / (1 - n u) over sums of absolute values, which holds
for sums of n products in any order, with or without fused operations (Accuracy and Stability, section 3.1):
 - the policy's own, float32 in any order: `_errors`;
 - of the bounds computed here, u = 2^-53: `_greatest` adds up the absolute values of all that is computed, and widens the bound
   by gamma times that.
Trees: the least and greatest reachable leaves, summed in tree order in the ensemble's own arithmetic. SOUND: rounding to nearest
is monotone, so these sums are below and above the ensemble's own, bit by bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.policy.networks import Network
from polvet.policy.trees import LIGHTGBM_ZERO, MISSING_ZERO, VECTOR, TreeEnsemble
from polvet.policy.units import SOFTMAX_REACH

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = Sequence[tuple[Floats, float, float]]
"""Rows (coefficients over variables, lower, upper) that hold in every state asked about."""
_SLACK = 1.02
_UNIT = 2.0**-24
_DOUBLE = 2.0**-53
_TINY = 2.0**-1000
"""More than 2^19 products lose by underflow, at most 2^-1074 each."""


@dataclass(frozen=True, slots=True, eq=False)
class _Inside:
    """Of boxes: the ends of the inputs and of each hidden layer's sums, and how far evaluations are from the exact scores."""

    ends: Sequence[tuple[Floats, Floats]]
    errors: Floats


class NetworkBounds:
    """Margins of one network whose inputs are the given variables."""

    def __init__(self, network: Network, places: Sequence[int], variables: int, *, rounded: bool = False) -> None:
        self.rounded = rounded  # inputs may be reals, which a row of float32 rounds
        self.softmax = network.softmax
        first = network.layers[0]
        weights = np.zeros((len(first.bias), variables))
        sizes = np.zeros_like(weights)
        for column, place in enumerate(places):
            weights[:, place] += first.weights[:, column].astype(np.float64)
            sizes[:, place] += np.abs(first.weights[:, column].astype(np.float64))
        self.weights = [weights, *(layer.weights.astype(np.float64) for layer in network.layers[1:])]
        # A variable may be an input twice: the sum of its weights is rounded, and may be smaller than they are.
        self.sizes = [sizes, *(np.abs(layer) for layer in self.weights[1:])]
        self.summands = [max(len(places), variables), *(layer.shape[1] for layer in self.weights[1:])]
        self.bias = [layer.bias.astype(np.float64) for layer in network.layers]
        if sum(self.summands) * 2 ** len(self.weights) > 2**19:
            raise ValueError("the network is too large for the checker's bounds")
        # SOUND: no sum here has more summands than a layer has inputs or neurons, and a few more.
        widest = max(*self.summands, *(len(bias) for bias in self.bias)) + 16
        self.gamma = widest * _DOUBLE / (1 - widest * _DOUBLE)

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: does the rival surely have the greater score everywhere; and [n, variables]: how much each matters."""
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is never below 0
            return self._losers(output, list(rivals), self._inside(lower, upper, rows), rows)

    def _inside(self, lower: Floats, upper: Floats, rows: Rows) -> _Inside:
        """Return what is known of the network's inputs and hidden neurons in each box."""
        errors = self._errors(np.maximum(np.abs(lower), np.abs(upper)))
        ends = [(lower, upper)]
        for depth in range(len(self.weights) - 1):
            form = np.broadcast_to(self.weights[depth], (len(lower), *self.weights[depth].shape))
            size = self.sizes[depth]
            high, _ = self._greatest(form, size, self.bias[depth], ends, rows)
            low, _ = self._greatest(-form, size, -self.bias[depth], ends, rows)
            ends.append((-low - errors[depth], high + errors[depth]))
        return _Inside(ends, errors[-1])

    def _losers(self, output: int, rivals: list[int], inside: _Inside, rows: Rows) -> tuple[Bools, Floats]:
        ends, errors = inside.ends, inside.errors
        margins = self.weights[-1][output] - self.weights[-1][rivals]
        size = self.sizes[-1][output] + self.sizes[-1][rivals]
        constant = self.bias[-1][output] - self.bias[-1][rivals]
        form = np.broadcast_to(margins, (len(errors), *margins.shape))
        greatest, reduced = self._greatest(form, size, constant, ends, rows)
        apart = errors[:, [output]] + errors[:, rivals]
        # SOUND: two additions and the widening itself are off by less than 2^-50 of the summands.
        total = greatest + apart + 2.0**-50 * (np.abs(greatest) + apart)
        if self.softmax:
            total = total + self._unheard(rivals, inside)
        best = np.argmin(total, axis=1)
        return total < 0, np.abs(reduced[np.arange(len(errors)), best])

    def _unheard(self, rivals: list[int], inside: _Inside) -> Floats:
        """Return [n, rivals]: infinite where a softmax may level the rival with all that is far behind the best score, else 0."""
        weights, bias = self.weights[-1], self.bias[-1]
        low, high = inside.ends[-1]
        if len(inside.ends) > 1:
            low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
        up, down = np.maximum(weights, 0.0).T, np.minimum(weights, 0.0).T
        lost = (
            4 * self.gamma * (np.maximum(np.abs(low), np.abs(high)) @ self.sizes[-1].T + np.abs(bias)) + inside.errors
        )
        most, least = high @ up + low @ down + bias + lost, low @ up + high @ down + bias - lost
        heard = most.max(axis=1, keepdims=True) - least[:, rivals] < SOFTMAX_REACH
        return np.where(heard, 0.0, np.inf)

    def beaten(self, lower: Floats, upper: Floats) -> Bools:
        """Return [n, outputs, rivals]: does the rival surely have the greater score everywhere in the box."""
        outputs = len(self.bias[-1])
        beaten = np.zeros((len(lower), outputs, outputs), dtype=np.bool_)
        with np.errstate(invalid="ignore", over="ignore"):
            inside = self._inside(lower, upper, ())
            for output in range(outputs):
                rivals = [k for k in range(outputs) if k != output]
                beaten[:, output, rivals] = self._losers(output, rivals, inside, ())[0]
        return beaten

    def _errors(self, reach: Floats) -> list[Floats]:
        """Return per layer [n, neurons] how far any float32 evaluation is from exact arithmetic.

        By induction over layers: exact inputs are at most `reach`, those of an evaluation at most `error` off. Its sum of n products
        and a bias is at most gamma_(n+2) total off the exact one of its own inputs, and that is at most error @ |W| off; numbers
        below 2^-126 may be read or written as 0. SOUND: everything here is a sum of at most 2^19 non-negative doubles, whose relative
        error is below 2^-33 (gamma_n at u = 2^-53); `_SLACK` is far more.
        """
        error = reach * 2.0**-23 + 2.0**-126 if self.rounded else np.where(reach > 2.0**24, reach * 2.0**-23, 0.0)
        errors = []
        for size, bias, inputs in zip(self.sizes, self.bias, self.summands, strict=True):
            summands = inputs + 4
            gamma = summands * _UNIT / (1 - summands * _UNIT)
            total = (reach + error) @ size.T + np.abs(bias)
            flushed = ((reach + error).sum(axis=1)[:, None] + size.sum(axis=1) + 64 * summands) * 2.0**-126
            error = (error @ size.T + gamma * total + flushed) * _SLACK
            error = np.where(total + error < 2.0**126, error, np.inf)
            errors.append(error)
            reach = total * (1 + 2.0**-30)
        if self.softmax:
            # A softmax in float32 may level or turn round scores that differ by 2^-20 of their sizes (docs/policies.md).
            most = (reach + errors[-1]).max(axis=1, keepdims=True)
            errors[-1] = errors[-1] + 2.0**-20 * np.maximum(1.0, 2 * most) * _SLACK
        return errors

    def _greatest(
        self,
        form: Floats,
        size: Floats,
        constant: Floats,
        ends: Sequence[tuple[Floats, Floats]],
        rows: Rows,
    ) -> tuple[Floats, Floats]:
        """Return upper bounds of form @ (inputs of the layer behind `ends`) + constant, and the form over variables they rest on.

        `size` has the absolute values of the weights that the form, a rounded sum of them, is made of.
        SOUND: the invariant is: what is asked for <= form @ h + added + gamma spent, in exact arithmetic, for the numbers as they are
        computed, where h are the exact inputs of the level, at most `most` in absolute value. A computed sum that differs from the exact
        one by gamma times the sum s of its absolute values keeps it when s (for coefficients: s times `most`) is added to `spent`.
        """
        most = _most(ends[-1], hidden=len(ends) > 1)
        added = np.broadcast_to(constant, form.shape[:2]).copy()
        spent = (size * most).sum(axis=2) + np.abs(added)
        for level in range(len(ends) - 2, -1, -1):
            low, high = (end[:, None, :] for end in ends[level + 1])
            with np.errstate(divide="ignore"):
                # SOUND: relu(z) <= slope (z - low) for any slope >= high / (high - low); a difference, a quotient and the product with
                # the form are rounded, each by a factor no less than 1 - 2^-53, which 1 + 2^-50 makes good.
                slope = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / (high - low) * (1 + 2.0**-50)))
            below = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, (high > -low).astype(np.float64)))
            positive = form > 0
            crossing = (low < 0) & (high > 0)
            form = form * np.where(positive, slope, below)
            shift = np.where(positive & crossing, -form * low, 0.0).sum(axis=2)
            by_bias = form @ self.bias[level]
            size = np.abs(form)
            most = _most(ends[level], hidden=level > 0)
            reached = (most @ self.sizes[level].swapaxes(-1, -2)) + np.abs(self.bias[level])
            reached = reached + np.maximum(np.abs(low), np.abs(high))
            spent += shift + (size * reached).sum(axis=2) + np.abs(added)
            added = added + shift + by_bias
            form = form @ self.weights[level]
        most = _most(ends[0], hidden=False)
        box_low, box_high = (end[:, None, :] for end in ends[0])
        for coefficients, least, greatest in rows:
            form, gain, lost = _with_row(form, coefficients, least, greatest, box_low, box_high, most)
            spent += lost + np.abs(added)
            added = added + gain
        best = np.where(form > 0, form * box_high, form * box_low).sum(axis=2) + added
        spent += (np.abs(form) * most).sum(axis=2) + np.abs(added)
        # SOUND: the widening by twice gamma times what is spent covers that `spent`, a sum of non-negative numbers, and this sum are
        # rounded themselves; underflow is covered by _TINY, in each coefficient and in each sum.
        widest = sum(np.abs(high).sum(axis=1) + np.abs(low).sum(axis=1) for low, high in ends)
        return best + 4 * self.gamma * spent + _TINY * (1 + widest[:, None]), form


def _most(ends: tuple[Floats, Floats], *, hidden: bool) -> Floats:
    """Return [n, 1, inputs] the greatest absolute values of a layer's exact inputs, which hidden neurons give as they are above 0."""
    low, high = ends
    size: Floats = np.maximum(high, 0.0) if hidden else np.maximum(np.abs(low), np.abs(high))
    return size[:, None, :]


def _with_row(
    form: Floats, row: Floats, least: float, most: float, low: Floats, high: Floats, sizes: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the form minus the best multiple of the row, what that multiple adds, and the absolute values of what is computed.

    SOUND: form x = (form - m row) x + m (row x) <= (form - m row) x + m bound for any m, with the bound that m's sign asks for.
    """
    used = np.flatnonzero(row)
    if len(used) < 2:
        return form, np.zeros(form.shape[:2]), np.zeros(form.shape[:2])
    best = np.where(form > 0, form * high, form * low).sum(axis=2)
    multiplier = np.zeros(form.shape[:2])
    for place in used:
        tried = form[:, :, place] / row[place]
        rest = form - tried[:, :, None] * row
        bound = np.where(tried > 0, most, least)
        gain = np.where(tried == 0, 0.0, tried * bound)
        value = np.where(rest > 0, rest * high, rest * low).sum(axis=2) + gain
        better = value < best
        best, multiplier = np.where(better, value, best), np.where(better, tried, multiplier)
    gain = np.where(multiplier == 0, 0.0, multiplier * np.where(multiplier > 0, most, least))
    spent = ((np.abs(form) + np.abs(multiplier[:, :, None] * row)) * sizes).sum(axis=2) + np.abs(gain)
    return form - multiplier[:, :, None] * row, gain, spent


class TreeBounds:
    """Score intervals of one tree ensemble whose inputs are the given variables."""

    def __init__(self, ensemble: TreeEnsemble, places: Sequence[int]) -> None:
        self.ensemble, self.places = ensemble, tuple(places)

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: does the rival surely win against the output everywhere; [n, variables]: how many splits wait."""
        low, high, waiting = self.scores(lower, upper, {output, *rivals})
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

    def scores(
        self, lower: Floats, upper: Floats, wanted: Collection[int] | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return the least and greatest scores [n, outputs] in each box, and how many splits wait [n, variables].

        With `wanted`, those of other outputs mean nothing.
        """
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
            if wanted is not None and tree.output != VECTOR and tree.output not in wanted:
                continue
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
