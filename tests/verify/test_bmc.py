"""Frames of boxes: the lengths refuted, the shortest runs and the invariants agree with a breadth-first search by the interpreter."""

from __future__ import annotations

import json

import pytest

from polvet.budget import Budget
from polvet.check.checker import Accepted
from polvet.check.invariant import check_claim
from polvet.model.semantics import Semantics
from polvet.policy.compiled import compile_policy
from polvet.verify.bmc import bounded
from polvet.verify.method import Request
from polvet.verify.replay import replay
from polvet.verify.split_tree import with_tree
from polvet.verify.unrolling import unrolled
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.verify.cases import CASES, fitted_case
from tests.verify.oracle import _choices
from tests.verify.test_explicit import arena_of

SMALL = [case for case in CASES if case[0] in ("transport", "one-way-line", "blocksworld", "racetrack")]
MOST_STEPS = 6


def shortest_failure(fitted, starts, *, any_order):
    """The least number of steps into `fail`, up to MOST_STEPS; None where there is none."""
    semantics = Semantics(fitted.task.network)
    fails, goals = semantics.compile(fitted.task.fail), semantics.compile(fitted.task.goal)
    seen, layer = set(starts), set(starts)
    for steps in range(MOST_STEPS + 1):
        if any(map(fails, layer)):
            return steps
        following = set()
        for state in layer:
            if goals(state):
                continue
            moves = semantics.moves(state)
            labels, _ = _choices(fitted, state, moves, any_order)
            for move in moves:
                if labels is None or move.label in labels or (move.label is None and labels):
                    following |= {outcome.state for outcome in move.outcomes}
        layer = following - seen
        seen |= layer
    return None


@pytest.mark.parametrize("mode", ["filtered", "raw"])
@pytest.mark.parametrize("kind", ["network", "dyadic", "units", "trees", "table"])
def test_lengths_are_those_of_a_breadth_first_search(kind, mode, monkeypatch):
    monkeypatch.setattr("polvet.verify.bmc.find_unsafe_run", lambda *_, **__: None)  # nothing helps the frames
    refuted = shortest = proved = 0
    for seed, case in enumerate(SMALL):
        fitted, starts = fitted_case(case, kind, mode, seed + 40)
        sure, possible = (shortest_failure(fitted, starts, any_order=order) for order in (False, True))
        bound = compile_policy(fitted)
        found = bounded(MOST_STEPS)(bound, Request(Budget(seconds=2), seed=seed))
        done = found.figures.get("refuted_steps", -1)
        match found:
            case Unsafe(run):
                replay(bound, run)
                # near ties may make shorter runs, but no run of the reference order is shorter
                assert len(run.actions) == sure
                assert done == sure - 1
                shortest += 1
            case Safe(certificate):
                assert possible is None
                claim = json.loads(json.dumps(with_tree(certificate, fitted, Budget(20))))
                assert isinstance(check_claim(arena_of(fitted), fitted, claim, "the policy"), Accepted)
                proved += 1
            case Unknown() if found.tie is not None:
                assert possible is not None
            case Unknown():
                assert possible is None or possible > done
                refuted += done
    assert shortest or proved or refuted


def test_frames_and_the_unrolled_formula_agree_on_lengths():
    compared = 0
    for seed, case in enumerate([case for case in SMALL if case[0] in ("transport", "one-way-line")]):
        fitted, _ = fitted_case(case, "trees", "filtered", seed)
        bound = compile_policy(fitted)
        ours, theirs = (make(2)(bound, Request(Budget(seconds=20))) for make in (bounded, unrolled))
        if isinstance(ours, Unsafe) and isinstance(theirs, Unsafe):
            assert len(ours.run.actions) == len(theirs.run.actions)
            compared += 1
        elif not isinstance(ours, Safe):
            compared += ours.figures["refuted_steps"] == theirs.figures["refuted_steps"]
    assert compared
