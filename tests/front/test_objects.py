"""Policies in memory, of every library, on two worlds: judged, repaired, saved, and loaded again by the library that made them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import polvet
from polvet.domains.shipped import shipped_files
from polvet.errors import InputError

pytestmark = pytest.mark.slow
ROWS = 10_000


def rift():
    """A hundred by a hundred fields; a rift at x = 50 has a bridge at the top. The teacher forgets the rift in some rows."""
    m = polvet.ModelBuilder("rift")
    x, y = m.int("x", 0, 99, initial=0), m.int("y", 0, 99, initial=0)
    free = (x < 99) & ((x < 50) | (x > 50) | (y >= 90))
    m.edge("right", guard=free, to={x: x + 1})
    m.edge("up", guard=free & (y < 99), to={y: y + 1})
    task = polvet.load(m, start="x <= 60 && (x != 50 || y >= 90)", fail="x == 50 && y < 90", goal="x == 99")
    rows = np.array([(a, b) for a in range(100) for b in range(100)], dtype=np.float32)
    up = (rows[:, 0] <= 49) & (rows[:, 1] < 90) & ((rows[:, 1] < 45) | (rows[:, 1] > 55))
    return task, rows, up.astype(int)


def line(tmp_path):
    """The shipped line of trucks: all its states, labelled by its faulty policy."""
    for file in shipped_files():
        shutil.copy(file, tmp_path)
    task = polvet.load(tmp_path / "one-way-line-8-5.toml")
    task.explore().save(tmp_path / "states.jsonl")
    states = [json.loads(text) for text in (tmp_path / "states.jsonl").read_text().splitlines()]
    rows = np.array([[state[name] for name in task.variables] for state in states], dtype=np.float32)
    faulty = task.policy(tmp_path / "one-way-line-8-5-faulty.json").fitted.policy
    assert faulty.inputs == task.variables
    return task, rows, np.array([task.labels.index(faulty.outputs[k]) for k in faulty.choose(rows)])


def booster(task, rows, chosen):
    xgboost = pytest.importorskip("xgboost")
    options = {"objective": "multi:softprob", "num_class": len(task.labels), "nthread": 1, "max_depth": 8}
    return xgboost.train(options, xgboost.DMatrix(rows, label=chosen), 10)


def lightgbm(task, rows, chosen):
    library = pytest.importorskip("lightgbm")
    return library.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1, min_child_samples=1).fit(rows, chosen)


def tree(task, rows, chosen):
    return pytest.importorskip("sklearn.tree").DecisionTreeClassifier(random_state=0).fit(rows, chosen)


def forest(task, rows, chosen):
    library = pytest.importorskip("sklearn.ensemble")
    return library.RandomForestClassifier(5, random_state=0, n_jobs=1).fit(rows, chosen)


def _taught(parameters, scores, rows, chosen):
    """Teach a network its choices, enough to be worth judging."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    steps, given, wanted = torch.optim.Adam(parameters, 0.01), torch.from_numpy(rows), torch.from_numpy(chosen)
    for _ in range(200):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(scores(given), wanted).backward()
        steps.step()


def module(task, rows, chosen):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    made = torch.nn.Sequential(
        torch.nn.Linear(rows.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, len(task.labels))
    )
    _taught(made.parameters(), made, rows, chosen)
    return made


def ppo(task, rows, chosen):
    library = pytest.importorskip("stable_baselines3")
    import torch

    made = library.PPO(
        "MlpPolicy", task.env(), policy_kwargs={"net_arch": [32], "activation_fn": torch.nn.ReLU}, device="cpu", seed=0
    )
    _taught(
        made.policy.parameters(), lambda given: made.policy.get_distribution(given).distribution.logits, rows, chosen
    )
    return made


def table(task, rows, chosen):
    return {tuple(map(int, row)): task.labels[k] for row, k in zip(rows, chosen, strict=True)}


def function(task, rows, chosen):
    known = table(task, rows, chosen)
    return lambda state: known.get(tuple(int(state[name]) for name in task.variables), task.labels[0])


def answers(given, task, rows):
    """What the library itself chooses: the numbers of labels."""
    kind = type(given).__module__.split(".")[0]
    if kind == "xgboost":
        import xgboost

        return given.predict(xgboost.DMatrix(rows)).argmax(1)
    if kind == "torch":
        import torch

        with torch.no_grad():
            return given(torch.from_numpy(rows)).argmax(1).numpy()
    if kind == "stable_baselines3":
        return given.predict(rows, deterministic=True)[0]
    if isinstance(given, dict):
        return np.array([task.labels.index(given[tuple(map(int, row))]) for row in rows])
    if callable(given):
        return np.array(
            [task.labels.index(given(dict(zip(task.variables, map(int, row), strict=True)))) for row in rows]
        )
    return given.predict(rows)


