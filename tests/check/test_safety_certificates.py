"""Tampered certificates about state safety are rejected, unless what is left is still a proof; checkers import no engine."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polvet.check import listed_actions
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.errors import InputError, Where
from polvet.model.semantics import Semantics
from polvet.model.task import TaskOptions
from polvet.safety import Decider, Verdict, prove
from polvet.sources import load_task
from tests.safety.networks import all_states, random_task, unsafe_states

Certificate = dict[str, Any]


def judge(certificate: Any, path: Path) -> Accepted | Rejected:
    """Return what the checker says: the same whether states are checked one by one or in bulk."""
    found = []
    for few in (listed_actions.FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(listed_actions, "FEW", few)
            found.append(check(json.loads(json.dumps(certificate)), Subjects(path, options=None), Where("certificate")))
    assert type(found[0]) is type(found[1])
    assert not isinstance(found[0], Accepted) or found[0] == found[1]
    return found[0]


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Certificate, Path]]:
    return some_certificates(tmp_path_factory.mktemp("safe"), Verdict.SAFE)


@pytest.fixture(scope="module")
def unsafe(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Certificate, Path]]:
    return some_certificates(tmp_path_factory.mktemp("unsafe"), Verdict.UNSAFE)


def some_certificates(folder: Path, verdict: Verdict) -> list[tuple[Certificate, Path]]:
    """Return certificates of non-trivial size over random tasks, each with its task's file."""
    rng = random.Random(1)
    found: list[tuple[Certificate, Path]] = []
    while len(found) < 12:
        place = folder / str(len(found))
        place.mkdir(exist_ok=True)
        task, path = random_task(rng, place)
        states = all_states(task)
        unsafe = unsafe_states(task, states)
        chosen = [s for s in states if (s in unsafe) == (verdict is Verdict.UNSAFE)]
        for state in rng.sample(chosen, min(5, len(chosen))):
            certificate = prove(Decider(task), [state], verdict)
            if len(certificate["states"]) >= 3:
                found.append((certificate, path))
                break
    return found


def change_action(certificate: Certificate, rng: random.Random) -> None:
    row = rng.choice(certificate["states"])
    row["action"] = rng.choice([label for label in ("a", "b", "c", "z", None) if label != row["action"]])


def drop_state(certificate: Certificate, rng: random.Random) -> None:
    (start,) = certificate["start"]
    place = rng.choice([k for k in range(len(certificate["states"])) if k != start])
    del certificate["states"][place]
    certificate["start"] = [start - (place < start)]


def change_state(certificate: Certificate, rng: random.Random) -> None:
    row = rng.choice(certificate["states"])
    name = rng.choice(["x", "y"])
    row["state"][name] = (row["state"][name] + rng.randint(1, 4)) % 5


def add_state(certificate: Certificate, rng: random.Random) -> None:
    certificate["states"].append(copy.deepcopy(rng.choice(certificate["states"])))


def shift_rank(certificate: Certificate, rng: random.Random) -> None:
    row = rng.choice(certificate["states"])
    row["rank"] += rng.choice([-1, 1, 2])


def drop_action(certificate: Certificate, rng: random.Random) -> None:
    row = rng.choice([row for row in certificate["states"] if row["actions"]])
    del row["actions"][rng.randrange(len(row["actions"]))]


def bend_outcome(certificate: Certificate, rng: random.Random) -> None:
    row = rng.choice([row for row in certificate["states"] if row["actions"]])
    pair = rng.choice(row["actions"])
    pair["outcome"] = rng.choice([k for k in range(-1, len(certificate["states"]) + 1) if k != pair["outcome"]])


