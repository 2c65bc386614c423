"""Published Blocksworld networks are proved safe, as their authors found, at sizes where search takes minutes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from polvet.budget import Budget
from polvet.jani import load_properties
from polvet.model.task import PolicyReading, TaskOptions, condition
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.sources import load_task
from polvet.verify.ic3 import IC3
from polvet.verify.induction import INDUCTION
from polvet.verify.method import Request
from polvet.verify.verdicts import Safe
from tests.conftest import BENCHMARKS
from tests.policy.test_published_policies import FOUR, FOUR_NETWORK, NETWORKS, PLAJA, SIX

pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmark files are not here")


@pytest.mark.parametrize("mode", ["filtered", "raw"])
def test_the_four_block_policy_is_safe_with_costs_up_to_fifty(mode):
    # 10.9 million states under the policy.
    task = load_task(FOUR, TaskOptions({"failing_probability": Fraction(1, 2), "item_cost_bound": 50}))
    fitted = load_fitted(replace(task, reading=PolicyReading(mode)), FOUR_NETWORK)
    assert isinstance(IC3(compile_policy(fitted), Request(budget=Budget(seconds=60))), Safe)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["filtered", "raw"])
def test_the_six_block_policy_is_safe_from_all_its_starts(mode):
    task = load_task(PLAJA / "icaps22/blocksworld/models/cost05/blocksworld_6_5.jani")
    folder = SIX / "compact_starts_cost_predicates_afterwards/learned_cost05_non_terminal"
    (start,) = load_properties(folder / "start.jani")
    (fail,) = load_properties(folder / "reach.jani")
    first, worst = (condition(task.network, one.expression.condition, one.where) for one in (start, fail))
    task = replace(task, reading=PolicyReading(mode), start=first, fail=worst)
    fitted = load_fitted(task, NETWORKS / "blocksworld_6_5_32_32.jani2nnet")
    assert isinstance(INDUCTION(compile_policy(fitted), Request(budget=Budget(seconds=120))), Safe)
