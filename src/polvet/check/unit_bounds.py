"""Which outputs a graph of units cannot choose anywhere in a box: the checker's own bounds, in numpy over many boxes at once.

Backward linear bounds over a box and linear rows, for the values of *any* evaluation. An affine node gives exactly W x + b of its own
inputs up to Higham's gamma over the sum of sizes; a unit gives f(x) of its own input up to its enclosure (`policy.units`); errors are
met where they arise and reach the scores with the coefficients they have there.
Units are put between two lines: the interval is cut into equal cells, in a cell with derivatives in [d, D] and width h a function is at
most (D - d) h / 4 above its chord, so any slope k has the intercept: the greatest f(x) - k x at the ends of cells plus that.
SOUND: every operation in float64 is rounded outwards. A sum of m products loses at most m 2^-52 of the sum of their sizes, in any order,
fused or not; `UnitBounds.outward` is that for more summands than any sum here has, and with it the size of every sum is added to its
bound. Units and their derivatives are computed within `_FUNCTION` of the truth. Tests compare both with exact fractions and mpmath.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polvet.policy.unit_graph import Affine, Product, Unit, UnitGraph
from polvet.policy.units import ENCLOSURE, SOFTMAX_REACH, UNITS, UnitKind, enclosure_of, turns_of

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = Sequence[tuple[Floats, float, float]]
"""Rows (coefficients over variables, lower, upper) that hold in every state asked about."""
_UNIT = 2.0**-24
_FOLDED = 8
"""Roundings more than summands: constant factors may have been multiplied into weights before or behind."""
_PRODUCT = 2.0**-21
_FUNCTION = 2.0**-40
_LEAST = 2.0**-900
"""More than products that underflow can lose."""
_HUGE = 2.0**120
CELLS = 24


class UnitBounds:
    """Margins of one graph whose inputs are the given variables."""

    def __init__(self, graph: UnitGraph, places: Sequence[int], variables: int, *, rounded: bool = False) -> None:
        self.graph, self.places, self.variables = graph, np.asarray(places, dtype=np.intp), variables
        self.rounded = rounded  # inputs may be reals, which a row of float32 rounds
        self.begins = np.cumsum([len(graph.inputs), *(node.size for node in graph.nodes)])
        if self.begins[-1] > 2**18:
            raise ValueError("the network is too large for the checker's bounds")
        # A column's coefficient is a sum over the nodes that read it, and each part of it a sum over a node's values.
        self.outward = (int(self.begins[-1]) + 2 * len(graph.nodes) + variables + 64) * 2.0**-51

    def losers(
        self, output: int, rivals: Sequence[int], lower: Floats, upper: Floats, rows: Rows
    ) -> tuple[Bools, Floats]:
        """Return [n, rivals]: does the rival surely have the greater score everywhere; and [n, variables]: how much each matters."""
        tape = _Boxes(self, lower, upper, rows)
        columns = self.graph.score_columns
        form = np.zeros((len(rivals), self.begins[-1]))
        for k, rival in enumerate(rivals):
            form[k, columns[output]] += 1
            form[k, columns[rival]] -= 1
        total, reduced = tape.greatest(np.broadcast_to(form, (len(lower), *form.shape)), len(self.graph.nodes))
        slack = tape.softmax_slack()
        total = total + slack[:, [output]] + slack[:, list(rivals)] + tape.unheard()[:, list(rivals)]
        best = np.argmin(total, axis=1)
        return total < 0, np.abs(reduced[np.arange(len(lower)), best])

    def scores(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return the least and greatest scores [n, outputs] of any evaluation in each box."""
        tape = _Boxes(self, lower, upper, ())
        columns = self.graph.score_columns
        return tape.low[:, columns], tape.high[:, columns]

    def beaten(self, lower: Floats, upper: Floats) -> Bools:
        """Return [n, outputs, rivals]: does the rival surely have the greater score everywhere in the box."""
        outputs = len(self.graph.outputs)
        tape = _Boxes(self, lower, upper, ())
        columns = self.graph.score_columns
        slack = tape.softmax_slack()
        beaten = np.zeros((len(lower), outputs, outputs), dtype=np.bool_)
        for output in range(outputs):
            form = np.zeros((outputs, self.begins[-1]))
            form[:, columns[output]] += 1
            form[np.arange(outputs), columns] -= 1
            total, _ = tape.greatest(np.broadcast_to(form, (len(lower), *form.shape)), len(self.graph.nodes))
            beaten[:, output] = total + slack[:, [output]] + slack + tape.unheard() < 0
        beaten[:, np.arange(outputs), np.arange(outputs)] = False
        return beaten