def is_still_a_safe_policy(certificate: Certificate, path: Path) -> bool:
    """Judge a changed safe policy by the definition, independently of the checker."""
    task = load_task(path, TaskOptions(**certificate["options"]))
    semantics = Semantics(task.network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    rows = {(row["state"]["x"], row["state"]["y"]): row["action"] for row in certificate["states"]}
    for state, action in rows.items():
        if fail(state):
            return False
        ends = goal(state) or not semantics.moves(state)
        possible = (None,) if ends or not semantics.applicable(state) else semantics.applicable(state)
        if action not in possible or (not ends and not semantics.outcomes(state, action) <= rows.keys()):
            return False
    return True


@pytest.mark.parametrize("mutate", [change_action, drop_state, change_state, add_state])
def test_a_tampered_safe_policy_is_rejected(mutate: Callable[..., None], safe: list[tuple[Certificate, Path]]) -> None:
    rng = random.Random(1)
    rejected = 0
    for certificate, path in safe:
        assert isinstance(judge(certificate, path), Accepted)
        for _ in range(20):
            changed = copy.deepcopy(certificate)
            mutate(changed, rng)
            answer = judge(changed, path)
            rejected += isinstance(answer, Rejected)
            if isinstance(answer, Accepted):  # only a change that leaves a proof may pass
                assert mutate in (change_action, change_state)
                assert is_still_a_safe_policy(changed, path)
    assert rejected > 200


@pytest.mark.parametrize("mutate", [shift_rank, drop_state, change_state, add_state, drop_action, bend_outcome])
def test_a_tampered_rank_is_rejected(mutate: Callable[..., None], unsafe: list[tuple[Certificate, Path]]) -> None:
    rng = random.Random(2)
    rejected = accepted = 0
    for certificate, path in unsafe:
        assert isinstance(judge(certificate, path), Accepted)
        task = load_task(path, TaskOptions(**certificate["options"]))
        lost = unsafe_states(task, all_states(task))
        for _ in range(20):
            changed = copy.deepcopy(certificate)
            mutate(changed, rng)
            answer = judge(changed, path)
            rejected += isinstance(answer, Rejected)
            if isinstance(answer, Accepted):  # another outcome of the same rank, another unsafe state: still a proof
                accepted += 1
                assert mutate in (bend_outcome, change_state)
                for row in changed["states"]:
                    assert (row["state"]["x"], row["state"]["y"]) in lost
    assert rejected >= 200
    if mutate not in (bend_outcome, change_state):
        assert accepted == 0


@pytest.mark.parametrize("kind", ["safe", "unsafe"])
def test_anything_malformed_is_rejected_not_a_crash(kind: str, request: pytest.FixtureRequest) -> None:
    rng = random.Random(9)
    junk: list[Any] = [None, 0, -1, 3.5, "x", [], {}, [[]], [{}], True]
    for certificate, path in request.getfixturevalue(kind)[:4]:
        for _ in range(150):
            changed = json.loads(json.dumps(certificate))
            spot: Any = changed
            while True:
                keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
                key = rng.choice([k for k in keys if k != "kind"])
                if isinstance(spot[key], dict | list) and spot[key] and rng.random() < 0.7:
                    spot = spot[key]
                    continue
                spot[key] = rng.choice([value for value in junk if value != spot[key]])
                break
            try:
                judge(changed, path)
            except InputError:
                assert changed.get("options") != certificate["options"]  # the options make no task


def test_the_certificate_of_another_task_is_rejected(safe: list[tuple[Certificate, Path]]) -> None:
    (certificate, path), (_, other), *_ = safe
    answer = judge(certificate, other)
    assert isinstance(answer, Rejected)
    assert "not the file" in answer.reason
    assert path != other


def test_a_certificate_about_a_task_needs_the_task(safe: list[tuple[Certificate, Path]]) -> None:
    certificate = safe[0][0]
    with pytest.raises(InputError, match="--task"):
        check(certificate, Subjects(), Where("certificate"))


@pytest.fixture
def walk(tmp_path: Path) -> tuple[Path, Certificate]:
    """Return a model and a run from x=0 to fail at x=2, one step of it silent."""
    path = tmp_path / "walk.prism"
    path.write_text(
        "mdp\nmodule m\n x : [0..3] init 0;\n [go] x<3 -> 0.5:(x'=x+1) + 0.5:true;\n [] x=1 -> (x'=2);\nendmodule\n",
        encoding="utf-8",
    )
    task = load_task(path, TaskOptions(fail="x == 2"))
    run = {
        "kind": "run", "task_sha256": task.sha256, "options": {"fail": "x == 2"},
        "states": [{"x": 0}, {"x": 0}, {"x": 1}, {"x": 2}], "actions": ["go", "go", None], "end": "fail",
    }  # fmt: skip
    return path, run


def test_a_run_into_fail_is_accepted(walk: tuple[Path, Certificate]) -> None:
    path, run = walk
    assert isinstance(judge(run, path), Accepted)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"actions": ["go", "go", "stop"]}, "does not lead"),
        ({"actions": ["go", None, None]}, "silent operator"),
        ({"states": [{"x": 1}, {"x": 1}, {"x": 1}, {"x": 2}]}, "no start state"),
        ({"states": [{"x": 0}, {"x": 0}, {"x": 0}, {"x": 1}], "actions": ["go"] * 3}, "not in fail"),
        ({"states": [{"x": 0}, {"x": 1}, {"x": 2}, {"x": 2}], "actions": ["go"] * 3}, "runs end"),
        ({"states": [{"x": 0}, {"x": 2}], "actions": ["go"]}, "does not lead"),
        ({"end": "goal"}, "'end'"),
        ({"states": [{"x": 0}]}, "one state more"),
    ],
)
def test_a_tampered_run_is_rejected(change: Certificate, reason: str, walk: tuple[Path, Certificate]) -> None:
    path, run = walk
    answer = judge(run | change, path)
    assert isinstance(answer, Rejected)
    assert reason in answer.reason
