"""Regions of safe start states: exactly those that enumeration finds, with certificates that speak of them and of no others."""

from __future__ import annotations

import copy
import os
import random
from dataclasses import dataclass

import pytest

import polvet
from polvet.budget import Budget
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.claim import meaning_of
from polvet.errors import Where
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics
from polvet.policy.compiled import compile_policy
from polvet.verify import safe_starts_explicit
from polvet.verify.safe_starts import find_safe_starts
from tests.verify.oracle import truth
from tests.verify.small_tasks import KINDS, random_task

TASKS = 32 * int(os.environ.get("POLVET_ROUNDS", "1"))
"""Random tasks for each of the two methods."""
SYMBOLIC = ("network", "dyadic", "trees")


@dataclass
class Case:
    """A random task, what enumeration says of each start state, and what was found."""

    task: object
    known: dict
    found: object
    certificate: dict | None
    subjects: Subjects

    @property
    def safe(self):
        return {start for start, word in self.known.items() if word == "safe"}

    def among(self, region):
        """The start states of a region: its meaning, told apart from the checker's and the engine's code."""
        ((side, boxes),) = region.items()
        names = [variable.name for variable in self.task.network.variables]
        is_fail = Semantics(self.task.network).compile(self.task.fail)
        chosen = set()
        for start in self.known:
            value = dict(zip(names, start, strict=True))
            boxed = any(all(low <= value[name] <= high for name, (low, high) in box.items()) for box in boxes)
            if boxed if side == "in" else not (boxed or is_fail(start)):
                chosen.add(start)
        return chosen


def solved(seed, folder, kinds=KINDS):
    task, fitted, files = random_task(seed, folder, kinds)
    known = {start: truth(fitted, [start]).verdict for start in Starts.of(task).states()}
    found, certificate = find_safe_starts(compile_policy(fitted), budget=Budget(30))
    return Case(task, known, found, certificate, Subjects(*files))


def check_case(case):
    """What the answer says is what enumeration says, start by start."""
    assert case.found.reason is None or "near-tie" in case.known.values()
    if case.certificate is None:
        assert not case.safe
    else:
        assert isinstance(check(case.certificate, case.subjects, Where("c")), Accepted)
        if case.certificate["kind"] == "safe-region":
            assert case.among(case.certificate["region"]) == case.safe
            assert (case.found.starts, case.found.proved) == (len(case.known), len(case.safe))
        else:
            assert case.safe == set(case.known)
    assert case.found.is_unsafe == ("unsafe" in case.known.values())
    assert all(case.known[one.run.states[0]] == "unsafe" for one in case.found.rest if one.run is not None)


def test_explicit_search_finds_exactly_the_safe_starts(tmp_path):
    regions = 0
    for seed in range(TASKS):
        case = solved(seed, tmp_path)
        check_case(case)
        regions += case.certificate is not None and case.certificate["kind"] == "safe-region"
    assert regions > TASKS // 4  # neither all nor none of the starts


def test_backward_blocking_finds_exactly_the_safe_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(safe_starts_explicit, "MOST_STARTS", 0)
    regions = 0
    for seed in range(TASKS):
        case = solved(1000 + seed, tmp_path, SYMBOLIC)
        assert case.found.method == "ic3"
        check_case(case)
        regions += case.certificate is not None and case.certificate["kind"] == "safe-region"
    assert regions > TASKS // 4


def widened(region, rng):
    """Yield regions that say more: a box added to those inside, or one taken from those left out, or moved by one."""
    ((side, boxes),) = region.items()
    for k, box in enumerate(boxes):
        if side == "out":
            yield {side: boxes[:k] + boxes[k + 1 :]}
        for name, (low, high) in box.items():
            for ends in ([low - 1, high], [low, high + 1], [low + 1, high], [low, high - 1]):
                yield {side: [*boxes[:k], {**box, name: ends}, *boxes[k + 1 :]]}
            yield {side: [*boxes[:k], {n: e for n, e in box.items() if n != name}, *boxes[k + 1 :]]}
    yield {"in" if side == "out" else "out": boxes}
    yield {"in": [{}]}
    yield {"out": []}


