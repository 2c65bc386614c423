"""Mistakes in the code that the grid engine and its checker share: each proves something false, and single states refute it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polvet.check.flow as flow_module
import polvet.check.grid as grid_module
from polvet.budget import UNLIMITED, Budget
from polvet.check.checker import Accepted, Subjects, check
from polvet.check.flow import Flow, Moves
from polvet.check.grid import Grid
from polvet.check.returning import Plan
from polvet.errors import Where
from polvet.jani import dump_model
from polvet.model.build import ModelBuilder
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import load_task
from polvet.verify import grid as engine
from polvet.verify.certificates import certificate_of
from polvet.verify.grid_trial import GridTrial
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unknown

TRUE_STORED, TRUE_OUTPUTS, TRUE_WAYS = Moves._stored, Flow._possible_outputs, Moves._ways
TRUE_TRUTH, TRUE_BOXES = flow_module.truth_of, Moves.boxes


COLD = "warmth - 0.02 * (warmth - 10)"


def room(folder: Path, *, until: float = 20.0, gust: str = COLD, wide: str = "false") -> tuple[Path, Path]:
    """A room that a switch heats until a temperature; hardly ever a gust comes, and above 24 a window may open wide."""
    m = ModelBuilder("room")
    m.real("warmth", 0, 100, initial=20)
    m.edge("heat", to={"warmth": f"{COLD} + 0.6"})
    m.edge("wait", to=[("0.999999999", {"warmth": COLD}), ("0.000000001", {"warmth": gust})])
    m.edge("wait", guard=f"{wide} && warmth > 24", to={"warmth": "warmth - 15"})
    (folder / "room.jani").write_text(dump_model(m.build()))
    task = folder / "room.toml"
    conditions = {"start": "18 <= warmth && warmth <= 22", "fail": "warmth >= 26 || warmth <= 10", "goal": "false"}
    task.write_text("\n".join(['model = "room.jani"', *(f'{key} = "{value}"' for key, value in conditions.items())]))
    layer = np.array([[-1.0], [0.0]], dtype=np.float32), np.array([until, 0.0], dtype=np.float32)
    save_onnx(network_of([layer], ["warmth"], ["heat", "wait"]), str(folder / "switch.onnx"))
    return task, folder / "switch.onnx"


def loaded(folder: Path, **world: Any) -> tuple[Bound, Subjects]:
    task, policy = room(folder, **world)
    return compile_policy(load_fitted(load_task(task), policy)), Subjects(task, policy)


def nothing_fails(flow: Flow, sets: Any) -> Any:
    return np.zeros(len(sets), dtype=np.bool_)


def sets_end_too_early(moves: Moves, form: Any, place: int) -> Any:
    low, high = TRUE_STORED(moves, form, place)
    return np.minimum(low, 25.9), np.minimum(high, 25.9)


def boxes_are_their_lower_corners(moves: Moves, lower: Any, upper: Any) -> Any:
    return TRUE_BOXES(moves, lower, lower)


def waiting_is_forgotten_where_it_is_warm(flow: Flow, sets: Any, guards: Any) -> Any:
    possibly = TRUE_OUTPUTS(flow, sets, guards).copy()
    possibly[sets.ends[1][:, 0] > 23, 1] = False
    return possibly


def an_outcome_is_forgotten(flow: Moves) -> Any:
    ways = list(TRUE_WAYS(flow))
    return iter([*ways[:2], *ways[3:]])


def a_guard_is_never_true(condition: Any, forms: Any) -> Any:
    surely, possibly = TRUE_TRUTH(condition, forms)
    return (surely, np.zeros_like(possibly)) if "24" in str(condition) else (surely, possibly)


def everything_is_back(marks: Any) -> Any:
    return lambda first, last: np.ones(len(first), dtype=np.bool_)


@dataclass(frozen=True)
class Lie:
    """What is replaced by what, and a world in which that proves what is false."""

    home: Any
    name: str
    by: Any
    world: dict[str, Any]


LATER = {"gust": f"warmth < 20.4 ? 24.5 : {COLD}", "wide": "true"}
"""A gust leads to where a window opens wide, which leads to `fail`."""
LIES = [
    Lie(Flow, "may_fail", nothing_fails, {"until": 60.0}),
    Lie(Moves, "_stored", sets_end_too_early, {"gust": f"warmth > 21.9 ? 26.5 : {COLD}"}),
    Lie(Moves, "boxes", boxes_are_their_lower_corners, {"gust": f"warmth > 21.999 ? 27 : {COLD}"}),
    Lie(Flow, "_possible_outputs", waiting_is_forgotten_where_it_is_warm, LATER),
    Lie(Moves, "_ways", an_outcome_is_forgotten, {"gust": "warmth - 12"}),
    Lie(flow_module, "truth_of", a_guard_is_never_true, LATER),
    Lie(grid_module, "inside_of", everything_is_back, LATER),
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.by.__name__)
def test_a_mistake_that_engine_and_checker_share_is_found_state_by_state(lie, tmp_path, monkeypatch):
    bound, subjects = loaded(tmp_path, **lie.world)
    monkeypatch.setattr(engine, "ATTEMPTS", engine.ATTEMPTS[:3])
    monkeypatch.setattr(engine, "RUNS", 30)
    monkeypatch.setattr(lie.home, lie.name, lie.by)
    with monkeypatch.context() as alone:
        alone.setattr(GridTrial, "run", lambda *_: None)
        found = verify(bound, method="grid")
        assert isinstance(found, Safe)  # or the mistake would do no harm
        certificate = json.loads(json.dumps(certificate_of(bound, found)))
        assert isinstance(check(certificate, subjects, Where("c")), Accepted)  # the checker makes it, too
    with pytest.raises(RuntimeError, match=r"fails|never came back"):
        verify(bound, method="grid")


@pytest.mark.parametrize("world", [lie.world for lie in LIES], ids=str)
def test_without_a_mistake_these_worlds_are_not_proved(world, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "ATTEMPTS", engine.ATTEMPTS[:3])
    monkeypatch.setattr(engine, "RUNS", 30)
    bound, _ = loaded(tmp_path, **world)
    assert not isinstance(verify(bound, method="grid"), Safe)


def test_a_true_grid_stands_its_trial_and_false_ones_do_not(tmp_path):
    bound, subjects = loaded(tmp_path)
    found = verify(bound, method="grid")
    assert isinstance(found, Safe)
    assert isinstance(check(json.loads(json.dumps(certificate_of(bound, found))), subjects, Where("c")), Accepted)
    line = np.concatenate([[0.0], np.arange(15, 27, 0.25), [50.0]])
    grid = Grid((line,), np.array([100.0]), (False,))

    def tried(low, high, steps):
        marks = (line >= low) & (line < high)
        GridTrial(bound, grid, marks, Plan(steps, 1, 0, ()), seed=3).run(UNLIMITED)

    tried(18, 22, steps=1)
    with pytest.raises(RuntimeError, match="does not list the cell of the start state"):
        tried(18, 21, steps=1)
    with pytest.raises(RuntimeError, match="never came back"):
        tried(17, 22, steps=0)
    with pytest.raises(RuntimeError, match="fails"):
        tried(18, 27, steps=1)


def test_a_run_that_goes_away_for_long_needs_the_steps_it_takes(tmp_path):
    bound, _ = loaded(tmp_path, gust=f"warmth > 20 && warmth < 20.1 ? 25 : {COLD}")
    line = np.concatenate([[0.0], np.arange(15, 27, 0.125), [50.0]])
    grid = Grid((line,), np.array([100.0]), (False,))
    marks = (line >= 18) & (line < 22)
    GridTrial(bound, grid, marks, Plan(15, 1, 0, ()), seed=3).run(UNLIMITED)  # 0.98 ** 12 * 15 < 12
    with pytest.raises(RuntimeError, match="never came back"):
        GridTrial(bound, grid, marks, Plan(5, 1, 0, ()), seed=3).run(UNLIMITED)


def test_the_time_limit_is_kept_while_sets_are_followed(tmp_path, monkeypatch):
    """Nothing is ever back in listed cells here, and each step of all sets together takes a second."""
    bound, _ = loaded(tmp_path)
    true_step, steps = Flow.step, []

    def step(flow, sets):
        steps.append(len(sets))
        return true_step(flow, sets)

    monkeypatch.setattr(Flow, "step", step)
    monkeypatch.setattr(
        Grid, "inside", lambda grid, marks: lambda low, high, source: np.zeros(len(low), dtype=np.bool_)
    )
    found = verify(bound, method="grid", budget=Budget(3, clock=lambda: float(len(steps))))
    assert isinstance(found, Unknown)
    assert found.reason == "time limit of 3 s reached"
    assert len(steps) == 3
