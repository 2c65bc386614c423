"""Fences: exits are what may leave the won cells, and a fenced policy does what it did but for exits, and is safe."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.campaign import examination, steps
from polvet.campaign.loop import debug
from polvet.campaign.outcome import Outcome
from polvet.campaign.settings import Settings
from polvet.check.checker import Accepted, Subjects, check_file
from polvet.domains import generate
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.model.task import Avoid
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.policy.tables import Table
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.repair.fence import fence
from polvet.safety.exits import find_exits
from polvet.sources import load_task
from polvet.symbolic.linear import NotLinear
from polvet.verify.explicit import Search
from polvet.verify.methods import METHODS
from polvet.verify.portfolio import verify
from polvet.verify.projection import PROJECTION
from polvet.verify.verdicts import Safe, Unknown, Unsafe
from tests.verify.line_policies import random_line_policy

LINES = {
    "two-way": generate("two-way-line", n=3, p=4, icy=True),
    "parking": generate("two-way-line", n=3, p=3, icy=True, park=True),
    "one-way": generate("one-way-line", n=1, p=6, icy=True, park=True),
}


@pytest.fixture(scope="module", params=sorted(LINES))
def task(request):
    return LINES[request.param].task()


def states_of(task, exits, semantics):
    """States in won cells from which a run goes on, with the number of their cell, out of all combinations of values."""
    ranges = [
        (False, True) if variable.lower is None else range(int(variable.lower), int(variable.upper) + 1)
        for variable in task.network.variables
    ]
    cell_of = {tuple(cell): number for number, cell in enumerate(exits.cells.tolist())}
    ended = [semantics.compile(task.fail), semantics.compile(task.goal)]
    for k, state in enumerate(product(*ranges)):
        if k % 11:  # a part of many
            continue
        number = cell_of.get(tuple(int(state[k]) for k in exits.variables))
        if number is not None and not any(test(state) for test in ended):
            yield number, state


def test_actions_that_are_no_exits_stay_and_there_is_always_one(task):
    exits = find_exits(task)
    semantics = Semantics(task.network)
    won = {tuple(cell) for cell in exits.cells.tolist()}
    names = task.network.labels
    seen = left = 0
    for number, state in states_of(task, exits, semantics):
        try:
            moves = semantics.moves(state)
        except InputError:  # a step beyond the bounds: no state of a run
            continue
        forbidden = {names[label] for label in exits.labels[number].nonzero()[0]}
        for move in moves:
            inside = all(tuple(int(o.state[v]) for v in exits.variables) in won for o in move.outcomes)
            assert inside or move.label in forbidden
            left += not inside
        assert not moves or any(move.label not in forbidden for move in moves)
        seen += 1
    assert seen > 100
    assert left > 10


def random_network(task, seed):
    """A small network with random weights over all variables."""
    rng = np.random.default_rng(seed)
    sizes = [len(task.network.variables), 8, *([6] if seed % 2 else []), len(task.network.labels)]
    layers = [
        (rng.normal(size=(b, a)).astype(np.float32), rng.normal(size=b).astype(np.float32)) for a, b in pairwise(sizes)
    ]
    return network_of(layers, [variable.name for variable in task.network.variables], list(task.network.labels))


@pytest.mark.parametrize("make", [random_line_policy, random_network], ids=["trees", "network"])
def test_a_fenced_policy_is_safe_and_takes_its_best_action_that_is_no_exit(task, make):
    exits = find_exits(task)
    semantics = Semantics(task.network)
    names = task.network.labels
    saved = changed = 0
    for seed in range(6):
        bound = compile_policy(fit(task, make(task, seed)))
        made = fence(bound.fitted, exits, [], bound.compiled)
        after = fit(task, made.policy)
        assert isinstance(PROJECTION(compile_policy(after)), Safe)
        assert isinstance(Search(compile_policy(after)).go_on(Budget()), Safe)
        saved += isinstance(Search(bound).go_on(Budget()), Unsafe)
        for k, (number, state) in enumerate(states_of(task, exits, semantics)):
            if k % 4:
                continue
            try:
                labels = semantics.applicable(state)
            except InputError:
                continue
            forbidden = {names[label] for label in exits.labels[number].nonzero()[0]}
            rest = [label for label in labels if label not in forbidden]
            if labels:
                assert after.choose(state, labels) == bound.fitted.choose(state, rest)
                changed += after.choose(state, labels) != bound.fitted.choose(state, labels)
    assert saved
    assert changed


def test_what_gets_no_fence_says_why():
    task = LINES["two-way"].task()
    exits = find_exits(task)
    names = [variable.name for variable in task.network.variables]
    blind = fit(task, network_of([([[0.0]], [0.0])], names[:1], [task.network.labels[0]]))
    assert "does not read" in fence(blind, exits, [], compile_policy(blind).compiled)
    table = fit(task, Table(tuple(names), task.network.labels, {}, 0))
    assert "no fence" in fence(table, exits, [], compile_policy(table).compiled)
    leaf = make_tree(
        0, np.array([-1]), np.zeros(1), np.array([-1]), np.array([-1]), np.array([[1.0]]), None, MISSING_NAN
    )
    stump = fit(task, TreeEnsemble(tuple(names[:1]), task.network.labels, (leaf,), (0.0,) * 5, "<", "float32", 0.0))
    assert "does not read" in fence(stump, exits, [], compile_policy(stump).compiled)
    with pytest.raises(NotLinear, match="nothing is won"):
        find_exits(generate("one-way-line", n=3, p=4).task())


@pytest.mark.slow
def test_a_campaign_ends_with_a_fence_and_a_proof(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "QUICK_STATES", 10)
    monkeypatch.setattr(steps, "QUICK_PROOF", 10)
    LINES["two-way"].write(tmp_path / "line.jani")
    task = load_task(tmp_path / "line.toml")
    fenced = 0
    for seed in range(3):
        save_policy(random_line_policy(task, seed), tmp_path / "policy.json")
        found = debug(task, tmp_path / "policy.json", tmp_path / f"campaign-{seed}", Settings(starts=200))
        assert found.outcome is Outcome.SAFE
        proofs = [record for record in found.records if record.step.name == "strengthen" and record.files]
        fenced += len(proofs)
        subjects = Subjects(tmp_path / "line.toml", found.policy)
        assert isinstance(check_file(found.certificate, subjects), Accepted)
    assert fenced


@pytest.mark.slow
def test_where_the_quick_proof_of_a_fenced_policy_is_cut_short_the_others_still_run(tmp_path, monkeypatch):
    """The proof over a few variables stays open, as a limit would leave it; then `auto` verifies, under a key of its own."""
    monkeypatch.setattr(examination, "QUICK_STATES", 10)
    monkeypatch.setattr(steps, "QUICK_PROOF", 10)

    def cut_short(bound, *, method="auto", **options):
        return Unknown("cut short", method) if method == "projection" else verify(bound, method=method, **options)

    for part in (examination, steps):
        monkeypatch.setattr(part, "verify", cut_short)
    LINES["two-way"].write(tmp_path / "line.jani")
    task = load_task(tmp_path / "line.toml")
    save_policy(random_line_policy(task, 0), tmp_path / "policy.json")
    for seconds in (None, 600):
        folder = tmp_path / f"campaign-{seconds}"
        settings = Settings(starts=200)
        found = debug(task, tmp_path / "policy.json", folder, settings, budget=Budget(seconds))
        keys = [(record.iteration, record.step.name) for record in found.records]
        assert len(set(keys)) == len(keys)
        fenced = next(record.iteration for record in found.records if record.step.name == "prove")
        verdicts = {r.step.name: r.figures.verdict for r in found.records
                    if r.iteration == fenced and r.step.name in ("prove", "verify")}  # fmt: skip
        assert verdicts == {"prove": "unknown", "verify": "safe"}
        assert found.outcome is Outcome.SAFE
        assert isinstance(check_file(found.certificate, Subjects(tmp_path / "line.toml", found.policy)), Accepted)
        resumed = debug(task, tmp_path / "policy.json", folder, settings, budget=Budget(seconds))
        assert resumed.records == found.records


def test_methods_that_know_no_other_failure_than_fail_refuse_others(task):
    strict = replace(task, avoid=Avoid(stuck=True))
    bound = compile_policy(fit(strict, random_line_policy(task, 0)))
    for method in METHODS:
        if method != "explicit":
            with pytest.raises(InputError, match="no other failure"):
                verify(bound, method=method)
