"""Split trees are followed to the letter: a tree that is altered anywhere shows nothing, and a certificate without one is rejected."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polvet.check import invariant_states
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.invariant_tree import Reason
from polvet.check.packing import pack, unpack
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.binding import load_fitted
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.sources import load_task
from polvet.verify import split_tree

MODEL = """mdp
module field
  x : [0..30] init 0;
  y : [0..30] init 0;
  bad : bool init false;
  [stay] true -> (bad'=x*y>=300);
endmodule
"""
BLOCKED = [{"x": [10, 30], "y": [10, 30]}]


@pytest.fixture
def field(tmp_path):
    """The subjects, and a claim about them that holds: states where x and y are at least 10 are never entered."""
    (tmp_path / "field.prism").write_text(MODEL)
    (tmp_path / "field.toml").write_text('model = "field.prism"\nfail = "bad"\n')
    save_policy(network_of([(np.zeros((1, 2)), np.zeros(1))], ["x", "y"], ["stay"]), tmp_path / "policy.onnx")
    subjects = Subjects(tmp_path / "field.toml", tmp_path / "policy.onnx")
    fitted = load_fitted(load_task(subjects.task), subjects.policy)
    claim = {"kind": "invariant", "task_sha256": fitted.task.sha256, "policy_sha256": fitted.sha256}
    return subjects, {**claim, "rows": [], "blocked": BLOCKED}


@pytest.fixture
def shown(field, monkeypatch):
    """The subjects and a certificate whose tree cuts boxes."""
    monkeypatch.setattr(invariant_states, "MOST_POINTS", 0)
    subjects, claim = field
    certificate = split_tree.completed(claim, subjects)
    assert certificate["tree"]["by"] == "boxes"
    assert isinstance(judged(subjects, certificate), Accepted)
    return subjects, certificate


def judged(subjects, certificate):
    return check(json.loads(json.dumps(certificate)), subjects, Where("certificate"))


def _numbers(tree):
    return np.frombuffer(unpack(tree["packed"], 16 * tree["nodes"], "the tree"), dtype="<i8").reshape(2, -1)


def with_nodes(certificate, nodes):
    nodes = np.asarray(nodes, dtype="<i8")
    tree = {**certificate["tree"], "nodes": nodes.shape[1], "packed": pack(np.ascontiguousarray(nodes).tobytes())}
    return {**certificate, "tree": tree}


def test_the_tree_is_the_one_expected(shown):
    what, value = _numbers(shown[1]["tree"])
    cuts = {(int(w), int(v)) for w, v in zip(what, value, strict=True) if w >= 0}
    assert cuts == {(0, 9), (1, 9)}
    assert {int(w) for w in what if w < 0} == {Reason.BLOCKED, Reason.TEST}


def test_every_other_cut_and_every_other_reason_is_rejected(shown):
    subjects, certificate = shown
    nodes = _numbers(certificate["tree"])
    others = [(reason, number) for reason in Reason for number in (-1, 0, 1)] + [(-7, 0), (-(2**63), 0)]
    others += [(place, value) for place in (0, 1, 2, 3, 2**62) for value in (-1, 8, 9, 10, 30, 31, 2**62)]
    for k in range(nodes.shape[1]):
        for other in others:
            altered = nodes.copy()
            altered[:, k] = other
            if (altered == nodes).all():
                continue
            assert isinstance(judged(subjects, with_nodes(certificate, altered)), Rejected), (k, other)


def test_dropped_doubled_and_exchanged_nodes_are_rejected(shown):
    subjects, certificate = shown
    nodes = _numbers(certificate["tree"])
    count = nodes.shape[1]
    for k in range(count):
        assert isinstance(judged(subjects, with_nodes(certificate, np.delete(nodes, k, axis=1))), Rejected)
        doubled = np.insert(nodes, k, nodes[:, k], axis=1)
        assert isinstance(judged(subjects, with_nodes(certificate, doubled)), Rejected)
        for j in range(k):
            order = np.arange(count)
            order[[j, k]] = order[[k, j]]
            # Either cut may come first here.
            if (nodes[:, order] != nodes).any() and not (nodes[0, [j, k]] >= 0).all():
                assert isinstance(judged(subjects, with_nodes(certificate, nodes[:, order])), Rejected)
    for only in ([], [[0, 9]] * 1000):  # nothing, and cuts without end
        numbers = np.array(only, dtype=np.int64).reshape(-1, 2).T
        assert isinstance(judged(subjects, with_nodes(certificate, numbers)), Rejected)


@pytest.mark.parametrize(
    "change",
    [
        {"by": "words"}, {"by": None}, {"nodes": -1}, {"nodes": 2**40}, {"nodes": True}, {"nodes": 2.0}, {"packed": 7},
        {"packed": "%"}, {"packed": ""}, {"sums": 1}, {"sums": [[1]]}, {"sums": [[[0, 0.5]]]}, {"sums": [[[0]]]},
    ],
)  # fmt: skip
def test_what_is_no_tree_is_rejected(shown, change):
    subjects, certificate = shown
    assert isinstance(judged(subjects, {**certificate, "tree": {**certificate["tree"], **change}}), Rejected)


@pytest.mark.parametrize("tree", [None, [], "boxes", {}, {"by": "states"}])
def test_other_values_are_no_trees(shown, tree):
    subjects, certificate = shown
    assert isinstance(judged(subjects, {**certificate, "tree": tree}), Rejected)


def test_states_that_are_too_many_are_not_tried(shown):
    subjects, certificate = shown  # MOST_POINTS is 0
    tree = {"by": "states", "nodes": 0, "packed": pack(b"")}
    answer = judged(subjects, {**certificate, "tree": tree})
    assert isinstance(answer, Rejected)


def test_sums_of_rows_count_only_where_they_contradict(tmp_path):
    """x + y = u and z + u = w hold, so x + y + z > w contradicts their sum; other multipliers, and other rows, show nothing."""
    (tmp_path / "sum.prism").write_text(
        "mdp\nmodule m\n x : [0..99] init 1;\n y : [0..99] init 1;\n z : [0..99] init 2;\n u : [0..99] init 2;\n"
        "w : [0..99] init 4;\nbad : bool init false;\n [a] x+y+z>w -> (bad'=true);\nendmodule\n"
    )
    (tmp_path / "sum.toml").write_text('model = "sum.prism"\nfail = "bad"\n')
    save_policy(network_of([(np.zeros((1, 1)), np.zeros(1))], ["x"], ["a"]), tmp_path / "policy.onnx")
    subjects = Subjects(tmp_path / "sum.toml", tmp_path / "policy.onnx")
    fitted = load_fitted(load_task(subjects.task), subjects.policy)
    claim = {"kind": "invariant", "task_sha256": fitted.task.sha256, "policy_sha256": fitted.sha256}
    rows = [
        {"terms": {"x": 1, "y": 1, "u": -1}, "lower": 0, "upper": 0},
        {"terms": {"z": 1, "u": 1, "w": -1}, "lower": 0, "upper": 0},
    ]
    certificate = split_tree.completed({**claim, "rows": rows, "blocked": []}, subjects)
    tree = certificate["tree"]
    assert tree["sums"]
    assert isinstance(judged(subjects, certificate), Accepted)
    for k, sums in enumerate(tree["sums"]):
        for j, (row, multiplier) in enumerate(sums):
            for other in ([row, multiplier + 1], [row, -multiplier], [row, 0], [row + 1, multiplier], [-1, multiplier]):
                altered = [list(map(list, one)) for one in tree["sums"]]
                altered[k][j] = other
                found = judged(subjects, {**certificate, "tree": {**tree, "sums": altered}})
                assert isinstance(found, Rejected), (sums, other)
        shorter = [*tree["sums"][:k], sums[1:], *tree["sums"][k + 1 :]]
        assert isinstance(judged(subjects, {**certificate, "tree": {**tree, "sums": shorter}}), Rejected)


def test_a_certificate_without_a_tree_is_rejected_and_completed_by_the_command(field, tmp_path, capsys):
    subjects, claim = field
    answer = judged(subjects, claim)
    assert isinstance(answer, Rejected)
    assert "split tree" in answer.reason
    file = tmp_path / "old.json"
    file.write_text(json.dumps(claim))
    assert run(["certify", str(file), "--task", str(subjects.task), "--policy", str(subjects.policy)]) == 0
    false = {**claim, "blocked": [{"x": [11, 30], "y": [10, 30]}]}
    file.write_text(json.dumps(false))
    assert run(["certify", str(file), "--task", str(subjects.task), "--policy", str(subjects.policy)]) == 10
