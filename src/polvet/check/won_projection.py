"""Checking `won-projection`: a table over a few variables keeps runs in an invariant, so that the listed states are safe.

The certificate gives `start` (places in `states`), `states`: [{"state": {...}}], a `policy` in the format `table/1`, and the `rows`,
`blocked` and `tree` of an `invariant`. Whoever takes in every state the best applicable action of the table never leaves the
invariant (`check.invariant`), whatever happens; a listed state in it is therefore safe, however many states lie behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polvet.check.arena import Arena, find_arena_with_deadlocks
from polvet.check.invariant import check_steps
from polvet.check.invariant_claim import Question, read_question
from polvet.check.invariant_tree import Follower, read_tree
from polvet.check.safe_policy import read_places
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.errors import InputError, Where
from polvet.model.task import PolicyReading
from polvet.policy.binding import UNKNOWN_LABEL, Fitted, fit
from polvet.policy.tables import table_from_json
from polvet.records.state_json import Malformed


def check_won_projection(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves its start states safe."""
    arena = find_arena_with_deadlocks(certificate, subjects, safe=True)
    if certificate.get("avoids"):
        return Rejected("a won projection tells nothing of deadlocks")
    try:
        question = read_question(arena, fitted_table(arena, certificate.get("policy")), certificate)
        _check_labels(question)
        shown = _check_listed(question, certificate)
        check_steps(question, Follower(question, read_tree(certificate)))
    except InputError as error:  # the table is none, or a condition has no value in a state of the claim
        return Rejected(str(error))
    return Accepted(f"in {arena.about} a policy from {shown} never reaches fail (a table over a few variables)")


def fitted_table(arena: Arena, document: Any) -> Fitted:
    """Return the table as a policy of the task, read filtered and by its own names; an InputError where it is none."""
    if not isinstance(document, dict):
        raise Malformed("'policy' is no table")
    task = replace(arena.task, reading=PolicyReading())
    return fit(task, table_from_json(document, Where("policy")))


def _check_labels(question: Question) -> None:
    # SOUND: where a label is applicable that the table does not know, a run need not end as it does for a policy that is stuck.
    known = {question.network.labels[number] for number in question.fitted.labels if number != UNKNOWN_LABEL}
    for joint in question.network.joints:
        if joint.label is not None and joint.label not in known:
            raise Malformed(f"the table has no output for '{joint.label}'")


def _check_listed(question: Question, certificate: Mapping[str, Any]) -> str:
    """Return the listed states in words; raise Malformed where one of them is in `fail` or outside the invariant."""
    arena, items = question.arena, certificate.get("states")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Malformed("'states' is not a list of states")
    start = read_places(certificate.get("start"), len(items))
    if sorted(start) != list(range(len(items))):
        raise Malformed("'start' does not name every listed state once")
    states = [arena.read(item.get("state"), f"states[{k}]") for k, item in enumerate(items)]
    for state in states:
        point = np.array([int(value) for value in state], dtype=np.int64)
        # SOUND: the invariant is what satisfies the rows, is in no blocked box, and is not in `fail`.
        if arena.is_fail(state) or not question.claim.holds(point[None, :])[0]:
            raise Malformed(f"the state {arena.show(state)} is not in the invariant")
    return arena.show(states[start[0]]) + (f" and {len(start) - 1} more" if len(start) > 1 else "")
