"""Refuting by boxes: no state of a box satisfies conditions and makes the policy choose an output.

Rows narrow a box, blocked boxes take parts off it, conditions that surely fail and outputs that surely lose exclude it; the rest is
cut until few states remain, which are tried. For tree ensembles the cuts are thresholds of trees that are not yet
decided (`evidence.tree_masks`), the most decisive first; a rival that wins but is not applicable everywhere is cut along
its guard. For networks (`evidence.policy_bounds`) the variable that matters most is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import DOUBLES, interval
from polvet.check.invariant_claim import ANYTHING, Question
from polvet.check.invariant_conditions import contracted, marked_bounds, rows_of, simplified
from polvet.check.invariant_cuts import Cut, along_boxes, first_of, guards_of, in_the_middle, shaved, split
from polvet.check.invariant_rows import Floats, Ints, Row
from polvet.check.invariant_states import points_of
from polvet.check.policy_bounds import NetworkBounds, TreeBounds
from polvet.check.tree_masks import TreeMasks, fits
from polvet.check.unit_bounds import UnitBounds
from polvet.errors import LimitReached
from polvet.model.expressions import TRUE, Expression
from polvet.policy.networks import Network as NeuralNetwork
from polvet.policy.rounding import possible_choices
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph

Bools = npt.NDArray[np.bool_]
Boxes = tuple[Ints, Ints]
SMALL = 32
"""Boxes of at most so many states are tried state by state."""
FEW_TOLD = 6
"""Blocked boxes over so few variables: boxes are split by their values first, where halving is all that can be done."""
BATCH = 256
BATCH_OF_TREES = 1024
MOST_BOXES = 3_000_000


class Refuter:
    """Refutes conditions over boxes of states of one claim."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        policy, fitted = asked.fitted.policy, asked.fitted
        self.halving: NetworkBounds | TreeBounds | UnitBounds | None = None
        self.trees: TreeMasks | None = None
        if isinstance(policy, NeuralNetwork):
            self.halving = NetworkBounds(policy, fitted.variables, len(asked.place))
        elif isinstance(policy, UnitGraph):
            self.halving = UnitBounds(policy, fitted.variables, len(asked.place))
        elif isinstance(policy, TreeEnsemble) and fits(policy):
            self.trees = TreeMasks(policy, fitted.variables)
        elif isinstance(policy, TreeEnsemble):
            self.halving = TreeBounds(policy, fitted.variables)
        self.guards = guards_of(asked)
        claim = asked.claim
        told = (claim.lower > asked.lower).any(axis=0) | (claim.upper < asked.upper).any(axis=0)
        self.told_apart = told & (told.sum() <= FEW_TOLD) & (asked.upper - asked.lower < SMALL)
        self.boxes = 0

    def refute(
        self,
        conditions: Sequence[Expression],
        output: int,
        judge: Callable[[Ints], None],
        root: Boxes,
        *,
        inside: bool,
    ) -> None:
        """Show that no state satisfies all conditions (with `inside`: is in the invariant, and the policy chooses the output).

        `root` holds all states that satisfy them. Single states that remain are handed to `judge`, which raises Malformed where
        they break the claim.
        """
        asked = self.asked
        rows, tests = rows_of(asked, conditions)
        if inside:
            rows = [*rows, *asked.claim.rows]
        known = simplified(asked, rows, *root)
        if known is None:
            return
        lower, upper = contracted(asked, root[0][None, :].copy(), root[1][None, :].copy(), known)
        if not len(lower):
            return
        known = simplified(asked, rows, lower[0], upper[0])
        if known is None:
            return
        _Search(self, known, tests, output, judge, (lower, upper), inside=inside).run()


