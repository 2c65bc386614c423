"""Checking `invariant`: rows that hold and boxes that are never entered prove that runs of the policy avoid `fail`.

The certificate gives `rows` [{"terms": {"x": 1}, "marks": [], "lower": 3, "upper": 3}] and `blocked` [{"x": [lower, upper]}]; see
`verify/invariant_file.py`, which writes it. The invariant is what satisfies all rows and is neither in `fail` nor in a blocked box.
Checked: every start state is in it, and so is every outcome of every step of the policy from it, in whatever order of float32
operations the policy is evaluated; and no operator, chosen or not, breaks a rule of the model in it (`check.model_errors`).

Reading                         invariant_claim, invariant_space
What must be shown              invariant_obligations (with invariant_ways, invariant_errors, invariant_conditions)
How, as the certificate's tree says: over boxes, one reason for each
                                invariant_tree, with bounds of policy_bounds and unit_bounds
                                or state by state, where the rows leave few: invariant_states
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polvet.check.arena import Arena
from polvet.check.box_view import interval
from polvet.check.followed import find_policy_arena
from polvet.check.invariant_claim import Question, read_question
from polvet.check.invariant_obligations import start_condition, start_obligations, step_obligations
from polvet.check.invariant_rows import Ints
from polvet.check.invariant_states import Judge, Pool, try_all_states
from polvet.check.invariant_tree import Follower, read_tree
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.errors import InputError
from polvet.model.evaluate import Evaluator
from polvet.model.expressions import Expression
from polvet.policy.binding import Fitted
from polvet.records.state_json import Malformed

NO_TREE = "it carries no split tree; `polvet certify` finds one for certificates of earlier versions"


def check_invariant(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy from all start states avoid `fail`."""
    followed = find_policy_arena(certificate, subjects)
    return check_claim(followed.arena, followed.fitted, certificate, f"{subjects.policy} in {followed.arena.about}")


def check_claim(arena: Arena, fitted: Fitted, certificate: Mapping[str, Any], who: str) -> CheckResult:
    """Return whether the rows and boxes of the certificate are an invariant of the fitted policy in the arena."""
    if "tree" not in certificate:
        return Rejected(NO_TREE)
    try:
        question = read_question(arena, fitted, certificate)
        tree = read_tree(certificate)
        follower = Follower(question, tree)
        begins = start_condition(question)
        is_start = arena.semantics.compile(begins)
        for obligation in start_obligations(question):
            follower.follow(obligation, lambda points: _check_starts(question, begins, is_start, points))
        check_steps(question, follower)
    except (Malformed, InputError) as error:  # an InputError: a condition has no value in a state of the claim
        return Rejected(str(error))
    claim = question.claim
    return Accepted(f"no run of {who} reaches fail ({len(claim.rows)} rows, {len(claim.lower)} blocked boxes)")


def check_steps(question: Question, follower: Follower) -> None:
    """Raise Malformed unless what is left of the tree shows that no step leaves the invariant, or breaks a rule of the model in it."""
    judge, tree = Judge(question), follower.tree
    if tree.by_states:
        if not try_all_states(question, judge):
            raise Malformed("the states of the claim are too many to be tried")
    else:
        pool = Pool(judge)
        for obligation in step_obligations(question):
            follower.follow(obligation, pool.add)
        pool.empty()
    tree.finish()


def _check_starts(question: Question, begins: Expression, is_start: Evaluator, points: Ints) -> None:
    """Raise Malformed where one of the points is a start state outside the invariant."""
    region, at = question.arena.region, points.astype(np.float64)
    # SOUND: as at a leaf with a test, the condition is false where its bounds say so; the interpreter is asked about the other points.
    for point in points[interval(begins, question.place, at, at)[1] != 0]:
        state = question.state(point)
        if region is not None and not region.holds(state):
            continue
        if is_start(state) and (question.arena.is_fail(state) or not question.claim.holds(point[None, :])[0]):
            raise Malformed(f"the start state {question.arena.show(state)} is not in the invariant")
