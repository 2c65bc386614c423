"""Following a split tree: the certificate says how boxes of states are cut, and why each part has no state that breaks the claim.

A certificate's `tree` holds the nodes of all obligations (`check.invariant_obligations`), one tree after the other, each a pair of
integers. A node with a variable's place >= 0 cuts its box there: the part up to the value, and the part above it. Others are
leaves; `Reason` says what their number must name. Nodes stand in the order in which they are met: boxes wait on a stack of blocks, of
the uppermost block the first BLOCK boxes are taken off, and of those that are cut all lower parts, then all upper parts are put on it
as one block. So neither a part can be forgotten nor a node used twice, whatever the numbers are.

Nothing is searched here: rows narrow a box as far as bounds propagation gets, then one reason is checked. SOUND: a box is
passed over only where its rows leave nothing, or its reason holds in all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import DOUBLES, interval
from polvet.check.invariant_claim import Question
from polvet.check.invariant_conditions import contracted, marked_bounds
from polvet.check.invariant_guards import Guards, guards_of
from polvet.check.invariant_obligations import Boxes, Obligation
from polvet.check.invariant_rows import Floats, Ints, Row, is_contradiction
from polvet.check.invariant_space import ANYTHING
from polvet.check.invariant_states import points_of
from polvet.check.listed_bounds import RuleBounds, TableBounds
from polvet.check.packing import unpack
from polvet.check.policy_bounds import NetworkBounds, TreeBounds
from polvet.check.unit_bounds import UnitBounds
from polvet.policy.networks import Network as NeuralNetwork
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.records.state_json import Malformed

Bools = npt.NDArray[np.bool_]
PolicyBounds = NetworkBounds | TreeBounds | UnitBounds | TableBounds | RuleBounds
BLOCK = 1024
MOST_NODES = 2**26
MOST_STATES = 64
"""A leaf may leave so many states to be tried."""


class Reason(IntEnum):
    """Why a box has no state that breaks the claim."""

    ROWS = -1  # the rows leave nothing of it
    BLOCKED = -2  # it lies in the blocked box of that number
    TEST = -3  # the test of that number holds nowhere in it
    BEATEN = -4  # the rival of that number is applicable in all of it, and has the better score
    STATES = -5  # it has few states, which are tried
    SUM = -6  # the sum of rows of that number has no value there


@dataclass(slots=True, eq=False)
class SplitTree:
    """The nodes of all trees, and how far they have been read."""

    by_states: bool  # steps are not shown over boxes: all states of the claim are tried
    what: Ints
    value: Ints
    sums: tuple[tuple[tuple[int, int], ...], ...]
    read: int = field(default=0)

    def take(self, count: int) -> tuple[Ints, Ints]:
        """Return the next nodes."""
        begin, self.read = self.read, self.read + count
        if self.read > len(self.what):
            raise Malformed("the split tree ends before all boxes are shown")
        return self.what[begin : self.read], self.value[begin : self.read]

    def finish(self) -> None:
        """Raise Malformed where nodes are left."""
        if self.read != len(self.what):
            raise Malformed(f"the split tree has {len(self.what) - self.read} nodes that belong to no box")


def read_tree(certificate: Mapping[str, Any]) -> SplitTree:
    """Return the certificate's tree, or raise Malformed."""
    item = certificate.get("tree")
    if not isinstance(item, dict) or item.get("by") not in ("boxes", "states"):
        raise Malformed("'tree' does not say how it is shown: by boxes or by states")
    count = item.get("nodes")
    if type(count) is not int or not 0 <= count <= MOST_NODES:
        raise Malformed(f"the split tree's 'nodes' is no number up to {MOST_NODES}")
    numbers = np.frombuffer(unpack(item.get("packed"), 16 * count, "the split tree"), dtype="<i8").reshape(2, count)
    return SplitTree(item["by"] == "states", numbers[0], numbers[1], _read_sums(item.get("sums", [])))


def _read_sums(item: Any) -> tuple[tuple[tuple[int, int], ...], ...]:
    def is_pair(pair: Any) -> bool:
        return isinstance(pair, list) and len(pair) == 2 and all(type(x) is int and abs(x) < 2**40 for x in pair)

    if not isinstance(item, list) or not all(isinstance(one, list) and all(map(is_pair, one)) for one in item):
        raise Malformed("the split tree's 'sums' are no lists of rows with multipliers")
    return tuple(tuple((row, multiplier) for row, multiplier in one) for one in item)