@pytest.mark.parametrize("most", [safe_starts_explicit.MOST_STARTS, 0], ids=["explicit", "ic3"])
def test_a_region_that_says_more_than_is_true_is_rejected(tmp_path, monkeypatch, most):
    monkeypatch.setattr(safe_starts_explicit, "MOST_STARTS", most)
    rng, rejected = random.Random(1), 0
    for seed in range(TASKS // 2):
        case = solved(5000 + seed, tmp_path, SYMBOLIC)
        if case.certificate is None or case.certificate["kind"] != "safe-region":
            continue
        for region in widened(case.certificate["region"], rng):
            mutated = {**case.certificate, "region": region}
            if not case.among(region) <= case.safe:
                assert isinstance(check(mutated, case.subjects, Where("c")), Rejected), (seed, region)
                rejected += 1
    assert rejected > 20


@pytest.mark.parametrize("most", [safe_starts_explicit.MOST_STARTS, 0], ids=["explicit", "ic3"])
def test_a_region_is_not_taken_for_all_start_states(tmp_path, monkeypatch, most):
    monkeypatch.setattr(safe_starts_explicit, "MOST_STARTS", most)
    tried = 0
    for seed in range(TASKS // 4):
        case = solved(7000 + seed, tmp_path, SYMBOLIC)
        if case.certificate is None or case.certificate["kind"] != "safe-region":
            continue
        tried += 1
        head = {k: v for k, v in case.certificate.items() if k not in ("kind", "region", "proof")}
        whole = {**head, **case.certificate["proof"]}
        assert isinstance(check(whole, case.subjects, Where("c")), Rejected)
        assert isinstance(check({**whole, "region": case.certificate["region"]}, case.subjects, Where("c")), Rejected)
    assert tried > 1


def test_a_proof_must_not_speak_of_itself(tmp_path):
    case = next(
        one
        for seed in range(50)
        if (one := solved(seed, tmp_path)).certificate is not None and one.certificate["kind"] == "safe-region"
    )
    for key, value in (("options", {"fail": "false"}), ("region", {"out": []}), ("task_sha256", "0" * 64)):
        bad = copy.deepcopy(case.certificate)
        bad["proof"][key] = value
        assert isinstance(check(bad, case.subjects, Where("c")), Rejected)
    for key, value in (
        ("proof", None),
        ("proof", {"kind": "grid"}),
        ("region", {}),
        ("region", {"in": [{"q": [0, 1]}]}),
    ):
        assert isinstance(check({**case.certificate, key: value}, case.subjects, Where("c")), Rejected)


def test_the_safe_region_of_a_task_is_what_is_decided_state_by_state(tmp_path):
    regions = 0
    for seed in range(TASKS // 2):
        task, _, files = random_task(9000 + seed, tmp_path)
        opened = polvet.load(files[0])
        decided = opened.decide(workers=1)
        found = opened.decide(region=True, workers=1)
        assert found.proved == sum(one is True for one in decided.safe)
        assert found.checked
        if not any(decided.safe):
            assert found.certificate["kind"] == "unsafe-rank"
            continue
        assert found.certificate["kind"] == "safe-region"
        assert polvet.certify(found, opened).accepted
        case = Case(task, dict.fromkeys(Starts.of(task).states(), ""), None, None, None)
        safe = {tuple(state.values()) for state, one in zip(decided.states, decided.safe, strict=True) if one}
        assert case.among(found.certificate["region"]) == safe
        regions += len(safe) < len(case.known)
        for region in widened(found.certificate["region"], random.Random(seed)):
            if not case.among(region) <= safe:
                assert not polvet.certify({**found.certificate, "region": region}, opened).accepted
    assert regions > 2


def test_the_condition_can_be_given_back_as_a_start(tmp_path):
    for seed in range(30):
        _, _, (task, policy) = random_task(seed, tmp_path)
        found = polvet.load(task).policy(policy).verify(region=True)
        if found.certificate is None or found.certificate["kind"] != "safe-region":
            continue
        start = meaning_of(polvet.load(task).model_task)["start"]
        fail = meaning_of(polvet.load(task).model_task)["fail"]
        again = polvet.load(task, start=f"({start}) & ({found.condition}) & !({fail})")
        assert again.policy(policy).verify().verdict is polvet.Verdict.SAFE
