"""Training: repeatable, and what comes out is a policy that fits the task and does what it was taught."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.cli.app import run
from polvet.domains import generate
from polvet.errors import InputError, Where
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit, load_fitted
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import Inspection, Judgement
from polvet.safety.decide import Decider
from polvet.sources import load_task
from polvet.train.lessons import potential_of
from polvet.train.teacher import explore_all, find_teacher, teacher_runs
from polvet.verdict import Verdict


def cliff():
    """Walking over a ledge: `safe` is slow, `fast` may fall; from `trap` every way leads down."""
    m = ModelBuilder("cliff")
    x = m.int("x", 0, 6, initial=0)
    m.edge("slow", guard=(x < 4), to={"x": x + 1})
    m.edge("fast", guard=(x == 1), to=[("1/2", {"x": 4}), ("1/2", {"x": 5})])
    m.edge("fast", guard=(x == 5), to={"x": 6})
    return m.task(fail=x == 6, goal=x == 4)


def test_the_safe_teacher_takes_only_actions_whose_outcomes_are_all_safe():
    task = generate("one-way-line", n=3, p=4).task()
    compiled, space = explore_all(task, budget=Budget(states=10**5))
    teacher = find_teacher(space, safe=True)
    decider = Decider(task, compiled=compiled)
    states = compiled.unpack(space.states)
    judged = decider.decide(states)
    for state, choice, verdict in zip(states, teacher.choice.tolist(), judged, strict=True):
        if choice >= 0 and verdict.verdict is Verdict.SAFE:
            assert task.network.labels[choice] in decider.safe_actions(state)


def test_the_optimal_teacher_weighs_risk_against_delay_as_its_values_say():
    task = cliff()
    compiled, space = explore_all(task, budget=Budget(states=100))
    states = [state[0] for state in compiled.unpack(space.states)]
    labels = task.network.labels
    best = find_teacher(space)
    assert labels[best.choice[states.index(1)]] == "slow"
    slow = best.values[states.index(1), labels.index("slow")]
    fast = best.values[states.index(1), labels.index("fast")]
    assert slow == pytest.approx(0.99**2)
    assert fast == pytest.approx(0.5 * 1 + 0.5 * 0.99 * -1)


def test_teacher_runs_follow_the_teacher_and_repeat_by_seed():
    task = generate("one-way-line", n=3, p=4).task()
    _, space = explore_all(task, budget=Budget(states=10**5))
    teacher = find_teacher(space)
    seen, taught = teacher_runs(teacher, runs=50, max_steps=100, noise=0.0, seed=4)
    assert (teacher.choice[seen] == taught).all()
    again = teacher_runs(teacher, runs=50, max_steps=100, noise=0.0, seed=4)
    assert (again[0] == seen).all()
    _, noisy = teacher_runs(teacher, runs=200, max_steps=100, noise=0.5, seed=4)
    assert len(noisy) > len(taught)


@pytest.fixture
def line(tmp_path):
    generate("one-way-line", n=3, p=4).write(tmp_path / "line.jani")
    return tmp_path / "line.toml"


def trained(arguments, capsys):
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_trees_learn_a_small_world_and_the_same_seed_gives_the_same_file(line, tmp_path, capsys):
    pytest.importorskip("xgboost")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        options = ["train", str(line), "--kind", "trees", "--runs", "200", "-o", str(file)]
        found = trained(options, capsys)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert found["figures"]["teacher"] == "optimal"
    assert len(found["figures"]["curve"]) == 20
    assert found["figures"]["goal_percent"] == 100
    bound = compile_policy(load_fitted(load_task(line), files[0]))
    from polvet.kernel.starts import Starts

    judged = Inspection(bound).judge(bound.compiled.pack_starts(Starts.of(bound.task)))
    assert set(judged) == {Judgement.SAFE}


def test_trees_learn_from_another_policy(line, tmp_path, capsys):
    pytest.importorskip("xgboost")
    labels = load_task(line).network.labels
    rules = {"format": "rules/1", "rules": [{"when": "true", "action": labels[0]}]}
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    for teacher, noise in (("random", "0"), (str(tmp_path / "rules.json"), "0.2")):
        options = ["train", str(line), "--kind", "trees", "--teacher", teacher, "--noise", noise, "--runs", "50"]
        figures = trained([*options, "-o", str(tmp_path / "r.json")], capsys)["figures"]
        assert figures["lessons"] > 0
        assert figures["teacher"] == teacher


@pytest.mark.slow
def test_a_network_learns_to_walk_and_the_same_seed_gives_the_same_weights(line, tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    files = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for file in files:
        options = ["train", str(line), "--kind", "mlp", "--hidden", "16,16", "--steps", "12000", "--max-steps", "40"]
        found = trained([*options, "-o", str(file)], capsys)
    assert files[0].read_bytes() == files[1].read_bytes()
    curve = found["figures"]["curve"]
    assert len(curve) == 20
    assert curve[-1]["fail_percent"] < curve[0]["fail_percent"]
    fitted = load_fitted(load_task(line), files[0])
    assert [layer.weights.shape[0] for layer in fitted.policy.layers] == [16, 16, len(fitted.task.network.labels)]
    assert all(np.isfinite(layer.weights).all() for layer in fitted.policy.layers)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--kind", "forest", "-o", "x"], "--kind"),
        (["--kind", "mlp"], "-o"),
        (["--kind", "mlp", "--hidden", "64,x", "-o", "x"], "--hidden"),
    ],
)
def test_bad_options_are_named(line, options, named, capsys):
    assert run(["train", str(line), *options]) == 30
    assert named in capsys.readouterr().err


def test_a_potential_is_an_expression_over_the_state():
    m = ModelBuilder("walk")
    x, y = m.int("x", 0, 9, initial=0), m.int("y", -3, 3, initial=1)
    m.edge("go", guard=x < 9, to={"x": x + 1, "y": -y})
    fitted = fit(m.task(goal=x == 9), CallablePolicy(("x",), ("go",), lambda state: "go"))
    states = [(0, 1), (4, -3), (9, 2)]
    potential = potential_of(fitted, "2 * x - y", Where("--shaping"))
    assert potential(compile_policy(fitted).compiled.pack(states)).tolist() == [2 * a - b for a, b in states]
    with pytest.raises(InputError, match="a potential is a number"):
        potential_of(fitted, "x == 3", Where("--shaping"))


@pytest.mark.slow
def test_shaping_changes_what_is_learnt_and_repeats_by_seed(line, tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    options = ["train", str(line), "--kind", "mlp", "--hidden", "8", "--steps", "1500", "--max-steps", "20"]
    for name, shaping in (("a", "truck_0"), ("b", "truck_0"), ("plain", None), ("nothing", "0 * truck_0")):
        extra = [] if shaping is None else ["--shaping", shaping]
        trained([*options, *extra, "-o", str(tmp_path / f"{name}.onnx")], capsys)
    written = {name: (tmp_path / f"{name}.onnx").read_bytes() for name in ("a", "b", "plain", "nothing")}
    assert written["a"] == written["b"] != written["plain"] == written["nothing"]
    assert run([*options, "--shaping", "truck_9", "-o", str(tmp_path / "c.onnx")]) == 30
    assert "truck_9" in capsys.readouterr().err
