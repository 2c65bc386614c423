"""Explanations agree with the interpreter, the oracle and the policy's own scores."""

from __future__ import annotations

from polvet.debug.explain import explain_fault
from polvet.debug.faults import NO_FAULT, all_faults, find_faults
from polvet.domains.planted import plant
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.kernel.starts import Starts
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.safety.decide import Decider
from polvet.verdict import Verdict
from tests.debug.oracle import cases


def test_every_action_of_a_faulty_state_is_told_with_its_outcomes():
    told = 0
    for case in cases(80):
        bound, decider = compile_policy(case.fitted), Decider(case.task)
        for fault in all_faults(bound, decider).faults:
            found = explain_fault(bound, decider, fault)
            told += 1
            assert tuple(action.label for action in found.actions) == case.semantics.applicable(fault.state)
            scores = case.fitted.policy.scores(case.fitted.row(fault.state))[0]
            for action in found.actions:
                states = {outcome.state for outcome in action.outcomes}
                assert states == case.semantics.outcomes(fault.state, action.label)
                for outcome in action.outcomes:
                    assert (outcome.verdict is Verdict.UNSAFE) == (outcome.state in case.unsafe)
                assert action.safe == (not states & case.unsafe)
                assert abs(sum(outcome.probability for outcome in action.outcomes) - 1) < 1e-9
                assert action.score == scores[case.fitted.policy.outputs.index(action.label)]
            if found.best_safe is not None:
                assert found.best_safe in fault.safe_actions
                assert found.rounding == 0, "small integer weights are exact in every order"
                if case.fitted.filtered:
                    assert found.margin is not None
                    assert found.margin >= 0
            assert len(found.lines()) > 4
            assert found.to_json()["action"] == fault.action
    assert told > 40


def test_runs_are_grouped_by_their_first_fault():
    world = plant(7)
    task = world.instance.task()
    bound = compile_policy(fit(task, world.policy))
    runs = find_unsafe_runs(bound, list(Starts.of(task).states()) * 5, Search(first_only=False, max_steps=200)).runs
    found = find_faults(bound, Decider(task), runs)
    groups = found.groups
    assert sorted(run for members in groups.values() for run in members) == list(range(len(runs)))
    for fault, members in groups.items():
        for run in members:
            met = [state for state in runs[run].states if state in world.faults]
            assert (met[0] == found.faults[fault].state) if fault != NO_FAULT else not met
    for number, blame in enumerate(found.blame):
        assert blame.first == len(groups.get(number, []))
