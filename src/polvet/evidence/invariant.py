"""Checking `invariant`: rows that hold and boxes that are never entered prove that runs of the policy avoid `fail`.

The certificate gives `rows` [{"terms": {"x": 1}, "marks": [], "lower": 3, "upper": 3}] and `blocked` [{"x": [lower, upper]}]; see
`evidence.invariant_format`. The invariant is what satisfies all rows and is neither in `fail` nor in a blocked box. Checked:
every start state is in it, and so is every outcome of every step of the policy from it, in whatever order of float32
operations the policy is evaluated; steps never leave the variables' bounds. Small sets of states are tried one by one in the
interpreter. Otherwise each operator and each way to leave the invariant is refuted by boxes: rows narrow a box, conditions
that surely fail and outputs that surely lose exclude it (`evidence.box_view`, `evidence.policy_bounds`), the rest
is split until single states remain for the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.errors import LimitReached
from polvet.evidence.box_view import Unreadable, alternatives, effects, interval, row_of, substituted
from polvet.evidence.check import Accepted, CheckResult, Rejected, Subjects
from polvet.evidence.followed import find_policy_arena
from polvet.evidence.invariant_format import variable_bounds
from polvet.evidence.invariant_rows import Claim, Floats, Ints, Row, contract, contradicts, merged
from polvet.evidence.policy_bounds import NetworkBounds, TreeBounds
from polvet.evidence.states import Arena, Malformed
from polvet.model.expressions import (
    FALSE,
    Binary,
    BoolLiteral,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
    conjuncts,
    literal,
)  # fmt: skip
from polvet.model.folding import binary, conditional
from polvet.model.network import Kind
from polvet.model.semantics import State
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.networks import Network as NeuralNetwork
from polvet.policy.rounding import possible_choices
from polvet.policy.trees import TreeEnsemble

ANYTHING = -1
MOST_POINTS = 1_000_000
"""At most so many states are tried all; FEW_POINTS of them in the interpreter alone."""
FEW_POINTS = 2_000
POINTS_AT_ONCE = 65_536
SMALL = 32
"""Boxes of at most so many states are tried state by state."""
FEW_TOLD = 6
"""Blocked boxes over so few variables: boxes are split by their values first."""
BATCH = 256
MOST_BOXES = 3_000_000


def check_invariant(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy from all start states avoid `fail`."""
    followed = find_policy_arena(certificate, subjects)
    if isinstance(followed, Rejected):
        return followed
    return check_claim(followed.arena, followed.fitted, certificate, f"{subjects.policy} in {followed.arena.about}")


def check_claim(arena: Arena, fitted: Fitted, certificate: Mapping[str, Any], who: str) -> CheckResult:
    """Return whether the rows and boxes of the certificate are an invariant of the fitted policy in the arena."""
    try:
        checker = _Checker(arena, fitted, certificate)
        checker.check()
    except (Malformed, Unreadable) as error:
        return Rejected(str(error))
    claim = checker.claim
    return Accepted(f"no run of {who} reaches fail ({len(claim.rows)} rows, {len(claim.lower)} blocked boxes)")


