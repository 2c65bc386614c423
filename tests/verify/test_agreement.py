"""All methods agree with enumeration by the slow interpreter: domains, policies of all kinds, filtered and raw."""

from __future__ import annotations

import json
import os

import pytest

from polvet.budget import Budget
from polvet.policy.compiled import compile_policy
from polvet.verify.methods import METHODS
from polvet.verify.portfolio import verify
from polvet.verify.replay import replay
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.verify.cases import CASES, fitted_case
from tests.verify.oracle import TooMany, truth

QUICK = 0.2
ROUNDS = int(os.environ.get("POLVET_ROUNDS", "1"))
"""More rounds, more random policies: 5 of them are 480."""
SYMBOLIC = tuple(method for method in METHODS if method not in ("explicit", "unrolling"))
SMALL = [case for case in CASES if case[0] in ("transport", "one-way-line", "blocksworld")]


def contradictions(case, kind, mode, seed, methods):
    """What methods say against the truth; empty where all agree or do not know."""
    fitted, starts = fitted_case(case, kind, mode, seed)
    try:
        expected = truth(fitted, starts)
    except TooMany:
        return [], 0
    bound, found, decided = compile_policy(fitted), [], 0
    for method in methods:
        result = verify(bound, method=method, budget=Budget(QUICK), seed=seed)
        match result:
            case Safe(certificate):
                decided += 1
                json.dumps(certificate)
                if expected.verdict != "safe":
                    found.append((case, kind, mode, seed, method, "safe", expected.verdict))
            case Unsafe(run):
                decided += 1
                replay(bound, run)
                if expected.verdict != "unsafe":
                    found.append((case, kind, mode, seed, method, "unsafe", expected.verdict))
            case Unknown(reason):
                assert reason
                if result.tie is not None and expected.verdict == "safe":
                    found.append((case, kind, mode, seed, method, "near-tie", expected.verdict))
    return found, decided


@pytest.mark.parametrize("kind", ["network", "dyadic", "units", "trees"])
def test_symbolic_methods_never_contradict_enumeration(kind):
    decided = 0
    for seed, case in enumerate(SMALL):
        found, count = contradictions(case, kind, ("filtered", "raw")[seed % 2], seed + 20, SYMBOLIC)
        assert not found
        decided += count
    assert decided


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["filtered", "raw"])
@pytest.mark.parametrize("kind", ["network", "dyadic", "units", "trees", "table"])
def test_random_policies_get_the_same_verdict_from_every_method(kind, mode):
    decided = 0
    for seed in range(ROUNDS):
        for case in CASES:
            found, count = contradictions(case, kind, mode, 100 * seed + 3, (*SYMBOLIC, "explicit", "auto"))
            assert not found
            decided += count
    assert decided
