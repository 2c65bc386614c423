"""Tables and rule lists as boxes: the decision tree chooses alike in every state, and proofs over boxes agree with explicit search."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest

import polvet
from polvet.budget import Budget
from polvet.errors import Where
from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.instantiate import instantiate
from polvet.model.task import PolicyReading, Task
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.rules import rules_from_json
from polvet.policy.tables import Table
from polvet.sources import load_task
from polvet.symbolic.cells import Box
from polvet.symbolic.linear import NotLinear
from polvet.verify.certificates import certificate_of
from polvet.verify.partition import partition
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unknown
from tests.attack.invariant import way
from tests.verify.listed import random_rules, random_table
from tests.verify.small_tasks import random_task

NAMES, TOPS, LABELS = ("x", "y", "z"), (4, 3, 5), ("a", "b", "c")
METHODS = ("induction", "ic3", "abstraction", "projection")


def fitted_to_a_box(policy, mode="filtered"):
    m = ModelBuilder("box")
    variables = [m.int(name, 0, top, initial=0) for name, top in zip(NAMES, TOPS, strict=True)]
    m.labels(*LABELS)
    for label in LABELS:
        m.edge(label, to={variables[0]: variables[0]})
    return fit(Task(instantiate(m.build()), reading=PolicyReading(mode)), policy)


@pytest.mark.parametrize("mode", ["filtered", "raw"])
@pytest.mark.parametrize("draw", [random_table, random_rules])
def test_the_decision_tree_chooses_what_the_policy_chooses(draw, mode):
    rng = np.random.default_rng(5)
    states = np.array(list(product(*(range(top + 1) for top in TOPS))), dtype=np.float32)
    for _ in range(60):
        policy = draw(rng, NAMES, TOPS, LABELS)
        tree = partition(fitted_to_a_box(policy, mode), Box((0, 0, 0), TOPS))
        rows = states[:, [NAMES.index(name) for name in policy.inputs]]
        mask = rng.random((len(rows), len(LABELS))) < 0.7 if mode == "filtered" else None
        assert (tree.choose(rows, mask) == policy.choose(rows, mask)).all()


def test_scores_that_order_the_outputs_alike_share_a_box():
    rng = np.random.default_rng(1)
    rows = {(float(x),): tuple(sorted(rng.normal(size=3))) for x in range(5)}
    tree = partition(fitted_to_a_box(Table(("x",), LABELS, rows)), Box((0, 0, 0), TOPS))
    assert len(tree.trees[0].leaves) == 1


def test_a_state_without_a_row_and_too_many_boxes_are_refused(monkeypatch):
    rows = {(float(x),): (0.0, 1.0, 0.0) for x in range(4)}
    with pytest.raises(NotLinear, match=r"neither a row for \(4\) nor a default"):
        partition(fitted_to_a_box(Table(("x",), LABELS, rows)), Box((0, 0, 0), TOPS))
    with pytest.raises(NotLinear, match=r"beyond 2\^24"):
        partition(fitted_to_a_box(Table(("x",), LABELS, rows, 0)), Box((0, 0, 0), (2**25, 3, 5)))
    monkeypatch.setattr("polvet.verify.partition.MOST_LOOKS", 10_000)
    monkeypatch.setattr("polvet.verify.partition.MOST_LEAVES", 200)
    odd = {(float(x),): (0.0, float(x % 2), 0.5) for x in range(2_000)}
    with pytest.raises(NotLinear, match="too many boxes"):
        partition(fitted_to_a_box(Table(("x",), LABELS, odd, 0)), Box((0, 0, 0), (2_000, 3, 5)))
    checkers = [{"when": f"x % 2 == {k % 2} && z == {k}", "action": "abc"[k % 3]} for k in range(6)]
    rules = rules_from_json({"rules": [*checkers, {"when": "true", "action": "a"}]}, Where("rules"), outputs=LABELS)
    with pytest.raises(NotLinear, match="more than 200 boxes"):
        partition(fitted_to_a_box(rules), Box((0, 0, 0), (2_000, 3, 5)))


def agree(seeds, folder, by):
    """Compare proofs and runs of all methods with explicit search; return how many were safe, and certificates with files."""
    proofs = []
    for seed in seeds:
        _, fitted, files = random_task(seed, folder, ("table", "rules"))
        bound = compile_policy(fitted)
        expected = verify(bound, method="explicit").verdict
        for method in METHODS:
            found = verify(bound, method=method, budget=Budget(5.0), seed=seed)
            assert isinstance(found, Unknown) or found.verdict is expected, (seed, method)
            if isinstance(found, Safe):
                with way(by) if by == "boxes" else nullcontext():
                    certificate = certificate_of(bound, found)
                    assert certificate is not None
                    assert certificate["kind"] == "invariant"
                    file = folder / "certificate.json"
                    file.write_text(json.dumps(certificate), encoding="utf-8")
                    answer = polvet.certify(file, task=files[0], policy=files[1])
                assert answer.accepted, (seed, method, answer)
                proofs.append((method, certificate))
    return proofs


@pytest.mark.parametrize("by", ["states", "boxes"])
def test_proofs_over_boxes_agree_with_explicit_search_and_are_accepted(by, tmp_path):
    proofs = agree(range(16), tmp_path, by)
    assert {method for method, _ in proofs} == set(METHODS)
    assert all(certificate["tree"]["by"] == by for _, certificate in proofs)


@pytest.mark.slow
def test_two_hundred_random_worlds_agree(tmp_path):
    assert len(agree(range(24, 224), tmp_path, "boxes")) > 150


def listed(kind, up):
    """A policy that goes up from the given values and stays elsewhere, as a document."""
    if kind == "table":
        rows = [{"state": {"x": x}, "action": "up"} for x in up]
        return {"format": "table/1", "inputs": ["x"], "outputs": ["stay", "up"], "rows": rows, "default": "stay"}
    rules = [{"when": f"x == {x}", "action": "up"} for x in up]
    return {"format": "rules/1", "rules": [*rules, {"when": "true", "action": "stay"}]}


@pytest.mark.parametrize("kind", ["table", "rules"])
def test_an_invariant_is_accepted_for_policies_that_keep_it_and_rejected_for_one_that_leaves_it(kind, tmp_path):
    m = ModelBuilder("tower")
    x, y = m.int("x", 0, 200, initial=0), m.int("y", 0, 200, initial=0)
    m.labels("stay", "up")
    m.edge("stay", to={y: (y + 1) % 200})
    m.edge("up", guard=x < 200, to={x: x + 1})
    (tmp_path / "tower.jani").write_text(dump_model(m.build()), encoding="utf-8")
    (tmp_path / "tower.toml").write_text('model = "tower.jani"\nfail = "x >= 150"\n', encoding="utf-8")
    task, policy, file = tmp_path / "tower.toml", tmp_path / "policy.json", tmp_path / "claim.json"
    answers = {}
    for name, up in {"keeps": [*range(40, 149), 160], "leaves": [3, *range(50, 150)]}.items():
        policy.write_text(json.dumps(listed(kind, up)), encoding="utf-8")
        bound = compile_policy(load_fitted(load_task(task), policy))
        claim = {"kind": "invariant", "format": "certificate/1", "task_sha256": bound.task.sha256,
                 "policy_sha256": bound.fitted.sha256, "rows": [], "blocked": []}  # fmt: skip
        with way("boxes"):
            file.write_text(json.dumps(certificate_of(bound, Safe(claim, "by hand"))), encoding="utf-8")
            answers[name] = polvet.certify(file, task=task, policy=policy)
    assert answers["keeps"].accepted
    assert not answers["leaves"].accepted
    assert "x=149" in str(answers["leaves"])
