"""The independent checker: `check(certificate)` accepts or rejects, by the checker of the certificate's kind.

A checker is a plain function `(certificate, subjects) -> Accepted | Rejected`. It replays the claim in exact
arithmetic or in the slow interpreter and imports nothing of the engine that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from polvet.check.subjects import Accepted as Accepted
from polvet.check.subjects import CheckResult as CheckResult
from polvet.check.subjects import Rejected as Rejected
from polvet.check.subjects import Subjects as Subjects
from polvet.errors import InputError, Where
from polvet.files import read_json
from polvet.model.options import TaskOptions
from polvet.policy.functions import BY_EXECUTION, named_function
from polvet.records.state_json import Malformed

Checker = Callable[[Mapping[str, Any], Subjects], CheckResult]

CHECKERS: dict[str, str] = {
    "lex-rank": "polvet.check.lex_rank:check_lex_rank",
    "lasso": "polvet.check.lasso:check_lasso",
    "goal-reaching": "polvet.check.goal:check_goal_reaching",
    "goal-missed": "polvet.check.goal:check_goal_missed",
    "general": "polvet.check.general:check_general",
    "general-refuted": "polvet.check.general:check_general_refuted",
    "solves": "polvet.check.solves:check_solves",
    "recurrent-set": "polvet.check.recurrent_set:check_recurrent_set",
    "its-run": "polvet.check.its_run:check_its_run",
    "safe-policy": "polvet.check.safe_policy:check_safe_policy",
    "won-projection": "polvet.check.won_projection:check_won_projection",
    "unsafe-rank": "polvet.check.unsafe_rank:check_unsafe_rank",
    "lost-projection": "polvet.check.lost_projection:check_lost_projection",
    "strong-cyclic": "polvet.check.strong_cyclic:check_strong_cyclic",
    "no-strong-cyclic": "polvet.check.strong_cyclic:check_no_strong_cyclic",
    "run": "polvet.check.run:check_run",
    "reachable-set": "polvet.check.reachable_set:check_reachable_set",
    "repair": "polvet.check.repair:check_repair",
    "sure-end": "polvet.check.ends:check_sure_end",
    "livelock": "polvet.check.ends:check_livelock",
    "invariant": "polvet.check.invariant:check_invariant",
    "grid": "polvet.check.grid:check_grid",
    "safe-region": "polvet.check.safe_region:check_safe_region",
    "permissive": "polvet.check.permissive:check_permissive",
    "action-risk": "polvet.check.action_risk:check_action_risk",
    "conflict": "polvet.check.conflict:check_conflict",
    "risk-bound": "polvet.check.risk_bound:check_risk_bound",
    "risk-exceeds": "polvet.check.risk_bound:check_risk_exceeds",
}
"""The checker of each kind of certificate as `module:function`, imported when it is needed."""


def check(certificate: Any, subjects: Subjects, where: Where) -> CheckResult:
    """Return whether the certificate proves its claim, or raise an InputError if it is no certificate at all."""
    if not isinstance(certificate, dict) or not isinstance(certificate.get("kind"), str):
        raise InputError("is no certificate: it has no 'kind'.", where, f"Known kinds: {', '.join(sorted(CHECKERS))}.")
    kind = certificate["kind"]
    if kind not in CHECKERS:
        raise InputError(f"no kind '{kind}'.", where.at("kind"), f"Known kinds: {', '.join(sorted(CHECKERS))}.")
    module, function = CHECKERS[kind].split(":")
    checker: Checker = getattr(import_module(module), function)
    try:
        result = checker(certificate, subjects)
    except Malformed as error:
        return Rejected(str(error))
    if isinstance(result, Accepted) and is_by_execution(subjects):
        return Accepted(f"{result.claim}; {BY_EXECUTION}")
    return result


def is_by_execution(subjects: Subjects) -> bool:
    """Return whether the policy, or what the task says that policies read, is a Python function."""
    if subjects.policy is None:
        return False
    if subjects.function is not None or named_function(subjects.policy) is not None:
        return True
    if subjects.task is None or subjects.task.suffix != ".toml":
        return False
    from polvet.sources import read_parts

    return bool(read_parts(subjects.task, TaskOptions(domain=subjects.domain)).reading.functions)


def check_file(path: str | Path, subjects: Subjects) -> CheckResult:
    """Return whether the certificate in the file proves its claim."""
    return check(read_json(path), subjects, Where(str(path)))
