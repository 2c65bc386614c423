"""Every built-in world at small size: all algorithms agree, and the independent checker accepts why."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from polvet.budget import Budget
from polvet.check.checker import Accepted, Subjects, check
from polvet.domains import CATALOGUE, generate
from polvet.errors import Where
from polvet.kernel.starts import sample_starts
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task
from polvet.safety import ALGORITHMS, Decider, Verdict, prove
from polvet.sources import load_task

pytestmark = pytest.mark.slow

SMALL: dict[str, dict[str, Any]] = {
    "racetrack": {"speed": 1}, "blocksworld": {"n": 3, "cost": 3}, "sliding-tiles": {"n": 3, "cost": 4},
    "transport": {"locations": 3, "packages": 2}, "beluga": {"jigs": 2, "racks": 1}, "one-way-line": {"n": 2, "p": 3},
    "two-way-line": {"n": 2, "p": 3}, "bouncing-ball": {"tau": "0.1"}, "inverted-pendulum": {"tau": "0.3"},
    "follow-car": {"tau": "0.8"}, "flappy-bird": {"width": 12, "height": 6, "walls": 2}, "layers": {"d": 6},
    "janitor": {"width": 3, "height": 3}, "folline": {"length": 8, "width": 5}, "comexp": {"width": 3, "height": 3, "distance": 3},
}  # fmt: skip
WHOLE_SPACE = ("propagate", "vi", "tvi")


def states_on_runs(task: Task, rng: random.Random, count: int) -> list[State]:
    """Return states on random runs, where safe and unsafe ones are met."""
    semantics = Semantics(task.network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    found: dict[State, None] = {}
    for start in sample_starts(task, count, seed=3):
        state = start
        for _ in range(30):
            found[state] = None
            moves = [] if fail(state) or goal(state) else semantics.moves(state)
            if not moves:
                break
            state = rng.choice([outcome.state for move in moves for outcome in move.outcomes])
    return rng.sample(list(found), min(count, len(found)))


def test_every_world_of_the_catalogue_is_tried() -> None:
    names = {entry.name for entry in (CATALOGUE.values() if isinstance(CATALOGUE, dict) else CATALOGUE)}
    assert names == SMALL.keys()


@pytest.mark.parametrize("name", SMALL)
def test_all_algorithms_agree_and_evidence_is_accepted(name: str, tmp_path: Path) -> None:
    _, path = generate(name, **SMALL[name]).write(tmp_path / "world.jani")
    task = load_task(path)
    states = states_on_runs(task, random.Random(1), 12)
    prover = Decider(task)
    truth = [answer.verdict for answer in prover.decide(states, budget=Budget(seconds=20))]
    assert Verdict.UNKNOWN not in truth
    proved = 0
    for verdict in (Verdict.SAFE, Verdict.UNSAFE):
        group = [state for state, one in zip(states, truth, strict=True) if one is verdict]
        for state in group:
            certificate = prove(prover, [state], verdict)
            if len(certificate["states"]) <= 3_000 and proved < 12:
                answer = check(json.loads(json.dumps(certificate)), Subjects(path, options=None), Where("certificate"))
                assert isinstance(answer, Accepted), answer
                proved += 1
    assert proved > 0
    for algorithm in ALGORITHMS:
        if algorithm == "propagate-bdd":
            continue
        decider = Decider(task, algorithm=algorithm, share=True)
        found = [a.verdict for a in decider.decide(states, budget=Budget(seconds=3, states=200_000))]
        assert all(a in (b, Verdict.UNKNOWN) for a, b in zip(found, truth, strict=True)), algorithm
        if algorithm not in ("tarjan", *WHOLE_SPACE):
            assert Verdict.UNKNOWN not in found, algorithm


@pytest.mark.parametrize(
    "name", ["racetrack", "flappy-bird", "layers", "janitor", "one-way-line", "transport", "folline"]
)
def test_decision_diagrams_agree_on_worlds_over_integers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("dd")
    from polvet.safety.propagate_bdd import decide_by_diagrams

    task = generate(name, **SMALL[name]).task()
    states = states_on_runs(task, random.Random(2), 12)
    truth = [answer.verdict for answer in Decider(task).decide(states)]
    found = [answer.verdict for answer in decide_by_diagrams(task, states, budget=Budget(seconds=20))[0]]
    assert all(a in (b, Verdict.UNKNOWN) for a, b in zip(found, truth, strict=True))
