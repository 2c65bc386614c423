"""Retraining: the loss is the one that is written down, lessons are right, and what comes out is safe by exhaustive search."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.cli.app import run
from polvet.domains import generate
from polvet.errors import InputError
from polvet.kernel.starts import Starts
from polvet.policy.binding import fit
from polvet.policy.boosting import Growth
from polvet.policy.compiled import bind_policy, compile_policy
from polvet.policy.runs import End, Inspection, simulate
from polvet.policy.save import save_policy
from polvet.policy.trees import TreeEnsemble
from polvet.repair.retrain import Plan, retrain
from polvet.repair.set_loss import Lessons, set_loss, train_on_sets
from polvet.repair.teachers import find_teacher
from polvet.safety.decide import SAFE, Decider, compile_task
from polvet.train.imitate import imitate

pytest.importorskip("xgboost")


def poor_policy(task) -> TreeEnsemble:
    """Return an ensemble that learnt random lessons."""
    compiled = compile_task(task)
    rows = compiled.machine.unpack(compiled.pack_starts(Starts.of(task), 40)).astype(np.float32)
    rng = np.random.default_rng(0)
    names = tuple(variable.name for variable in task.network.variables)
    labels = tuple(task.network.labels)
    return imitate(rows, rng.integers(0, len(labels), len(rows)), names, labels, Growth(depth=5, rounds=3)).policy


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    allowed = rng.random((50, 4)) < 0.7
    allowed[:, 0] = True
    right = allowed & (rng.random((50, 4)) < 0.5)
    right[np.arange(50), 0] |= ~right.any(axis=1)
    lessons = Lessons(np.zeros((50, 1), dtype=np.float32), allowed, right)
    scores = rng.normal(size=(50, 4))

    def loss(scores):
        powers = np.exp(scores)
        return -np.log((powers * right).sum(axis=1) / (powers * allowed).sum(axis=1))

    gradient, curvature = set_loss(scores, lessons)
    for k in range(4):
        step = np.zeros_like(scores)
        step[:, k] = 1e-6
        slope = (loss(scores + step) - loss(scores - step)) / 2e-6
        assert np.abs(slope - gradient[:, k]).max() < 1e-6
    assert (curvature > 0).all()


def test_trees_learn_a_set_without_being_told_which_member_to_take():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 10, size=(400, 2)).astype(np.float32)
    right = np.stack([rows[:, 0] < 6, rows[:, 0] > 3, rows[:, 1] > 100], axis=1)
    lessons = Lessons(rows, np.ones_like(right), right)
    policy = train_on_sets(lessons, ("x", "y"), ("a", "b", "c"), Growth(depth=2, rounds=5))
    assert right[np.arange(len(rows)), policy.choose(rows)].all()
    again = train_on_sets(lessons, ("x", "y"), ("a", "b", "c"), Growth(depth=2, rounds=5))
    assert (policy.scores(rows) == again.scores(rows)).all()


@pytest.mark.parametrize(("jigs", "starts"), [(4, 8), (5, 20)])
def test_beluga_is_safe_from_orders_that_were_never_followed(jigs, starts):
    task = generate("beluga", jigs=jigs).task()
    first = fit(task, poor_policy(task))
    schooling = retrain(first, Plan(starts=starts, growth=Growth(depth=6, rounds=10)))
    assert schooling.limit is None
    assert schooling.teacher == "margins"
    assert schooling.decisions > 0
    bound = compile_policy(fit(task, schooling.policy))
    every = bound.compiled.pack_starts(Starts.of(task))
    assert len(Inspection(compile_policy(first)).unsafe(every)) > len(every) / 2
    assert not Inspection(bound).unsafe(every)
    runs = simulate(bound, every)
    assert runs.count(End.GOAL) == len(every)


def test_right_labels_have_safe_outcomes_only_whoever_teaches():
    for name, options, teacher in (
        ("beluga", {"jigs": 4}, "margins"),
        ("transport", {"locations": 4, "packages": 3}, "safety"),
    ):
        task = generate(name, **options).task()
        compiled = compile_task(task)
        given = bind_policy(fit(task, poor_policy(task)), compiled)
        starts = compiled.pack_starts(Starts.of(task), 20)
        chosen = find_teacher(task, compiled, given, starts)
        assert chosen.name == teacher
        states = compiled.explore(starts, stop_at=[0, 1], budget=Budget(states=2_000)).states()
        taught = chosen.teach(states, Budget())
        judged = Decider(task, compiled=compiled).judge_actions_packed(states)
        assert taught.right.any()
        for k, actions in enumerate(judged):
            safe = {label for label, good in actions or () if good}
            assert {task.network.labels[label] for label in np.flatnonzero(taught.right[k])} <= safe
        known = Decider(task, compiled=compiled).known_packed(states) == SAFE
        assert not taught.right[~known].any()


def test_a_time_limit_gives_back_the_best_policy_so_far():
    task = generate("beluga", jigs=5).task()
    first = fit(task, poor_policy(task))
    schooling = retrain(first, budget=Budget(0.0))
    assert schooling.limit is not None
    assert schooling.policy is first.policy


def test_the_command_retrains_and_the_certificate_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    generate("beluga", jigs=3).write(tmp_path / "beluga.jani")
    task = generate("beluga", jigs=3).task()
    save_policy(poor_policy(task), tmp_path / "poor.json")
    files = [str(tmp_path / name) for name in ("beluga.toml", "poor.json", "faults.json", "better.json", "proof.json")]
    assert run(["faults", *files[:2], "-o", files[2]]) == 10
    command = [
        "repair",
        *files[:2],
        "--faults",
        files[2],
        "--method",
        "retrain",
        "-o",
        files[3],
        "--certificate",
        files[4],
    ]
    assert run(command) == 0
    capsys.readouterr()
    assert run(["certify", files[4], "--task", files[0], "--policy", files[3]]) == 0
    assert run(["verify", files[0], files[3], "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["verdict"] == "safe"


def test_other_kinds_of_policies_are_refused():
    task = generate("beluga", jigs=4).task()
    from dataclasses import replace

    fitted = fit(task, poor_policy(task))
    with pytest.raises(InputError, match="only XGBoost's ensembles"):
        retrain(replace(fitted, policy=object()))


def test_the_loop_retrains_once_and_ends_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    generate("beluga", jigs=3).write(tmp_path / "beluga.jani")
    save_policy(poor_policy(generate("beluga", jigs=3).task()), tmp_path / "poor.json")
    files = [str(tmp_path / name) for name in ("beluga.toml", "poor.json", "campaign")]
    assert run(["debug", *files[:2], "--method", "retrain", "-o", files[2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "safe"
