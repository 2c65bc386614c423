"""Goal faults are those of the definition, by brute force on random worlds; a mended policy reaches the goal."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polvet.debug.goal_faults import find_goal_faults
from polvet.policy.compiled import compile_policy
from polvet.safety.decide import Decider
from tests.debug.goal_oracle import Brute, goal_case

WORLDS = 120


def worlds(count=WORLDS, first=0):
    found, seed = 0, first
    while found < count:
        case = goal_case(seed)
        seed += 1
        if case is not None and case.starts:
            found += 1
            yield case


def compared(case, least):
    bound = compile_policy(case.fitted)
    analysis = find_goal_faults(bound, Decider(bound.task), least=least)
    brute = Brute(case)
    expected, able = brute.goal_faults(least if least in (None, 1) else float(least))
    assert {one.state: (one.kind, tuple(sorted(one.safe_actions))) for one in analysis.faults} == expected
    for one in analysis.faults:
        if one.kind == "dead end":
            assert set(one.unsafe_outcomes) == brute.actions[one.state][one.action] - able
    assert set(analysis.unsafe_starts) == set(case.starts) - able
    return analysis


def test_sure_faults_are_those_of_the_definition():
    kinds = {}
    for case in worlds():
        for one in compared(case, Fraction(1)).faults:
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
    assert min(kinds[kind] for kind in ("dead end", "livelock", "stuck")) >= 5, kinds


@pytest.mark.parametrize("least", ["0.5", "0.9", None])
def test_faults_below_probability_one_are_those_of_the_definition(least):
    chance = None if least is None else Fraction(least)
    assert sum(len(compared(case, chance).faults) for case in worlds(WORLDS // 2, 2000)) > 20
