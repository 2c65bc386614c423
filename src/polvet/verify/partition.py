"""Tables and rule lists as one decision tree: boxes of states in each of which the same outputs are preferred in the same order.

`partition` makes a tree ensemble of one tree that chooses, among any applicable outputs, what the table or the rule list chooses, in every
state within the bounds; the engine (verify/engine.py) argues about it as about any other ensemble. Only the order of scores
matters, so Q-values that order the outputs alike share a box; where all outputs may be chosen, the first of them is all that counts.

Tables   rows that order the outputs as the default does are left out; boxes shrink to the rows in them, then the cut that lessens the
         Gini impurity most comes first (symbolic/cover.py)
Rules    conditions are three-valued over a box (check/box_view.py); where one is open, the box is cut at a number that it compares a
         variable with, else its widest side is halved; single states are asked of the rules themselves
Limits   integers up to 2^24, which float32 holds; MOST_LEAVES boxes. A state within the bounds without a row or a rule is refused
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import interval
from polvet.errors import Where
from polvet.model.expressions import Binary, Expression, Name, children, names
from polvet.model.folding import value_of
from polvet.model.infix import parse_expression
from polvet.policy.binding import Fitted
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import VECTOR, TreeEnsemble, make_tree
from polvet.symbolic.cells import Box
from polvet.symbolic.cover import best_cut
from polvet.symbolic.linear import NotLinear

Ints = npt.NDArray[np.int64]
Order: TypeAlias = tuple[int, ...]
"""Outputs, the preferred first; one alone where no other can be chosen."""
Ends: TypeAlias = tuple[tuple[int, int], ...]
"""The least and greatest value of each input."""
Cut: TypeAlias = tuple[int, int]
"""An input, and the last value of the lower part."""
MOST_LEAVES = 20_000
MOST_LOOKS = 10_000_000
"""Rows that are looked at, in all cuts together."""
EXACT = 2**24
"""Integers up to this are float32 numbers."""


def partition(fitted: Fitted, bounds: Box) -> TreeEnsemble:
    """Return a decision tree that chooses as the table or the rule list does within the bounds; NotLinear says why there is none."""
    policy = fitted.policy
    assert isinstance(policy, Table | Rules)
    ends = tuple((bounds.lower[place], bounds.upper[place]) for place in fitted.variables)
    if any(max(abs(low), abs(high)) > EXACT for low, high in ends):
        raise NotLinear(f"an input of the {type(policy).__name__} may be beyond 2^24, where float32 rounds it")
    return _partition(policy, fitted.filtered, ends)


@lru_cache(maxsize=8)
def _partition(policy: Table | Rules, filtered: bool, ends: Ends) -> TreeEnsemble:
    grown = _Grown(policy)
    if isinstance(policy, Table):
        _grow_by_rows(grown, policy, filtered, ends)
    else:
        _grow_by_rules(grown, policy, filtered, ends)
    return grown.ensemble()


@dataclass(slots=True)
class _Grown:
    """A tree in the making: the nodes so far."""

    policy: Table | Rules
    feature: list[int] = field(default_factory=lambda: [-1])
    threshold: list[float] = field(default_factory=lambda: [0.0])
    left: list[int] = field(default_factory=lambda: [-1])
    values: list[Order] = field(default_factory=lambda: [()])

    def cut(self, node: int, at: Cut) -> tuple[int, int]:
        """Make two children of a node: up to the value, and above it."""
        first = len(self.feature)
        if first > 2 * MOST_LEAVES:
            what = type(self.policy).__name__
            raise NotLinear(f"the {what} cuts the states into more than {MOST_LEAVES:,} boxes")
        self.feature[node], self.threshold[node], self.left[node] = at[0], at[1] + 0.5, first
        self.feature += [-1, -1]
        self.threshold += [0.0, 0.0]
        self.left += [-1, -1]
        self.values += [(), ()]
        return first, first + 1

    def ensemble(self) -> TreeEnsemble:
        """Return the tree as a policy whose greatest score is that of the output preferred."""
        outputs = len(self.policy.outputs)
        scores = np.zeros((len(self.feature), outputs))
        for node, order in enumerate(self.values):
            for rank, output in enumerate(order):
                scores[node, output] = outputs - rank
        right = [-1 if left < 0 else left + 1 for left in self.left]
        tree = make_tree(VECTOR, self.feature, self.threshold, self.left, right, scores)
        base = (0.0,) * outputs
        return TreeEnsemble(self.policy.inputs, self.policy.outputs, (tree,), base, "<=", "float64")


def _parts(ends: Ends, at: Cut) -> tuple[Ends, Ends]:
    place, value = at
    low, high = ends[place]
    assert low <= value < high
    return (
        (*ends[:place], (low, value), *ends[place + 1 :]),
        (*ends[:place], (value + 1, high), *ends[place + 1 :]),
    )


def _order_of(scores: npt.ArrayLike, filtered: bool) -> Order:
    """Return which outputs are preferred: greater scores first, ties in the outputs' order."""
    ordered = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable").tolist()
    return tuple(ordered) if filtered else (ordered[0],)


# -- tables


