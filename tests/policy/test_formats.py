"""Formats are data: every one obeys the laws on a file of its own, and the laws catch formats that break them."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.policy import Content, Names, check_policy_format, load_policy, save_policy
from polvet.policy.conditions import model_condition
from polvet.policy.formats import FORMATS
from polvet.policy.load import format_of
from polvet.policy.networks import network_of
from polvet.policy.rules import rules_from_json
from polvet.policy.signatures import SIGNATURES
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble, make_tree

WHERE = Content("here", b"").where


def network():
    rng = np.random.default_rng(3)
    layers = [(rng.normal(size=(4, 2)), rng.normal(size=4)), (rng.normal(size=(2, 4)), rng.normal(size=2))]
    return network_of(layers, ["x", "y"], ["a", "b"])


def table():
    rows = {(float(x), float(y)): (x + 0.5, 2.0 * y) for x in range(8) for y in range(8)}
    return Table(("x", "y"), ("a", "b"), rows)


def trees():
    stumps = [make_tree(k, [k, -1, -1], [2.5, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1.5, -1]) for k in (0, 1)]
    return TreeEnsemble(("x", "y"), ("a", "b"), tuple(stumps), (0.5, 0.25))


def rules():
    listed = [{"when": "x > 2", "action": "a"}, {"when": "y >= 0 || true", "action": "b"}]
    return rules_from_json({"format": "rules/1", "rules": listed}, WHERE, model_condition)


def lightgbm(file):
    library = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 8, size=(200, 2)).astype(np.float32)
    options = {"objective": "multiclass", "num_class": 3, "num_threads": 1, "verbose": -1}
    data = library.Dataset(rows, rows.sum(axis=1) % 3)
    library.train(options, data, num_boost_round=2).save_model(str(file))


def skops(file):
    pytest.importorskip("skops")
    from sklearn.tree import DecisionTreeClassifier
    from skops.io import dump

    rows = np.random.default_rng(5).integers(0, 8, size=(200, 2))
    dump(DecisionTreeClassifier(max_depth=4, random_state=0).fit(rows, rows.sum(axis=1) % 3), file)


def stable_baselines(file):
    pytest.importorskip("sb3_contrib")
    gymnasium = pytest.importorskip("gymnasium")
    from stable_baselines3 import PPO

    PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=32, batch_size=32, device="cpu", seed=1).save(file)


def mogym(file):
    matrix = {"kind": "Linear", "weights": [[1.0, 0.5], [-1.0, 2.0]], "biases": [0.1, 0.2], "inputSize": 2}
    last = {"kind": "Linear", "weights": [[1.0, -1.0], [0.3, 2.0]], "biases": [0.0, 0.5], "inputSize": 2}
    layers = [{**matrix, "outputSize": 2}, {"kind": "ReLU"}, {**last, "outputSize": 2}]
    file.write_text(json.dumps({"layers": layers}))


MADE = {
    "onnx": ("p.onnx", network),
    "xgboost": ("p.json", trees),
    "lightgbm": ("p.txt", lightgbm),
    "skops": ("p.skops", skops),
    "stable-baselines3": ("p.zip", stable_baselines),
    "nnet": ("p.nnet", network),
    "jani2nnet": ("p.jani2nnet", network),
    "mogym": ("p.json", mogym),
    "table": ("p.json", table),
    "rules": ("p.json", rules),
    "numpy": ("p.npy", table),
}


@pytest.fixture(params=list(FORMATS))
def made(request, tmp_path):
    """A format, and a file of it."""
    name, maker = MADE[request.param]
    file = tmp_path / name
    if maker in (lightgbm, skops, stable_baselines, mogym):
        maker(file)
    else:
        if request.param == "onnx":
            pytest.importorskip("onnx")
        save_policy(maker(), file)
    return FORMATS[request.param], file


def test_every_format_knows_its_files_and_reads_again_what_it_writes(made):
    """Laws about writing what others write are for others: polvet's own formats are those others."""
    tried, file = made
    assert format_of(Content.of(file)) is tried
    rows = np.array(list(product(range(8), repeat=len(load_policy(file).inputs)))[::13], dtype=np.float32)
    found = [str(law) for law in check_policy_format(tried, file, rows=rows)]
    allowed = ("it would write a", "asked about the foreign content")
    assert [law for law in found if not law.startswith(allowed)] == []
    assert sum(law.startswith("asked about") for law in found) <= 2  # its own beginning is among the foreign ones


def test_every_format_is_tried_here():
    assert list(MADE) == list(FORMATS)


def _good(tmp_path):
    file = tmp_path / "policy.own"
    file.write_text("own,1,2\n")

    def read(content, names):
        try:
            numbers = [float(one) for one in content.text.strip().split(",")[1:]]
        except ValueError:
            raise InputError("no numbers.", content.where, "Write numbers.") from None
        if not numbers or not np.isfinite(numbers).all():
            raise InputError("no finite numbers.", content.where, "Write numbers.")
        labels = names.outputs or [f"l{k}" for k in range(len(numbers))]
        return network_of([([[one] for one in numbers], [0.0] * len(numbers))], names.inputs or ["x"], labels)

    made = replace(FORMATS["mogym"], name="own", detects=lambda content: content.opening.startswith(b"own,"), read=read)
    assert check_policy_format(made, file) == ()
    return made, file


BROKEN = {
    "does not know its own file": lambda good: {"detects": lambda content: content.path.name == "policy.own"},
    "takes it for its own": lambda good: {"detects": lambda content: True},
    "ends in|answers": lambda good: {"detects": lambda content: bool(content.data[5]) and good.detects(content)},
    "other scores the second time": lambda good: {"read": _drifting(good)},
    "ignores the names": lambda good: {"read": lambda content, names: good.read(content, Names())},
    "which is not there": lambda good: {"beside": lambda content: ["weights.bin"]},
    "not in its own folder": lambda good: {"beside": lambda content: ["../weights.bin"]},
    "would write a Network": lambda good: {"writes": lambda policy, path: True},
    "does not know what it has written": lambda good: {
        "writes": lambda policy, path: path.endswith(".own"),
        "write": lambda policy, path: Path(path).write_text("other"),
    },
    "other names when it is read again|other scores when it is read": lambda good: {
        "writes": lambda policy, path: path.endswith(".own"),
        "write": lambda policy, path: Path(path).write_text("own,5,2\n"),
    },
    "does not say in a line": lambda good: {"help": ""},
}


def _drifting(good):
    calls = []

    def read(content, names):
        calls.append(1)
        found = good.read(content, names)
        return network_of([(found.layers[0].weights * len(calls), found.layers[0].bias)], found.inputs, found.outputs)

    return read


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_found(law, tmp_path):
    import re

    good, file = _good(tmp_path)
    found = check_policy_format(replace(good, **BROKEN[law](good)), file)
    assert any(re.search(law, str(one)) for one in found), found


def test_a_file_of_polvets_own_formats_is_never_read_by_another(tmp_path, monkeypatch):
    good, _ = _good(tmp_path)
    greedy = replace(good, detects=lambda content: True)
    monkeypatch.setattr(type(FORMATS), "brought", lambda self: {"own": greedy})
    save_policy(table(), tmp_path / "t.json")
    assert load_policy(tmp_path / "t.json").inputs == ("x", "y")
    assert format_of(Content("x", b"own,1,2")) is greedy


def test_every_format_is_told_by_its_signature():
    assert list(SIGNATURES) == list(FORMATS)
    assert all(FORMATS[name].detects is SIGNATURES[name] for name in FORMATS)
