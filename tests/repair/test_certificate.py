"""The `repair` certificate: accepted as made, rejected when any part of it is changed."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from polvet.check.checker import Accepted, Rejected, Subjects, check_file
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.jani.write import dump_model
from polvet.policy.binding import load_fitted
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.records.fault_files import FaultList, write_faults
from polvet.sources import load_task
from tests.repair.ensembles import LABELS, grid_task, random_ensemble, random_faults


@pytest.fixture(params=["trees", "network"])
def made(request, tmp_path, capsys):
    """Files of a task, a policy, its faults, the repair and its certificate."""
    rng = np.random.default_rng(4)
    (tmp_path / "grid.jani").write_text(dump_model(grid_task().network.model))
    (tmp_path / "grid.toml").write_text("model = 'grid.jani'\nfail = 'x == 5 && y == 0'\ngoal = 'y == 5'\n")
    ending = "json" if request.param == "trees" else "onnx"
    policy = random_ensemble(rng)
    if request.param == "network":
        layers = [(rng.normal(size=(6, 2)), rng.normal(size=6)), (rng.normal(size=(3, 6)), rng.normal(size=3))]
        policy = network_of(layers, ("x", "y"), LABELS)
    save_policy(policy, tmp_path / f"old.{ending}")
    task = load_task(tmp_path / "grid.toml")
    fitted = load_fitted(task, tmp_path / f"old.{ending}")
    write_faults(task, FaultList(tuple(random_faults(rng, fitted, 5)), task.sha256), tmp_path / "faults.json")
    new = tmp_path / f"new.{ending}"
    code = run([
        "repair", str(tmp_path / "grid.toml"), str(tmp_path / f"old.{ending}"), "--faults", str(tmp_path / "faults.json"),
        "-o", str(new), "--certificate", str(tmp_path / "certificate.json"), "--json",
    ])  # fmt: skip
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["verdict"]) == (0, "repaired")
    assert answer["figures"]["faults_fixed"] == 5
    assert answer["figures"]["faults_left"] == 0
    return tmp_path, Subjects(tmp_path / "grid.toml", new)


def test_the_certificate_is_accepted(made):
    folder, subjects = made
    result = check_file(folder / "certificate.json", subjects)
    assert isinstance(result, Accepted)
    assert "5 faults" in result.claim


def changed(document):
    """The certificate with one thing changed, with a name."""
    first = document["faults"][0]
    label = next(iter(first["after"]))
    wrong = {
        "a score": lambda d: d["faults"][0]["after"].update({label: first["after"][label] + 1.0}),
        "a tiny change of a score": lambda d: d["faults"][0]["after"].update(
            {label: float(np.nextafter(np.float32(first["after"][label]), np.float32(np.inf)))}
        ),
        "a missing score": lambda d: d["faults"][0]["after"].pop(label),
        "a score that is none": lambda d: d["faults"][0]["after"].update({label: "1"}),
        "no scores before": lambda d: d["faults"][0].pop("before"),
        "a state that is none": lambda d: d["faults"][0]["state"].update(x=77),
        "a state twice": lambda d: d["faults"].append(copy.deepcopy(first)),
        "the safe actions": lambda d: d["faults"][0].update(safe_actions=[]),
        "a faulty action called safe": lambda d: d["faults"][0].update(safe_actions=[first["action"]]),
        "an unknown action": lambda d: d["faults"][0].update(action="zzz"),
        "the mode": lambda d: d.update(mode="hopeful"),
        "the reading": lambda d: d.update(reading="odd"),
        "the policy": lambda d: d.update(policy_sha256="0" * 64),
        "no policy": lambda d: d.pop("policy_sha256"),
        "the task": lambda d: d.update(task_sha256="0" * 64),
        "the options": lambda d: d.update(options={"strange": "1"}),
        "the faults": lambda d: d.update(faults={}),
        "a fault that is none": lambda d: d.update(faults=[3]),
        "words where faults left are counted": lambda d: d.update(left="0, since it is proved safe; 0"),
    }
    for name, change in wrong.items():
        other = copy.deepcopy(document)
        change(other)
        yield name, other


def test_every_changed_certificate_is_rejected(made):
    folder, subjects = made
    document = json.loads((folder / "certificate.json").read_text())
    for name, other in changed(document):
        (folder / "other.json").write_text(json.dumps(other))
        assert isinstance(check_file(folder / "other.json", subjects), Rejected), name


def test_the_old_policy_does_not_pass_for_the_repaired_one(made):
    folder, subjects = made
    old = folder / ("old" + subjects.policy.suffix)
    assert isinstance(check_file(folder / "certificate.json", Subjects(subjects.task, old)), Rejected)
    # Even with its own hash it is rejected: it still takes the faulty actions.
    from polvet.files import sha256

    document = json.loads((folder / "certificate.json").read_text())
    document["policy_sha256"] = sha256(old)
    for fault in document["faults"]:
        fault["after"] = fault["before"]
    (folder / "other.json").write_text(json.dumps(document))
    result = check_file(folder / "other.json", Subjects(subjects.task, old))
    assert isinstance(result, Rejected)
    assert "takes" in result.reason


def test_the_checker_asks_for_the_policy(made):
    folder, subjects = made
    with pytest.raises(InputError, match="--policy"):
        check_file(folder / "certificate.json", Subjects(subjects.task))
