"""Checking `run`: a run that ends in `fail`, replayed step by step; with a policy, every step is the policy's choice.

The certificate gives `states` [s0, ..., sn], `actions` [a1, ..., an] (null: a silent operator moved) and `end` "fail".
s0 is a start state, no state before the last ends runs, each step is an outcome of an operator with that label, and
the last state is in `fail`. With `end` "stuck" the policy's label is not applicable in the last state, with "deadlock"
nothing is enabled there, and it is neither in `fail` nor in `goal`.
If the certificate names a `policy_sha256`, or says `by_execution`, the policy must be given: its label is applicable and the step is
one of that label's operators or of a silent one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polvet.check.all_starts import is_start
from polvet.check.arena import Arena, avoiding_nothing, find_arena
from polvet.check.followed import find_policy
from polvet.check.subjects import Accepted, CheckResult, Subjects
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Chooser = Callable[[State, tuple[str, ...]], str | None]


def check_run(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate shows a run that ends in `fail`."""
    arena = find_arena(certificate, avoiding_nothing(subjects))
    chooser = None
    if certificate.get("policy_sha256") is not None or certificate.get("by_execution") is True:
        chooser = find_policy(arena.task, certificate, subjects).choose
    length = _replay(arena, certificate, chooser)
    who = f"{subjects.policy} in {arena.about}" if chooser else arena.about
    what = {"fail": "reaches fail", "stuck": "is stuck", "deadlock": "is in a deadlock"}[certificate["end"]]
    return Accepted(f"a run of {who} {what} after {length} steps")


def _replay(arena: Arena, certificate: Mapping[str, Any], chooser: Chooser | None) -> int:
    items, actions = certificate.get("states"), certificate.get("actions")
    if not isinstance(items, list) or not isinstance(actions, list) or len(items) != len(actions) + 1:
        raise Malformed("'states' must be a list with one state more than 'actions'")
    if (end := certificate.get("end")) not in ("fail", "stuck", "deadlock"):
        raise Malformed("the run's 'end' is none of 'fail', 'stuck', 'deadlock'")
    states = [arena.read(item, f"states[{k}]") for k, item in enumerate(items)]
    replay_run(arena, states, actions, end, chooser)
    return len(actions)


def replay_run(
    arena: Arena, states: Sequence[State], actions: Sequence[Any], end: str, chooser: Chooser | None
) -> None:
    """Raise Malformed unless the interpreter (and the policy, where one is given) makes this run, and it ends so."""
    if not is_start(arena, states[0]):
        raise Malformed(f"{arena.show(states[0])} is no start state")
    for k, action in enumerate(actions):
        state = states[k]
        if arena.is_fail(state) or arena.is_goal(state):
            raise Malformed(f"runs end in states[{k}] ({arena.show(state)})")
        moves = arena.moves(state)
        if not any(o.state == states[k + 1] for move in moves if move.label == action for o in move.outcomes):
            named = "a silent operator" if action is None else f"'{action}'"
            raise Malformed(f"{named} does not lead from {arena.show(state)} to {arena.show(states[k + 1])}")
        if chooser is not None:
            applicable = tuple(dict.fromkeys(move.label for move in moves if move.label is not None))
            chosen = chooser(state, applicable)
            if applicable and chosen not in applicable:
                raise Malformed(f"the policy is stuck in states[{k}] ({arena.show(state)})")
            if action is not None and action != chosen:
                raise Malformed(f"the policy chooses '{chosen}', not '{action}', in states[{k}] ({arena.show(state)})")
    if end == "fail" and not arena.is_fail(states[-1]):
        raise Malformed(f"the last state {arena.show(states[-1])} is not in fail")
    if end != "fail":
        _check_halted(arena, states[-1], end, chooser)


def _check_halted(arena: Arena, state: State, end: str, chooser: Chooser | None) -> None:
    if arena.is_fail(state) or arena.is_goal(state):
        raise Malformed(f"the last state {arena.show(state)} is in fail or goal, not {end}")
    moves = arena.moves(state)
    if end == "deadlock" and moves:
        raise Malformed(f"something is enabled in the last state {arena.show(state)}")
    if end == "stuck":
        applicable = tuple(dict.fromkeys(move.label for move in moves if move.label is not None))
        if chooser is None or not applicable or chooser(state, applicable) in applicable:
            raise Malformed(f"the policy is not stuck in the last state {arena.show(state)}")
