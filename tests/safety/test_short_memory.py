"""Where memory is short, deciders forget and go on: verdicts stay right, and what was proved is not all lost."""

from __future__ import annotations

import random

import pytest

from polvet.budget import Budget
from polvet.domains.beluga import beluga
from polvet.kernel.starts import drawable_starts
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task
from polvet.safety.decide import Decider
from polvet.system import resident_bytes
from polvet.verdict import Verdict


def states_on_random_runs(task: Task, starts: int, steps: int) -> list[State]:
    rng = random.Random(1)
    semantics = Semantics(task.network)
    fail = semantics.compile(task.fail)
    found = []
    for start in drawable_starts(task).sample(starts, rng):
        state = start
        for _ in range(steps):
            if fail(state) or not semantics.moves(state):
                break
            found.append(state)
            state = rng.choice(sorted(semantics.outcomes(state, rng.choice(semantics.applicable(state)))))
    return found


@pytest.fixture(scope="module")
def task() -> Task:
    return beluga(jigs=5).task()


@pytest.fixture(scope="module")
def states(task: Task) -> list[State]:
    return states_on_random_runs(task, 60, 25)


@pytest.mark.threads
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_verdicts_are_right_however_little_memory_there_is(threads: int, task: Task, states: list[State]) -> None:
    truth = [answer.verdict for answer in Decider(task, algorithm="tarjan", share=True).decide(states)]
    assert 200 < truth.count(Verdict.UNSAFE) < len(states) - 200
    for extra in (2, 4, 8):
        decider = Decider(task, threads=threads)
        budget = Budget(megabytes=resident_bytes() // 2**20 + extra)
        found = [
            answer.verdict
            for begin in range(0, len(states), 200)
            for answer in decider.decide(states[begin : begin + 200], budget=budget)
        ]
        assert all(one in (Verdict.UNKNOWN, other) for one, other in zip(found, truth, strict=True))
        assert decider.known_states < 40_000  # what all of them need together
    judged = Decider(task, threads=threads).judge_actions_packed(decider.compiled.pack(states[:200]), budget=budget)
    for actions, verdict in zip(judged, truth, strict=False):
        assert actions is None or any(safe for _, safe in actions) == (verdict is Verdict.SAFE)
