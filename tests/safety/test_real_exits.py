"""Fences over real values: there is always an action that stays, fenced policies are proved, forged proofs of them are rejected."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.grid import pack_marks, unpack_marks
from polvet.domains import generate
from polvet.errors import Where
from polvet.jani import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.semantics import Semantics
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.repair.fence import fence_exits
from polvet.safety.real_exits import find_real_exits, takes_exit
from polvet.sources import load_task
from polvet.verify.certificates import certificate_of
from polvet.verify.grid import GRID
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe


def car() -> Any:
    return generate("follow-car", tau=Fraction(1, 2))


def heater(folder: Path, *, cold: bool = True) -> Path:
    """A room that is kept between two temperatures by heating or waiting; without `cold`, waiting does not cool it."""
    m = ModelBuilder("heater")
    m.real("warmth", 0, 100, initial=20)
    m.real("memory", 0, 1, initial=0)
    m.edge("heat", to={"warmth": "warmth + 0.5 - 0.02 * (warmth - 10)", "memory": "memory"})
    m.edge("wait", to={"warmth": "warmth - 0.02 * (warmth - 10)" if cold else "warmth + 1", "memory": "memory"})
    (folder / "heater.jani").write_text(dump_model(m.build()))
    task = folder / "heater.toml"
    start = "18 <= warmth && warmth <= 22 && 0.4 <= memory && memory <= 0.6"
    task.write_text(
        f'model = "heater.jani"\nstart = "{start}"\nfail = "warmth >= 25 || warmth <= 15"\ngoal = "false"\n'
    )
    return task


def always(task: Any, label: str, comparison: str = "<") -> TreeEnsemble:
    """An ensemble that likes one label everywhere, but for a step in the first input that changes little."""
    names = tuple(v.name for v in task.network.variables)
    labels = tuple(task.network.labels)
    trees = []
    for output, name in enumerate(labels):
        score = 1.0 if name == label else 0.1 * output
        values = np.array([[0.0], [score], [score + 0.01]])
        trees.append(
            make_tree(
                output, [len(names) - 1, -1, -1], [20.0, 0, 0], [1, -1, -1], [2, -1, -1], values, None, MISSING_NAN
            )
        )
    return TreeEnsemble(names, labels, tuple(trees), (0.0,) * len(labels), comparison, "float32", 0.0)


@pytest.mark.parametrize("kind", ["car", "heater"])
def test_what_is_no_exit_stays_among_won_cells(kind: str, tmp_path: Path) -> None:
    """The interpreter from points of won cells, their ends among them: labels that are no exits stay, and one is applicable."""
    task = car().task() if kind == "car" else load_task(heater(tmp_path))
    exits = find_real_exits(task)
    assert not isinstance(exits, str)
    semantics = Semantics(task.network)
    goal, fails = semantics.compile(task.goal), semantics.compile(task.fail)
    rng = np.random.default_rng(1)
    won = np.flatnonzero(exits.won)
    low, high = exits.grid.boxes(won)
    begins = {tuple(row): number for number, row in enumerate(exits.cells.tolist())}
    whole = exits.grid.whole
    used = 0
    for at in rng.choice(len(won), 600):
        share = rng.choice([0.0, 1.0, rng.random()], len(whole))
        point = np.clip(low[at] + share * (high[at] - low[at]), low[at], high[at])
        state = tuple(int(np.floor(x)) if w else float(x) for x, w in zip(point, whole, strict=True))
        assert not fails(state)
        if goal(state):
            continue
        number = begins[tuple(float(np.float32(low[at][k])) for k in exits.variables)]
        free = {task.network.labels[k] for k in np.flatnonzero(~exits.labels[number])}
        moves = semantics.moves(state)
        assert any(move.label in free for move in moves)
        for move in moves:
            if move.label in free:
                for outcome in move.outcomes:
                    after = np.array([outcome.state], dtype=np.float64)
                    first, _ = exits.grid.spans(after, after)
                    assert exits.won.reshape(exits.grid.shape)[tuple(first[0])]
                    used += 1
    assert used > 300


@pytest.mark.parametrize("label", ["heat", "wait"])
def test_a_fenced_policy_is_proved_and_forged_certificates_are_rejected(label: str, tmp_path: Path) -> None:
    file = heater(tmp_path)
    task = load_task(file)
    careless = always(task, label)
    save_policy(careless, tmp_path / "careless.json")
    bound = compile_policy(load_fitted(task, tmp_path / "careless.json"))
    exits, repair = fence_exits(bound)
    assert exits is not None
    assert not isinstance(repair, str)
    assert takes_exit(bound.fitted, exits)
    save_policy(repair.policy, tmp_path / "fenced.json")
    fenced = compile_policy(load_fitted(task, tmp_path / "fenced.json"))
    assert not takes_exit(fenced.fitted, exits)
    found = verify(fenced, method="grid")
    assert isinstance(found, Safe)
    assert found.figures["tried"][-1].keys() >= {"won"}
    certificate = json.loads(json.dumps(certificate_of(fenced, found)))
    good, bad = Subjects(file, tmp_path / "fenced.json"), Subjects(file, tmp_path / "careless.json")
    assert isinstance(check(certificate, good, Where("c")), Accepted)
    total = int(np.prod([len(line) for line in certificate["lines"].values()]))
    marks = unpack_marks(certificate["cells"], total)
    listed = np.flatnonzero(marks)
    for k in (int(listed[0]), int(listed[len(listed) // 2]), int(listed[-1])):
        fewer = marks.copy()
        fewer[k] = False
        assert isinstance(check({**certificate, "cells": pack_marks(fewer)}, good, Where("c")), Rejected)
    # The same claim about the policy without its fence: with its own digest, it must fail for what the policy does.
    head = {key: value for key, value in certificate.items() if key != "policy_sha256"}
    forged = {**head, "policy_sha256": bound.fitted.sha256}
    said = check(forged, bad, Where("c"))
    assert isinstance(said, Rejected)
    assert "never return" in said.reason or "fail may be reached" in said.reason
    everything = {**forged, "cells": pack_marks(np.ones_like(marks))}
    assert isinstance(check(everything, bad, Where("c")), Rejected)


def test_nothing_is_fenced_where_no_action_stays(tmp_path: Path) -> None:
    task = load_task(heater(tmp_path, cold=False))
    assert find_real_exits(task) == "on no grid that was tried are all start states in won cells"


def test_networks_get_no_fence_over_real_values(tmp_path: Path) -> None:
    task = load_task(heater(tmp_path))
    names = [v.name for v in task.network.variables]
    layer = np.ones((2, len(names)), dtype=np.float32), np.zeros(2, dtype=np.float32)
    bound = compile_policy(fit(task, network_of([layer], names, list(task.network.labels))))
    assert fence_exits(bound)[1] == "a network gets no fence over real values"


@pytest.mark.parametrize("comparison", ["<", "<="])
def test_a_fenced_car_brakes_in_time(comparison: str) -> None:
    """It accelerates wherever it may: with the fence no simulated run fails, and the proof goes through."""
    task = car().task()
    bound = compile_policy(fit(task, always(task, "accelerate", comparison)))
    _, repair = fence_exits(bound)
    assert not isinstance(repair, str)
    assert isinstance(GRID(compile_policy(fit(task, repair.policy))), Safe)
