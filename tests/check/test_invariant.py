"""Invariants that verification returns are accepted by the independent checker; altered ones are rejected."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from polvet.check import invariant_states
from polvet.check.arena import Arena
from polvet.check.checker import Accepted, Rejected, Subjects, check_file
from polvet.check.invariant import check_claim
from polvet.domains.transport import transport
from polvet.errors import InputError, LimitReached
from polvet.model.semantics import Semantics
from polvet.model.task import TaskOptions
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import load_task
from polvet.verify import split_tree
from polvet.verify.ic3 import IC3
from polvet.verify.method import Request
from polvet.verify.verdicts import Safe
from tests.verify.test_engine import random_units
from tests.verify.test_ic3 import random_world


def arena_of(fitted):
    semantics = Semantics(fitted.task.network)
    task = fitted.task
    return Arena(task, semantics, semantics.compile(task.fail), semantics.compile(task.goal), "the task")


def checked(fitted, certificate):
    try:
        whole = certificate if "tree" in certificate else split_tree.with_tree(certificate, fitted)
    except LimitReached as limit:  # an untrue claim has no tree, however long one looks
        return Rejected(str(limit))
    return check_claim(arena_of(fitted), fitted, json.loads(json.dumps(whole)), "the policy")


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("way", ["states", "many states", "boxes", "boxes and units"])
def test_certificates_of_random_worlds_are_accepted_and_without_a_box_rejected(seed, way, tmp_path, monkeypatch):
    fitted = random_world(seed, tmp_path, random_units if "units" in way else None)
    if fitted is None:
        return
    if way == "many states":  # otherwise such small worlds are tried state by state
        monkeypatch.setattr(invariant_states, "FEW_POINTS", 0)
    if "boxes" in way:
        monkeypatch.setattr(invariant_states, "MOST_POINTS", 0)
        monkeypatch.setattr(split_tree, "SMALL", 1)
    result = IC3(compile_policy(fitted), Request(seed=seed))
    if not isinstance(result, Safe):
        # Nothing proves what is not so: the claim that `fail` alone is never entered.
        assert isinstance(checked(fitted, {"rows": [], "blocked": []}), Rejected)
        return
    certificate = dict(result.certificate)
    answer = checked(fitted, certificate)
    assert isinstance(answer, Accepted), answer
    needed = 0
    for k in range(len(certificate["blocked"])):
        less = copy.deepcopy(certificate)
        del less["blocked"][k]
        needed += isinstance(checked(fitted, less), Rejected)
    if certificate["blocked"]:
        assert needed or len(certificate["blocked"]) > 1


def transport_policy(seed, locations, packages, width=16):
    task = transport(locations=locations, packages=packages).task()
    names = [variable.name for variable in task.network.variables][:-1]
    rng = np.random.default_rng(seed)
    layers = [
        (rng.normal(size=(width, len(names))) * 0.4, rng.normal(size=width) * 0.5),
        (rng.normal(size=(width, width)) * 0.35, rng.normal(size=width) * 0.5),
        (rng.normal(size=(4, width)) * 0.35, rng.normal(size=4) * 0.5),
    ]
    return fit(task, network_of(layers, names, list(task.network.labels)))


def safe_transport(locations, packages):
    for seed in range(60):
        fitted = transport_policy(seed, locations, packages)
        result = IC3(compile_policy(fitted), Request(seed=seed))
        if isinstance(result, Safe) and result.certificate["blocked"]:
            return fitted, dict(result.certificate)
    raise AssertionError("no safe policy among sixty")


@pytest.fixture(scope="module")
def large():
    return safe_transport(10, 15)


@pytest.mark.slow
def test_a_certificate_over_eleven_million_starts_is_accepted(large):
    fitted, certificate = large
    answer = checked(fitted, certificate)
    assert isinstance(answer, Accepted), answer


@pytest.mark.slow
def test_altered_certificates_are_rejected(large):
    fitted, certificate = large
    wrong_row = copy.deepcopy(certificate)
    wrong_row["rows"][0]["upper"] = wrong_row["rows"][0]["lower"] = 14
    whole = {**certificate, "blocked": [*certificate["blocked"], {}]}
    no_box = {**certificate, "blocked": []}
    unknown = {**certificate, "blocked": [{"nowhere": [0, 1]}]}
    text = {**certificate, "blocked": [{"truck_0": [0, "1"]}]}
    for altered in (wrong_row, whole, no_box, unknown, text):
        assert isinstance(checked(fitted, altered), Rejected)


def test_files_are_checked_by_their_hashes(tmp_path):
    instance = transport(locations=4, packages=3)
    _, task_file = instance.write(tmp_path / "road.jani")
    task = load_task(task_file, TaskOptions())
    made = safe_transport(4, 3)[0].policy
    policy_file = tmp_path / "policy.onnx"
    save_onnx(made, policy_file)
    fitted = load_fitted(task, policy_file)
    result = IC3(compile_policy(fitted))
    assert isinstance(result, Safe)
    certificate = tmp_path / "certificate.json"
    whole = split_tree.with_tree(result.certificate, fitted)
    certificate.write_text(json.dumps(whole), encoding="utf-8")
    assert isinstance(check_file(certificate, Subjects(task_file, policy_file)), Accepted)
    with pytest.raises(InputError, match="--policy"):
        check_file(certificate, Subjects(task_file))
    other = tmp_path / "other.onnx"
    save_onnx(transport_policy(99, 4, 3).policy, other)
    assert isinstance(check_file(certificate, Subjects(task_file, other)), Rejected)
    altered = {**whole, "policy_sha256": None}
    certificate.write_text(json.dumps(altered), encoding="utf-8")
    assert isinstance(check_file(certificate, Subjects(task_file, policy_file)), Rejected)