class Follower:
    """Follows the trees of one claim, obligation after obligation."""

    def __init__(self, question: Question, tree: SplitTree) -> None:
        self.question, self.tree = question, tree

    @cached_property
    def guards(self) -> list[Guards]:
        """Where each output's label is applicable."""
        return guards_of(self.question)

    @cached_property
    def bounds(self) -> PolicyBounds | None:
        """Bounds of the policy's scores; None where it has none."""
        return bounds_of(self.question)

    def follow(self, obligation: Obligation, try_states: Callable[[Ints], None]) -> None:
        """Raise Malformed unless the next tree shows the obligation; states that leaves name are handed to `try_states`."""
        pending = [obligation.root]
        while pending:
            lower, upper = pending.pop()
            if len(lower) > BLOCK:
                pending.append((lower[BLOCK:], upper[BLOCK:]))
                lower, upper = lower[:BLOCK], upper[:BLOCK]
            self.question.arena.budget.check()
            what, value = self.tree.take(len(lower))
            lower, upper, kept = contracted(self.question, lower, upper, obligation.rows)
            gone = np.ones(len(what), dtype=np.bool_)
            gone[kept] = False
            if ((what == Reason.ROWS) != gone).any():
                raise Malformed("a leaf of the split tree calls a box empty that is not, or cuts one that is")
            what, value = what[kept], value[kept]
            cut = what >= 0
            self._check_leaves(obligation, (lower[~cut], upper[~cut]), what[~cut], value[~cut], try_states)
            if cut.any():
                pending.append(parts_of(lower[cut], upper[cut], what[cut], value[cut]))

    def _check_leaves(
        self, obligation: Obligation, boxes: Boxes, what: Ints, value: Ints, try_states: Callable[[Ints], None]
    ) -> None:
        if not len(what):
            return
        for reason, number in np.unique(np.stack([what, value], axis=1), axis=0).tolist():
            mine = (what == reason) & (value == number)
            lower, upper = boxes[0][mine], boxes[1][mine]
            if reason == Reason.STATES:
                if (np.prod((upper - lower + 1).astype(np.float64), axis=1) > MOST_STATES).any():
                    raise Malformed(f"a leaf of the split tree leaves more than {MOST_STATES} states to be tried")
                points = self._left(obligation, points_of(lower, upper))
                if len(points):
                    try_states(points)
            elif not self._holds(obligation, reason, number, lower, upper):
                raise Malformed(f"a leaf of the split tree gives a reason ({reason}, {number}) that does not hold")

    def _holds(self, obligation: Obligation, reason: int, number: int, lower: Ints, upper: Ints) -> bool:
        """Return whether the reason holds in all of these boxes."""
        claim = self.question.claim
        low, high = lower.astype(np.float64), upper.astype(np.float64)
        match reason:
            case Reason.BLOCKED if obligation.inside and 0 <= number < len(claim.lower):
                return bool(((lower >= claim.lower[number]) & (upper <= claim.upper[number])).all())
            case Reason.TEST if 0 <= number < len(obligation.tests):
                return bool((interval(obligation.tests[number], self.question.place, low, high)[1] == 0).all())
            case Reason.SUM if 0 <= number < len(self.tree.sums):
                sums, rows = self.tree.sums[number], obligation.rows
                wide = zip(*marked_bounds(self.question, lower, upper), strict=True)
                known = all(0 <= row < len(rows) and multiplier for row, multiplier in sums)
                return known and all(is_contradiction(rows, a, b, sums) for a, b in wide)
            case Reason.BEATEN if obligation.output != ANYTHING and 0 <= number < len(self.guards):
                return bool(self.beaten(obligation, number, lower, upper).all())
            case _:
                return False

    def beaten(self, obligation: Obligation, rival: int, lower: Ints, upper: Ints) -> Bools:
        """Return in which boxes the rival is applicable everywhere and surely has the better score."""
        if rival == obligation.output or self.bounds is None:
            return np.zeros(len(lower), dtype=np.bool_)
        low, high, rows = lower.astype(np.float64), upper.astype(np.float64), wide_rows(self.question, obligation.rows)
        beaten: Bools = self.bounds.losers(obligation.output, [rival], low, high, rows)[0][:, 0]
        if self.question.fitted.filtered:
            near = self.guards[rival].near(obligation.root[0][0], obligation.root[1][0])
            beaten = beaten & near.truth(self.question, lower, upper)[0].any(axis=1)
        return beaten

    def _left(self, obligation: Obligation, points: Ints) -> Ints:
        """Return the points that satisfy the rows, and with `inside` are in the claim."""
        for row in obligation.rows:
            value = self.question.claim.marked(points) @ row.coefficients
            points = points[(value >= row.lower) & (value <= row.upper)]
        return points[self.question.claim.holds(points)] if obligation.inside and len(points) else points


def parts_of(lower: Ints, upper: Ints, place: Ints, value: Ints) -> Boxes:
    """Return the lower parts of boxes, then the upper ones; Malformed where a cut is not inside its box."""
    every = np.arange(len(lower))
    if (place >= lower.shape[1]).any() or ((value < lower[every, place]) | (value >= upper[every, place])).any():
        raise Malformed("the split tree cuts a box where it is not")
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[every, place] = value
    right_lower[every, place] = value + 1
    return np.concatenate([lower, right_lower]), np.concatenate([left_upper, upper])


def bounds_of(question: Question) -> PolicyBounds | None:
    """Return what bounds the policy's scores over boxes; None for policies without scores."""
    policy, fitted = question.fitted.policy, question.fitted
    match policy:
        case NeuralNetwork():
            return NetworkBounds(policy, fitted.variables, len(question.place))
        case UnitGraph():
            return UnitBounds(policy, fitted.variables, len(question.place))
        case TreeEnsemble():
            return TreeBounds(policy, fitted.variables)
        case Table():
            return TableBounds(policy, fitted.variables)
        case Rules():
            return RuleBounds(policy, fitted.variables)
        case _:
            return None


def wide_rows(question: Question, rows: tuple[Row, ...]) -> list[tuple[Floats, float, float]]:
    """Return the rows over several variables as bounds of scores read them, with marks put in as what they may be."""
    size = len(question.place)
    wide = []
    for row in rows:
        own, marks = row.coefficients[:size], row.coefficients[size:]
        if np.count_nonzero(own) > 1:
            most, least = int(np.maximum(marks, 0).sum()), int(np.minimum(marks, 0).sum())
            lower, upper = row.lower - most, row.upper - least
            # SOUND: rows whose numbers doubles do not hold are not told; bounds beyond them are left open.
            if np.abs(own).max() <= DOUBLES:
                low = float(lower) if abs(lower) <= DOUBLES else -np.inf
                high = float(upper) if abs(upper) <= DOUBLES else np.inf
                wide.append((own.astype(np.float64), low, high))
    return wide
