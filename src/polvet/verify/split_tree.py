"""Finding the split tree of an invariant: how boxes of states are cut until a reason says of each that no state breaks the claim.

The tree is evidence, not a verdict: the checker follows it (`check.invariant_tree`) and believes nothing that is found here.
Rows narrow a box; blocked boxes take parts off it, conditions that surely fail and outputs that surely lose exclude it; the rest is
cut until few states remain, which the checker tries. For tree ensembles the cuts are thresholds of trees that are not yet
decided (`verify.tree_masks`), the most decisive first; a rival that wins but is not applicable everywhere is cut along
its guard. For networks the variable that matters most is halved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget
from polvet.check.arena import Arena
from polvet.check.box_view import interval
from polvet.check.checker import Subjects
from polvet.check.followed import find_policy_arena
from polvet.check.invariant_claim import Question, read_question
from polvet.check.invariant_conditions import contracted
from polvet.check.invariant_obligations import Obligation, start_obligations, step_obligations
from polvet.check.invariant_rows import Floats, Ints
from polvet.check.invariant_space import ANYTHING
from polvet.check.invariant_states import all_points
from polvet.check.invariant_tree import BLOCK, Follower, Reason, SplitTree, parts_of, wide_rows
from polvet.check.packing import pack
from polvet.check.start_region import read_region
from polvet.errors import InputError, LimitReached
from polvet.files import Json
from polvet.policy.binding import Fitted
from polvet.policy.restrict import restrict_fitted
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble
from polvet.records.certificate_files import Certificate, lacks_tree
from polvet.records.state_json import Malformed
from polvet.symbolic.cells import Box
from polvet.symbolic.linear import NotLinear
from polvet.verify.box_cuts import Cut, along_boxes, by_boxes, first_of, in_the_middle
from polvet.verify.partition import partition
from polvet.verify.tree_masks import TreeMasks, fits

Bools = npt.NDArray[np.bool_]
OPEN = -100
"""In the place of a reason: none is known yet."""
SMALL = 32
"""Boxes of at most so many states are left to be tried."""
FEW_TOLD = 6
"""Blocked boxes over so few variables: boxes are split by their values first, where halving is all that can be done."""
MOST_BOXES = 3_000_000


def with_tree(
    certificate: Mapping[str, Any], fitted: Fitted, budget: Budget = UNLIMITED, region: Mapping[str, Any] | None = None
) -> Certificate:
    """Return an `invariant` certificate with its split tree. A claim that is false gets one, too: the checker finds that out.

    With a region it is about the start states in there.
    """
    if (kept := certificate.get("kept")) is not None:
        fitted = restrict_fitted(fitted, kept)
    arena = Arena.of(fitted.task, budget=budget)
    if region is not None:
        arena = replace(arena, region=read_region(region, fitted.task.network.variables, arena.is_fail))
    return {**certificate, "tree": find_tree(certificate, arena, fitted)}


def completed(certificate: Certificate, subjects: Subjects) -> Certificate:
    """Return a certificate whose invariant has no split tree with one; any other as it is."""
    if not lacks_tree(certificate):
        return certificate
    try:
        followed = find_policy_arena(certificate, subjects)
        if certificate["kind"] == "invariant":
            return {**certificate, "tree": find_tree(certificate, followed.arena, followed.fitted)}
        arena, proof = followed.arena, certificate["proof"]
        region = read_region(certificate.get("region"), arena.task.network.variables, arena.is_fail)
    except Malformed:
        return certificate
    return {**certificate, "proof": {**proof, "tree": find_tree(proof, replace(arena, region=region), followed.fitted)}}


def find_tree(certificate: Mapping[str, Any], arena: Arena, fitted: Fitted) -> Json:
    """Return the tree of a claim: by states where they are few enough to be tried, else by boxes.

    Where the claim or the model cannot be read it has no nodes, and the checker says why.
    """
    try:
        return search_tree(read_question(arena, fitted, certificate))
    except (Malformed, InputError):
        return {"by": "boxes", "nodes": 0, "packed": pack(b"")}


def search_tree(question: Question, *, starts: bool = True) -> Json:
    """Return the tree of a claim that was read; without the part about start states where these are listed."""
    by_states = all_points(question) is not None
    search = Search(question)
    for obligation in start_obligations(question) if starts else ():
        search.show(obligation)
    if not by_states:
        for obligation in step_obligations(question):
            search.show(obligation)
    nodes = np.concatenate(search.nodes, axis=1) if search.nodes else np.zeros((2, 0), dtype=np.int64)
    return {
        "by": "states" if by_states else "boxes",
        "nodes": nodes.shape[1],
        "packed": pack(np.ascontiguousarray(nodes, dtype="<i8").tobytes()),
        **({"sums": search.sums} if search.sums else {}),
    }


class Search:
    """Finds the trees of one claim, obligation after obligation."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.follower = Follower(question, SplitTree(False, np.zeros(0, np.int64), np.zeros(0, np.int64), ()))
        policy, fitted = question.fitted.policy, question.fitted
        self.listed = isinstance(policy, Table | Rules)
        if isinstance(policy, Table | Rules):
            policy = _tree_of(question) or policy
        masked = isinstance(policy, TreeEnsemble) and fits(policy)
        self.trees = TreeMasks(policy, fitted.variables) if isinstance(policy, TreeEnsemble) and masked else None
        claim = question.claim
        told = (claim.lower > question.lower).any(axis=0) | (claim.upper < question.upper).any(axis=0)
        self.told_apart = told & (told.sum() <= FEW_TOLD) & (question.upper - question.lower < SMALL)
        self.nodes: list[Ints] = []
        self.sums: list[list[list[int]]] = []
        self.boxes = 0

    def show(self, obligation: Obligation) -> None:
        """Find the tree of an obligation."""
        sums = contradiction(self.question, obligation)
        if sums is not None:
            self.nodes.append(np.array([[Reason.SUM], [len(self.sums)]], dtype=np.int64))
            self.sums.append(sums)
            return
        part = _Part(self, obligation)
        pending = [obligation.root]
        while pending:
            lower, upper = pending.pop()
            if len(lower) > BLOCK:
                pending.append((lower[BLOCK:], upper[BLOCK:]))
                lower, upper = lower[:BLOCK], upper[:BLOCK]
            self.question.arena.budget.check()
            self.boxes += len(lower)
            if self.boxes > MOST_BOXES:
                raise LimitReached(f"the split tree needs more than {MOST_BOXES} boxes")
            nodes = np.zeros((2, len(lower)), dtype=np.int64)
            nodes[0] = Reason.ROWS
            lower, upper, kept = contracted(self.question, lower, upper, obligation.rows)
            what, value = part.decide(lower, upper)
            nodes[:, kept] = what, value
            self.nodes.append(nodes)
            cut = what >= 0
            if cut.any():
                pending.append(parts_of(lower[cut], upper[cut], what[cut], value[cut]))