def loaded(given, file):
    """What the library that made the object reads from the file."""
    kind = type(given).__module__.split(".")[0]
    if kind == "xgboost":
        fresh = type(given)()
        fresh.load_model(file)
        return fresh
    if kind == "lightgbm":
        import lightgbm

        raw = lightgbm.Booster(model_file=str(file))
        return type("Read", (), {"predict": staticmethod(lambda rows: _best(raw.predict(rows)))})()
    if kind == "sklearn":
        import skops.io

        return skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
    if kind == "stable_baselines3":
        return type(given).load(file, device="cpu")
    if kind == "torch":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return type("Read", (), {"predict": staticmethod(lambda rows: session.run(None, {name: rows})[0].argmax(1))})()
    return _table_in(file)


def _table_in(file):
    document = json.loads(file.read_text())
    return {
        tuple(row["state"].values()): row["action"]
        if "action" in row
        else document["outputs"][int(np.argmax(row["scores"]))]
        for row in document["rows"]
    }


def _best(scores):
    return (scores > 0.5).astype(int) if scores.ndim == 1 else scores.argmax(1)


MAKERS = {
    "Booster": (booster, ".json"), "LGBMClassifier": (lightgbm, ".txt"), "DecisionTreeClassifier": (tree, ".skops"),
    "RandomForestClassifier": (forest, ".skops"), "PPO": (ppo, ".zip"), "Sequential": (module, ".onnx"),
    "dict": (table, ".json"), "function": (function, None),
}  # fmt: skip


@pytest.mark.parametrize("world", ["rift", "line"])
@pytest.mark.parametrize("kind", MAKERS)
def test_an_object_is_judged_repaired_saved_and_read_again_by_its_library(kind, world, tmp_path):
    task, rows, chosen = rift() if world == "rift" else line(tmp_path)
    make, suffix = MAKERS[kind]
    taught = slice(None) if kind in ("dict", "function") else slice(None, None, len(rows) // ROWS)
    given = make(task, rows[taught], chosen[taught])
    rows = np.random.default_rng(0).permutation(rows)[:ROWS]
    assert kind == "function" or type(given).__name__ == kind
    policy = task.policy(given)
    same = answers(given, task, rows)
    mine = policy.fitted.policy
    assert np.array_equal([task.labels.index(mine.outputs[k]) for k in mine.choose(rows)], same)
    shares = policy.evaluate(starts=200, runs=10)
    result = policy.verify(time_limit=60)
    assert result.verdict in (polvet.Verdict.SAFE, polvet.Verdict.UNSAFE)
    assert shares.unsafe_percent == 0 or result.verdict is polvet.Verdict.UNSAFE
    assert result.checked
    assert polvet.certify(result, task, given).accepted
    faults = policy.faults()
    assert faults.exhaustive
    assert bool(len(faults)) is (result.verdict is polvet.Verdict.UNSAFE)
    if kind == "function":
        for verb in (lambda: policy.repair(faults), lambda: policy.save(tmp_path / "function")):
            with pytest.raises(polvet.InputError, match="a Python function"):
                verb()
        return
    better = policy.repair(faults, time_limit=120) if len(faults) else policy
    if len(faults):
        assert better.repaired.figures["faults_fixed"] > 0
        if better.repaired.verdict is polvet.Verdict.REPAIRED:
            left = {tuple(one.state.items()) for one in better.faults()} & {tuple(one.state.items()) for one in faults}
            assert not left
    assert type(better.object) is type(given)
    saved = better.save(tmp_path / f"better{suffix}")
    again, wanted = loaded(given, saved), answers(better.object, task, rows)
    assert np.array_equal(answers(again, task, rows), wanted)
    fresh = task.policy(saved).fitted.policy
    assert np.array_equal([task.labels.index(fresh.outputs[k]) for k in fresh.choose(rows)], wanted)
    assert len(faults) == 0 or (wanted != same).any()


def test_the_network_of_an_agent_is_refused_and_the_agent_named():
    library = pytest.importorskip("stable_baselines3")
    gymnasium = pytest.importorskip("gymnasium")
    model = library.PPO("MlpPolicy", gymnasium.make("FrozenLake-v1"), n_steps=8, batch_size=8, device="cpu")
    task = polvet.load("gym:FrozenLake-v1")
    with pytest.raises(InputError, match="Give the model itself"):
        task.policy(model.policy)
    assert task.policy(model).digest