class _Search:
    """One refutation: its rows and conditions, and what of the claim is near its root."""

    def __init__(
        self,
        refuter: Refuter,
        rows: Sequence[Row],
        tests: Sequence[Expression],
        output: int,
        judge: Callable[[Ints], None],
        root: Boxes,
        *,
        inside: bool,
    ) -> None:
        self.refuter, self.asked = refuter, refuter.asked
        self.output, self.judge, self.inside = output, judge, inside
        self.pending = [root]
        # What holds in all of the root needs no asking again.
        self.rows = [row for row in rows if not _holds_in(self.asked, row, root)]
        low, high = root[0].astype(np.float64), root[1].astype(np.float64)
        self.tests = [test for test in tests if interval(test, self.asked.place, low, high)[0][0] != 1]
        claim = self.asked.claim
        near = ((claim.lower <= root[1][0]) & (claim.upper >= root[0][0])).all(axis=1) & inside
        self.blocked = claim.lower[near], claim.upper[near]
        self.rivals = [k for k in range(len(refuter.guards)) if k != output]
        self.guards = [guards.near(root[0][0], root[1][0]) for guards in refuter.guards]

    def run(self) -> None:
        batch = BATCH_OF_TREES if self.refuter.trees is not None else BATCH
        while self.pending:
            lower, upper = self.pending.pop()
            if len(lower) > batch:
                self.pending.append((lower[batch:], upper[batch:]))
                lower, upper = lower[:batch], upper[:batch]
            self.asked.arena.budget.check()
            self.refuter.boxes += len(lower)
            if self.refuter.boxes > MOST_BOXES:
                raise LimitReached(f"the check needs more than {MOST_BOXES} boxes")
            lower, upper = self._left(lower, upper)
            small = np.prod((upper - lower + 1).astype(np.float64), axis=1) <= SMALL
            if small.any():
                self._try_points(points_of(lower[small], upper[small]))
            lower, upper = lower[~small], upper[~small]
            if len(lower):
                self._divide(lower, upper)

    def _left(self, lower: Ints, upper: Ints) -> Boxes:
        """Return what rows, blocked boxes and conditions leave of the boxes."""
        lower, upper = contracted(self.asked, lower, upper, self.rows)
        lower, upper = shaved(lower, upper, self.blocked)
        for test in self.tests:
            if len(lower):
                low, high = lower.astype(np.float64), upper.astype(np.float64)
                possible = interval(test, self.asked.place, low, high)[1] != 0
                lower, upper = lower[possible], upper[possible]
        return lower, upper

    def _divide(self, lower: Ints, upper: Ints) -> None:
        """Leave out the boxes in which a rival that is applicable everywhere surely beats the output, and cut the others."""
        refuter = self.refuter
        asks = self.output != ANYTHING and bool(self.rivals)
        if asks and refuter.trees is not None:
            lower, upper, cut = self._cut_by_trees(refuter.trees, lower, upper)
        elif asks and refuter.halving is not None:
            lower, upper, cut = self._cut_by_weight(refuter.halving, lower, upper)
        else:
            blocked = along_boxes(lower, upper, self.blocked, 0.0)
            cut = first_of([blocked, in_the_middle(lower, upper, (upper - lower).astype(np.float64))])
        if len(lower):
            self.pending.append(split(lower, upper, cut))

    def _applicable(self, lower: Ints, upper: Ints) -> tuple[Bools, Bools]:
        """Return [n, rivals]: is the rival applicable everywhere in the box, or somewhere."""
        shape = len(lower), len(self.rivals)
        if not self.asked.fitted.filtered:
            return np.ones(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
        sure, possible = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for column, rival in enumerate(self.rivals):
            always, sometimes = self.guards[rival].truth(self.asked, lower, upper)
            sure[:, column], possible[:, column] = always.any(axis=1), sometimes.any(axis=1)
        return sure, possible

    # -- trees

    def _cut_by_trees(self, trees: TreeMasks, lower: Ints, upper: Ints) -> tuple[Ints, Ints, Cut]:
        ends = trees.ends(lower, upper)
        low, high = trees.scores(ends)
        beaten = trees.losers(self.output, self.rivals, low, high)
        sure, possible = self._applicable(lower, upper)
        keep = ~(beaten & sure).any(axis=1)
        lower, upper, low, high = lower[keep], upper[keep], low[keep], high[keep]
        beaten, sure, possible = beaten[keep], sure[keep], possible[keep]
        ends = ends[0][:, keep], ends[1][:, keep]
        if not len(lower):
            return lower, upper, (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        # The rival that comes closest to winning everywhere decides which trees are worth cutting.
        margin = np.where(sure, high[:, [self.output]].astype(np.float64) - low[:, self.rivals], np.inf)
        closest = margin.argmin(axis=1)
        rival = np.where(np.isfinite(margin.min(axis=1)), np.array(self.rivals)[closest], -1)
        cuts = [
            self._along_guards(beaten & possible & ~sure, lower, upper),
            along_boxes(lower, upper, self.blocked, 0.5),
            trees.cuts(self.output, rival, lower, upper, ends),
            along_boxes(lower, upper, self.blocked, 0.0),
            in_the_middle(lower, upper, (upper - lower).astype(np.float64)),
        ]
        return lower, upper, first_of(cuts)

    def _along_guards(self, wanted: Bools, lower: Ints, upper: Ints) -> Cut:
        """Return cuts along guards of a rival that would win."""
        variable, value = np.full(len(lower), -1, dtype=np.int64), np.zeros(len(lower), dtype=np.int64)
        for column, rival in enumerate(self.rivals):
            mine = np.flatnonzero(wanted[:, column] & (variable < 0))
            guards = self.guards[rival]
            if len(mine) and len(guards.lower):
                found = along_boxes(lower[mine], upper[mine], (guards.lower, guards.upper), 0.0)
                variable[mine], value[mine] = found
        return variable, value

    # -- halving

    def _cut_by_weight(
        self, bounds: NetworkBounds | TreeBounds | UnitBounds, lower: Ints, upper: Ints
    ) -> tuple[Ints, Ints, Cut]:
        low, high = lower.astype(np.float64), upper.astype(np.float64)
        sure, _ = self._applicable(lower, upper)
        beaten, matters = bounds.losers(self.output, self.rivals, low, high, self._wide_rows())
        keep = ~(beaten & sure).any(axis=1)
        lower, upper = lower[keep], upper[keep]
        return lower, upper, self._heaviest(lower, upper, (matters * (high - low))[keep])

    def _wide_rows(self) -> list[tuple[Floats, float, float]]:
        """Return the rows over several variables, with marks put in as what they may be."""
        size = len(self.asked.place)
        found = []
        for row in self.rows:
            own, marks = row.coefficients[:size], row.coefficients[size:]
            if np.count_nonzero(own) > 1:
                most, least = int(np.maximum(marks, 0).sum()), int(np.minimum(marks, 0).sum())
                lower, upper = row.lower - most, row.upper - least
                # SOUND: rows whose numbers doubles do not hold are not told; bounds beyond them are left open.
                if np.abs(own).max() <= DOUBLES:
                    low = float(lower) if abs(lower) <= DOUBLES else -np.inf
                    high = float(upper) if abs(upper) <= DOUBLES else np.inf
                    found.append((own.astype(np.float64), low, high))
        return found

    def _heaviest(self, lower: Ints, upper: Ints, weight: Floats) -> Cut:
        if not len(lower):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        width = upper - lower
        # Every fourth box is cut at its widest side, so that no variable is forgotten.
        turn = (np.arange(len(lower)) + self.refuter.boxes) % 4 == 0
        weight = np.where(turn[:, None], width, weight)
        # What the blocked boxes tell apart decides most: it is told apart first.
        told = np.where(self.refuter.told_apart, width, 0)
        weight = np.where(told.max(axis=1, keepdims=True) > 0, told, weight)
        return in_the_middle(lower, upper, weight)

    # -- single states

    def _try_points(self, points: Ints) -> None:
        asked = self.asked
        for row in self.rows:
            value = asked.claim.marked(points) @ row.coefficients
            points = points[(value >= row.lower) & (value <= row.upper)]
        if self.inside and len(points):
            points = points[asked.claim.holds(points)]
        if self.output != ANYTHING and len(points):
            points = points[self._chosen(points)]
        for point in points:
            self.judge(point)

    def _chosen(self, points: Ints) -> Bools:
        fitted = self.asked.fitted
        mask = None
        if fitted.filtered:
            mask = np.zeros((len(points), len(self.guards)), dtype=np.bool_)
            for k, guards in enumerate(self.guards):
                if any(condition != TRUE for condition in guards.rest):
                    always, possible = guards.truth(self.asked, points, points)
                    if (always != possible).any():  # the interpreter knows better
                        return np.ones(len(points), dtype=np.bool_)
                else:
                    always = guards.truth(self.asked, points, points)[0]
                mask[:, k] = always.any(axis=1)
        rows = points[:, list(fitted.variables)].astype(np.float64).astype(np.float32)
        possible_outputs: Bools = possible_choices(fitted.policy, rows, mask)[:, self.output]
        return possible_outputs


def _holds_in(asked: Question, row: Row, box: Boxes) -> bool:
    """Return whether the row holds in every state of a box."""
    low, high = marked_bounds(asked, *box)
    ends = np.stack([row.coefficients * low[0], row.coefficients * high[0]])
    return bool(ends.min(axis=0).sum() >= row.lower and ends.max(axis=0).sum() <= row.upper)
