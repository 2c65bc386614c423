"""Listed states checked in bulk: the verdict is the slow interpreter's, on true and on forged certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet import _core
from polvet.check import bulk, listed_states
from polvet.check.bulk import Bulk
from polvet.check.checker import Accepted, CheckResult, Subjects, check
from polvet.domains import generate
from polvet.errors import Where
from polvet.jani import dump_model
from polvet.kernel.starts import Starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import FAIL, GOAL, compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.records.packed import pack_columns
from polvet.sources import load_task

WORLDS: dict[str, dict[str, Any]] = {
    "transport": {"locations": 3, "packages": 3}, "blocksworld": {"n": 3, "cost": 2}, "one-way-line": {"n": 3, "p": 3},
    "two-way-line": {"n": 2, "p": 3, "icy": True}, "sliding-tiles": {"n": 3, "cost": 1},
}  # fmt: skip


def both(
    certificate: dict[str, Any], subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> tuple[CheckResult, CheckResult]:
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(bulk, "FEW", few)
        found.append(check(certificate, subjects, Where("c")))
    return found[0], found[1]


@pytest.mark.parametrize("world", sorted(WORLDS))
@pytest.mark.parametrize("mode", ["filtered", "raw"])
def test_bulk_and_interpreter_agree(world: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "raw":  # keys of several words, as in worlds with many variables
        monkeypatch.setattr(listed_states, "LARGEST_WORD", 2**5)
    instance = generate(world, **WORLDS[world])
    task = instance.task()
    (tmp_path / "m.jani").write_text(dump_model(instance.model))
    from polvet.model.infix import dump_expression

    text = "".join(
        f"{role} = {json.dumps(dump_expression(part))}\n"
        for role, part in (("start", task.start), ("fail", task.fail), ("goal", task.goal))
        if part
    )
    (tmp_path / "t.toml").write_text(f"model = 'm.jani'\n{text}[policy]\nmode = '{mode}'\n")
    task = load_task(tmp_path / "t.toml")
    names = [v.name for v in task.network.variables if not v.is_location]
    labels = list(task.network.labels)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        layers = [
            (rng.normal(size=(5, len(names))).astype(np.float32), rng.normal(size=5).astype(np.float32)),
            (rng.normal(size=(len(labels), 5)).astype(np.float32), rng.normal(size=len(labels)).astype(np.float32)),
        ]
        policy = tmp_path / f"{seed}.onnx"
        save_onnx(network_of(layers, names, labels), str(policy))
        fitted = load_fitted(task, policy)
        bound = compile_policy(fitted)
        # Everything reached, past fail states too: `fail` is nothing special to this search.
        reach = _core.Reachability(bound.core, -1, GOAL, False, False)
        for block in Starts.of(task).blocks():
            reach.add_starts(bound.compiled.machine.pack(block))
        reach.close(1, 60.0, 2**33, 20_000, None)
        rows = bound.compiled.machine.unpack(reach.states())
        head = {"kind": "reachable-set", "task_sha256": task.sha256, "policy_sha256": fitted.sha256}
        subjects = Subjects(tmp_path / "t.toml", policy)

        def claim(some: Any) -> dict[str, Any]:
            return {**head, "count": len(some), "states": pack_columns(task.network.variables, some)}  # noqa: B023

        true, truth = both(claim(rows), subjects, monkeypatch)
        assert type(true) is type(truth)
        for k in rng.choice(len(rows), min(3, len(rows)), replace=False):
            forged, judged = both(claim(np.delete(rows, k, axis=0)), subjects, monkeypatch)
            assert type(forged) is type(judged)
            assert not isinstance(judged, Accepted) or not isinstance(truth, Accepted)


def test_most_worlds_are_read_in_bulk() -> None:
    from polvet.check.arena import Arena
    from polvet.check.followed import Followed
    from polvet.model.semantics import Semantics
    from polvet.policy.binding import fit

    for world in ("transport", "blocksworld", "one-way-line", "sliding-tiles"):
        task = generate(world, **WORLDS[world]).task()
        names = [v.name for v in task.network.variables if not v.is_location]
        labels = list(task.network.labels)
        zero = np.zeros((len(labels), len(names)), dtype=np.float32), np.zeros(len(labels), dtype=np.float32)
        semantics = Semantics(task.network)
        arena = Arena(task, semantics, semantics.compile(task.fail), semantics.compile(task.goal), world)
        columns = [np.zeros(0, dtype=np.int64) for _ in task.network.variables]
        assert len(Bulk(Followed(arena, fit(task, network_of([zero], names, labels))), columns).states) == 0
        assert FAIL == 0
