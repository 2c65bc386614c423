"""Proofs over a few variables: accepted by the checker, never for an unsafe policy."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.domains import generate
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.save import save_policy
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.safety.exits import boxes_around
from polvet.sources import load_task
from polvet.verify.certificates import certificate_of
from polvet.verify.explicit import Search
from polvet.verify.projection import PROJECTION
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.verify.line_policies import random_line_policy


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("line")
    generate("two-way-line", n=3, p=4, icy=True).write(folder / "line.jani")
    return folder / "line.toml"


@pytest.mark.slow
def test_what_is_proved_is_safe_and_accepted(line, tmp_path):
    task = load_task(line)
    proved = refuted = 0
    for seed in range(16):
        file = tmp_path / f"{seed}.json"
        save_policy(random_line_policy(task, seed), file)
        fitted = load_fitted(task, file)
        found = PROJECTION(compile_policy(fitted))
        truth = Search(compile_policy(fitted)).go_on(Budget())
        assert isinstance(found, Safe | Unknown)
        if isinstance(found, Safe):
            assert isinstance(truth, Safe)
            proof = tmp_path / f"{seed}.certificate.json"
            proof.write_text(json.dumps(certificate_of(compile_policy(fitted), found)))
            assert isinstance(check_file(proof, Subjects(line, file)), Accepted)
            proved += 1
        refuted += isinstance(truth, Unsafe)
    assert proved
    assert refuted


def test_boxes_hold_exactly_the_marked_cells():
    rng = random.Random(5)
    for _ in range(200):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        marks = np.random.default_rng(rng.randrange(10**6)).random(shape) < rng.random()
        held = np.zeros_like(marks)
        for low, high in boxes_around(marks):
            held[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] = True
        assert (held == marks).all()


@pytest.mark.slow
def test_models_without_such_a_projection_are_left_to_other_methods():
    task = generate("sliding-tiles", n=5, cost=0).task()
    names = tuple(v.name for v in task.network.variables)
    leaf = make_tree(
        0, np.array([-1]), np.zeros(1), np.array([-1]), np.array([-1]), np.array([[1.0]]), None, MISSING_NAN
    )
    policy = TreeEnsemble(names, task.network.labels, (leaf,), (0.0,) * len(task.network.labels), "<", "float32", 0.0)
    found = PROJECTION(compile_policy(fit(task, policy)))
    assert isinstance(found, Unknown)
