"""Verdicts about graphs of units hold for the policy as onnxruntime runs it: brute force on small worlds."""

from __future__ import annotations

import numpy as np
import pytest

from polvet.model.semantics import Semantics
from polvet.policy import near_ties, save_policy
from polvet.policy.compiled import compile_policy
from polvet.verify.ic3 import IC3
from polvet.verify.method import Request
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unsafe
from tests.verify.test_engine import random_units
from tests.verify.test_ic3 import random_world

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def reaches_fail(fitted, session):
    """Whether `fail` is reached where onnxruntime chooses, by the interpreter; and whether some state on the way is a near tie."""
    task = fitted.task
    semantics = Semantics(task.network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    start = list(semantics.initial_states() if task.start is None else semantics.states_satisfying(task.start))
    seen, pending, tie, bad = set(start), list(start), False, False
    while pending:
        state = pending.pop()
        if fail(state):
            bad = True
            continue
        if goal(state):
            continue
        moves = semantics.moves(state)
        labels = {move.label for move in moves if move.label is not None}
        taken = None
        if labels:
            row = fitted.row(state)
            mask = np.array([[label in labels for label in fitted.policy.outputs]])
            scores = session.run(None, {"inputs": row})[0]
            if fitted.filtered:
                scores = np.where(mask, scores, -np.inf)
            asked = mask.any() or not fitted.filtered
            tie = tie or bool(asked and near_ties(fitted.policy, row, mask if fitted.filtered else None)[0])
            best = fitted.policy.outputs[int(scores[0].argmax())]
            taken = best if asked and best in labels else "(stuck)"
        for move in moves:
            if taken == "(stuck)" or (taken is not None and move.label not in (taken, None)):
                continue
            for outcome in move.outcomes:
                if outcome.state not in seen:
                    seen.add(outcome.state)
                    pending.append(outcome.state)
    return bad, tie


def judged(seed, folder):
    fitted = random_world(seed, folder, random_units)
    if fitted is None:
        return None
    save_policy(fitted.policy, folder / "policy.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(folder / "policy.onnx"), options, providers=["CPUExecutionProvider"])
    bad, tie = reaches_fail(fitted, session)
    decided = 0
    for result in (
        IC3(compile_policy(fitted), Request(seed=seed)),
        verify(compile_policy(fitted), method="explicit", seed=seed),
    ):
        match result:
            case Safe():
                assert not bad
                decided += 1
            case Unsafe():
                assert bad or tie
                decided += 1
            case _:
                assert tie
    return decided


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_verdicts_hold_in_onnxruntime(first, tmp_path):
    assert sum(judged(seed, tmp_path) or 0 for seed in range(first, first + 10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1500, 50))
def test_verdicts_hold_in_onnxruntime_on_many_worlds(first, tmp_path):
    assert sum(judged(seed, tmp_path) or 0 for seed in range(first, first + 50)) > 50