class _Boxes:
    """Bounds of every column over n boxes, node after node, and what the backward pass needs of each node."""

    def __init__(self, bounds: UnitBounds, lower: Floats, upper: Floats, rows: Rows) -> None:
        self.bounds, self.lower, self.upper, self.rows = bounds, lower, upper, rows
        inputs = bounds.places
        reach = np.maximum(np.abs(lower[:, inputs]), np.abs(upper[:, inputs]))
        error = reach * 2.0**-23 + 2.0**-126 if bounds.rounded else np.where(reach > 2.0**24, reach * 2.0**-23, 0.0)
        self.low, self.high = lower[:, inputs] - error, upper[:, inputs] + error
        self.error = error
        self.local: list[Floats] = []  # per node what rounding adds (affine, product)
        self.lines: list[
            tuple[Floats, Floats, Floats, Floats]
        ] = []  # per node slope and constant, above and below (units)
        hidden = _read_by_others(bounds.graph)
        for index, node in enumerate(bounds.graph.nodes):
            with np.errstate(all="ignore"):
                match node:
                    case Affine():
                        low, high = self._affine(node)
                        if hidden[index]:
                            low, high = self._narrowed(index, node, low, high)
                    case Unit():
                        low, high = self._unit(node)
                    case Product():
                        low, high = self._product(node)
            # A bound that is not a number is no bound.
            self.low = np.concatenate([self.low, np.where(np.isnan(low), -np.inf, low)], axis=1)
            self.high = np.concatenate([self.high, np.where(np.isnan(high), np.inf, high)], axis=1)

    def reach(self, columns: npt.NDArray[np.int32]) -> Floats:
        """Return the greatest size of the columns."""
        return np.maximum(np.abs(self.low[:, columns]), np.abs(self.high[:, columns]))

    def softmax_slack(self) -> Floats:
        """Return [n, outputs]: by how much a softmax may level or turn round scores."""
        columns = self.bounds.graph.score_columns
        if not self.bounds.graph.softmax:
            return np.zeros((len(self.lower), len(columns)))
        best = self.high[:, columns].max(axis=1, keepdims=True)
        size = np.maximum(1.0, np.maximum(self.reach(columns), best - self.low[:, columns]))
        slack: Floats = ENCLOSURE * size * (1 + self.bounds.outward)
        return slack

    def unheard(self) -> Floats:
        """Return [n, outputs]: infinite where a softmax may level the output with all that is far behind the best score, else 0."""
        columns = self.bounds.graph.score_columns
        if not self.bounds.graph.softmax:
            return np.zeros((len(self.lower), len(columns)))
        best = self.high[:, columns].max(axis=1, keepdims=True)
        return np.where(best - self.low[:, columns] < SOFTMAX_REACH, 0.0, np.inf)

    def _affine(self, node: Affine) -> tuple[Floats, Floats]:
        weights = node.weights.astype(np.float64)
        size = node.sizes + self._sums(node, np.abs(weights), self.reach(node.reads))
        summands = node.weights.shape[1] + node.roundings + _FOLDED
        gamma = summands * _UNIT / (1 - summands * _UNIT)
        # Numbers below 2^-126 may be read or written as 0.
        ones, reach = np.ones((1, len(node.reads))), self.reach(node.reads)
        read = self._sums(node, np.abs(weights), ones) + self._sums(node, np.ones_like(weights), reach)
        flushed = (read + 64 * summands) * 2.0**-126
        # `outward` of the size twice: for the sums below, and for the coefficients of the backward pass.
        local = (gamma * size + flushed + 2 * self.bounds.outward * size) * (1 + self.bounds.outward) + _LEAST
        local = np.where(size < _HUGE, local, np.inf)
        self.local.append(local)
        self.lines.append(_NO_LINES)
        up, down = np.maximum(weights, 0), np.minimum(weights, 0)
        low, high = self.low[:, node.reads], self.high[:, node.reads]
        least = self._sums(node, up, low) + self._sums(node, down, high) + node.bias
        most = self._sums(node, up, high) + self._sums(node, down, low) + node.bias
        return least - local, most + local

    def _sums(self, node: Affine, weights: Floats, values: Floats) -> Floats:
        if node.is_shared:
            finite = np.where(np.isfinite(values), values, np.sign(values) * 2.0**200)  # infinity times 0 is 0 here
            return np.asarray(finite @ weights.T)
        parts = values.reshape(len(values), *node.columns.shape)
        return np.asarray(np.where(weights == 0, 0.0, parts * weights).sum(axis=2))

    def _narrowed(self, index: int, node: Affine, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return bounds of an affine node's values by the backward pass, where they are better."""
        begin = int(self.bounds.begins[index])
        form = np.zeros((node.size, self.bounds.begins[-1]))
        form[np.arange(node.size), begin + np.arange(node.size)] = 1
        spread = np.broadcast_to(form, (len(self.lower), *form.shape))
        most, _ = self.greatest(spread, index + 1)
        least, _ = self.greatest(-spread, index + 1)
        return np.fmax(low, -least), np.fmin(high, most)

    def _unit(self, node: Unit) -> tuple[Floats, Floats]:
        kind = UNITS[node.name]
        low, high = self.low[:, node.columns], self.high[:, node.columns]
        a, b = (np.broadcast_to(part.astype(np.float64), low.shape) for part in (node.a, node.b))
        size = np.maximum(np.abs(low), np.abs(high))
        known = (size < _HUGE) & (low <= high)
        if kind.name in ("sqrt", "reciprocal"):
            known &= (low > 0) if kind.name == "sqrt" else (low > 0) | (high < 0)
        least, most, lines = (
            _step_lines(low, high, a, b) if kind.name == "equal" else _lines(kind, low, high, a, b, known)
        )
        result = np.maximum(np.abs(least), np.abs(most))
        own = enclosure_of(kind, size, result, a, b) * (1 + _FUNCTION)
        above, over, below, under = lines
        lost = _FUNCTION + self.bounds.outward
        extra = own + (np.maximum(np.abs(above), np.abs(below)) * size + result) * lost + _LEAST
        known &= (result < _HUGE) & np.isfinite(above) & np.isfinite(below) & np.isfinite(extra)
        nothing = np.zeros_like(low)
        self.local.append(nothing)
        self.lines.append(
            (
                np.where(known, above, 0.0),
                np.where(known, over + extra, np.inf),
                np.where(known, below, 0.0),
                np.where(known, under - extra, -np.inf),
            )
        )
        return np.where(known, least - extra, -np.inf), np.where(known, most + extra, np.inf)

    def _product(self, node: Product) -> tuple[Floats, Floats]:
        size = self.reach(node.left) * self.reach(node.right)
        local = np.where(size < _HUGE, size * (_PRODUCT + self.bounds.outward) + 2.0**-120, np.inf)
        self.local.append(local)
        self.lines.append(_NO_LINES)
        ends = [x[:, node.left] * y[:, node.right] for x in (self.low, self.high) for y in (self.low, self.high)]
        return np.minimum.reduce(ends) - local, np.maximum.reduce(ends) + local

    def greatest(self, form: Floats, end: int) -> tuple[Floats, Floats]:
        """Return upper bounds [n, k] of forms [n, k, columns] over nodes before `end`, and the forms over variables they rest on."""
        form = form.copy()
        added = np.zeros(form.shape[:2])
        size = np.zeros(form.shape[:2])
        graph, begins = self.bounds.graph, self.bounds.begins
        with np.errstate(all="ignore"):
            for index in range(end - 1, -1, -1):
                node, begin = graph.nodes[index], int(begins[index])
                factor = form[:, :, begin : begin + node.size].copy()
                form[:, :, begin : begin + node.size] = 0
                if not factor.any():
                    continue
                match node:
                    case Affine():
                        own = factor @ node.bias.astype(np.float64)
                        rounding = _weighted(np.abs(factor), self.local[index])
                        self._spread_affine(form, node, factor)
                        size += np.abs(factor) @ np.abs(node.bias.astype(np.float64)) + rounding
                        added += own + rounding
                    case Unit():
                        above, over, below, under = (part[:, None, :] for part in self.lines[index])
                        up, down = np.maximum(factor, 0), np.minimum(factor, 0)
                        _scatter(form, node.columns, up * above + down * below)
                        terms = np.where(up > 0, up * over, 0.0) + np.where(down < 0, down * under, 0.0)
                        added += terms.sum(axis=2)
                        size += np.abs(terms).sum(axis=2)
                    case Product():
                        shift, scale = self._spread_product(form, node, factor, self.local[index])
                        added += shift
                        size += scale
            over_inputs = form[:, :, : len(self.bounds.places)]
            reach = self.reach(np.arange(len(self.bounds.places), dtype=np.int32))
            outward = self.bounds.outward
            added += (np.abs(over_inputs) * (self.error + reach * outward)[:, None, :]).sum(axis=2) + size * outward
            over_variables = np.zeros((*form.shape[:2], self.bounds.variables))
            _scatter(over_variables, self.bounds.places, over_inputs)
            return self._maximised(over_variables, added)

    def _spread_affine(self, form: Floats, node: Affine, factor: Floats) -> None:
        weights = node.weights.astype(np.float64)
        if node.is_shared:
            _scatter(form, node.columns, factor @ weights)
        else:
            for k in range(weights.shape[1]):
                _scatter(form, node.columns[:, k], factor * weights[:, k])

    def _spread_product(self, form: Floats, node: Product, factor: Floats, local: Floats) -> tuple[Floats, Floats]:
        """Replace products by McCormick's planes: of the two on each side, the better one in the middle of the box."""
        xl, xh, yl, yh = (side[:, columns] for columns in (node.left, node.right) for side in (self.low, self.high))
        xm, ym = (xl + xh) / 2, (yl + yh) / 2
        chosen = []
        for first, second, least in (((xh, yl), (xl, yh), True), ((xl, yl), (xh, yh), False)):
            heights = [u * ym + w * xm - u * w for u, w in (first, second)]
            take = heights[0] <= heights[1] if least else heights[0] >= heights[1]
            chosen.append((np.where(take, first[0], second[0]), np.where(take, first[1], second[1])))
        (u, w), (p, q) = chosen
        up, down = np.maximum(factor, 0), np.minimum(factor, 0)

        def mixed(above: Floats, below: Floats) -> Floats:
            return np.where(up > 0, up * above[:, None, :], 0.0) + np.where(down < 0, down * below[:, None, :], 0.0)

        _scatter(form, node.right, np.nan_to_num(mixed(u, p), posinf=0.0, neginf=0.0))
        _scatter(form, node.left, np.nan_to_num(mixed(w, q), posinf=0.0, neginf=0.0))
        size = self.reach(node.left) * self.reach(node.right)
        own = local + 4 * size * self.bounds.outward
        terms = -mixed(u * w, p * q) + np.where(factor != 0, np.abs(factor) * own[:, None, :], 0.0)
        terms = np.where(np.isnan(terms) | ((factor != 0) & ~np.isfinite(own[:, None, :])), np.inf, terms)
        return terms.sum(axis=2), (np.abs(factor) * np.minimum(size, _HUGE)[:, None, :]).sum(axis=2)

    def _maximised(self, form: Floats, added: Floats) -> tuple[Floats, Floats]:
        low, high = self.lower[:, None, :], self.upper[:, None, :]
        for coefficients, least, most in self.rows:
            form, gain = _with_row(form, coefficients, least, most, low, high, self.bounds.outward)
            added = added + gain
        best = np.where(form > 0, form * high, form * low).sum(axis=2) + added
        size = (np.abs(form) * np.maximum(np.abs(low), np.abs(high))).sum(axis=2) + np.abs(added)
        total = best + size * self.bounds.outward + _LEAST
        return np.where(np.isnan(total), np.inf, total), form


_NO_LINES = (np.zeros((0, 0)),) * 4


def _read_by_others(graph: UnitGraph) -> list[bool]:
    """Return per node: does a unit or a product read it."""
    owner = np.repeat(np.arange(-1, len(graph.nodes)), [len(graph.inputs), *(node.size for node in graph.nodes)])
    read = np.zeros(len(graph.nodes) + 1, dtype=np.bool_)
    for node in graph.nodes:
        if not isinstance(node, Affine):
            read[owner[node.reads]] = True
    return [bool(one) for one in read[:-1]]


def _weighted(factor: Floats, amount: Floats) -> Floats:
    """Return the sum of factor * amount over the last axis, 0 where the factor is."""
    return np.asarray(np.where(factor == 0, 0.0, factor * amount[:, None, :]).sum(axis=2))


def _scatter(form: Floats, columns: npt.NDArray[np.integer], values: Floats) -> None:
    """Add values [n, k, m] to the form's columns, which may repeat."""
    if len(np.unique(columns)) == len(columns):
        form[:, :, columns] += values
    else:
        for k, column in enumerate(columns):
            form[:, :, column] += values[:, :, k]


def _step_lines(low: Floats, high: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats, tuple[Floats, ...]]:
    """Return bounds of the unit `equal`, and constant lines above and below it."""
    from_, to = np.trunc(low), np.trunc(high)
    possible = ((a >= from_) & (a <= to)) | ((b >= from_) & (b <= to))
    sure = possible & (from_ == to)
    zero = np.zeros_like(low)
    least, most = sure.astype(np.float64), possible.astype(np.float64)
    return least, most, (zero, most, zero, least)


def _lines(
    kind: UnitKind, low: Floats, high: Floats, a: Floats, b: Floats, known: Bools
) -> tuple[Floats, Floats, tuple[Floats, ...]]:
    """Return the least and greatest value of a unit over intervals, and slope and constant of lines above and below it."""
    left, right = np.where(known, low, 1.0), np.where(known, high, 1.0)
    turns = [np.clip(turn, left, right) for turn in turns_of(kind, a, b)]
    share = np.linspace(0, 1, CELLS + 1)[1:-1]
    # Most units bend near zero only, and nowhere else than at their turns if they are straight.
    near_left, near_right = np.clip(left, -6.0, 6.0), np.clip(right, -6.0, 6.0)
    if kind.name in ("exp", "square", "sqrt", "reciprocal"):
        near_left, near_right = left, right
    inner = [near_left + (near_right - near_left) * s for s in ((0.0, *share, 1.0) if not kind.is_straight else ())]
    inner = [np.clip(x, left, right) for x in inner]
    points = np.sort(np.stack([left, right, *turns, *inner], axis=-1), axis=-1)
    p, q = a[..., None], b[..., None]
    values = np.broadcast_to(kind.value(points, p, q), points.shape)
    slack = _cell_slack(kind, points, p, q)
    middle = (left + right) / 2
    lines = []
    for sign in (1.0, -1.0):
        signed = sign * values
        slope = _best_slope(points, signed, middle)
        lines.append((slope, _greatest_above(points, signed, slack, slope)))
        lines.append((np.zeros_like(slope), _greatest_above(points, signed, slack, np.zeros_like(slope))))
    (above, over), (_, most), (below, under), (_, least) = lines
    return -least, most, (above, over, -below, -under)


def _cell_slack(kind: UnitKind, points: Floats, a: Floats, b: Floats) -> Floats:
    """Return per cell how far the unit may be from its chord there: (D - d) h / 4 with derivatives in [d, D]."""
    width = points[..., 1:] - points[..., :-1]
    if kind.is_straight:  # turns are ends of cells
        return np.zeros_like(width)
    inside = np.minimum(width, 1.0) * 2.0**-30
    ends = [kind.slope(points[..., :-1] + inside, a, b), kind.slope(points[..., 1:] - inside, a, b)]
    least, most = np.minimum(*ends), np.maximum(*ends)
    # Between two turns the derivative is monotone, and turns are ends of cells; so the derivatives just inside the ends decide,
    # up to what it changes on the way from there to the end: no unit bends more than 4 (elu: 4 |a b|) near its turns.
    reserve = 8 * inside * (1 + np.abs(a) + np.abs(b) + np.abs(a * b)) + (1 + np.abs(least) + np.abs(most)) * _FUNCTION
    if kind.name in ("exp", "square", "sqrt", "reciprocal"):
        at = [kind.slope(points[..., :-1], a, b), kind.slope(points[..., 1:], a, b)]
        least, most = np.minimum(*at), np.maximum(*at)
    return np.where(width > 0, (most - least + 2 * reserve) * width / 4, 0.0)


def _best_slope(points: Floats, values: Floats, middle: Floats) -> Floats:
    """Return the slope of the highest chord over the middle of the interval."""
    at = middle[..., None]
    best = np.full(middle.shape, -np.inf)
    slope = np.zeros(middle.shape)
    for i in range(points.shape[-1] - 1):
        x, f = points[..., i : i + 1], values[..., i : i + 1]
        run = points - x
        steep = np.where(run > 0, (values - f) / np.where(run > 0, run, 1.0), 0.0)
        height = np.where((x <= at) & (points >= at) & (run > 0), f + steep * (at - x), -np.inf)
        k = height.argmax(axis=-1)[..., None]
        tried = np.take_along_axis(height, k, axis=-1)[..., 0]
        better = tried > best
        best = np.where(better, tried, best)
        slope = np.where(better, np.take_along_axis(steep, k, axis=-1)[..., 0], slope)
    return slope


def _greatest_above(points: Floats, values: Floats, slack: Floats, slope: Floats) -> Floats:
    """Return at least the greatest f(x) - slope x over the interval."""
    moved = values - slope[..., None] * points
    cells = np.maximum(moved[..., 1:], moved[..., :-1]) + slack
    best = np.maximum(cells.max(axis=-1), moved.max(axis=-1))
    size = (np.abs(values) + np.abs(slope[..., None] * points)).max(axis=-1)
    return np.asarray(best + (size + 1) * _FUNCTION)


def _with_row(
    form: Floats, row: Floats, least: float, most: float, low: Floats, high: Floats, outward: float
) -> tuple[Floats, Floats]:
    """Return the form minus the best multiple of the row, and what that multiple adds: any multiple gives a valid bound."""
    used = np.flatnonzero(row)
    if len(used) < 2:
        return form, np.zeros(form.shape[:2])
    best = np.where(form > 0, form * high, form * low).sum(axis=2)
    multiplier = np.zeros(form.shape[:2])
    with np.errstate(all="ignore"):
        for place in used:
            tried = form[:, :, place] / row[place]
            rest = form - tried[:, :, None] * row
            gain = np.where(tried == 0, 0.0, tried * np.where(tried > 0, most, least))
            value = np.where(rest > 0, rest * high, rest * low).sum(axis=2) + gain
            better = value < best
            best, multiplier = np.where(better, value, best), np.where(better, tried, multiplier)
        gain = np.where(multiplier == 0, 0.0, multiplier * np.where(multiplier > 0, most, least))
    scale = np.abs(multiplier) * (np.abs(row) * np.maximum(np.abs(low), np.abs(high))).sum(axis=2)
    return form - multiplier[:, :, None] * row, gain + (scale + np.abs(gain)) * outward
