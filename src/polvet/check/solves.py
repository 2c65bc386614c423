"""Checking `solves`: a policy of a qualitative numeric planning problem surely ends in the problem's goal.

The certificate holds a ranking as `lex-rank` does. The policy's control states are built anew from the problem and the policy.
Accepted if the ranking proves that every execution ends, and if every control state outside the goal has an edge: an action
that is applicable there, with an edge for each pattern that may follow. SOUND: so an execution stops in the goal only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.check.lex_rank import check_ranking
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects, find_other_file
from polvet.errors import InputError, Where
from polvet.files import read_text
from polvet.policy.finite_memory.qnp import build_from_qnp, dead_ends, parse_qnp


def check_solves(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy solves the problem."""
    if subjects.task is None or subjects.policy is None:
        raise InputError("the certificate speaks of a problem and its policy.", hint="Give --task and --policy.")
    if (other := find_other_file(certificate, subjects)) is not None:
        return other
    problem = parse_qnp(read_text(subjects.task), Where(str(subjects.task)))
    where = Where(str(subjects.policy))
    plan = build_from_qnp(problem, read_text(subjects.policy), where, subjects.budget)
    if (wrong := check_ranking(plan, certificate, subjects.budget)) is not None:
        return Rejected(wrong)
    if stuck := dead_ends(problem, plan):
        return Rejected(f"an execution may stop in '{stuck[0]}', outside the goal")
    return Accepted(f"every execution of {subjects.policy} in {subjects.task} ends in the goal")
