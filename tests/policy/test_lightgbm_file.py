"""LightGBM text models: our reader and kernel against the library's raw scores, bit for bit."""

import numpy as np
import pytest

from polvet.errors import InputError, Where
from polvet.policy import load_policy, save_policy
from polvet.policy.lightgbm_file import ensemble_from_lightgbm, lightgbm_text
from polvet.policy.trees import make_tree, reference_scores

lgb = pytest.importorskip("lightgbm")

RNG = np.random.default_rng(21)
FEATURES = 5
TRAIN = RNG.normal(size=(600, FEATURES)).astype(np.float32)
TRAIN[RNG.random(TRAIN.shape) < 0.15] = 0
CLASSES = np.abs(TRAIN[:, 0] * 2 + TRAIN[:, 1]).round().astype(int) % 3
MISSING = TRAIN.copy()
MISSING[RNG.random(TRAIN.shape) < 0.1] = np.nan

SETTINGS = {
    "multiclass": ({"objective": "multiclass", "num_class": 3}, TRAIN, CLASSES),
    "multiclass with NaN": ({"objective": "multiclass", "num_class": 3}, MISSING, CLASSES),
    "one versus all": ({"objective": "multiclassova", "num_class": 3}, MISSING, CLASSES),
    "zero as missing": ({"objective": "multiclass", "num_class": 3, "zero_as_missing": True}, TRAIN, CLASSES),
    "missing ignored": ({"objective": "multiclass", "num_class": 3, "use_missing": False}, MISSING, CLASSES),
    "binary": ({"objective": "binary"}, MISSING, CLASSES > 1),
    "cross entropy": ({"objective": "cross_entropy"}, MISSING, (CLASSES > 1).astype(float)),
    "regression": ({"objective": "regression"}, TRAIN, TRAIN[:, 2] * 2),
    "random forest": (
        {"objective": "multiclass", "num_class": 3, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        TRAIN, CLASSES,
    ),
    "dart": ({"objective": "multiclass", "num_class": 3, "boosting": "dart"}, TRAIN, CLASSES),
}  # fmt: skip


def trained(name, rounds=10):
    parameters, data, labels = SETTINGS[name]
    parameters = {"num_leaves": 13, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "seed": 4, **parameters}
    return lgb.train(parameters, lgb.Dataset(data, labels), rounds)


def random_rows(count):
    rows = RNG.normal(scale=1.5, size=(count, FEATURES)).astype(np.float32)
    seen = RNG.random(rows.shape) < 0.3
    rows[seen] = TRAIN[RNG.integers(0, 600, seen.sum()), RNG.integers(0, FEATURES, seen.sum())]
    rows[RNG.random(rows.shape) < 0.1] = np.nan
    rows[RNG.random(rows.shape) < 0.02] = 1e-36
    rows[RNG.random(rows.shape) < 0.02] = -2e-35
    return rows


def raw(booster, rows):
    return booster.predict(rows, raw_score=True, num_threads=1).reshape(len(rows), -1)


@pytest.mark.parametrize("name", SETTINGS)
def test_scores_equal_lightgbm_bit_for_bit_on_a_hundred_thousand_rows(name, tmp_path):
    booster = trained(name)
    booster.save_model(tmp_path / "m.txt")
    policy = load_policy(tmp_path / "m.txt")
    rows = random_rows(100_000)
    scores = policy.scores(rows)
    if name in ("binary", "cross entropy"):
        assert (scores[:, 0] == 0).all()
        scores = scores[:, 1:].copy()
    assert scores.dtype == np.float64
    assert np.array_equal(scores.view(np.uint64), raw(booster, rows).view(np.uint64))


def test_the_kernel_equals_its_slow_twin_for_every_kind_of_missing_value(tmp_path):
    for name in SETTINGS:
        policy = ensemble_from_lightgbm(trained(name, 4).model_to_string(), Where("m"))
        rows = random_rows(200)
        assert np.array_equal(policy.scores(rows), reference_scores(policy, rows))


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "random forest"])
def test_a_repaired_model_loads_in_lightgbm_with_the_same_scores(name, tmp_path):
    policy = ensemble_from_lightgbm(trained(name, 3).model_to_string(), Where("m"))
    groups = 3 if len(policy.outputs) == 3 else 1
    changed = [tree.with_values(tree.values + RNG.normal(size=tree.values.shape)) for tree in policy.trees]
    round_of_trees = [
        make_tree(policy.trees[k].output, [2, -1, 0, -1, -1], [0.5, 0, -0.1, 0, 0], [1, -1, 3, -1, -1], [2, -1, 4, -1, -1],
                  RNG.normal(size=5), [True, False, False, False, False])
        for k in range(groups)
    ]  # fmt: skip
    repaired = policy.with_trees([*changed, *round_of_trees])
    save_policy(repaired, tmp_path / "r.txt")
    rows = random_rows(4000)
    ours = repaired.scores(rows)
    assert np.array_equal(ours[:, -groups:], raw(lgb.Booster(model_file=tmp_path / "r.txt"), rows))
    assert np.array_equal(load_policy(tmp_path / "r.txt").scores(rows), ours)