class _Part:
    """One obligation, and what of the claim is near its root."""

    def __init__(self, search: Search, obligation: Obligation) -> None:
        self.search, self.question, self.obligation = search, search.question, obligation
        self.output = obligation.output
        claim, root = self.question.claim, obligation.root
        near = ((claim.lower <= root[1][0]) & (claim.upper >= root[0][0])).all(axis=1) & obligation.inside
        self.numbers = np.flatnonzero(near)
        self.blocked = claim.lower[near], claim.upper[near]
        guards = search.follower.guards if self.output != ANYTHING else []
        self.rivals = [k for k in range(len(guards)) if k != self.output]
        self.guards = [one.near(root[0][0], root[1][0]) for one in guards]

    def decide(self, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
        """Return for each box a reason with its number, or the place and value of a cut."""
        what, value = np.full(len(lower), OPEN, dtype=np.int64), np.zeros(len(lower), dtype=np.int64)
        holder, (place, at) = by_boxes(lower, upper, self.blocked)
        inside, shaved = holder >= 0, (holder < 0) & (place >= 0)
        what[inside], value[inside] = Reason.BLOCKED, self.numbers[holder[inside]]
        what[shaved], value[shaved] = place[shaved], at[shaved]
        for number, test in enumerate(self.obligation.tests):
            mine = np.flatnonzero((what == OPEN) | shaved)
            low, high = lower[mine].astype(np.float64), upper[mine].astype(np.float64)
            false = mine[interval(test, self.question.place, low, high)[1] == 0]
            what[false], value[false] = Reason.TEST, number
            shaved[false] = False
        small = (what == OPEN) & (np.prod((upper - lower + 1).astype(np.float64), axis=1) <= SMALL)
        what[small] = Reason.STATES
        rest = np.flatnonzero(what == OPEN)
        if len(rest):
            what[rest], value[rest] = self._divide(lower[rest], upper[rest])
        return what, value

    def _divide(self, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
        """Name the rival that surely beats the output in each box, and cut the others."""
        asks = self.output != ANYTHING and bool(self.rivals)
        if asks and self.search.trees is not None:
            return self._cut_by_trees(self.search.trees, lower, upper)
        if asks and self.search.follower.bounds is not None:
            return self._cut_by_weight(lower, upper)
        blocked = along_boxes(lower, upper, self.blocked, 0.0)
        return first_of([blocked, in_the_middle(lower, upper, (upper - lower).astype(np.float64))])

    def _applicable(self, lower: Ints, upper: Ints) -> tuple[Bools, Bools]:
        """Return [n, rivals]: is the rival applicable everywhere in the box, or somewhere."""
        shape = len(lower), len(self.rivals)
        if not self.question.fitted.filtered:
            return np.ones(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
        sure, possible = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for column, rival in enumerate(self.rivals):
            always, sometimes = self.guards[rival].truth(self.question, lower, upper)
            sure[:, column], possible[:, column] = always.any(axis=1), sometimes.any(axis=1)
        return sure, possible

    # -- trees

    def _cut_by_trees(self, trees: TreeMasks, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
        ends = trees.ends(lower, upper)
        low, high = trees.scores(ends)
        beaten = trees.losers(self.output, self.rivals, low, high)
        sure, possible = self._applicable(lower, upper)
        # The rival that comes closest to winning everywhere decides which trees are worth cutting.
        margin = np.where(sure, high[:, [self.output]].astype(np.float64) - low[:, self.rivals], np.inf)
        closest = margin.argmin(axis=1)
        rival = np.where(np.isfinite(margin.min(axis=1)), np.array(self.rivals)[closest], -1)
        place, value = first_of(
            [
                self._along_guards(beaten & possible & ~sure, lower, upper),
                along_boxes(lower, upper, self.blocked, 0.5),
                trees.cuts(self.output, rival, lower, upper, ends),
                along_boxes(lower, upper, self.blocked, 0.0),
                in_the_middle(lower, upper, (upper - lower).astype(np.float64)),
            ]
        )
        wins = beaten & sure
        if self.search.listed:  # the tree is made of the table or the rules: the checker asks these
            wins = self._confirmed(wins, lower, upper)
        return self._named(wins, place, value)

    def _confirmed(self, wins: Bools, lower: Ints, upper: Ints) -> Bools:
        """Return for each box the first rival that wins, where the checker says the same."""
        confirmed = wins.copy()
        for column, rival in enumerate(self.rivals):
            mine = np.flatnonzero(wins[:, column] & ~confirmed[:, :column].any(axis=1))
            if len(mine):
                confirmed[mine, column] = self.search.follower.beaten(self.obligation, rival, lower[mine], upper[mine])
        return confirmed

    def _named(self, wins: Bools, place: Ints, value: Ints) -> tuple[Ints, Ints]:
        """Return the first rival that wins as the reason, the cut where there is none."""
        won = wins.any(axis=1)
        winner = np.array(self.rivals)[wins.argmax(axis=1)]
        return np.where(won, Reason.BEATEN, place), np.where(won, winner, value)

    def _along_guards(self, wanted: Bools, lower: Ints, upper: Ints) -> Cut:
        """Return cuts along guards of a rival that would win."""
        variable, value = np.full(len(lower), -1, dtype=np.int64), np.zeros(len(lower), dtype=np.int64)
        for column, rival in enumerate(self.rivals):
            mine = np.flatnonzero(wanted[:, column] & (variable < 0))
            guards = self.guards[rival]
            if len(mine) and len(guards.lower):
                cuts = along_boxes(lower[mine], upper[mine], (guards.lower, guards.upper), 0.0)
                variable[mine], value[mine] = cuts
        return variable, value

    # -- halving

    def _cut_by_weight(self, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
        bounds = self.search.follower.bounds
        assert bounds is not None
        low, high = lower.astype(np.float64), upper.astype(np.float64)
        sure, _ = self._applicable(lower, upper)
        beaten, matters = bounds.losers(
            self.output, self.rivals, low, high, wide_rows(self.question, self.obligation.rows)
        )
        # What is added up together is rounded together: it counts if it holds as the checker will ask.
        wins = self._confirmed(beaten & sure, lower, upper)
        return self._named(wins, *self._heaviest(lower, upper, matters * (high - low)))

    def _heaviest(self, lower: Ints, upper: Ints, weight: Floats) -> Cut:
        width = upper - lower
        # Every fourth box is cut at its widest side, so that no variable is forgotten.
        turn = (np.arange(len(lower)) + self.search.boxes) % 4 == 0
        weight = np.where(turn[:, None], width, weight)
        # What the blocked boxes tell apart decides most: it is told apart first.
        told = np.where(self.search.told_apart, width, 0)
        weight = np.where(told.max(axis=1, keepdims=True) > 0, told, weight)
        return in_the_middle(lower, upper, weight)


def _tree_of(question: Question) -> TreeEnsemble | None:
    """Return the decision tree of a table or a rule list, which says where to cut; None where there is none."""
    try:
        return partition(question.fitted, Box(tuple(question.lower.tolist()), tuple(question.upper.tolist())))
    except NotLinear:
        return None


def contradiction(question: Question, obligation: Obligation) -> list[list[int]] | None:
    """Return a row and equalities, with multipliers, whose sum has no value within its bounds, if one is found.

    Multipliers are guessed in floating point; they are kept where, in integers, the equalities add up to the row itself.
    """
    rows = obligation.rows
    equal = [k for k, row in enumerate(rows) if row.lower == row.upper]
    if not equal:
        return None
    matrix = np.stack([rows[k].coefficients for k in equal])
    guessing, exact = matrix.T.astype(np.float64), matrix.astype(object)
    for k, row in enumerate(rows):
        if row.lower == row.upper:
            continue
        guess = np.round(np.linalg.lstsq(guessing, row.coefficients.astype(np.float64), rcond=None)[0])
        if not np.abs(guess).max() < 2**20:
            continue
        used = [(place, int(m)) for place, m in enumerate(guess) if m]
        total = sum((m * exact[place] for place, m in used), np.zeros(matrix.shape[1], dtype=object))
        if (total == row.coefficients).all():
            value = sum(m * rows[equal[place]].lower for place, m in used)
            if not row.lower <= value <= row.upper:
                return [[k, 1], *([equal[place], -m] for place, m in used)]
    return None