def _grow_by_rows(grown: _Grown, table: Table, filtered: bool, ends: Ends) -> None:
    usual = None if table.default is None else _order_of(np.eye(len(table.outputs))[table.default], filtered)
    orders: dict[Order, int] = {} if usual is None else {usual: 0}
    points, kinds = [], []
    for key, scores in table.rows.items():
        if all(value.is_integer() and low <= value <= high for value, (low, high) in zip(key, ends, strict=True)):
            if not np.isfinite(scores).all():
                raise NotLinear("a score of the table is not finite")
            kind = orders.setdefault(_order_of(scores, filtered), len(orders))
            if usual is None or kind:
                points.append(key)
                kinds.append(kind)
    listed = list(orders)
    every = np.array(points, dtype=np.int64).reshape(len(points), len(ends))
    labels = np.array(kinds, dtype=np.int64)
    pending, looks = [(0, ends, np.arange(len(points)))], 0
    while pending:
        node, box, rows = pending.pop()
        looks += len(rows)
        if looks > MOST_LOOKS:
            raise NotLinear(f"the Table cuts the states into too many boxes (after {len(grown.feature) // 2:,})")
        told = _told(box, every[rows], labels[rows], usual is None)
        if isinstance(told, int):
            grown.values[node] = listed[told]
            continue
        below = every[rows, told[0]] <= told[1]
        parts = zip(grown.cut(node, told), _parts(box, told), (rows[below], rows[~below]), strict=True)
        pending += list(parts)


def _told(box: Ends, points: Ints, labels: Ints, complete: bool) -> int | Cut:
    """Return the label of all states of the box, or where to cut it; label 0 is that of the states not listed, unless all must be."""
    if not len(points):
        if complete:
            shown = ", ".join(str(low) for low, _ in box)
            raise NotLinear(f"the table has neither a row for ({shown}) nor a default")
        return 0
    least, most = points.min(axis=0), points.max(axis=0)
    gaps = [(int(a) - low, int(b), high - int(b)) for a, b, (low, high) in zip(least, most, box, strict=True)]
    place = max(range(len(gaps)), key=lambda k: max(gaps[k][0], gaps[k][2]), default=0)
    if gaps:
        before, last, after = gaps[place]
        if max(before, after) > 0:
            return (place, box[place][0] + before - 1) if before >= after else (place, last)
    first = int(labels[0])
    full = len(points) == np.prod([float(high - low + 1) for low, high in box])
    if full and (labels == first).all():
        return first
    if not (labels == first).all() and (cut := best_cut(points - least, labels)) is not None:
        return cut[0], cut[1] + int(least[cut[0]])
    wide = max(range(len(box)), key=lambda k: box[k][1] - box[k][0])  # some states are missing between those listed
    return wide, (box[wide][0] + box[wide][1]) // 2


# -- rules


def _grow_by_rules(grown: _Grown, rules: Rules, filtered: bool, ends: Ends) -> None:
    place = {name: k for k, name in enumerate(rules.inputs)}
    conditions = [parse_expression(rule.when, Where("rules")) for rule in rules.rules]
    orders = [_order_of(np.eye(len(rules.outputs))[rules.outputs.index(r.action)], filtered) for r in rules.rules]
    cuts = [sorted(set(_compared(condition, place))) for condition in conditions]
    read = [sorted(place[name] for name in names(condition)) for condition in conditions]
    pending = [(0, ends)]
    while pending:
        lower = np.array([[low for low, _ in box] for _, box in pending], dtype=np.float64).reshape(len(pending), -1)
        upper = np.array([[high for _, high in box] for _, box in pending], dtype=np.float64).reshape(len(pending), -1)
        truth = [interval(condition, place, lower, upper) for condition in conditions]
        cut: list[tuple[int, Ends]] = []
        for number, (node, box) in enumerate(pending):
            first = next((k for k, (_, may) in enumerate(truth) if may[number] != 0), None)
            if first is None:
                raise NotLinear(f"no rule matches the state ({', '.join(str(low) for low, _ in box)})")
            possible = {orders[first]}
            sure = truth[first][0][number] == 1
            for k in range(first + 1, len(orders)):
                if sure:
                    break
                if truth[k][1][number] != 0:
                    possible.add(orders[k])
                    sure = truth[k][0][number] == 1
            if sure and len(possible) == 1:
                grown.values[node] = orders[first]
            elif all(low == high for low, high in box):
                row = np.array([[low for low, _ in box]], dtype=np.float32)
                grown.values[node] = _order_of(rules.scores(row)[0], filtered)
            else:
                at = _cut_of(box, cuts[first], read[first])
                cut += zip(grown.cut(node, at), _parts(box, at), strict=True)
        pending = cut


def _cut_of(box: Ends, cuts: list[Cut], read: list[int]) -> Cut:
    """Return where to cut a box in which a condition is open: the number in it that is nearest to the middle, else its widest side."""
    inside = [(place, value) for place, value in cuts if box[place][0] <= value < box[place][1]]
    if inside:
        return min(inside, key=lambda at: abs(2 * at[1] - sum(box[at[0]])) / (box[at[0]][1] - box[at[0]][0]))
    wide = max(read, key=lambda k: box[k][1] - box[k][0], default=0)
    if box[wide][0] == box[wide][1]:  # what it reads is told: only the rules after it are open
        wide = max(range(len(box)), key=lambda k: box[k][1] - box[k][0])
    return wide, (box[wide][0] + box[wide][1]) // 2


def _compared(condition: Expression, place: Mapping[str, int]) -> Iterator[Cut]:
    """Yield the cuts at numbers that the condition compares a variable with."""
    pending = [condition]
    while pending:
        part = pending.pop()
        pending += children(part)
        match part:
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥"), Name(name), other) | Binary(
                ("=" | "≠" | "<" | "≤" | ">" | "≥"), other, Name(name)
            ):
                value = value_of(other)
                if value is not None:
                    whole = int(np.floor(float(value)))
                    yield from ((place[name], whole), (place[name], whole - 1))
            case Name(name):
                yield place[name], 0