class _Checker:
    def __init__(self, arena: Arena, fitted: Fitted, certificate: Mapping[str, Any]) -> None:
        self.arena, self.fitted = arena, fitted
        self.task, self.network = arena.task, arena.task.network
        self.place = {variable.name: k for k, variable in enumerate(self.network.variables)}
        bounds = [variable_bounds(variable) for variable in self.network.variables]
        for variable, (low, high) in zip(self.network.variables, bounds, strict=True):
            if variable.kind is Kind.REAL or low is None or high is None:
                raise Malformed(f"'{variable.name}' is no bounded integer")
        self.lower = np.array([low for low, _ in bounds], dtype=np.int64)
        self.upper = np.array([high for _, high in bounds], dtype=np.int64)
        if len(bounds) and max(np.abs(self.lower).max(), np.abs(self.upper).max()) > 2**40:
            raise Malformed("a variable's bounds are beyond 2^40")
        self.claim = self._read(certificate)
        told = (self.claim.lower > self.lower).any(axis=0) | (self.claim.upper < self.upper).any(axis=0)
        self.told_apart = told & (told.sum() <= FEW_TOLD) & (self.upper - self.lower < SMALL)
        policy = fitted.policy
        self.bounds: NetworkBounds | TreeBounds | None = None
        if isinstance(policy, NeuralNetwork):
            self.bounds = NetworkBounds(policy, fitted.variables, len(bounds))
        elif isinstance(policy, TreeEnsemble):
            self.bounds = TreeBounds(policy, fitted.variables)
        self.guards = self._guards()
        self.boxes = 0
        self.judged: set[tuple[int, ...]] = set()

    # -- reading

    def _read(self, certificate: Mapping[str, Any]) -> Claim:
        rows, blocked = certificate.get("rows"), certificate.get("blocked")
        if not isinstance(rows, list) or not isinstance(blocked, list):
            raise Malformed("'rows' and 'blocked' must be lists")
        marks: dict[tuple[int, int], int] = {}
        sums = []
        for k, item in enumerate(rows):
            terms, counted = (item.get("terms"), item.get("marks", [])) if isinstance(item, dict) else (None, None)
            if not isinstance(terms, dict) or not isinstance(counted, list) or not (terms or counted):
                raise Malformed(f"rows[{k}] has no 'terms'")
            columns = {self._place(name, f"rows[{k}]"): _integer(value, f"rows[{k}]") for name, value in terms.items()}
            for mark in counted:
                if not isinstance(mark, list) or len(mark) != 3:
                    raise Malformed(f"rows[{k}] has a mark that is no triple")
                key = self._place(mark[0], f"rows[{k}]"), _integer(mark[1], f"rows[{k}]")
                column = len(self.place) + marks.setdefault(key, len(marks))
                columns[column] = columns.get(column, 0) + _integer(mark[2], f"rows[{k}]")
            low, high = item.get("lower"), item.get("upper")
            lower_end = -np.inf if low is None else _integer(low, f"rows[{k}]")
            sums.append((columns, lower_end, np.inf if high is None else _integer(high, f"rows[{k}]")))
        width = len(self.place) + len(marks)
        read = []
        for columns, low, high in sums:
            coefficients = np.zeros(width)
            for column, value in columns.items():
                coefficients[column] = value
            read.append(Row(coefficients, low, high))
        lower, upper = np.tile(self.lower, (len(blocked), 1)), np.tile(self.upper, (len(blocked), 1))
        for k, item in enumerate(blocked):
            if not isinstance(item, dict):
                raise Malformed(f"blocked[{k}] is no box")
            for name, pair in item.items():
                if not isinstance(pair, list) or len(pair) != 2:
                    raise Malformed(f"blocked[{k}] gives '{name}' no pair of bounds")
                at = self._place(name, f"blocked[{k}]")
                lower[k, at], upper[k, at] = (_integer(value, f"blocked[{k}]") for value in pair)
        return Claim(tuple(read), lower, upper, tuple(marks))

    def _place(self, name: Any, what: str) -> int:
        if name not in self.place:
            raise Malformed(f"{what} names '{name}', which is no variable")
        return self.place[name]

    def _guards(self) -> list[list[Expression]]:
        """Return per output the guards of its label's operators."""
        found: dict[str | None, list[Expression]] = {}
        for joint in self.network.joints:
            for edges in product(*joint.participants):
                guard = _together([self.network.edges[edge].guard for edge in edges])
                found.setdefault(joint.label, []).append(guard)
        labels = self.network.labels
        return [[] if k == UNKNOWN_LABEL else found.get(labels[k], []) for k in self.fitted.labels]

    # -- the proof

    def check(self) -> None:
        """Raise Malformed unless the claim is an invariant that holds in every start state."""
        self._check_starts()
        points = self._all_points()
        if points is not None:
            if len(points) <= FEW_POINTS:
                for point in points:
                    self._judge(point)
            else:
                for begin in range(0, len(points), POINTS_AT_ONCE):
                    self._judge_many(points[begin : begin + POINTS_AT_ONCE])
            return
        for joint in self.network.joints:
            for edges in product(*joint.participants):
                self._check_operator(joint.label, edges)

    def _check_starts(self) -> None:
        start = self.task.start
        if start is None:
            fixed: list[Expression] = [
                Binary("=", Name(v.name), literal(v.initial)) for v in self.network.variables if v.initial is not None
            ]
            start = _together([*fixed, self.network.initial_condition])
        test = self.arena.semantics.compile(start)

        def judge(point: Ints) -> None:
            state = self._state(point)
            if test(state) and (self.arena.is_fail(state) or not self.claim.holds(point[None, :])[0]):
                raise Malformed(f"the start state {self.arena.show(state)} is not in the invariant")

        for begins in _expanded([start]):
            root = self._narrowed(begins, inside=False)
            if root is None:
                continue
            outside = [*self._row_violations({}), *self._blocked_conditions({}, root), [self.task.fail]]
            for bad in outside:
                for conditions in _expanded([*begins, *bad]):
                    self._refute(conditions, ANYTHING, judge, root, inside=False)

    def _check_operator(self, label: str | None, edges: tuple[int, ...]) -> None:
        network = self.network
        parts = [network.edges[edge] for edge in edges]
        output = ANYTHING
        if label is not None:
            number = network.labels.index(label)
            if number not in self.fitted.labels:
                return  # the policy never chooses it
            output = self.fitted.labels.index(number)
        guard = [part for edge in parts for part in conjuncts(edge.guard)]
        goal = [Unary("¬", self.task.goal), Unary("¬", self.task.fail)]
        for branches in product(*(range(len(edge.branches)) for edge in parts)):
            likely = [edge.branches[k].probability for edge, k in zip(parts, branches, strict=True)]
            happens: list[Expression] = []
            for one in likely:
                if isinstance(one, RealLiteral | IntLiteral):
                    if one.value <= 0:
                        break
                else:
                    happens.append(Binary(">", one, IntLiteral(0)))
            else:
                root = self._narrowed([*guard, *happens], inside=True)
                if root is None:
                    continue
                after = effects(network, parts, branches)
                bad = [
                    *self._bound_violations(after),
                    *self._row_violations(after),
                    *alternatives(substituted(self.task.fail, after)),
                    *self._blocked_conditions(after, root),
                ]
                for one_bad in bad:
                    for conditions in _expanded([*guard, *happens, *goal, *one_bad]):
                        self._refute(conditions, output, self._judge, root, inside=True)

    # -- ways to leave the invariant, as conditions over the state before the step

    def _bound_violations(self, after: Mapping[str, Expression]) -> Iterator[list[Expression]]:
        for name, value in after.items():
            place = self.place[name]
            if self.network.variables[place].kind is Kind.BOOL:
                continue
            yield [Binary("<", value, IntLiteral(int(self.lower[place])))]
            yield [Binary(">", value, IntLiteral(int(self.upper[place])))]

    def _row_violations(self, after: Mapping[str, Expression]) -> Iterator[list[Expression]]:
        names = [variable.name for variable in self.network.variables]
        for row in self.claim.rows:
            total: Expression = IntLiteral(0)
            for column in np.flatnonzero(row.coefficients):
                if column < len(names):
                    value = after.get(names[column], Name(names[column]))
                else:
                    place, marked = self.claim.marks[column - len(names)]
                    test = binary("=", after.get(names[place], Name(names[place])), IntLiteral(marked))
                    value = conditional(test, IntLiteral(1), IntLiteral(0))
                term = Binary("*", IntLiteral(int(row.coefficients[column])), value)
                total = Binary("+", total, term)
            if np.isfinite(row.lower):
                yield [Binary("<", total, IntLiteral(int(row.lower)))]
            if np.isfinite(row.upper):
                yield [Binary(">", total, IntLiteral(int(row.upper)))]

    def _blocked_conditions(
        self, after: Mapping[str, Expression], box: tuple[Ints, Ints]
    ) -> Iterator[list[Expression]]:
        """Yield, for each blocked box that a step may enter, that the values after it are in the box."""
        names = [variable.name for variable in self.network.variables]
        low, high = box[0][None, :].astype(np.float64), box[1][None, :].astype(np.float64)
        near = np.ones(len(self.claim.lower), dtype=np.bool_)
        for place, name in enumerate(names):
            least, most = interval(after.get(name, Name(name)), self.place, low, high)
            near &= (self.claim.lower[:, place] <= most[0]) & (self.claim.upper[:, place] >= least[0])
        for k in np.flatnonzero(near):
            conditions: list[Expression] = []
            for place, name in enumerate(names):
                a, b = int(self.claim.lower[k, place]), int(self.claim.upper[k, place])
                value = after.get(name, Name(name))
                if a > self.lower[place]:
                    conditions.append(Binary("≥", value, IntLiteral(a)))
                if b < self.upper[place]:
                    conditions.append(Binary("≤", value, IntLiteral(b)))
            yield conditions

    def _narrowed(self, conditions: Sequence[Expression], *, inside: bool) -> tuple[Ints, Ints] | None:
        """Return a box that holds every state (with `inside`: of the invariant) that satisfies the conditions, if there is one."""
        rows = self._rows_of(conditions)[0]
        everything = [*rows, *self.claim.rows] if inside else rows
        lower, upper = self._contract(self.lower[None, :].copy(), self.upper[None, :].copy(), everything)
        return (lower[0], upper[0]) if len(lower) else None

    # -- refuting by boxes

    def _rows_of(self, conditions: Sequence[Expression]) -> tuple[list[Row], list[Expression]]:
        rows, rest = [], []
        for condition in conditions:
            for part in conjuncts(condition):
                found = row_of(_plain(part), self.place)
                columns = None if found is None else self._columns(found[0])
                if found is None or columns is None:
                    rest.append(part)
                    continue
                coefficients = np.zeros(len(self.place) + len(self.claim.marks))
                for column, coefficient in columns:
                    coefficients[column] = coefficient
                rows.append(Row(coefficients, float(found[1]), float(found[2])))
        return rows, rest

    def _columns(self, terms: Mapping[int | tuple[int, int], int]) -> list[tuple[int, int]] | None:
        """Return the columns of variables and marks; None if the claim does not know a mark."""
        found = []
        for key, coefficient in terms.items():
            if isinstance(key, int):
                found.append((key, coefficient))
            elif key in self.claim.marks:
                found.append((len(self.place) + self.claim.marks.index(key), coefficient))
            else:
                return None
        return found

    def _contract(self, lower: Ints, upper: Ints, rows: Sequence[Row]) -> tuple[Ints, Ints]:
        """Return what rows leave of the boxes [n, variables]; marks are 0 or 1, and tell on their variables."""
        marks, size = self.claim.marks, len(self.place)
        if not marks:
            return contract(lower, upper, rows)
        for _ in range(3):
            before = int(lower.sum() - upper.sum())
            wide_lower, wide_upper = self._marked_bounds(lower, upper)
            wide_lower, wide_upper = contract(wide_lower, wide_upper, rows)
            lower, upper = wide_lower[:, :size].copy(), wide_upper[:, :size].copy()
            for k, (place, value) in enumerate(marks, start=size):
                never, always = wide_upper[:, k] == 0, wide_lower[:, k] == 1
                lower[never & (lower[:, place] == value), place] += 1
                upper[never & (upper[:, place] == value), place] -= 1
                lower[always, place] = np.maximum(lower[always, place], value)
                upper[always, place] = np.minimum(upper[always, place], value)
            keep = (lower <= upper).all(axis=1)
            lower, upper = lower[keep], upper[keep]
            if not len(lower) or int(lower.sum() - upper.sum()) == before:
                break
        return lower, upper

    def _marked_bounds(self, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
        """Return the boxes with bounds of the marks behind those of the variables."""
        columns_low, columns_high = [lower], [upper]
        for place, value in self.claim.marks:
            low, high = lower[:, place], upper[:, place]
            possible = (low <= value) & (value <= high)
            columns_low.append((possible & (low == high)).astype(np.int64)[:, None])
            columns_high.append(possible.astype(np.int64)[:, None])
        return np.concatenate(columns_low, axis=1), np.concatenate(columns_high, axis=1)

    def _simplified(self, rows: Sequence[Row], lower: Ints, upper: Ints) -> list[Row] | None:
        """Return the rows with what a box fixes put in, parallel ones made one; None if they contradict each other there."""
        low, high = self._marked_bounds(lower[None, :], upper[None, :])
        fixed = low[0] == high[0]
        inside = []
        for row in rows:
            moved = float(row.coefficients[fixed] @ low[0][fixed])
            inside.append(Row(np.where(fixed, 0.0, row.coefficients), row.lower - moved, row.upper - moved))
        singles = [
            Row(np.eye(len(fixed))[k], float(low[0][k]), float(high[0][k])) for k in range(len(lower)) if fixed[k]
        ]
        whole = merged(inside)
        if whole is None or contradicts(whole):
            return None
        return [*whole, *singles]

    def _refute(
        self, conditions: Sequence[Expression], output: int, judge: Any, root: tuple[Ints, Ints], *, inside: bool
    ) -> None:
        """Show that no state satisfies all conditions (with `inside`: is in the invariant, and the policy chooses the output).

        `root` holds all states that satisfy them. Single states that remain are handed to `judge`, which raises Malformed where
        they break the claim.
        """
        rows, tests = self._rows_of(conditions)
        if inside:
            rows = [*rows, *self.claim.rows]
        known = self._simplified(rows, *root)
        if known is None:
            return
        lower, upper = self._contract(root[0][None, :].copy(), root[1][None, :].copy(), known)
        if not len(lower):
            return
        simpler = self._simplified(rows, lower[0], upper[0])
        if simpler is None:
            return
        rows = simpler
        size = len(self.place)
        wide = []
        for row in rows:
            own, marks = row.coefficients[:size], row.coefficients[size:]
            if np.count_nonzero(own) > 1:
                most, least = np.maximum(marks, 0).sum(), np.minimum(marks, 0).sum()
                wide.append((own, row.lower - most, row.upper - least))
        near = ((self.claim.lower <= upper[0]) & (self.claim.upper >= lower[0])).all(axis=1) & inside
        blocked = list(zip(self.claim.lower[near], self.claim.upper[near], strict=True))
        pending = [(lower, upper)]
        while pending:
            lower, upper = pending.pop()
            if len(lower) > BATCH:
                pending.append((lower[BATCH:], upper[BATCH:]))
                lower, upper = lower[:BATCH], upper[:BATCH]
            self.boxes += len(lower)
            if self.boxes > MOST_BOXES:
                raise LimitReached(f"the check needs more than {MOST_BOXES} boxes")
            lower, upper = self._contract(lower, upper, rows)
            keep = np.ones(len(lower), dtype=np.bool_)
            for low, high in blocked:
                keep &= ~((lower >= low) & (upper <= high)).all(axis=1)
            lower, upper = lower[keep], upper[keep]
            for test in tests:
                if len(lower):
                    possible = interval(test, self.place, lower.astype(np.float64), upper.astype(np.float64))[1] != 0
                    lower, upper = lower[possible], upper[possible]
            small = np.prod((upper - lower + 1).astype(np.float64), axis=1) <= SMALL
            if small.any():
                self._try_points(self._points(lower[small], upper[small]), rows, output, judge, inside=inside)
            lower, upper = lower[~small], upper[~small]
            if not len(lower):
                continue
            weight = (upper - lower).astype(np.float64)
            if output != ANYTHING and self.bounds is not None:
                lower, upper, weight = self._excluded(lower, upper, output, wide)
            if len(lower):
                pending.append(self._split(lower, upper, weight))

    def _excluded(self, lower: Ints, upper: Ints, output: int, rows: Any) -> tuple[Ints, Ints, Floats]:
        """Leave out the boxes in which a rival that is applicable everywhere surely beats the output."""
        assert self.bounds is not None
        rivals = [k for k in range(len(self.guards)) if k != output]
        low, high = lower.astype(np.float64), upper.astype(np.float64)
        sure = np.ones((len(lower), len(rivals)), dtype=np.bool_)
        if self.fitted.filtered:
            for column, rival in enumerate(rivals):
                always = np.zeros(len(lower), dtype=np.bool_)
                for guard in self.guards[rival]:
                    always |= interval(guard, self.place, low, high)[0] == 1
                sure[:, column] = always
        if not rivals:
            return lower, upper, high - low
        beaten, matters = self.bounds.losers(output, rivals, low, high, rows)
        keep = ~(beaten & sure).any(axis=1)
        # Where a rival would win but is not applicable everywhere, its guard's variables are worth a split, too.
        weight = matters * (high - low)
        return lower[keep], upper[keep], weight[keep]

    def _split(self, lower: Ints, upper: Ints, weight: Floats) -> tuple[Ints, Ints]:
        width = upper - lower
        weight = np.where(width > 0, np.where(np.isfinite(weight), weight, 1.0), -1.0)
        flat = weight.max(axis=1) <= 0
        weight[flat] = width[flat]
        widest = width.argmax(axis=1)
        chosen = np.where(self.boxes_turn(len(lower)), widest, weight.argmax(axis=1))
        # What the blocked boxes tell apart decides most: it is told apart first.
        told = np.where(self.told_apart, width, 0)
        chosen = np.where(told.max(axis=1) > 0, told.argmax(axis=1), chosen)
        at = np.arange(len(lower))
        middle = lower[at, chosen] + width[at, chosen] // 2
        left_upper, right_lower = upper.copy(), lower.copy()
        left_upper[at, chosen] = middle
        right_lower[at, chosen] = middle + 1
        return np.concatenate([lower, right_lower]), np.concatenate([left_upper, upper])

    def boxes_turn(self, count: int) -> npt.NDArray[np.bool_]:
        """Return which boxes are split at their widest side: every fourth, so that no variable is forgotten."""
        turn: npt.NDArray[np.bool_] = (np.arange(count) + self.boxes) % 4 == 0
        return turn

    def _try_points(self, points: Ints, rows: Sequence[Row], output: int, judge: Any, *, inside: bool) -> None:
        for row in rows:
            value = self.claim.marked(points) @ row.coefficients
            points = points[(value >= row.lower) & (value <= row.upper)]
        if inside and len(points):
            points = points[self.claim.holds(points)]
        if output != ANYTHING and len(points):
            points = points[self._chosen(points, output)]
        for point in points:
            judge(point)

    def _chosen(self, points: Ints, output: int) -> npt.NDArray[np.bool_]:
        mask = None
        if self.fitted.filtered:
            values = points.astype(np.float64)
            mask = np.zeros((len(points), len(self.guards)), dtype=np.bool_)
            for k, guards in enumerate(self.guards):
                for guard in guards:
                    low, high = interval(guard, self.place, values, values)
                    if (low != high).any():  # the interpreter knows better
                        return np.ones(len(points), dtype=np.bool_)
                    mask[:, k] |= high != 0
        rows = points[:, list(self.fitted.variables)].astype(np.float64).astype(np.float32)
        possible: npt.NDArray[np.bool_] = possible_choices(self.fitted.policy, rows, mask)[:, output]
        return possible

    def _points(self, lower: Ints, upper: Ints) -> Ints:
        """Return all states of some small boxes [n, variables]."""
        width = upper - lower + 1
        counts = width.prod(axis=1)
        box = np.repeat(np.arange(len(lower)), counts)
        number = np.arange(len(box)) - np.repeat(np.cumsum(counts) - counts, counts)
        points = np.empty((len(box), lower.shape[1]), dtype=np.int64)
        for k in range(lower.shape[1] - 1, -1, -1):
            points[:, k] = lower[box, k] + number % width[box, k]
            number = number // width[box, k]
        return points

    def _all_points(self) -> Ints | None:
        """Return every state that satisfies the rows and is in no blocked box, None if that takes too many steps.

        Values are filled in variable by variable; what no row allows any more, whatever the rest, is left out at once.
        """
        size = len(self.place)
        points = np.zeros((1, 0), dtype=np.int64)
        low, high = self._marked_bounds(self.lower[None, :], self.upper[None, :])
        for known in range(1, size + 1):
            values = np.arange(self.lower[known - 1], self.upper[known - 1] + 1, dtype=np.int64)
            if len(points) * len(values) > MOST_POINTS:
                return None
            points = np.column_stack([np.repeat(points, len(values), axis=0), np.tile(values, len(points))])
            for row in self.claim.rows:
                open_columns = [*range(known, size)]
                total = points @ row.coefficients[:known]
                for column, (place, value) in enumerate(self.claim.marks, start=size):
                    if place >= known:
                        open_columns.append(column)
                    elif row.coefficients[column]:
                        total = total + row.coefficients[column] * (points[:, place] == value)
                a = row.coefficients[open_columns]
                ends = np.stack([a * low[0, open_columns], a * high[0, open_columns]])
                fits = (total + ends.max(axis=0).sum() >= row.lower) & (total + ends.min(axis=0).sum() <= row.upper)
                points, total = points[fits], total[fits]
        return points[self.claim.holds(points)]

    def _judge_many(self, points: Ints) -> None:
        """As `_judge`, for many states of the invariant at once; where an expression is not decided, the interpreter is asked."""
        values = points.astype(np.float64)
        doubtful = np.zeros(len(points), dtype=np.bool_)

        def exactly(expression: Expression) -> Floats:
            low, high = interval(expression, self.place, values, values)
            doubtful[low != high] = True
            return high

        running = (exactly(self.task.fail) == 0) & (exactly(self.task.goal) == 0)
        operators = [(joint.label, edges) for joint in self.network.joints for edges in product(*joint.participants)]
        guards = [exactly(_together([self.network.edges[edge].guard for edge in edges])) != 0 for _, edges in operators]
        labelled = np.zeros(len(points), dtype=np.bool_)
        mask = np.zeros((len(points), len(self.guards)), dtype=np.bool_)
        output_of = {k: output for output, k in enumerate(self.fitted.labels) if k != UNKNOWN_LABEL}
        for (label, _), guard in zip(operators, guards, strict=True):
            if label is not None:
                labelled |= guard
                output = output_of.get(self.network.labels.index(label))
                if output is not None:
                    mask[:, output] |= guard
        rows = points[:, list(self.fitted.variables)].astype(np.float64).astype(np.float32)
        possible = possible_choices(self.fitted.policy, rows, mask if self.fitted.filtered else None) & mask
        goes_on = running & (~labelled | possible.any(axis=1))
        for (label, edges), guard in zip(operators, guards, strict=True):
            taken = guard & goes_on
            if label is not None:
                output = output_of.get(self.network.labels.index(label))
                if output is None:
                    continue
                taken &= possible[:, output]
            parts = [self.network.edges[edge] for edge in edges]
            for branches in product(*(range(len(edge.branches)) for edge in parts)):
                moving = taken.copy()
                for edge, k in zip(parts, branches, strict=True):
                    moving &= exactly(Binary(">", edge.branches[k].probability, IntLiteral(0))) != 0
                after = values.copy()
                for name, value in effects(self.network, parts, branches).items():
                    after[:, self.place[name]] = exactly(value)
                sound = np.flatnonzero(moving & ~doubtful)
                if not len(sound):
                    continue
                after = after[sound]
                outside: npt.NDArray[np.bool_] = np.any((after < self.lower) | (after > self.upper), axis=1)
                landed = np.where(outside[:, None], self.lower, after).astype(np.int64)
                low, high = interval(self.task.fail, self.place, landed.astype(np.float64), landed.astype(np.float64))
                doubtful[sound[low != high]] = True
                for point in points[sound[outside | (low == 1) | ~self.claim.holds(landed)]]:
                    self._judge(point)
                    raise Malformed(f"a step from {self.arena.show(self._state(point))} leaves the invariant")
        for point in points[doubtful]:
            self._judge(point)

    # -- single states, in the interpreter

    def _state(self, point: Ints) -> State:
        return tuple(
            bool(x) if variable.kind is Kind.BOOL else int(x)
            for variable, x in zip(self.network.variables, point, strict=True)
        )

    def _judge(self, point: Ints) -> None:
        """Raise Malformed if a step of the policy from this state of the invariant leaves it."""
        key = tuple(point.tolist())
        if key in self.judged or not self.claim.holds(point[None, :])[0]:
            return
        self.judged.add(key)
        state = self._state(point)
        if self.arena.is_fail(state) or self.arena.is_goal(state):
            return
        moves = self.arena.moves(state)
        labels = {move.label for move in moves if move.label is not None}
        taken: set[str] = set()
        if labels:
            names = [None if k == UNKNOWN_LABEL else self.network.labels[k] for k in self.fitted.labels]
            mask = np.array([[name in labels for name in names]], dtype=np.bool_)
            if self.fitted.filtered and not mask.any():
                return
            given = mask if self.fitted.filtered else None
            possible = possible_choices(self.fitted.policy, self.fitted.row(state), given)[0]
            taken = {
                name for name, may in zip(names, possible, strict=True) if may and name in labels and name is not None
            }
            if not taken:
                return
        for move in moves:
            if move.label is not None and move.label not in taken:
                continue
            for outcome in move.outcomes:
                after = np.array([int(x) for x in outcome.state], dtype=np.int64)
                if self.arena.is_fail(outcome.state) or not self.claim.holds(after[None, :])[0]:
                    raise Malformed(
                        f"{self.arena.show(state)} may lead to {self.arena.show(outcome.state)}, outside the invariant"
                    )


def _together(parts: Sequence[Expression]) -> Expression:
    result: Expression = BoolLiteral(True)
    for part in parts:
        result = part if result == BoolLiteral(True) else Binary("∧", result, part)
    return result


def _expanded(conditions: Sequence[Expression]) -> list[list[Expression]]:
    """Return alternatives of conditions that hold together, where disjunctions inside are few."""
    found: list[list[Expression]] = [[]]
    for condition in conditions:
        options = alternatives(condition, 60)
        if len(found) * len(options) > 60:
            options = [[condition]]
        found = [one + other for one in found for other in options]
    return [one for one in found if FALSE not in one]


def _plain(condition: Expression) -> Expression:
    """Return the condition without a negation in front of a comparison."""
    opposite = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}
    match condition:
        case Unary("¬", Binary(operator, left, right)) if operator in opposite:
            return Binary(opposite[operator], left, right)
        case _:
            return condition


def _integer(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**40:
        raise Malformed(f"{what} holds {value!r}, which is no integer up to 2^40")
    return value
