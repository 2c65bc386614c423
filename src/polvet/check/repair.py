"""Checking `repair`: in every listed fault the repaired policy takes another action, by the scores it has there.

The certificate gives `policy_sha256` (the repaired policy, which must be given), `old_policy_sha256`, `mode` ("safe" or "avoid"),
`reading` ("filtered" or "raw") and `faults`: `state`, `action`, `safe_actions`, `before` and `after` (scores by label). The
checker computes the scores of the repaired policy anew: they must be `after`, number for number. What it takes among the labels
that the slow interpreter finds applicable is not `action`, and in mode "safe" one of `safe_actions` (a fault of the `kind` "stuck" has an
`action` that is not applicable: the policy is not stuck any more); where a network's scores
are nearer than rounding can tell, every label that some evaluation order takes must be so. `before` is told, not proved: the
old policy is named by its SHA-256 only. That the listed safe actions are safe is what `polvet decide` certifies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from polvet.check.arena import Arena, find_arena, other_options
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.errors import InputError
from polvet.model.semantics import State
from polvet.model.task import MODES
from polvet.policy.binding import UNKNOWN_LABEL, Fitted, load_fitted
from polvet.policy.identity import policy_sha256
from polvet.policy.rounding import possible_choices
from polvet.records.state_json import Malformed


def check_repair(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the repaired policy avoids every listed fault."""
    arena = find_arena(certificate, subjects)
    if subjects.policy is None:
        raise InputError("the certificate speaks about a repaired policy.", hint="Give its file with --policy.")
    if policy_sha256(subjects.policy) != certificate.get("policy_sha256"):
        return Rejected(f"{subjects.policy} is not the file the certificate was made for (policy_sha256 differs)")
    mode, reading = certificate.get("mode"), certificate.get("reading")
    if mode not in ("safe", "avoid") or reading not in MODES:
        return Rejected("'mode' must be safe or avoid, and 'reading' filtered or raw")
    if subjects.options is not None and reading != arena.task.reading.mode:
        return Rejected(other_options(replace(arena.task.options, mode=reading)))
    task = replace(arena.task, reading=replace(arena.task.reading, mode=reading))
    fitted = load_fitted(task, subjects.policy)
    faults, left = certificate.get("faults"), certificate.get("left", 0)
    if not isinstance(faults, list) or not faults:
        return Rejected("'faults' is not a list with at least one fault")
    if type(left) is not int or left < 0:
        return Rejected("'left' is no number of faults")
    seen: set[tuple[State, str | None]] = set()
    for k, item in enumerate(faults):
        state = _check_fault(arena, fitted, item, f"faults[{k}]", mode)
        # Where faulty actions are only avoided, a state may have several of them.
        fault = (state, None if mode == "safe" else item["action"])
        if fault in seen:
            raise Malformed(f"faults[{k}] has a state that stood before")
        seen.add(fault)
    what = "takes a listed safe action" if mode == "safe" else "does not take the faulty action"
    about = f"{subjects.policy} in {arena.about} ({reading})"
    rest = f"; {left} more faults are left" if left else ""
    return Accepted(f"{about} {what} in each of {len(faults)} faults{rest}")


def _check_fault(arena: Arena, fitted: Fitted, item: Any, what: str, mode: str) -> State:
    if not isinstance(item, dict):
        raise Malformed(f"{what} is no fault")
    state = arena.read(item.get("state"), f"{what}.state")
    action, safe = item.get("action"), item.get("safe_actions")
    labels = fitted.task.network.labels
    stuck = item.get("kind") == "stuck"  # what it would do is not applicable, and perhaps no label at all
    known = action in labels or (stuck and isinstance(action, str))
    if not known or not isinstance(safe, list) or any(label not in labels for label in safe):
        raise Malformed(f"{what} names a label that the model does not have")
    if action in safe:
        raise Malformed(f"{what} lists its faulty action as safe")
    applicable = {move.label for move in arena.moves(state)} - {None}
    if (action not in applicable) != stuck:
        raise Malformed(f"'{action}' is {'' if stuck else 'not '} applicable in {what}.state ({arena.show(state)})")
    names = fitted.policy.outputs
    scores = fitted.policy.scores(fitted.row(state))[0]
    after = _scores(item.get("after"), f"{what}.after")
    if list(after) != list(names) or any(
        after[name] != float(score) for name, score in zip(names, scores, strict=True)
    ):
        raise Malformed(f"{what}.after are not the scores of the policy in {arena.show(state)}")
    for label in _taken(fitted, state, applicable):
        if label is None or label not in applicable:
            raise Malformed(f"the policy is stuck in {arena.show(state)}")
        if label == action or (mode == "safe" and label not in safe):
            raise Malformed(f"the policy takes '{label}' in {arena.show(state)}")
    before = _scores(item.get("before"), f"{what}.before")
    if action not in before and not stuck:
        raise Malformed(f"{what}.before has no score of '{action}'")
    return state


def _taken(fitted: Fitted, state: State, applicable: set[str | None]) -> list[str | None]:
    """Return the labels that the policy takes in some evaluation order, its reference order first."""
    labels = fitted.task.network.labels
    names = [None if k == UNKNOWN_LABEL else labels[k] for k in fitted.labels]
    mask = np.array([[name in applicable for name in names]], dtype=np.bool_)
    possible = possible_choices(fitted.policy, fitted.row(state), mask if fitted.filtered else None)[0]
    first = fitted.choose(state, [name for name in applicable if name is not None])
    return [first, *(name for name, some in zip(names, possible.tolist(), strict=True) if some)]


def _scores(item: Any, what: str) -> Mapping[str, float]:
    if not isinstance(item, dict) or not item:
        raise Malformed(f"{what} is no object of scores")
    for name, value in item.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Malformed(f"{what}['{name}'] is no number")
    return item  # SOUND: as they stand, for a double equals no other integer