def test_saving_an_unchanged_model_keeps_every_tree_block_byte_for_byte():
    text = trained("multiclass", 3).model_to_string()
    again = lightgbm_text(ensemble_from_lightgbm(text, Where("m")))
    assert text[text.index("Tree=0") :] == again[again.index("Tree=0") :]


def test_names_survive_in_the_header(tmp_path):
    policy = ensemble_from_lightgbm(trained("multiclass", 2).model_to_string(), Where("m"))
    named = policy.with_names(["a b", "c", "d", "e", "f"], ["left", "stay", "right"])
    save_policy(named, tmp_path / "m.txt")
    again = load_policy(tmp_path / "m.txt")
    assert again.inputs == ("a b", "c", "d", "e", "f")
    assert again.outputs == ("left", "stay", "right")


def test_feature_names_of_the_library_are_inputs():
    booster = lgb.train({"verbose": -1}, lgb.Dataset(TRAIN, CLASSES, feature_name=list("pqrst")), 1)
    assert ensemble_from_lightgbm(booster.model_to_string(), Where("m")).inputs == tuple("pqrst")


def test_categorical_splits_and_linear_trees_are_refused_by_name():
    data = np.stack([RNG.integers(0, 6, 600), TRAIN[:, 0]], axis=1)
    labels = np.isin(data[:, 0], [1, 4]).astype(float)
    booster = lgb.train(
        {"verbose": -1, "min_data_per_group": 1, "cat_smooth": 0}, lgb.Dataset(data, labels, categorical_feature=[0]), 1
    )
    with pytest.raises(InputError, match="categorical"):
        ensemble_from_lightgbm(booster.model_to_string(), Where("m"))
    linear = lgb.train({"verbose": -1, "linear_tree": True}, lgb.Dataset(TRAIN.astype(float), TRAIN[:, 0].copy()), 1)
    with pytest.raises(InputError, match="linear"):
        ensemble_from_lightgbm(linear.model_to_string(), Where("m"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("left_child=1", "left_child=0", "cycle|two ways"),
        ("left_child=", "left_child=999999 ", "entries for"),
        ("threshold=", "threshold=nan ", "entries for"),
        ("leaf_value=", "leaf_value=x", "not a number"),
        ("num_leaves=", "num_leaves=1", "num_leaves"),
        ("split_feature=", "split_feature=77 ", "entries for"),
        ("max_feature_idx=4", "max_feature_idx=0", "tests input"),
        ("end of trees", "", "end of trees"),
        ("Tree=1\n", "Tree=7\n", "called '7'"),
        ("num_tree_per_iteration=3", "num_tree_per_iteration=many", "num_tree_per_iteration"),
    ],
)
def test_a_damaged_text_is_an_input_error_that_names_the_place(old, new, words):
    text = trained("multiclass", 2).model_to_string()
    assert old in text
    with pytest.raises(InputError, match=words):
        ensemble_from_lightgbm(text.replace(old, new, 1), Where("m.txt"))


def test_every_truncation_before_the_end_of_trees_is_an_input_error(tmp_path):
    text = trained("multiclass", 2).model_to_string()
    for cut in RNG.integers(6, text.index("end of trees"), 40).tolist():
        (tmp_path / "cut.txt").write_text(text[:cut])
        with pytest.raises(InputError):
            load_policy(tmp_path / "cut.txt")


def test_trees_must_be_added_in_whole_rounds():
    policy = ensemble_from_lightgbm(trained("multiclass", 2).model_to_string(), Where("m"))
    with pytest.raises(InputError, match="whole rounds"):
        lightgbm_text(policy.with_trees(policy.trees[:4]))
    with pytest.raises(InputError, match="order"):
        lightgbm_text(policy.with_trees((*policy.trees[1:], policy.trees[0])))
