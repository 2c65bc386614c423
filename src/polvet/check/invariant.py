"""Checking `invariant`: rows that hold and boxes that are never entered prove that runs of the policy avoid `fail`.

The certificate gives `rows` [{"terms": {"x": 1}, "marks": [], "lower": 3, "upper": 3}] and `blocked` [{"x": [lower, upper]}]; see
`evidence.invariant_format`. The invariant is what satisfies all rows and is neither in `fail` nor in a blocked box. Checked:
every start state is in it, and so is every outcome of every step of the policy from it, in whatever order of float32
operations the policy is evaluated; and no operator, chosen or not, breaks a rule of the model in it (`evidence.model_errors`).

Reading                          invariant_claim
Small sets of states, one by one invariant_states
Otherwise, no state where a rule may be broken is an error (invariant_errors); and for each operator and each way to leave the
invariant (invariant_ways, invariant_conditions), there is no state where the policy takes it
                                 invariant_boxes, with cuts of invariant_cuts and bounds of policy_bounds and tree_masks
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.check.arena import Arena
from polvet.check.box_view import Unreadable, effects
from polvet.check.checker import Accepted, CheckResult, Rejected, Subjects
from polvet.check.followed import find_policy_arena
from polvet.check.invariant_boxes import Refuter
from polvet.check.invariant_claim import ANYTHING, NEVER, Operator, Question, read_question
from polvet.check.invariant_conditions import expanded, narrowed
from polvet.check.invariant_errors import possible_errors
from polvet.check.invariant_rows import Ints
from polvet.check.invariant_states import Judge, try_all_states
from polvet.check.invariant_ways import broken_rows, entered_boxes, ways_out
from polvet.errors import InputError
from polvet.model.expressions import Binary, Expression, Name, Unary, conjunction, conjuncts, literal
from polvet.policy.binding import Fitted
from polvet.records.state_json import Malformed


def check_invariant(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy from all start states avoid `fail`."""
    followed = find_policy_arena(certificate, subjects)
    if isinstance(followed, Rejected):
        return followed
    return check_claim(followed.arena, followed.fitted, certificate, f"{subjects.policy} in {followed.arena.about}")


def check_claim(arena: Arena, fitted: Fitted, certificate: Mapping[str, Any], who: str) -> CheckResult:
    """Return whether the rows and boxes of the certificate are an invariant of the fitted policy in the arena."""
    try:
        asked = read_question(arena, fitted, certificate)
        refuter = Refuter(asked)
        check_starts(asked, refuter)
        judge = Judge(asked)
        if not try_all_states(asked, judge):
            check_errors(asked, refuter, judge)
            for operator in asked.operators:
                check_operator(asked, refuter, judge, operator)
    except (
        Malformed,
        Unreadable,
        InputError,
    ) as error:  # an InputError: a condition has no value in a state of the claim
        return Rejected(str(error))
    claim = asked.claim
    return Accepted(f"no run of {who} reaches fail ({len(claim.rows)} rows, {len(claim.lower)} blocked boxes)")


def check_starts(asked: Question, refuter: Refuter) -> None:
    """Raise Malformed unless every start state is in the invariant."""
    start = asked.task.start
    if start is None:
        variables = asked.network.variables
        fixed = [Binary("=", Name(v.name), literal(v.initial)) for v in variables if v.initial is not None]
        start = conjunction(*fixed, asked.network.initial_condition)
    test = asked.arena.semantics.compile(start)

    def judge(point: Ints) -> None:
        state = asked.state(point)
        if test(state) and (asked.arena.is_fail(state) or not asked.claim.holds(point[None, :])[0]):
            raise Malformed(f"the start state {asked.arena.show(state)} is not in the invariant")

    for begins in expanded([start]):
        root = narrowed(asked, begins, inside=False)
        if root is None:
            continue
        for bad in [*broken_rows(asked, {}), *entered_boxes(asked, {}, root), [asked.task.fail]]:
            for conditions in expanded([*begins, *bad]):
                refuter.refute(conditions, ANYTHING, judge, root, inside=False)


def check_errors(asked: Question, refuter: Refuter, judge: Judge) -> None:
    """Raise Malformed unless no operator breaks a rule of the model in a state of the invariant where runs go on."""
    for error in possible_errors(asked):
        for conditions in expanded(error.conditions):
            refuter.refute(conditions, ANYTHING, judge.one, error.root, inside=True)


def check_operator(asked: Question, refuter: Refuter, judge: Judge, operator: Operator) -> None:
    """Raise Malformed unless no step of the policy by this operator leaves the invariant."""
    if operator.output == NEVER:
        return
    guard = list(conjuncts(operator.guard))
    running: list[Expression] = [Unary("¬", asked.task.goal), Unary("¬", asked.task.fail)]
    for branches, happens in operator.ways():
        root = narrowed(asked, [*guard, *happens], inside=True)
        if root is None:
            continue
        after = effects(asked.network, operator.edges, branches)
        for bad in ways_out(asked, after, root):
            for conditions in expanded([*guard, *happens, *running, *bad]):
                refuter.refute(conditions, operator.output, judge.one, root, inside=True)
