"""Other people's policies: MoGym's values on cdrive, PlaJA's unit-test facts on Blocksworld."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.cli.app import run
from polvet.debug.evaluate import evaluate, evaluation_starts
from polvet.jani import load_properties
from polvet.kernel.starts import Starts
from polvet.model.task import PolicyReading, TaskOptions, condition
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import FAIL, GOAL, compile_policy
from polvet.policy.runs import Inspection, Judgement
from polvet.sources import load_task
from tests.conftest import BENCHMARKS

PLAJA = BENCHMARKS / "plaja-tests"
NETWORKS = PLAJA / "icaps22/blocksworld/networks/blocksworld_6_5/learned_cost05_non_terminal"
SIX = PLAJA / "icaps22/blocksworld/additional_properties/safety_verification/cost05/blocksworld_6_5"
FOUR = PLAJA / "blocksworld/cost_terminal/models/legacy_enc/blocksworld_4_3.jani"
FOUR_NETWORK = PLAJA / "rddps22/blocksworld/networks/learned_cost05_non_terminal/blocksworld_4_3_16_16.jani2nnet"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmark files are not here")


@pytest.mark.parametrize(
    ("episode", "value", "exact"),
    [(999, 0.807572, "222264/275225"), (4999, 0.864566, "27560736/31878125"), (9999, 0.864566, "27560736/31878125")],
)
def test_mogyms_policies_have_their_recorded_value_through_check(episode, value, exact, capsys):
    model = BENCHMARKS / "qvbs/mdp/cdrive/cdrive.2.jani"
    policy = BENCHMARKS / f"mogym-policies/cdrive.2/episode_{episode}.json"
    options = ["check", str(model), "--property", "goal", "--policy", str(policy), "--json"]
    assert run(options) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["lower"] <= value + 5e-7
    assert figures["upper"] >= value - 5e-7
    assert figures["upper"] - figures["lower"] < 1e-6
    assert figures["near_ties"] == 0
    assert run([*options, "--exact"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["exact"] == exact
    assert run([*options, "--mode", "raw"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["value"] == 0


def leads_to(targets, successors):
    """Which states lead to a target: backwards, one by one."""
    found = targets.copy()
    while True:
        more = np.array([mark or any(found[t] for t in row) for mark, row in zip(found, successors, strict=True)])
        if (more == found).all():
            return found
        found = more


def cannot_avoid(target, successors):
    """The states all of whose runs, whatever is chosen, come to the target."""
    found = target.copy()
    while True:
        more = np.array(
            [mark or (bool(row) and all(found[t] for t in row)) for mark, row in zip(found, successors, strict=True)]
        )
        if (more == found).all():
            return found
        found = more


@pytest.mark.parametrize(("target", "states", "starts", "evitable"), [(GOAL, 125, 14, 124), (FAIL, 1, 0, 0)])
def test_plajas_facts_on_policy_paths_of_four_blocks(target, states, starts, evitable):
    # PolicyGoalPathStates and PolicyGoalPathStatesStart, with the goal and with the unsafe condition as target.
    options = TaskOptions({"failing_probability": 0, "item_cost_bound": 1})
    task = load_task(FOUR, options)
    fitted = load_fitted(replace(task, reading=PolicyReading("raw")), FOUR_NETWORK)
    bound = compile_policy(fitted)
    first = bound.compiled.pack_starts(Starts.of(task))
    space = bound.compiled.explore(first)
    everything = bound.compiled.unpack(space.states())
    assert len(everything) == 125
    number = {state: k for k, state in enumerate(everything)}
    semantics = bound.compiled.semantics
    successors = [
        [number[o.state] for move in fitted.followed(state, semantics.moves(state)) for o in move.outcomes]
        for state in everything
    ]
    found = leads_to(space.mask(target).astype(bool), successors)
    assert found.sum() == states
    assert sum(found[number[state]] for state in bound.compiled.unpack(first)) == starts
    # GoalPathStates, InevitableGoalPathStates (also among the starts) and EvitablePolicyGoalPathStates.
    open_to_all = [[number[o.state] for move in semantics.moves(state) for o in move.outcomes] for state in everything]
    assert leads_to(space.mask(target).astype(bool), open_to_all).sum() == 125
    inevitable = cannot_avoid(space.mask(target).astype(bool), open_to_all)
    assert inevitable.sum() == 1
    assert not any(inevitable[number[state]] for state in bound.compiled.unpack(first))
    assert (found & ~inevitable).sum() == evitable


@pytest.mark.parametrize("mode", ["filtered", "raw"])
def test_plajas_four_block_policy_is_safe_with_costs_and_failing_moves(mode):
    # PlaJA proves this with costs up to 50 (10.9 million states under the policy); up to 8 takes a second.
    task = load_task(FOUR, TaskOptions({"failing_probability": Fraction(1, 2), "item_cost_bound": 8}))
    bound = compile_policy(load_fitted(replace(task, reading=PolicyReading(mode)), FOUR_NETWORK))
    found = evaluate(bound, evaluation_starts(task, 100, 0), runs=20)
    assert found.starts.complete
    assert len(found.starts.states) == 14
    assert set(found.judgements) == {Judgement.SAFE}
    assert found.unsafe_interval == (0.0, 0.0)
    assert found.ends.get("fail", 0) == 0
    assert found.goal > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["filtered", "raw"])
def test_plajas_six_block_policy_is_unsafe_nowhere(mode):
    # The published verdict is safe from all 202 start states. The whole search takes minutes; this is its beginning.
    task = load_task(PLAJA / "icaps22/blocksworld/models/cost05/blocksworld_6_5.jani")
    folder = SIX / "compact_starts_cost_predicates_afterwards/learned_cost05_non_terminal"
    (start,) = load_properties(folder / "start.jani")
    (fail,) = load_properties(folder / "reach.jani")
    first, worst = (condition(task.network, one.expression.condition, one.where) for one in (start, fail))
    task = replace(task, reading=PolicyReading(mode), start=first, fail=worst)
    bound = compile_policy(load_fitted(task, NETWORKS / "blocksworld_6_5_32_32.jani2nnet"))
    starts = Starts.of(task)
    assert starts.count == 202
    judged = Inspection(bound).judge(bound.compiled.pack_starts(starts), budget=Budget(states=300_000))
    assert set(judged) <= {Judgement.SAFE, Judgement.OPEN}
